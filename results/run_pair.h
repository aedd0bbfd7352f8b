/* run_pair.h - two stored runs beside each other: by how much they must differ to be in a sure
 * order.
 *
 * On one GPU, backend, stack and precision what is common to both predictions cancels, and what is
 * left was measured on pairs of runs (run.pair_band_fraction); otherwise only what makes all runs
 * of a kind longer than predicted does, and bands count in ln, as a square. On top of either comes
 * what waiting for the host's launches costs more or less, since no measured runs tell how far a
 * host's time errs, and what another server's PCIe may bring the two nearer by, as servers were
 * measured (docs/MODEL.md, section 9).
 *
 *     const struct run_pair_error e = run_pair_error(a, a->gpu_days, b, b->gpu_days);
 *     sure = run_pair_is_sure(&e, b->gpu_days / a->gpu_days - 1);
 */
#ifndef BALLAST_RESULTS_RUN_PAIR_H
#define BALLAST_RESULTS_RUN_PAIR_H

#include "results/record.h"

/* Of |ln(amount of run / amount of reference)|. */
struct run_pair_error {
    double predictions_log; /* by which the two predictions err against each other; NaN: no bands */
    bool shared;            /* that is the figure of pairs of one GPU and stack, not both bands */
    double waits_log;       /* what waiting for launches costs; NaN: see run_pair_waits_told() */
    /* By how much another server's PCIe may bring the two nearer to the other order; of runs that a
     * version before 17 of the tables stored all communication counts, by the name of the GPU. */
    double pcie_log;
};

/* Of the whole training: GPU-days, days or money. */
struct run_pair_error run_pair_error(const struct run_record *reference, double reference_amount,
                                     const struct run_record *run, double run_amount);
/* Whether both tell what waiting for launches costs them: a run that a version before 14 of the
 * tables stored holds its waits in its compute. */
bool run_pair_waits_told(const struct run_record *a, const struct run_record *b);
bool run_pair_same_stack(const struct run_record *a, const struct run_record *b);
/* Whether so large a difference, run / reference - 1, is more than all that may err. */
bool run_pair_is_sure(const struct run_pair_error *error, double delta_fraction);

#endif
