/* framework_limits.c - what Megatron-LM, DeepSpeed and FSDP have no code for. */
#include "sim/scenario/framework_limits.h"

#include <string.h>
#include "sim/scenario/scenario_reader.h"

struct list {
    struct framework_limit *limits;
    int64_t count;
};

static void add(struct list *list, const char *rule, const char *text) {
    ballast_check(list->count < FRAMEWORK_LIMIT_COUNT);
    list->limits[list->count++] = (struct framework_limit){ rule, text };
}

enum framework framework_of_backend(const char *backend) {
    if (strcmp(backend, "megatron-lm") == 0) return FRAMEWORK_MEGATRON;
    return strstr(backend, "deepspeed") != NULL ? FRAMEWORK_DEEPSPEED : FRAMEWORK_FSDP;
}

static int64_t decoder_blocks(const struct model *model) {
    return model->modules[MODULE_LANGUAGE].layer_count +
           model->modules[MODULE_DIFFUSION_DECODER].layer_count;
}

/* validate_args and DistributedOptimizer: optimizer state alone is sharded, of Adam alone.
 * TransformerConfig offloads decoder layers of one stage, fewer than there are. */
static void megatron_limits(const struct scenario *s, struct arena *arena, struct list *list) {
    const struct layout *layout = &s->layout;
    if (layout->zero_stage > 1)
        add(list, "backend-zero",
            arena_format(arena, "ZeRO-%ld: the distributed optimizer shards optimizer state alone",
                         (long)layout->zero_stage));
    /* Muon has a distributed optimizer of its own (layer_wise_optimizer.py) */
    if (layout->zero_stage == 1 && !s->optimizer->orthogonalises &&
        strcmp(s->optimizer->name, "adamw") != 0)
        add(list, "backend-optimizer",
            arena_format(arena,
                         "training.optimizer %s with ZeRO-1: the distributed optimizer takes Adam "
                         "only (layout.zero_stage 0)",
                         s->optimizer->name));
    const int64_t blocks = s->training_fields.offload_blocks;
    if (blocks > 0 && (layout->pp > 1 || s->model->modules[MODULE_VISION].layer_count > 0 ||
                       blocks >= decoder_blocks(s->model)))
        add(list, "backend-offload",
            arena_format(arena,
                         "training.offload_blocks %ld: --cpu-offloading-num-layers holds for "
                         "fewer than all layers of a decoder alone, with pp 1",
                         (long)blocks));
    if (layout->cp_heads > 1 && s->layout_fields.cp_kind == CONTEXT_ALL_GATHER)
        add(list, "backend-context",
            "layout.cp_heads beside cp_kind all-gather: --cp-comm-type has a2a+p2p, a ring, alone");
    if (layout->cp > 1 && s->layout_fields.cp_kind == CONTEXT_GATHERED_RING)
        add(list, "backend-context",
            "layout.cp_kind gathered-ring is PyTorch's: --cp-comm-type has p2p (ring), all_gather "
            "and a2a (all-to-all)");
    if (s->schedule.row == &schedule_gpipe)
        add(list, "backend-schedule",
            "schedule \"gpipe\": Megatron-LM runs 1F1B, interleaved or not");
}

static void deepspeed_context(const struct scenario *s, struct arena *arena, struct list *list) {
    const struct layout *layout = &s->layout;
    if (layout->cp == 1) return;
    if (s->layout_fields.cp_kind != CONTEXT_ALL_TO_ALL)
        add(list, "backend-context",
            arena_format(arena,
                         "context parallel degree %ld (layout.cp_kind all-to-all has an option)",
                         (long)layout->cp));
    else if (layout->tp * layout->pp > 1)
        add(list, "backend-context",
            arena_format(arena,
                         "context parallel degree %ld beside tensor parallel %ld and pipeline "
                         "parallel %ld: --ds-sequence-parallel-size takes neither",
                         (long)layout->cp, (long)layout->tp, (long)layout->pp));
}

static void deepspeed_limits(const struct scenario *s, struct arena *arena, struct list *list) {
    const struct layout *layout = &s->layout;
    const enum precision precision = s->model->modules[MODULE_LANGUAGE].precision;
    deepspeed_context(s, arena, list);
    if (precision == PRECISION_FP8 || precision == PRECISION_FP4)
        add(list, "backend-precision",
            arena_format(arena, "%s: not an option of DeepSpeed's configuration",
                         precision_name(precision)));
    if (layout->zero_group < layout->dp * layout->cp && layout->zero_stage != 3)
        add(list, "backend-zero",
            arena_format(arena,
                         "layout.zero_group %ld: DeepSpeed shards in groups with ZeRO-3 only "
                         "(MiCS)",
                         (long)layout->zero_group));
    if (s->training_fields.offload_blocks > 0)
        add(list, "backend-offload",
            arena_format(arena,
                         "training.offload_blocks %ld: DeepSpeed's cpu_checkpointing moves the "
                         "inputs of recomputing blocks, not what others keep",
                         (long)s->training_fields.offload_blocks));
    if (layout->pp > 1 && s->layout_fields.vpp > 1)
        add(list, "backend-schedule",
            arena_format(arena, "layout.vpp %ld: DeepSpeed's pipeline is not interleaved",
                         (long)s->layout_fields.vpp));
    else if (layout->pp > 1 && s->schedule.row == &schedule_gpipe)
        add(list, "backend-schedule", "schedule \"gpipe\": DeepSpeed's pipeline runs 1F1B only");
}

/* fully_shard shards parameters and with them all else (ZeRO-3), or keeps them gathered (2). */
static void fsdp_limits(const struct scenario *s, struct list *list) {
    if (s->layout_fields.zero_stage == 1 && s->layout.dp * s->layout.cp > 1)
        add(list, "backend-zero",
            "zero_stage 1: PyTorch's FSDP shards gradients too (zero_stage 2) or all (3)");
}

int64_t framework_limits(enum framework framework, const struct scenario *scenario,
                         struct arena *arena, struct framework_limit *limits) {
    struct list list = { .limits = limits };
    if (framework == FRAMEWORK_MEGATRON) megatron_limits(scenario, arena, &list);
    if (framework == FRAMEWORK_DEEPSPEED) deepspeed_limits(scenario, arena, &list);
    if (framework == FRAMEWORK_FSDP) fsdp_limits(scenario, &list);
    return list.count;
}

void backend_limits(struct reader *r) {
    struct scenario *s = r->s;
    struct framework_limit limits[FRAMEWORK_LIMIT_COUNT];
    const int64_t count =
        framework_limits(framework_of_backend(s->backend->name), s, s->arena, limits);
    for (int64_t i = 0; i < count; i++)
        scenario_warn(r, arena_format(s->arena, "backend %s cannot run this: %s", s->backend->name,
                                      limits[i].text));
    if (count == 0) return;
    s->limit_rule = limits[0].rule;
    s->limit = arena_format(s->arena, "backend %s: %s", s->backend->name, limits[0].text);
}
