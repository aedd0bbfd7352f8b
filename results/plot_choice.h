/* plot_choice.h - a run or a configuration of a sweep as a point of a picture: what it costs, and
 * whether it can be chosen. Texts are borrowed.
 */
#ifndef BALLAST_RESULTS_PLOT_CHOICE_H
#define BALLAST_RESULTS_PLOT_CHOICE_H

#include "results/record.h"
#include "sim/base/arena.h"
#include "sim/base/band.h"

struct plot_choice {
    const char *name;
    const char *job; /* what is trained on what, where points differ in it; "": all the same */
    int64_t gpu_count;
    double days, gpu_days, money_usd; /* of the whole training; money NaN: no price */
    struct band band;                 /* of days and cost alike */
    double left_out_fraction;         /* of the samples; time and cost are of the others */
    bool done, out_of_memory;
    /* Of a configuration of a sweep: */
    bool raced, tight;   /* raced: on a step or two, not as far as the scenario asks */
    bool may_run_out;    /* it fits the raced step, and a heavier one may not */
    bool memory_unknown; /* it fits the raced step, and of heavier ones nothing is known */
    const char *kind;    /* of its GPUs; NULL: not told apart */
    int64_t steps;       /* that the figures rest on; 0: unknown */
    int64_t row_index;
    double mfu_fraction;
    const char *const *parts; /* its name in parts, as many in all points of a sweep; NULL: whole */
    int64_t part_count;
};

/* What the whole training was to take and cost at most; NaN: no limit. */
struct plot_limits {
    double deadline_days, budget_usd;
};

/* A stored run, or one that was simulated for the picture. Its job is its model and data set. */
struct plot_choice plot_choice_of(const struct run_record *run, struct arena *arena);

/* texts[i]: the parts of points[i] that are not the same in all of them, or its name where it has
 * no parts; *shared: the other parts. "": there are none. */
void plot_choice_differences(const struct plot_choice *const *points, int64_t count,
                             struct arena *arena, const char **texts, const char **shared);

/* It leaves out samples that another point of its job trains on, so that the two do not compare. */
bool plot_choice_is_partial(const struct plot_choice *points, int64_t count, int64_t index);

/* Money where all that is done has a price, GPU-days otherwise: one axis holds one thing. */
bool plot_choices_priced(const struct plot_choice *points, int64_t count);
double plot_choice_cost(const struct plot_choice *point, bool priced);

#endif
