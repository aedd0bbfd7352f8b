/* comparison.h - runs beside each other: deltas, their causes, and whether the ranking is sure.
 *
 * Everything is of the whole training run, because steps of different policies hold different
 * numbers of samples. Parts are in GPU-days; differences and how sure they are in what is asked
 * for, because runs at other prices of a GPU or on another number of GPUs stand in another order
 * there. The first run is the reference.
 */
#ifndef BALLAST_SIM_STUDY_COMPARISON_H
#define BALLAST_SIM_STUDY_COMPARISON_H

#include "results/record.h"
#include "sim/base/arena.h"

struct comparison_run {
    const char *label;
    const char *limit; /* what its backend cannot run of it; NULL: nothing, or a stored run */
    struct run_record record;
    const struct iteration_record *iterations;
    int64_t iteration_count;
};

/* sure: the difference exceeds the chance of the draw and what predictions may err against each
 * other. On one GPU, backend and stack what is common to both cancels (the stack's factor, most of
 * the curves); what is left was measured: of two runs of one source, stack and GPU that nothing was
 * fitted on, measured / predicted lies a factor of 1 + the run's pair_band_fraction apart at most
 * in 80 % of the pairs (scenarios/bands.json, docs/MODEL.md section 9). Otherwise the difference
 * must exceed both bands together (results/run_pair.h), as it must in runs stored before that
 * figure was. What waiting for the host's launches costs more or less comes on top of either, and
 * what another server's PCIe makes of the order; a run stored before the former was is never
 * sure. likely: it exceeds the chance. open: it does not, or one of the two does
 * not fit into memory. */
/* different jobs: the runs train another model, on other data or on another share of the samples,
 * so that neither saves anything. */
enum comparison_verdict {
    COMPARISON_SURE,
    COMPARISON_LIKELY,
    COMPARISON_OPEN,
    COMPARISON_DIFFERENT_JOBS
};
const char *comparison_verdict_name(enum comparison_verdict verdict);
bool comparison_is_ordered(enum comparison_verdict verdict); /* sure or likely */

/* What the order is of. */
enum comparison_quantity { COMPARISON_GPU_DAYS, COMPARISON_TOTAL_DAYS, COMPARISON_MONEY };

enum { COMPARISON_PARTS = 16 };
/* Those that most scenarios have nothing of: not to be spoken of where all runs have 0. */
bool comparison_part_is_rare(int part);
extern const char *const comparison_part_names[COMPARISON_PARTS];

struct comparison_row {
    double gpu_days, speedup;                /* reference / this one, in GPU-days */
    double delta_fraction;                   /* this / reference - 1, in the quantity compared */
    double parts_gpu_days[COMPARISON_PARTS]; /* sum to gpu_days */
    double parts_delta_gpu_days[COMPARISON_PARTS]; /* against the reference */
    bool paired;                                   /* same samples in the same steps */
    bool fits;                                     /* not out of memory */
    double confidence_fraction; /* that the sign of the difference is not chance */
    /* 95 % interval of delta_fraction over the draw of the samples and, where GPUs fail, over how
     * often they do (comparison.c); NaN from a single step. */
    double delta_low_fraction, delta_high_fraction;
    double launches_log; /* of may_err_log, what waiting for launches costs; NaN: not stored */
    double pcie_log;     /* and what another server's PCIe would make of the order */
    double may_err_log;  /* what |ln(this / reference)| must exceed to be sure */
    /* That the sign is not an error of the predictions: may_err_log taken as 80 % of a normal
     * distribution. 0.5: as good as none; 0.9: sure. NaN: runs without
     * bands, or one that does not tell what waiting for launches costs it. */
    double order_fraction;
    enum comparison_verdict verdict;
    /* open, though both fit, and one of the two replayed a part of the epoch only: more steps may
     * settle it */
    bool more_steps_may_tell;
};

/* What makes runs incomparable, one sentence for each difference from the first: another model,
 * data set, GPU or number of GPUs, steps of another size, or another share of the samples. NULL
 * ends the list; it lives in `arena`. */
const char **comparison_warnings(const struct comparison_run *runs, int64_t run_count,
                                 struct arena *arena);

/* The software stack that a run was simulated with, in `arena`; "" if its scenario does not say. */
const char *comparison_stack(const struct comparison_run *run, struct arena *arena);
/* The scenario's own rules on prices, each with its source; NULL at the end. */
const char **comparison_rules(const struct comparison_run *run, struct arena *arena);

/* Whether all runs have a price, and not all the same: then their order by money is another
 * question than that by GPU-days. */
bool comparison_prices_differ(const struct comparison_run *runs, int64_t run_count);

/* rows has run_count entries; row 0 is the reference. Every run has the quantity: COMPARISON_MONEY
 * needs prices. */
void comparison_make(const struct comparison_run *runs, int64_t run_count,
                     enum comparison_quantity quantity, struct comparison_row *rows);
bool comparison_more_steps_may_tell(const struct comparison_row *rows, int64_t run_count);

#endif
