/* plot_choice.h - a run or a configuration of a sweep as a point of a picture: what it costs, and whether
 * it can be chosen. Texts are borrowed.
 */
#ifndef BALLAST_RESULTS_PLOT_CHOICE_H
#define BALLAST_RESULTS_PLOT_CHOICE_H

#include "results/record.h"
#include "sim/base/arena.h"

struct plot_choice {
    const char *name;
    const char *job; /* what is trained on what, where points differ in it; "": all the same */
    int64_t gpu_count;
    double days, gpu_days, money_usd; /* of the whole training; money NaN: no price */
    double band_fraction;             /* NaN: none */
    bool done, out_of_memory;
};

/* A stored run, or one that was simulated for the picture. Its job is its model and data set. */
struct plot_choice plot_choice_of(const struct run_record *run, struct arena *arena);

/* Money where all that is done has a price, GPU-days otherwise: one axis holds one thing. */
bool plot_choices_priced(const struct plot_choice *points, int64_t count);
double plot_choice_cost(const struct plot_choice *point, bool priced);

#endif
