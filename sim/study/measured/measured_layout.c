/* measured_layout.c - degrees, sharding, batch and recomputation of a row of measured runs.
 *
 * What the source leaves out is derived where only one value is possible, and is the usual one of
 * its stack otherwise; either is noted.
 */
#include <stdio.h>
#include <string.h>
#include "costmodel/hardware.h"
#include "sim/study/measured/measured_row.h"
#include "sim/study/measured/measured_said.h"
#include "sim/study/measured/measured_words.h"

/* The degree that a source leaves out where all others and the GPUs are given. Two that are left
 * out are 1, or refused for what does not add up. */
static void derive_degree(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const bool no_tp = r->tp < 1, no_pp = r->pp < 1;
    const int64_t known = row->tp * row->pp * row->cp * r->dp;
    if (r->dp < 1 || r->gpu_count < 1 || r->gpu_count % known != 0 || r->gpu_count == known) return;
    const int64_t left = r->gpu_count / known;
    int64_t *degree = no_tp && !no_pp       ? &row->tp
                      : no_pp && !no_tp     ? &row->pp
                      : !no_tp && r->cp < 1 ? &row->cp
                                            : NULL;
    if (degree == NULL) return;
    *degree = left;
    measured_row_note(row, "%s: %ld, what the other degrees leave of the GPUs",
                      degree == &row->tp   ? "tp"
                      : degree == &row->pp ? "pp"
                                           : "cp",
                      (long)left);
}

/* Two parts a stage, as torchtitan's schedule of that name has by default, where the row says that the
 * pipeline is interleaved and not how often; 1: it does not say so, or the layers do not divide. */
static int64_t least_interleaved(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    enum { LEAST = 2 };
    const bool empty = r->schedule[0] == '\0';
    const bool said = strcmp(r->schedule, "interleaved") == 0 ||
                      (empty && (measured_text_says(r->stack, "interleaved") ||
                                 measured_says_framework(r->notes, "interleaved")));
    if (r->vpp == 1 || row->pp < 2 || !said || r->layers % (row->pp * LEAST) != 0) return 1;
    measured_row_note(row, "vpp: %d, the least of an interleaved pipeline", LEAST);
    return LEAST;
}

static int64_t said_degree(const struct measured_run *r, const char *abbreviation,
                           const char *name) {
    const int64_t named = measured_says_degree(r->stack, abbreviation, name);
    return named > 0 ? named : measured_says_degree(r->notes, abbreviation, name);
}

static int64_t degree_of(int64_t said, int64_t cell) {
    return said > 0 ? said : cell > 0 ? cell : 1;
}

void measured_read_degrees(struct measured_row *row) {
    struct measured_run *r = &row->run;
    const int64_t tp = r->tp < 0 ? said_degree(r, "tp", "tensor") : -1,
                  pp = r->pp < 0 ? said_degree(r, "pp", "pipeline") : -1;
    const int64_t ranks = degree_of(tp, r->tp) * degree_of(pp, r->pp) * degree_of(-1, r->cp);
    if (r->gpu_count > 0 && r->gpu_count % ranks != 0) return;
    if (tp > 0) {
        r->tp = tp;
        measured_row_note(row, "tp: %ld, as its name or notes say", (long)tp);
    }
    if (pp > 0) {
        r->pp = pp;
        measured_row_note(row, "pp: %ld, as its name or notes say", (long)pp);
    }
}

static enum validation_skip choose_degrees(struct measured_row *row) {
    struct measured_run *r = &row->run;
    struct arena *arena = row->context->arena;
    row->tp = measured_given(r->tp, 1);
    row->pp = measured_given(r->pp, 1);
    row->cp = r->cp > 0 ? r->cp : 1;
    derive_degree(row);
    if (r->tp < 1 && row->tp == 1) measured_row_note(row, "tp: 1");
    if (r->pp < 1 && row->pp == 1) measured_row_note(row, "pp: 1");
    const int64_t model_ranks = row->tp * row->pp * row->cp;
    if (r->gpu_count < 1 && r->dp > 0) {
        r->gpu_count = model_ranks * r->dp;
        measured_row_note(row, "gpu_count: tp x pp x cp x dp");
    }
    if (r->gpu_count < 1) return measured_skip_at(row, SKIP_EMPTY, "gpu_count", "empty, as is dp");
    if (r->gpu_count % model_ranks != 0)
        return measured_skip_at(row, SKIP_LAYOUT, "gpu_count",
                                arena_format(arena,
                                             "%ld GPUs cannot be divided by tp x pp x cp = %ld",
                                             (long)r->gpu_count, (long)model_ranks));
    row->dp = r->gpu_count / model_ranks;
    if (r->dp < 0 && row->dp > 1)
        measured_row_note(row, "dp: what tp, pp and cp leave of the GPUs");
    if (r->dp >= 0 && r->dp != row->dp) {
        if (r->dp != row->dp * row->cp)
            return measured_skip_at(row, SKIP_LAYOUT, "dp",
                                    arena_format(arena,
                                                 "%ld, but %ld GPUs over tp x pp x cp are %ld",
                                                 (long)r->dp, (long)r->gpu_count, (long)row->dp));
        measured_row_note(row, "dp: counts the %ld ranks of cp, too", (long)row->cp);
    }
    const int64_t vpp = r->vpp > 0 ? r->vpp : least_interleaved(row);
    row->vpp = row->pp > 1 ? vpp : 1;
    if (row->pp > 1 && row->vpp == 1 && r->vpp < 1 && r->schedule[0] == '\0')
        measured_row_note(row, "vpp: 1, as nothing says that the pipeline is interleaved");
    if (vpp != row->vpp) measured_row_note(row, "vpp: %ld has no effect on one stage", (long)vpp);
    if (row->pp > 1 && row->vpp == 1 && strcmp(r->schedule, "interleaved") == 0)
        measured_row_note(row,
                          "vpp: empty or 1, though the schedule is interleaved: taken as 1f1b");
    if (row->vpp > 1 && strcmp(r->schedule, "1f1b") == 0)
        measured_row_note(row, "schedule: interleaved, as vpp is %ld", (long)row->vpp);
    return SKIP_NOTHING;
}

static int64_t usual_zero_stage(const struct stack *stack, int64_t pp) {
    const bool stated = stack->zero_stage >= 0 && (pp == 1 || stack->zero_stage < 2);
    return stated ? stack->zero_stage : backend_usual_zero_stage(stack->backend, pp);
}

/* By other words than a stage, or by its stack, whose code may have no other way. */
static bool says_sharding(const struct measured_row *row) {
    static const char *const optimizers[] = { "distributed optimizer", "distributed-optimizer",
                                              "distributed_optimizer", "distributed_fused_adam" };
    const struct measured_run *r = &row->run;
    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++)
        if (strcasestr(r->notes, optimizers[i]) != NULL) return true;
    const bool by_code =
        row->out->stack->zero_stage >= 0 && row->out->known_stack && !row->out->half_known;
    const bool megatrons = r->precision_aware_optimizer > 0 || r->exp_avg_dtype[0] != '\0' ||
                           r->exp_avg_sq_dtype[0] != '\0' || r->main_grads_dtype[0] != '\0';
    return by_code || megatrons || measured_says_ddp(r->notes);
}

/* HYBRID_SHARD shards within a node and copies across nodes; -1: nothing says so. */
static int64_t group_of_nodes(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    static const char *const words[] = { "hsdp", "hybrid_shard", "hybrid-shard", "hybrid shard" };
    bool said = false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        said = said || measured_text_says(r->zero_stage_text, words[i]) ||
               measured_text_says(r->stack, words[i]);
    int64_t node = r->gpus_per_node > 0 ? r->gpus_per_node : 0;
    struct error ignored = { 0 };
    if (!said || row->zero_stage != 3 ||
        (node == 0 && !hardware_node_gpus(row->context->arena, row->context->directory,
                                          row->out->hardware, &node, &ignored)))
        return -1;
    const int64_t ranks = row->dp * row->cp, group = node / row->tp > 0 ? node / row->tp : 1;
    if (group >= ranks || ranks % group != 0) return -1;
    measured_row_note(row, "zero_group: %ld, the ranks of a node, as HSDP shards", (long)group);
    return group;
}

static enum validation_skip choose_sharding(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const struct stack *stack = row->out->stack;
    const int64_t by_name = measured_zero_stage(r->stack);
    const int64_t named = by_name >= 0 ? by_name : measured_says_zero_stage(r->stack);
    int64_t said = measured_says_zero_stage(r->notes);
    if (said < 0 && strcmp(stack->backend, "fsdp") == 0 && measured_says_ddp(r->notes)) said = 0;
    row->zero_stage = r->zero_stage >= 0 ? r->zero_stage
                      : named >= 0       ? named
                      : said >= 0        ? said
                                         : usual_zero_stage(stack, row->pp);
    row->sharding_unsaid = r->zero_stage < 0 && named < 0 && said < 0 && !says_sharding(row);
    if (r->zero_stage < 0 && named >= 0)
        measured_row_note(row, "zero_stage: %ld, as the stack's name says", (long)named);
    else if (r->zero_stage < 0 && said >= 0)
        measured_row_note(row, "zero_stage: %ld, as its notes say", (long)said);
    else if (r->zero_stage < 0)
        measured_row_note(row, "zero_stage: %ld, as usual with %s", (long)row->zero_stage,
                          stack->name);
    if (row->zero_stage > 1 && row->pp > 1 && strcmp(stack->backend, "fsdp") != 0)
        return measured_skip_at(row, SKIP_LAYOUT, "zero_stage",
                                arena_format(row->context->arena,
                                             "ZeRO-%ld on %ld pipeline stages is not simulated",
                                             (long)row->zero_stage, (long)row->pp));
    row->zero_group = r->zero_group > 0 ? r->zero_group : group_of_nodes(row);
    if (r->zero_group > 0 && row->dp * row->cp % r->zero_group != 0)
        return measured_skip_at(row, SKIP_LAYOUT, "zero_group",
                                arena_format(row->context->arena,
                                             "%ld do not divide the %ld data-parallel ranks",
                                             (long)r->zero_group, (long)(row->dp * row->cp)));
    row->sp = r->sp >= 0 ? r->sp == 1 : row->tp > 1 && stack->sequence_parallel;
    if (r->sp < 0 && row->tp > 1)
        measured_row_note(row, "sp: %s, as %s", row->sp ? "on" : "off", stack->name);
    row->backend = stack->backend;
    if (strcmp(row->backend, "deepspeed") == 0 && row->pp > 1) row->backend = "megatron-deepspeed";
    if (row->zero_stage >= 2 && strncmp(row->backend, "megatron", 8) == 0)
        row->backend = row->zero_stage == 3 ? "fsdp" : "deepspeed";
    return SKIP_NOTHING;
}

/* A trainer built on torch.distributed.pipelining is given a rank's whole batch of a step and
 * splits it itself: until 2024 into as many micro-batches as stages, then into single samples
 * (torchtitan, pipeline_parallel_microbatches, pipeline_parallel_microbatch_size). So where one
 * micro-batch would be all that a pipeline has, the row states that whole batch. */
static void split_pipeline_batch(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const int64_t local = row->global_batch / row->dp;
    if (row->pp == 1 || strcmp(row->backend, "fsdp") != 0 || row->global_batch % row->dp != 0)
        return;
    if (r->micro_batch < 1 ? r->grad_accum > 0 : r->micro_batch < local || local == 1) return;
    const int64_t samples = row->out->stack->year > 2024 ? 1 : local / row->pp;
    if (samples < 1 || local % samples != 0) return;
    row->micro_batch = samples;
    measured_row_note(row, "micro_batch: %ld, as the pipeline splits a rank's %ld samples",
                      (long)samples, (long)local);
}

/* global_batch = micro_batch x grad_accum x dp: what a source leaves out follows from the
 * others. */
static enum validation_skip choose_batch(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    struct arena *arena = row->context->arena;
    if (r->global_batch < 1 && r->grad_accum < 1)
        return measured_skip_at(row, SKIP_EMPTY, "global_batch",
                                "empty, as is grad_accum (1 where nothing is accumulated)");
    row->micro_batch = measured_given(r->micro_batch, 1);
    if (r->micro_batch < 1 && r->grad_accum > 0 && r->global_batch > 0 &&
        r->global_batch % (r->grad_accum * row->dp) == 0)
        row->micro_batch = r->global_batch / (r->grad_accum * row->dp);
    const int64_t accumulated = r->grad_accum * row->micro_batch * row->dp;
    row->global_batch = r->global_batch > 0 ? r->global_batch : accumulated;
    if (r->micro_batch < 1)
        measured_row_note(row, "micro_batch: %ld%s", (long)row->micro_batch,
                          r->grad_accum > 0 ? ", of global_batch, grad_accum and dp" : "");
    if (r->global_batch < 1) measured_row_note(row, "global_batch: micro_batch x grad_accum x dp");
    split_pipeline_batch(row);
    if (row->global_batch % (row->micro_batch * row->dp) != 0)
        return measured_skip_at(
            row, SKIP_BATCH, "global_batch",
            arena_format(arena,
                         "%ld samples do not divide into micro-batches of %ld on %ld "
                         "data-parallel ranks",
                         (long)row->global_batch, (long)row->micro_batch, (long)row->dp));
    if (r->grad_accum > 0 && accumulated != row->global_batch)
        measured_row_note(row, "grad_accum: %ld would make a batch of %ld: global_batch is taken",
                          (long)r->grad_accum, (long)accumulated);
    return SKIP_NOTHING;
}

/* The most parts of at least `length` tokens that are alike and divide among the ranks of cp; 1 if
 * none do. */
static int64_t count_parts(const struct measured_row *row, int64_t length) {
    const int64_t tokens = row->language_tokens, shares = row->cp > 1 ? 2 * row->cp : 1;
    for (int64_t parts = tokens / length; parts > 1; parts--)
        if (tokens % parts == 0 && tokens / parts % shares == 0) return parts;
    return 1;
}

static bool fine_tunes(const struct measured_run *r) {
    static const char *const words[] = { "SFT",         "finetune",  "finetuning", "fine-tune",
                                         "fine-tuning", "finetuned", "fine-tuned", "LoRA" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (measured_text_says(r->model, words[i]) || measured_text_says(r->notes, words[i]))
            return true;
    return r->lora_rank > 0;
}

/* MLPerf's adapters learn from GovReport, whose documents fill its sequences of 8,192 tokens. */
static bool documents_fill(const struct measured_run *r) {
    return measured_text_says(r->source, "mlcommons") || measured_text_says(r->source, "MLPerf") ||
           measured_text_says(r->notes, "MLPerf") || measured_text_says(r->notes, "GovReport");
}

/* What the notes say of packing, or what the stack does with such a run; MLPerf's documents are as
 * long as its sequences, packed or not. Whoever shares a sequence among ranks has samples as long. */
static bool samples_packed(const struct measured_row *row) {
    const struct measured_run *r = &row->run;
    if (documents_fill(r)) return false;
    if (strcasestr(r->notes, "pack") != NULL)
        return measured_text_says(r->notes, "packed") || measured_text_says(r->notes, "packing");
    return row->cp == 1 && (row->out->stack->packs_samples || fine_tunes(r));
}

/* As the stack file's table says of packed_long_sample_tokens. */
enum { LONG_SEQUENCE_TOKENS = 16384 };

static int64_t usual_sample_tokens(const struct stack *stack, int64_t sequence_tokens) {
    const int64_t of_long = stack->packed_long_sample_tokens;
    return sequence_tokens >= LONG_SEQUENCE_TOKENS && of_long > 0 ? of_long
                                                                  : stack->packed_sample_tokens;
}

/* A sequence of packed samples that attend within themselves costs what a micro-batch of as many
 * samples does. */
static enum validation_skip split_packed(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const struct stack *stack = row->out->stack;
    const bool packs = !measured_is_diffusion(r) && samples_packed(row);
    const int64_t usual = packs ? usual_sample_tokens(stack, row->language_tokens) : 0;
    const int64_t length = r->sample_len > 0 ? r->sample_len : usual;
    if (r->sample_len > 0 && row->vision != NULL)
        measured_row_note(row, "sample_len: not read beside images, a sample is seq_len long");
    if (length < 1 || length >= row->language_tokens || row->vision != NULL) return SKIP_NOTHING;
    const int64_t parts = count_parts(row, length);
    row->language_tokens /= parts;
    row->micro_batch *= parts;
    row->global_batch *= parts;
    if (r->sample_len < 1)
        measured_row_note(row,
                          "sample_len: %ld, as %s fine-tunes: packed samples attend within "
                          "themselves",
                          (long)row->language_tokens, stack->name);
    else if (row->language_tokens != length)
        measured_row_note(row,
                          "sample_len: %ld, the next from %ld on that divides the sequence and "
                          "itself among the ranks of cp",
                          (long)row->language_tokens, (long)length);
    return SKIP_NOTHING;
}

/* No run has so much in a step; a row at either bound takes some 5 s of one core. */
#define MOST_SAMPLES 5e7
#define MOST_PASSES  4e6

static enum validation_skip bound_batch(struct measured_row *row) {
    struct arena *arena = row->context->arena;
    const double samples = (double)row->global_batch,
                 chunks = (double)row->pp * (row->vpp > 1 ? (double)row->vpp : 1),
                 passes = samples / (double)row->micro_batch / (double)row->dp * chunks;
    if (samples > MOST_SAMPLES)
        return measured_skip_at(
            row, SKIP_VALUE, row->run.sample_len > 0 ? "sample_len" : "global_batch",
            arena_format(arena, "%.0f samples in a step, more than %.0f", samples, MOST_SAMPLES));
    if (passes > MOST_PASSES)
        return measured_skip_at(
            row, SKIP_VALUE, "global_batch",
            arena_format(arena,
                         "%.0f passes of micro-batches through the stages of a pipeline "
                         "in a step, more than %.0f",
                         passes, MOST_PASSES));
    return SKIP_NOTHING;
}

static enum validation_skip choose_recompute(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    row->recompute_layers = -1;
    row->recompute = r->recompute;
    if (r->recompute[0] == '\0') {
        const char *said = measured_says_recompute(r->notes);
        row->recompute_unsaid = said[0] == '\0';
        row->recompute = said[0] != '\0' ? said : row->out->stack->recompute;
        measured_row_note(row, "recompute: %s, as %s", row->recompute,
                          said[0] != '\0' ? "its notes say" : row->out->stack->name);
    }
    if (sscanf(row->recompute, "layers:%ld", (long *)&row->recompute_layers) == 1)
        return row->recompute_layers < 0 || row->recompute_layers > r->layers
                   ? measured_skip_at(row, SKIP_RECOMPUTE, "recompute",
                                      arena_format(row->context->arena, "%ld layers of %ld",
                                                   (long)row->recompute_layers, (long)r->layers))
                   : SKIP_NOTHING;
    static const char *const kinds[] = { "full", "none", "selective", "layers:N", NULL };
    if (strncmp(row->recompute, "layers:", 7) == 0)
        return measured_skip_text(row, SKIP_RECOMPUTE, "recompute", row->recompute);
    return measured_is_one_of(row, "recompute", row->recompute, kinds) ? SKIP_NOTHING
                                                                       : SKIP_RECOMPUTE;
}

enum validation_skip measured_place(struct measured_row *row) {
    static enum validation_skip (*const steps[])(struct measured_row *) = {
        choose_degrees, choose_sharding, choose_batch, split_packed, bound_batch, choose_recompute
    };
    enum validation_skip skip = SKIP_NOTHING;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && skip == SKIP_NOTHING; i++)
        skip = steps[i](row);
    return skip;
}
