/* scenario_stack.c - the software stack of a scenario: which it is, what it makes of backend,
 * optimizer and layout, when the host launches, and the sentence that says all of it. */
#include <string.h>
#include "costmodel/generation.h"
#include "sim/scenario/scenario_reader.h"

static bool layout_says(const struct reader *r, const char *key) {
    return scenario_present(cJSON_GetObjectItemCaseSensitive(r->top.layout, key)) != NULL;
}

static bool find_stack(struct reader *r) {
    struct scenario *s = r->s;
    const struct scenario_layout *f = &s->layout_fields;
    if (r->options->stack != NULL)
        s->stack = r->options->stack;
    else
        s->stack =
            r->options->cache != NULL
                ? scenario_cache_stack(r->options->cache, s->directory, s->files.stack, r->err)
                : stack_load(s->arena, s->directory, s->files.stack, r->err);
    if (s->stack != NULL) return true;
    return scenario_relocate(r, scenario_member(r->top.layout, "stack"), "stack", f->stack);
}

/* Who names a stack and no backend means that of the stack's runs. */
static void choose_backend(struct reader *r) {
    struct scenario *s = r->s;
    const int index = backend_index(s->stack->backend);
    if (layout_says(r, "backend") || index < 0 || index == s->layout_fields.backend) return;
    s->layout_fields.backend = index;
    scenario_assume(r, arena_format(s->arena, "backend %s, that of stack %s (layout.backend)",
                                    s->stack->backend, s->stack->name));
}

/* A recipe that trains with Muon. */
static void choose_optimizer(struct reader *r) {
    struct scenario *s = r->s;
    if (s->stack == NULL || s->stack->optimizer != STACK_MUON ||
        scenario_present(cJSON_GetObjectItemCaseSensitive(r->top.training, "optimizer")) != NULL)
        return;
    s->training_fields.optimizer = optimizer_index("muon");
    scenario_assume(r,
                    arena_format(s->arena, "optimizer muon, that of stack %s (training.optimizer)",
                                 s->stack->name));
}

/* ZeRO-3's, FSDP's where there is somebody to share with: trainers leave other blocks unwrapped. */
static bool runs_hooks(const struct scenario *s, const struct backend *backend) {
    const struct scenario_layout *f = &s->layout_fields;
    const bool alone = s->cluster_fields.gpu_count <= f->tp * f->pp;
    return f->zero_stage == 3 && !(alone && strcmp(backend->name, "fsdp") == 0);
}

/* What the stack states holds instead of the figures of backend and optimizer, and where the layout
 * does not say. */
static void use_stack(struct reader *r, struct backend *backend, struct optimizer *optimizer) {
    struct scenario *s = r->s;
    struct scenario_layout *f = &s->layout_fields;
    const enum precision precision = s->main_precision;
    backend_use_stack(backend, s->stack, precision, runs_hooks(s, backend), f->tp,
                      f->vpp > 1 || scenario_present(r->policy.joint) != NULL);
    optimizer_use_stack(optimizer, s->stack, precision);
    if (!layout_says(r, "sp") && f->tp > 1 && !s->stack->sequence_parallel) {
        f->sp = false;
        scenario_assume(r, arena_format(s->arena, "no sequence parallelism, as %s (layout.sp)",
                                        s->stack->name));
    }
    if (!layout_says(r, "tp_overlap"))
        f->tp_overlap = s->stack->overlap_tensor && f->tp > 1 && f->sp;
}

/* As the stack does, and as sharding does by itself. */
static void choose_overlap(struct reader *r) {
    const struct scenario *s = r->s;
    const struct stack *stack = s->stack;
    struct scenario_layout *f = &r->s->layout_fields;
    if (!layout_says(r, "overlap_gradient_reduce"))
        f->overlap_gradient_reduce =
            f->zero_stage == 2 && stack != NULL
                ? stack->overlap_shard_reduce || backend_always_hides(s->backend, 2)
                : f->zero_stage >= 2 || (stack != NULL && stack->overlap_gradient_reduce);
    if (!layout_says(r, "overlap_parameter_gather"))
        f->overlap_parameter_gather = (stack != NULL && stack->overlap_parameter_gather) ||
                                      backend_always_hides(s->backend, f->zero_stage);
}

bool scenario_load_stack(struct reader *r) {
    struct scenario *s = r->s;
    struct scenario_layout *f = &s->layout_fields;
    const bool usual = strcmp(f->stack, "auto") == 0;
    if (usual) f->stack = backend_at(f->backend)->usual_stack;
    s->files.stack = scenario_place(s, scenario_member(r->top.layout, "stack"), f->stack);
    if (strcmp(f->stack, "none") != 0 && !find_stack(r)) return false;
    if (!layout_says(r, "sp")) f->sp = true;
    if (s->stack != NULL) choose_backend(r);
    choose_optimizer(r);
    const struct backend *row = backend_at(f->backend);
    if (!layout_says(r, "zero_stage")) f->zero_stage = backend_usual_zero_stage(row->name, f->pp);
    if (usual)
        scenario_assume(r, arena_format(s->arena,
                                        "the software stack is %s, the usual one of backend %s "
                                        "(layout.stack)",
                                        f->stack, row->name));
    struct backend *backend = arena_new(s->arena, struct backend);
    struct optimizer *optimizer = arena_new(s->arena, struct optimizer);
    *backend = *row;
    *optimizer = *optimizer_at(s->training_fields.optimizer);
    s->backend = backend;
    s->optimizer = optimizer;
    if (s->stack != NULL) use_stack(r, backend, optimizer);
    choose_overlap(r);
    if (precision_is_single(s->main_precision)) backend_use_fp32(backend);
    return true;
}

/* One of the some 48 kernels of an eager block of Llama (gpt-fast's model.py), of 1.2 ms
 * (docs/MODEL.md, section 9a). */
#define HOST_KERNEL_S 25e-6

/* A stack's recipes may leave the launches to the host on some GPUs alone, by the GPU's own name:
 * the scenario may name a file. The host may be slower than the one that its times are of. Its
 * large jobs may wait for each kernel. */
void scenario_choose_launches(struct scenario *s) {
    if (s->stack == NULL) return;
    const double slower = cost_model_gpu(s->cost_model)->host_time_factor;
    const bool captured = !gpu_is_among(cost_model_gpu(s->cost_model)->name, s->stack->host_gpu);
    const int64_t blocking = s->stack->blocking_launches_gpus;
    struct backend *backend = arena_new(s->arena, struct backend);
    *backend = *s->backend;
    backend->step.host_forward_s *= captured ? 0 : slower;
    backend->step.host_backward_s *= captured ? 0 : slower;
    backend->step.host_recompute_s *= captured ? 0 : slower;
    backend->step.host_frozen_s *= slower;
    backend->step.shard_list_s *= slower;
    backend->step.host_step_s *= captured ? 0 : slower;
    backend->host_kernel_s = HOST_KERNEL_S * slower;
    backend->blocking_launches = blocking > 0 && s->cluster_fields.gpu_count >= blocking;
    s->backend = backend;
}

/* Of blocks that the model does not have. */
static bool is_of_other_models(const struct scenario *s, const char *cause) {
    const struct module *decoder = &s->model->modules[MODULE_DIFFUSION_DECODER];
    const bool joined = decoder->layer_count > 0 && decoder->text_attention == TEXT_ATTENTION_JOINT;
    return (strcmp(cause, "modulation_apart") == 0 && decoder->layer_count == 0) ||
           (strcmp(cause, "branches_apart") == 0 && !joined);
}

static bool is_of_other_layouts(const struct scenario *s, const char *cause) {
    if (strncmp(cause, "context_", 8) == 0 || strcmp(cause, "repeats_keys") == 0)
        return s->layout.cp == 1;
    if (strncmp(cause, "reduce_bucket_", 14) == 0) return s->layout.dp * s->layout.cp == 1;
    return s->layout.pp == 1 &&
           (strcmp(cause, "first_stage_buckets") == 0 || strcmp(cause, "gathers_at_forward") == 0);
}

/* "fp16_gradient_bytes" says nothing of a training in bf16, nor "host_fp8_us". */
static bool is_of_another_precision(const struct scenario *s, const char *cause) {
    for (int p = 0; p < PRECISION_COUNT; p++) {
        const char *name = precision_name((enum precision)p);
        const size_t length = strlen(name);
        if (strncmp(cause, name, length) == 0 && cause[length] == '_')
            return p == PRECISION_FP8 ? !model_computes_in(s->model, PRECISION_FP8)
                                      : s->main_precision != (enum precision)p;
    }
    if (strcmp(cause, "host_fp8_us") == 0) return s->main_precision != PRECISION_FP8;
    return false;
}

/* "gradient_reduce_bytes" where the scenario says in what gradients are reduced, and when. */
static bool is_replaced(const struct scenario *s, const char *cause) {
    static const char *const causes[] = { "gradient_reduce_bytes", "fp16_gradient_reduce_bytes",
                                          "reduce_copy_bytes" },
                             *const held[] = { "gradient_bytes", "fp8_gradient_bytes",
                                               "fp16_gradient_bytes", "accumulate_bytes_moved" };
    if (strcmp(cause, "reduces_once") == 0)
        return s->training_fields.gradient_sync != GRADIENT_SYNC_USUAL;
    if (strcmp(cause, "optimizer") == 0 || strcmp(cause, "muon_whole") == 0)
        return !s->optimizer->orthogonalises;
    if (strcmp(cause, "optimizer_traffic") == 0 || strcmp(cause, "update_bytes") == 0)
        return s->training_fields.adamw_kernels != ADAMW_KERNELS_USUAL;
    if (s->training_fields.reduce_dtype == REDUCE_USUAL) return false;
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++)
        if (strcmp(cause, causes[i]) == 0) return true;
    const bool holds = strcmp(s->backend->name, "megatron-lm") == 0;
    for (size_t i = 0; i < sizeof held / sizeof held[0] && holds; i++)
        if (strcmp(cause, held[i]) == 0) return true;
    return false;
}

/* On a GPU where the stack captures its launches, its host times say nothing. */
static bool is_captured(const struct scenario *s) {
    return s->stack->step.host_forward_s > 0 && s->backend->step.host_forward_s == 0;
}

/* One sentence: what the stack makes of the profile, the backend and the optimizer. */
void scenario_assume_stack(struct reader *r) {
    struct scenario *s = r->s;
    const struct stack *stack = s->stack;
    if (stack == NULL) return;
    const struct stack_use use = cost_model_stack(s->cost_model);
    const char *text = arena_format(s->arena, "stack %s:", stack->name), *comma = "";
    for (int64_t i = 0; i < stack->cause_count; i++) {
        if (is_of_another_precision(s, stack->causes[i].name) ||
            is_of_other_models(s, stack->causes[i].name) ||
            is_of_other_layouts(s, stack->causes[i].name) ||
            is_replaced(s, stack->causes[i].name) ||
            (!use.attention_stated && strncmp(stack->causes[i].name, "attention_", 10) == 0) ||
            (is_captured(s) && strncmp(stack->causes[i].name, "host_", 5) == 0))
            continue;
        text = arena_format(s->arena, "%s%s %s %s", text, comma, stack->causes[i].name,
                            stack->causes[i].value);
        comma = ",";
    }
    text = arena_format(s->arena, "%s%s kernels take %.3g times their profile's time", text,
                        comma[0] != '\0' ? ";" : "", use.kernel_time_factor);
    const double more =
        use.kernel_time_factor /
        stack_on(stack, cost_model_gpu(s->cost_model)->name, s->main_precision).kernel_time_factor;
    if (more != 1)
        text = arena_format(s->arena, "%s, a factor of %.3g in it because %s", text, more,
                            cost_model_encoder_factor(s->cost_model) != 1
                                ? "measured encoders and diffusion models took longer than was "
                                  "predicted, and by it their sources are the least off"
                                : "no run of this stack was fitted");
    if (use.attention_time_factor != 1)
        text = arena_format(s->arena, "%s, attention %.3g times that", text,
                            use.attention_time_factor);
    const double slower = cost_model_gpu(s->cost_model)->host_time_factor;
    if (is_captured(s))
        text = arena_format(s->arena, "%s, no launch is waited for (CUDA graphs are taken on %s)",
                            text, cost_model_gpu(s->cost_model)->name);
    else if (slower != 1 && s->backend->step.host_forward_s > 0)
        text =
            arena_format(s->arena, "%s, launches %.3g times those of a Xeon server", text, slower);
    scenario_assume(r, arena_format(s->arena, "%s (%s)", text,
                                    use.calibrated ? "measured runs of this stack on this GPU"
                                                   : "runs of other GPUs, precisions or stacks"));
    /* How much slower: users' runs of calibrate/measured/unseen at first sight. */
    if (use.calibrated || stack->simulated || !model_is_text_decoder(s->model)) return;
    scenario_assume(
        r,
        arena_format(s->arena,
                     "no factor was fitted on a run of stack %s on this GPU in %s: the band is "
                     "that of published benchmarks of such stacks; a run of one's own is often 20 "
                     "to 50 %% slower, until the stack is fitted on a measured step (ballast "
                     "calibrate fit --steps)",
                     stack->name, precision_name(s->main_precision)));
}
