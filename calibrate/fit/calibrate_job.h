/* calibrate_job.h - what the parts of a GPU's curves are made of; private to calibrate.c,
 * calibrate_own.c, own_check.c and calibrate_variants.c. Everything belongs to the arena of the
 * job, the made JSON to the caller. */
#ifndef BALLAST_CALIBRATE_FIT_CALIBRATE_JOB_H
#define BALLAST_CALIBRATE_FIT_CALIBRATE_JOB_H

#include "calibrate/fit/calibrate.h"
#include "calibrate/fit/fit_attention.h"
#include "calibrate/fit/fit_collective.h"
#include "calibrate/fit/fit_streaming.h"
#include "calibrate/fit/own_tables.h"
#include "calibrate/fit/plan.h"

enum { RULE_COUNT = 8, RANK_COUNTS = 3, ATTENTION_ROWS_MIN = 6 };
#define STREAM_NORM_GPU    "H200-SXM"
#define STREAM_NORM_SOURCE "fused norms of H200 (NVIDIA/cudnn-frontend)"

/* A head size and mask, and its curve over the causal one of head size 128; 0: none is stated. */
struct attention_rule {
    int64_t head_dim;
    bool causal;
    double efficiency_ratio, length_ratio;
};
extern const struct attention_rule calibrate_attention_rules[RULE_COUNT];
extern const int64_t calibrate_rank_counts[RANK_COUNTS];

struct calibrate_job {
    struct arena *arena;
    const struct plan *plan;
    const struct calibrate_tables *measured; /* what the user's rows do not suffice for */
    const struct own_tables *own;
    const struct calibrate_gpu *gpu; /* with its peaks */
    struct calibrate_report *report;
    struct error *err;
};

/* The rules of its profile; for a GPU of the user's own those of the relative, under its name. */
const struct plan *calibrate_plan(struct arena *arena, const struct calibrate_gpu *gpu,
                                  struct error *err);
/* Those with the ceilings of a GPU of the user's own whose isolated matmuls reach this fraction of
 * its peak. */
const struct plan *calibrate_plan_at_speed(struct arena *arena, const struct calibrate_job *job,
                                           double efficiency);

/* form NULL: the part has none. */
__attribute__((format(printf, 4, 5))) void calibrate_add_line(struct calibrate_report *report,
                                                              const struct error_summary *form,
                                                              const struct error_summary *held_out,
                                                              const char *format, ...);
__attribute__((format(printf, 3, 4))) void
calibrate_add_note(struct calibrate_report *report, struct arena *arena, const char *format, ...);
cJSON *calibrate_attention_curve_json(const struct attention_rule *rule,
                                      const struct attention_fit *fit, const char *source,
                                      double time, double band_factor);
cJSON *calibrate_collective_table(struct calibrate_job *job, const struct collective_fit *fit);
/* Streaming multiprocessors of a GPU of the tables. */
double calibrate_sm_count(const char *gpu);

bool calibrate_is_of_rule(const struct attention_row *row, const struct attention_rule *rule);

/* Of the user's rows (calibrate_own.c). They name the source; NULL: the rows do not suffice. */
const char *calibrate_own_matmul(struct calibrate_job *job, struct matmul_fit *fit);
const char *calibrate_own_attention(struct calibrate_job *job, const struct attention_rule *rule,
                                    struct attention_fit *fit);
const char *calibrate_own_backward(struct calibrate_job *job, struct backward_fit *fit);
const char *calibrate_own_streams(struct calibrate_job *job, struct streaming_fit *fit);
const char *calibrate_own_collective(struct calibrate_job *job, enum operator_kind op,
                                     int64_t rank_count, struct collective_fit *fit);
/* Which rows a matmul curve is fitted on; which rows state all of an attention. */
bool calibrate_own_takes_matmul(const struct gemm_row *row);
bool calibrate_own_whole_attention(const struct attention_row *row);
/* false: a row is faster than the GPU can be, or most of a table are far too slow (own_check.c). */
bool calibrate_own_check(struct calibrate_job *job);
/* Notes a table that no fit came of, and which rows of the others did not go in. */
void calibrate_own_unused(struct calibrate_job *job, enum measurement_format table,
                          const char *needs);
void calibrate_own_left_out(struct calibrate_job *job, const char *measured_dir);
/* What of the user's went into the file, before what the plan says of the rest; the plan's own note
 * where nothing did. */
const char *calibrate_own_note(struct calibrate_job *job);

/* The curves of single frameworks, for scenarios and checks that name one; an empty list if there
 * are none. */
cJSON *calibrate_variants(struct calibrate_job *job);

#endif
