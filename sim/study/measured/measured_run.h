/* measured_run.h - rows of the measured-run format: published training runs, one CSV per source.
 *
 * docs/VALIDATION.md documents the columns. An empty cell means that the source does not say; what
 * the format calls a default is filled in by validation.c, never while reading.
 *
 *     struct measured_runs runs;
 *     measured_runs_read(arena, "rows.csv", &runs, err);
 */
#ifndef BALLAST_SIM_STUDY_MEASURED_RUN_H
#define BALLAST_SIM_STUDY_MEASURED_RUN_H

#include "sim/base/csv.h"

enum { MEASURED_READING_LIMIT = 8 };

struct measured_run {
    const char *row_id, *source, *model, *modality, *head, *moe, *hardware, *ffn, *norm, *position,
        *qk_norm, *schedule, *precision, *fp8_recipe, *exp_avg_dtype, *exp_avg_sq_dtype,
        *main_grads_dtype, *reduce_dtype, *gradient_sync, *adamw_kernels, *optimizer, *recompute,
        *attention, *deterministic, *overlap, *vision_model, *image_wh, *frozen, *outcome, *stack,
        *peak_mem_kind, *lora_targets, *seq_len_text, *zero_stage_text; /* "" when empty */
    const char *notes, *notes_cell; /* without what they call not stated; as they are written */
    const char *mistake; /* values that no run can have, with line and columns; NULL: none */
    const char *
        *readings; /* cells that were read as a word of the format: "precision: "bfloat16" is
                            * read as bf16"; NULL at the end */
    int64_t line;  /* in its file, for messages */
    /* -1 when empty */
    int64_t layers, hidden, ffn_hidden, heads, kv_heads, head_dim, vocab, seq_len, sample_len,
        micro_batch, grad_accum, global_batch, gpus_per_node, gpu_count, nics_per_node, tp, sp, cp,
        pp, vpp, ep, dp, zero_stage, zero_group, dropout, images_per_sample, image_merge,
        iter_time_derived, lora_rank, precision_aware_optimizer, text_len, double_stream_blocks,
        offload_blocks;
    int64_t mistake_count;
    bool branch_norm, logit_cap;   /* no cells: as the public models of its name have them */
    const char *parallel_residual; /* the same; NULL: no */
    double head_share, nic_Gbit_per_s_per_gpu, iter_time_s, peak_mem_GiB; /* NaN when empty */
};

struct measured_runs {
    const char *path;
    int64_t count;
    struct measured_run *rows;
    const char **notes; /* columns that were ignored, each with file and line; NULL at the end */
};

/* Unknown columns are ignored with a note. A value that cannot be (a step of 0 s, a word for a
 * number, another row's row_id) is the row's mistake alone; a file that is no table of runs is an
 * error with file and line. */
bool measured_runs_read(struct arena *arena, const char *path, struct measured_runs *runs,
                        struct error *err);

/* Whether the row's source runs this kind of traffic ("gradients", "parameters", "tensor") beside
 * compute; `otherwise` where it does not say. */
bool measured_run_overlaps(const struct measured_run *run, const char *kind, bool otherwise);

/* Order of two runs by their cells, but for the columns of `except`, NULL at the end; 0: alike. */
int measured_run_compare(const struct measured_run *a, const struct measured_run *b,
                         const char *const *except);

/* What is wrong with the scenario made of a row ("...: error: /layout/tp: <why>"), told at the
 * row's cell where there is one: "line 3, tp: <why>". */
const char *measured_run_complaint(struct arena *arena, const struct measured_run *run,
                                   const char *error_text);

#endif
