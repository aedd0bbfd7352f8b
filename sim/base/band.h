/* band.h - how far a figure may be from its prediction, to either side.
 *
 * 80 % of what was measured lies from prediction x (1 - below) to prediction x (1 + above). Most
 * residuals are as wide to one side as to the other; those of models of images are not, which take
 * longer far more often than less.
 *
 *     struct band band = band_wider(band_even(0.18), (struct band){ 0.13, 0.88 });
 *     printf("%.3f s %s %%\n", seconds, band_text(band, "+- ", 0).text);   // -18/+88
 */
#ifndef BALLAST_SIM_BASE_BAND_H
#define BALLAST_SIM_BASE_BAND_H

#include <stdbool.h>

struct band {
    double below, above; /* fractions of the prediction; NaN: not known */
};

/* As wide to both sides, but for what would lie below nothing. */
struct band band_even(double fraction);
/* Of a stored figure: before both sides were stored the one held for both. */
struct band band_of_stored(double below, double above);
bool band_is_known(struct band band);
/* To each side the wider of the two; what is not known is not wider. */
struct band band_wider(struct band a, struct band b);
/* Between two, the middle of their logarithms; not known where one is not. */
struct band band_between(struct band a, struct band b);
/* Of one over the figure; not known where the band reaches down to nothing. */
struct band band_of_inverse(struct band band);
/* Of both ends, the mean. */
double band_half_width(struct band band);
/* Its ends as ln(figure / prediction): the middle between them, and half of their distance. Not
 * finite where the band reaches down to nothing. */
struct band_log {
    double middle, half;
};
struct band_log band_log(struct band band);

/* In percent, without the sign of it: "+- 34" (`sign` before it) where both sides read the same,
 * else "-13/+88". "-" where it is not known. */
struct band_text {
    char text[48];
};
struct band_text band_text(struct band band, const char *sign, int decimals);

#endif
