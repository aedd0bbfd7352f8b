/* plan_quantity.h - what a plan gives each stage: blocks, parameters, forward time, traffic.
 *
 *     plan_spread(execution, PLAN_FORWARD_TIME, SPREAD_SQUARES)     // OmniBal eq. (4), ms^2
 *     plan_cut_bytes(execution)                                     // OmniBal eq. (5)
 *
 * OmniBal writes VAR for a sum of squares without 1/N and prints numbers that fit no one
 * definition, so each spread comes as sum of squares, variance and standard deviation (of the
 * population). Blocks are transformer blocks; parameters are those of one tensor-parallel rank, in
 * 1e9.
 */
#ifndef BALLAST_SIM_STUDY_PLAN_QUANTITY_H
#define BALLAST_SIM_STUDY_PLAN_QUANTITY_H

#include "sim/study/execution.h"

enum plan_measure { PLAN_BLOCKS, PLAN_PARAMETERS, PLAN_FORWARD_TIME };
enum spread_kind { SPREAD_SQUARES, SPREAD_VARIANCE, SPREAD_DEVIATION };

/* NaN for a stage that the plan does not have. */
double plan_stage_blocks(const struct execution *execution, int64_t stage);
double plan_stage_language_blocks(const struct execution *execution, int64_t stage);
double plan_stage_recompute(const struct execution *execution, int64_t stage);
/* ms of one forward at the mean micro-batch. */
double plan_stage_forward_ms(const struct execution *execution, int64_t stage);
/* ms of one forward and backward at the mean micro-batch, recomputation included; of a block of
 * that kind, without. */
double plan_stage_pass_ms(const struct execution *execution, int64_t stage);
double plan_block_pass_ms(const struct execution *execution, enum layer_kind kind);
double plan_spread(const struct execution *execution, enum plan_measure measure,
                   enum spread_kind kind);
/* Bytes over all cuts, all TP ranks together, at the largest micro-batch (ISF: Qv tiles, Qt
 * tokens). */
double plan_cut_bytes(const struct execution *execution);

#endif
