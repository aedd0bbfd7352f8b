/* band.c - bands with two sides, and what they read like. */
#include "sim/base/band.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double at_most_all(double below) {
    return below > 1 ? 1 : below;
}

struct band band_even(double fraction) {
    return (struct band){ at_most_all(fraction), fraction };
}

struct band band_of_stored(double below, double above) {
    return (struct band){ isnan(below) ? above : below, above };
}

bool band_is_known(struct band band) {
    return !isnan(band.below) && !isnan(band.above);
}

struct band band_wider(struct band a, struct band b) {
    return (struct band){ at_most_all(fmax(a.below, b.below)), fmax(a.above, b.above) };
}

struct band band_between(struct band a, struct band b) {
    return (struct band){ sqrt(a.below * b.below), sqrt(a.above * b.above) };
}

struct band band_of_inverse(struct band band) {
    if (!(band.below < 1)) return band_even(NAN);
    return (struct band){ 1 - 1 / (1 + band.above), 1 / (1 - band.below) - 1 };
}

double band_half_width(struct band band) {
    return (band.below + band.above) / 2;
}

struct band_log band_log(struct band band) {
    const double low = band.below < 1 ? log1p(-band.below) : -INFINITY, high = log1p(band.above);
    return (struct band_log){ (high + low) / 2, (high - low) / 2 };
}

/* Beyond what a column holds the digits say nothing. */
static void percent(char *out, size_t size, double fraction, int decimals) {
    const double value = 100 * fraction;
    snprintf(out, size, fabs(value) < 1e6 ? "%.*f" : "%.*e", decimals, value);
}

struct band_text band_text(struct band band, const char *sign, int decimals) {
    struct band_text t = { "-" };
    if (!band_is_known(band)) return t;
    char below[20], above[20];
    percent(below, sizeof below, band.below, decimals);
    percent(above, sizeof above, band.above, decimals);
    if (strcmp(below, above) == 0)
        snprintf(t.text, sizeof t.text, "%.6s%s", sign, above);
    else
        snprintf(t.text, sizeof t.text, "-%s/+%s", below, above);
    return t;
}
