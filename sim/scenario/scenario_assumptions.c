/* scenario_assumptions.c - what a run takes for granted, in sentences: what nobody stated, what the
 * stack decides, what is not modelled. After all rules, so that they speak of resolved values. */
#include <math.h>
#include <string.h>
#include "costmodel/efficiency.h"
#include "costmodel/step_band.h"
#include "sim/scenario/scenario_reader.h"

/* The fallbacks of section what_if. */
#define CHECKPOINT_S 30
#define RESTART_MIN  15

static bool is_given(const cJSON *section, const char *key) {
    return cJSON_GetObjectItemCaseSensitive(section, key) != NULL;
}

/* A model of many tokens loses more to its head than to a pipeline bubble, for want of padding. */
static void odd_vocabulary_assumption(struct reader *r) {
    const struct scenario *s = r->s;
    const struct module *language = &s->model->modules[MODULE_LANGUAGE];
    const struct tensor_split split = scenario_split(s);
    if (!model_logits_are_odd(s->model, &split)) return;
    scenario_assume(r, arena_format(s->arena,
                                    "stack %s does not pad the vocabulary of %ld: rows of logits "
                                    "do not begin on 8 bytes, for which cuBLAS has slow kernels "
                                    "only; a multiple of 64 a tensor-parallel rank avoids them",
                                    s->stack->name, (long)language->vocabulary));
}

static bool loads(const struct scenario *s) {
    const struct scenario_what_if *w = &s->what_if;
    return w->data_loading_ms_per_sample > 0 || (w->data_loading_ms_per_megapixel > 0 &&
                                                 s->model->modules[MODULE_VISION].layer_count > 0);
}

/* Settings of section what_if that wait for another one. */
static void what_if_without_effect(struct reader *r) {
    const struct scenario_what_if *w = &r->s->what_if;
    const bool fails = !isnan(w->gpu_mtbf_hours);
    const struct {
        bool set, in_effect;
        const char *text;
    } all[] = {
        { w->slow_gpu_rank != 0 || w->slow_gpu_stage != 0, w->slow_gpu_factor != 1,
          "no GPU is slow: what_if.slow_gpu_factor is 1, whatever rank and stage are named" },
        { w->straggler_factor != 1, w->straggler_fraction > 0,
          "no rank straggles: what_if.straggler_fraction is 0, whatever straggler_factor says" },
        { w->straggler_fraction > 0, w->straggler_factor != 1,
          "no rank straggles: what_if.straggler_factor is 1, whatever straggler_fraction says" },
        { w->slow_link_stage != 0, w->slow_link_factor != 1,
          "no link is slow: what_if.slow_link_factor is 1, whatever slow_link_stage names" },
        { w->data_loading_workers != 1 || !w->data_loading_overlaps, loads(r->s),
          "loading takes no time: what_if.data_loading_ms_per_sample and _ms_per_megapixel are 0" },
        { w->data_loading_ms_per_megapixel > 0, r->s->model->modules[MODULE_VISION].layer_count > 0,
          "what_if.data_loading_ms_per_megapixel has no effect: it counts what a vision encoder "
          "sees, and the model has none (other clips, images and texts: _ms_per_sample)" },
        { !isnan(w->checkpoint_interval_min) || w->checkpoint_s != CHECKPOINT_S ||
              w->restart_min != RESTART_MIN,
          fails, "no checkpoints and no restarts: what_if.gpu_mtbf_hours is not given" },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].set && !all[i].in_effect) scenario_assume(r, all[i].text);
}

/* Figures of section what_if that nobody gave, where they are in effect. */
static void what_if_assumptions(struct reader *r) {
    struct scenario *s = r->s;
    const struct scenario_what_if *w = &s->what_if;
    const cJSON *section = r->top.what_if;
    if (loads(s)) {
        if (!is_given(section, "data_loading_workers"))
            scenario_assume(r,
                            arena_format(s->arena,
                                         "samples are loaded by %ld worker of each data-parallel "
                                         "rank (what_if.data_loading_workers not given)",
                                         (long)w->data_loading_workers));
        if (!is_given(section, "data_loading_overlaps"))
            scenario_assume(r, "the next step's samples are loaded beside compute "
                               "(what_if.data_loading_overlaps not given)");
    }
    if (isnan(w->gpu_mtbf_hours)) return;
    if (!is_given(section, "checkpoint_s"))
        scenario_assume(r,
                        arena_format(s->arena,
                                     "a checkpoint stops the training for %g s, a figure without "
                                     "a source (what_if.checkpoint_s not given)",
                                     w->checkpoint_s));
    if (!is_given(section, "restart_min"))
        scenario_assume(r, arena_format(s->arena,
                                        "a failure costs %g min until training goes on, a figure "
                                        "without a source (what_if.restart_min not given)",
                                        w->restart_min));
    if (!is_given(section, "checkpoint_interval_min"))
        scenario_assume(r, "checkpoints at the interval that loses least "
                           "(what_if.checkpoint_interval_min not given)");
}

/* Whose errors the band of the step is made of, where it is not of measured text on this GPU. */
static void band_assumption(struct reader *r) {
    struct scenario *s = r->s;
    if (cost_model_gpu_is_strange(s->cost_model))
        scenario_assume(r, arena_format(s->arena,
                                        "no matmul of %s was measured and no stack was fitted on "
                                        "its runs: its prices are another GPU's by a rule, so the "
                                        "band of the step time holds that of its operators besides",
                                        cost_model_gpu(s->cost_model)->name));
    if (model_is_text_decoder(s->model)) return;
    if (cost_model_knows_multimodal(s->cost_model))
        scenario_assume(r,
                        arena_format(s->arena,
                                     "the band of the step time leans on how far off the runs of "
                                     "one paper by stack %s were, %g %%",
                                     s->stack->name, 100 * s->stack->multimodal_band));
    else {
        const struct step_ratios took = cost_model_multimodal_ratios(s->cost_model);
        if (isnan(took.median)) return;
        scenario_assume(
            r, arena_format(s->arena,
                            "the band of the step time is that of public runs of %s, whatever "
                            "their stack: half took over %.2f times the predicted time, four in "
                            "five %.2f to %.2f times",
                            model_writes_text(s->model)
                                ? "models that write text behind encoders of images or video"
                                : "encoders alone, pairs of them and diffusion",
                            took.median, took.low, took.high));
    }
}

/* A reduction among the GPUs of one node. */
struct node_probe {
    struct operator_work work;
    struct communicator node;
};

static struct node_probe probe_node(const struct scenario *s) {
    enum { PROBE_BYTES = 256 << 20 };
    const struct cluster_network *network = cost_model_network(s->cost_model);
    const int64_t gpus = s->cluster_fields.gpu_count < network->gpus_per_node
                             ? s->cluster_fields.gpu_count
                             : network->gpus_per_node;
    return (struct node_probe){
        .work = operator_collective("", OPERATOR_ALL_REDUCE, PASS_BACKWARD, COMMUNICATOR_DATA,
                                    PROBE_BYTES),
        .node = { .rank_count = gpus, .ranks_per_node = gpus, .node_count = 1 },
    };
}

/* A factor leaves the speed it multiplies an estimate. */
static bool states_speed(const struct cost_model *model, struct node_probe probe,
                         enum operator_kind kind) {
    probe.work.kind = kind;
    const struct rule *rule = cost_model_price(model, &probe.work, &probe.node).rule;
    return rule != NULL && rule->setting != RULE_FACTOR;
}

/* Of a pair the cards' own links are measured. */
bool scenario_talks_over_pcie(const struct scenario *s) {
    static const enum operator_kind kinds[] = { OPERATOR_ALL_REDUCE, OPERATOR_ALL_GATHER,
                                                OPERATOR_REDUCE_SCATTER };
    const struct node_probe probe = probe_node(s);
    if (cost_model_gpu(s->cost_model)->nvlink_bytes_per_s > 0 || probe.node.rank_count <= 2)
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!states_speed(s->cost_model, probe, kinds[i])) return true;
    return false;
}

/* How fast PCIe is depends on board and processors: tables of one card may lie ten times apart. */
static void pcie_assumption(struct reader *r) {
    struct scenario *s = r->s;
    if (!scenario_talks_over_pcie(s)) return;
    const struct node_probe probe = probe_node(s);
    const double gpus = (double)probe.node.rank_count;
    const struct price price = cost_model_price_isolated(s->cost_model, &probe.work, &probe.node);
    const double bus_bytes =
        probe.work.network_bytes * collective_wire_factor(probe.work.kind, gpus);
    scenario_assume(
        r,
        arena_format(s->arena,
                     "GPUs of a node talk over PCIe, whose speed is the server's: among %g an "
                     "all-reduce runs at %.1f GB/s of bus bandwidth here (%s), where others saw "
                     "1.4 (eight L40S of ai-dynamo/aiconfigurator) to 28 (NVIDIA/nccl-tests issue "
                     "178, nccl issue 1639); the band does not cover that, so state your server's "
                     "under rules",
                     gpus, bus_bytes / price.seconds / 1e9, price.source));
}

static void not_priced_assumption(struct reader *r) {
    const struct gpu *gpu = cost_model_gpu(r->s->cost_model);
    const int64_t gpus = r->s->cluster_fields.gpu_count;
    const bool within =
        gpus == 1 || (gpu->nvlink_bytes_per_s > 0 && gpus <= r->s->cluster_fields.gpus_per_node);
    if (gpu->not_priced[0] != '\0' && !within)
        scenario_assume(
            r, arena_format(r->s->arena, "not priced of %s: %s", gpu->name, gpu->not_priced));
}

/* Megatron's layers are Transformer Engine's, which fuses attention in 16 and 8 bits alone. */
static void single_attention_assumption(struct reader *r) {
    const struct scenario *s = r->s;
    if (!model_computes_in_single(s->model)) return;
    if (s->training_fields.attention == TRAINING_NAIVE ||
        cost_model_gpu(s->cost_model)->peak_flop_per_s[PRECISION_TF32] <= 0)
        return;
    const bool megatron = strcmp(s->backend->name, "megatron-lm") == 0;
    scenario_assume(
        r, arena_format(s->arena,
                        "attention in fp32 is PyTorch's fused kernel, each product three in TF32%s",
                        megatron ? "; Transformer Engine has none and writes its scores "
                                   "(training.attention naive)"
                                 : ""));
}

/* Hidden traffic of data parallelism is not free: NCCL's kernels hold SMs and HBM bandwidth. */
static void overlap_assumption(struct reader *r) {
    const struct scenario *s = r->s;
    const struct layout *l = &s->layout;
    const bool sharded = l->zero_stage > 1;
    const double cost =
        sharded ? s->backend->step.overlap_cost : s->backend->step.data_overlap_cost;
    const bool hides =
        l->zero_stage > 2 || scenario_reduces_beside(s) || l->overlap_parameter_gather;
    if (l->dp * l->cp == 1 || !hides || !(cost > 0)) return;
    scenario_assume(r, arena_format(s->arena,
                                    "data-parallel traffic that hides behind compute slows it by "
                                    "%g s for each second that its bytes take inside a node, so "
                                    "that faster NICs gain little there (%s of stack %s)",
                                    cost, sharded ? "overlap_cost" : "data_overlap_cost",
                                    s->stack->name));
}

/* Its band is that of runs that AdamW trained. */
static void optimizer_assumption(struct reader *r) {
    if (!r->s->optimizer->orthogonalises) return;
    scenario_assume(r,
                    "Muon updates the matrices of blocks, AdamW the rest (docs/MODEL.md, section "
                    "5); no run that a factor or a band was made of trained so");
}

/* What it takes of memory or of traffic many do not expect. */
static void gradient_sync_assumption(struct reader *r) {
    const struct scenario *s = r->s;
    const bool stated = s->training_fields.gradient_sync != GRADIENT_SYNC_USUAL;
    if (!scenario_accumulates_shards(s)) {
        if (stated)
            scenario_assume(r, s->layout.zero_group > 1
                                   ? "training.gradient_sync changes nothing: a step is one "
                                     "micro-batch a rank"
                                   : "training.gradient_sync changes nothing: no gradients are "
                                     "sharded");
        return;
    }
    if (s->layout.pp > 1 || s->stack == NULL) return;
    const char *as = stated ? "as training.gradient_sync says"
                            : arena_format(s->arena, "as stack %s does", s->stack->name);
    scenario_assume(
        r, s->backend->step.reduces_once
               ? arena_format(s->arena,
                              "gradients stay whole from micro-batch to micro-batch and are "
                              "reduced once a step (no_sync, %s); training.gradient_sync each "
                              "keeps them sharded",
                              as)
               : arena_format(s->arena,
                              "gradients are reduced behind each micro-batch's backward and stay "
                              "sharded (%s); training.gradient_sync last reduces them once a "
                              "step, whole until then (no_sync)",
                              as));
}

/* Of PyTorch's; half of the bytes where states are bf16. */
static void adamw_assumption(struct reader *r) {
    const struct scenario *s = r->s;
    const bool stated = s->training_fields.adamw_kernels != ADAMW_KERNELS_USUAL;
    const enum adamw_kernels own = backend_adamw_kernels(s->stack),
                             runs = stated ? (enum adamw_kernels)s->training_fields.adamw_kernels
                                           : own;
    if (s->stack == NULL || runs == ADAMW_KERNELS_USUAL || strcmp(s->backend->name, "fsdp") != 0 ||
        strcmp(s->optimizer->name, "adamw") != 0)
        return;
    const bool fused = runs == ADAMW_KERNELS_FUSED;
    const char *as = stated ? "as training.adamw_kernels says"
                            : arena_format(s->arena, "as stack %s does", s->stack->name);
    scenario_assume(r, arena_format(s->arena,
                                    "PyTorch's AdamW runs %s, %s: %.3g bytes a parameter of a "
                                    "rank's share with norm and clipping%s",
                                    fused ? "fused" : "a kernel for each operation (foreach)", as,
                                    s->optimizer->update_bytes_moved * s->stack->optimizer_traffic,
                                    fused ? "" : "; training.adamw_kernels fused moves less"));
}

/* How a sequence is shared, where nobody said. */
static void context_assumption(struct reader *r) {
    struct scenario *s = r->s;
    if (s->layout.cp == 1 || s->layout_fields.cp_kind == CONTEXT_ALL_TO_ALL ||
        is_given(r->top.layout, "cp_kind") || is_given(r->top.layout, "cp_balanced"))
        return;
    const bool by_stack = s->layout_fields.cp_kind == CONTEXT_GATHERED_RING; /* said with it */
    if (!s->layout_fields.cp_balanced) {
        if (!by_stack)
            scenario_assume(r, "context parallelism: keys and values travel around a ring beside "
                               "attention (layout.cp_kind not given)");
        return;
    }
    scenario_assume(r, arena_format(s->arena,
                                    "context parallelism: %stokens are dealt so that a causal mask "
                                    "costs all ranks the same (layout.%scp_balanced not given)",
                                    by_stack ? ""
                                             : "keys and values travel around a ring beside "
                                               "attention, ",
                                    by_stack ? "" : "cp_kind, "));
}

/* Core attention and every other matmul are dropped by some styles whatever the kernel. */
static bool drops_nothing(const struct scenario *s) {
    const enum recompute_style style = s->backend->block.recompute_style;
    return style != RECOMPUTE_CORE && style != RECOMPUTE_OPERATORS;
}

void standing_assumptions(struct reader *r) {
    struct scenario *s = r->s;
    if (s->stack != NULL && !backend_is_of_stack(s->backend, s->stack))
        scenario_assume(r, arena_format(s->arena,
                                        "stack %s, whose runs were of backend %s, stands for %s",
                                        s->stack->name, s->stack->backend, s->backend->name));
    const struct batching_policy *batching = s->batching.row;
    scenario_assume_stack(r);
    odd_vocabulary_assumption(r);
    if (s->backend->block.chunked_head != CHUNKED_HEAD_NO && s->layout.tp > 1)
        scenario_assume(r, arena_format(s->arena,
                                        "each TP rank runs the chunked loss of %s on its share of "
                                        "the vocabulary; no published one does",
                                        s->stack->name));
    /* A policy that packs decides itself. */
    if (r->micro_batch_missing && !batching->packs)
        scenario_assume(r, "micro_batch: 1 sample (not given)");
    const bool joint =
        batching->joint_attention != NULL && batching->joint_attention(s->batching.parameters);
    scenario_assume(r, joint
                           ? "tokens of a packed sequence attend to all before them in it, also to "
                             "those of other samples (policy.batching.attention)"
                           : "sequences of packed samples attend only within their own sample; "
                             "padded ones to the padded length");
    const cJSON *overlap = cJSON_GetObjectItemCaseSensitive(r->top.layout, "tp_overlap");
    if (scenario_present(overlap) != NULL && s->layout.sequence_parallel && s->stack != NULL &&
        s->stack->holds_tensor_overlap && (s->layout_fields.tp_overlap || s->stack->overlap_tensor))
        scenario_assume(
            r, arena_format(s->arena,
                            "layout.tp_overlap changes %s: the factors of stack %s "
                            "are of runs that had it, so %s",
                            s->stack->overlap_tensor || s->stack->tensor_overlap_fraction > 0
                                ? "what is hidden"
                                : "no price",
                            s->stack->name,
                            s->stack->overlap_tensor
                                ? "without it collectives take longer by what it saves"
                                : "a run without it is slower than priced"));
    if (s->layout.tp > 1)
        scenario_assume(
            r, "tensor-parallel collectives are exposed, except those that Megatron runs beside a "
               "weight- or input-gradient matmul");
    if (s->layout.pp > 1 && s->stack != NULL && scenario_present(r->policy.partition) == NULL &&
        scenario_present(r->policy.joint) == NULL && strcmp(s->stack->partition, "layer") != 0)
        scenario_assume(r, arena_format(s->arena, "partition: %s, as stack %s does (not given)",
                                        s->stack->partition, s->stack->name));
    if (s->stack != NULL && strcmp(s->stack->recompute, "none") != 0 &&
        scenario_present(r->policy.recompute) == NULL && scenario_present(r->policy.joint) == NULL)
        scenario_assume(r, arena_format(s->arena,
                                        "recompute: none (not given), where usual runs of stack %s "
                                        "recompute \"%s\"",
                                        s->stack->name, s->stack->recompute));
    if (s->backend->send_blocks_compute && s->layout.pp > 1)
        scenario_assume(r, arena_format(s->arena,
                                        "a stage waits for its sends to finish before it computes "
                                        "on (backend %s)",
                                        s->backend->name));
    if (s->layout.zero_stage > 1 && !scenario_reduces_beside(s))
        scenario_assume(r,
                        "gradients are reduced on the stream that computes, so that nothing hides "
                        "(layout.overlap_gradient_reduce); collectives hold the ranks together");
    else if (s->layout.zero_stage > 1)
        scenario_assume(
            r, "each block is gathered and reduced on its own, one block ahead; collectives "
               "hold the ranks together");
    else if (!s->layout.overlap_gradient_reduce && s->layout.dp > 1)
        scenario_assume(r, "gradients are reduced after the last backward, not hidden behind it "
                           "(layout.overlap_gradient_reduce)");
    overlap_assumption(r);
    optimizer_assumption(r);
    gradient_sync_assumption(r);
    adamw_assumption(r);
    if (s->training_fields.offload_blocks > 0)
        scenario_assume(
            r, arena_format(s->arena,
                            "kept activations of up to %ld blocks a stage are copied to host "
                            "memory and back beside compute, at %.3g GB/s; whether the "
                            "host has that memory is not looked at",
                            (long)s->training_fields.offload_blocks,
                            scenario_host_copy_bytes_per_s(s) / 1e9));
    pcie_assumption(r);
    not_priced_assumption(r);
    single_attention_assumption(r);
    if (!s->cluster_fields.nvls && !cost_model_rings_alone(s->cost_model))
        scenario_assume(r, arena_format(s->arena,
                                        "cluster.nvls changes nothing: nodes of %s add nothing up "
                                        "in a switch",
                                        cost_model_gpu(s->cost_model)->name));
    context_assumption(r);
    if (s->layout.cp > 1 && s->model->modules[MODULE_VISION].layer_count > 0)
        scenario_assume(r, "context-parallel ranks share the encoder's work by whole tiles");
    if (strcmp(s->recompute.name, "selective") == 0 &&
        s->training_fields.attention != TRAINING_NAIVE && drops_nothing(s))
        scenario_assume(r, "selective recomputation has nothing to drop: flash attention keeps no "
                           "scores (training.attention)");
    what_if_assumptions(r);
    what_if_without_effect(r);
    if (s->model->modules[MODULE_LANGUAGE].layer_count == 0 &&
        s->model->modules[MODULE_DIFFUSION_DECODER].layer_count == 0)
        scenario_assume(r, "the model is an encoder by itself: no head, no loss and no tower of "
                           "text is in its step");
    band_assumption(r);
    const bool fails = !isnan(s->what_if.gpu_mtbf_hours);
    scenario_assume(
        r, arena_format(s->arena,
                        "not modelled: %s%sevaluation, %sstalls of the host beside launches, "
                        "allocator stalls",
                        loads(s) ? "" : "data loading, ", fails ? "" : "checkpoints, ",
                        fails ? "" : "failures, "));
}
