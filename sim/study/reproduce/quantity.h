/* quantity.h - the numbers that papers print, read from a run.
 *
 *     struct quantity_source source = { .execution = execution, .arena = arena };
 *     int64_t index;
 *     const struct quantity *q = quantity_find("remaining_memory_stage2", &index);   // index 1
 *     value = q->of(&source, index);
 *
 * A name that ends in a number is the quantity of one stage (or part), counted from 1 as papers do.
 * Some compare two runs: quantity_compare() combines the same reading of both.
 */
#ifndef BALLAST_SIM_STUDY_QUANTITY_H
#define BALLAST_SIM_STUDY_QUANTITY_H

#include "sim/policy/joint/monolithic.h"
#include "sim/study/reproduce/fluctuation.h"
#include "sim/study/reproduce/imbalance.h"

/* A run to read from. What is costly to measure is kept for the next quantity. */
struct quantity_source {
    const struct execution *execution;
    struct arena *arena;
    struct imbalance *imbalance; /* NULL until it is asked for, as those below */
    struct fluctuation *fluctuation; /* of one stage */
    int64_t fluctuation_stage;
    const struct search_progress *search;
    const struct solver_study *solver[MONOLITHIC_COUNT + 1]; /* the last: without a solver */
};

enum quantity_comparison {
    COMPARE_NOTHING,
    COMPARE_RATIO,      /* against / own: a speed-up */
    COMPARE_DIFFERENCE, /* own - against */
};

struct quantity {
    const char *name; /* without the number */
    const char *unit;
    double (*of)(struct quantity_source *source, int64_t index);
    bool indexed;
    bool replayed; /* needs the epoch; otherwise the plan and the micro-batches are enough */
    bool timed;    /* carries the cost model's band */
    bool rate;     /* timed, and goes with one over the time */
    bool classed;  /* needs where the time of a step goes */
    enum quantity_comparison comparison;
    bool measured; /* a wall time of this machine: not repeatable, and no error of a simulation */
    const char *absent; /* what NaN says of it; NULL: it must have a value */
};

/* NULL: unknown. index: of the stage, from 0; 0 where the quantity has none. */
const struct quantity *quantity_find(const char *name, int64_t *index);
const char *quantity_nearest(const char *name); /* or NULL */
bool quantity_compares(const struct quantity *quantity);
double quantity_compare(const struct quantity *quantity, double own, double against);
/* The table, sorted by name. A quantity of a stage that the run does not have is NaN. */
const struct quantity *quantities(size_t *count);

#endif
