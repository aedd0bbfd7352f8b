/* print.c - the answer of a run: first time, money and fit, then where the time goes, then stages.
 */
#include "sim/cli/print.h"

#include <math.h>
#include <string.h>
#include <stdio.h>
#include "sim/base/amount.h"
#include "sim/base/band.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/policy/partition/partition.h"
#include "sim/study/launch_flags.h"

enum {
    WARN_LEFT_OUT_PERCENT = 5,
    NOTABLE_STEP_PERCENT = 5,
    NOTABLE_STAGE_PERCENT = 20,
    NOTABLE_LAUNCH_PERCENT = 1
};

/* " [estimated data]"; nothing for real data. */
static const char *data_label(const struct execution *e, char *text, size_t size) {
    const char *status = e->job->dataset->status;
    text[0] = '\0';
    if (strcmp(status, "real") != 0) snprintf(text, size, " [%s data]", status);
    return text;
}

/* Wall times of this machine, so in no other figure. */
static void print_planner(const struct replay *r) {
    if (isnan(r->planner_mean_s)) return;
    printf("  planner     %.3f s mean, %.3f s at most for an iteration, on one core: ",
           r->planner_mean_s, r->planner_most_s);
    if (r->planner_exposed_count == 0)
        puts("hidden behind the iteration before it");
    else
        printf("%ld of %ld iterations would wait for it, %.3f s of a mean step on top\n",
               (long)r->planner_exposed_count, (long)r->iteration_count, r->planner_exposed_s);
    if (r->left_ranks_fraction > 0)
        printf(
            "              %.0f %% of the ranks only until they were no slower than another: means "
            "over ranks are of that\n",
            100 * r->left_ranks_fraction);
}

static void print_loading(const struct execution *e) {
    const struct replay *r = e->replay;
    if (!(r->loading_mean_s > 0)) return;
    const struct scenario_what_if *w = &e->scenario->what_if;
    printf(
        "  loading     a mean step's samples take %.3g s on the %ld worker%s of the slowest rank, ",
        r->loading_mean_s, (long)w->data_loading_workers, w->data_loading_workers == 1 ? "" : "s");
    if (!w->data_loading_overlaps)
        puts("which each rank waits for");
    else if (r->late_loading_count == 0)
        puts("hidden behind the step before");
    else
        printf("longer than %ld of %ld steps\n", (long)r->late_loading_count,
               (long)r->iteration_count);
}

static void print_counts(const int64_t *counts, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        printf("%s%ld", i > 0 ? " " : "", (long)counts[i]);
}

/* The blocks of each part that a counted policy lets recompute: not always as many as were asked
 * for. */
static void print_recomputing(const struct execution *e, int64_t parts) {
    static const char *const plain[] = { "none", "selective", "full" };
    const struct job_plan *plan = &e->job->plan;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (strcmp(e->scenario->recompute.name, plain[i]) == 0) return;
    if (e->job->step->iteration_planner != NULL) return; /* it decides anew for each step */
    int64_t counts[parts];
    for (int64_t part = 0; part < parts; part++) {
        counts[part] = 0;
        for (int64_t i = plan->first_layer[part]; i < plan->first_layer[part + 1]; i++)
            counts[part] += plan->recompute[i] != RECOMPUTE_NONE;
    }
    fputs(" [", stdout);
    print_counts(counts, parts);
    fputs("]", stdout);
}

static void print_length(const struct execution *e) {
    const struct replay *r = e->replay;
    const struct scenario *s = e->scenario;
    char steps[32];
    if (replay_never_finishes(r)) {
        printf("  training    never finishes: with %ld GPUs a failure comes every %.3g min\n",
               (long)layout_rank_count(&s->layout),
               s->what_if.gpu_mtbf_hours * 60 / (double)layout_rank_count(&s->layout));
        return;
    }
    const struct amount_unit time = amount_of_days(r->total_days),
                             work = amount_of_gpu_days(r->gpu_days);
    const double length = r->total_days * time.per_day, used = r->gpu_days * work.per_day;
    printf("  training    %.*f %s, %.*f %s", cli_decimals(length, time.decimals), length, time.name,
           cli_decimals(used, work.decimals), used, work.name);
    if (!isnan(r->money_usd))
        printf(", %.*f USD", cli_decimals(r->money_usd, amount_money_decimals(r->money_usd)),
               r->money_usd);
    const int64_t step_count = llround(e->job->epoch_steps * (double)s->training_fields.epochs);
    printf("   (%s step%s of %ld epoch%s)\n", cli_thousands(step_count, steps),
           step_count == 1 ? "" : "s", (long)s->training_fields.epochs,
           s->training_fields.epochs == 1 ? "" : "s");
    if (isnan(r->money_usd))
        puts("              for money give a price: --set cluster.price_usd_per_gpu_hour=USD");
}

static void print_goodput(const struct replay *r) {
    if (isnan(r->checkpoint_interval_s)) return;
    if (r->goodput_fraction < 1e-4) {
        puts("  goodput     below 0.01 %: hardly a stretch of training, checkpoint and restart "
             "passes without a failure");
        return;
    }
    printf("  goodput     %.2f %% of that time: ", r->goodput_fraction * 100);
    if (isinf(r->checkpoint_interval_s))
        puts("it ends before a first checkpoint, the rest is lost to failures and restarts");
    else
        printf("a checkpoint every %.1f min, the rest is lost to checkpoints, failures and "
               "restarts\n",
               r->checkpoint_interval_s / 60);
}

/* Tokens of language, padding not counted; of clips, whose text is the least of the work, clips
 * alone. */
static void print_throughput(const struct execution *e) {
    const struct replay *r = e->replay;
    const double seconds = r->step_time_mean_s * (double)r->iteration_count;
    const double gpus = (double)layout_rank_count(&e->scenario->layout);
    const double tokens_per_s = (double)r->useful_language_tokens / seconds;
    char tokens[32], share[32];
    const bool clips = e->job->dataset->clip_ms != NULL &&
                       e->scenario->model->modules[MODULE_DIFFUSION_DECODER].layer_count > 0;
    printf("  throughput  %.4g %s/s", (double)r->samples / seconds,
           !clips                  ? "samples"
           : e->job->single_frames ? "images"
                                   : "clips");
    const bool reads = e->scenario->model->modules[MODULE_LANGUAGE].layer_count > 0;
    if (r->useful_language_tokens > 0 && !clips && reads) {
        if (tokens_per_s / gpus < 9999.5) /* beyond it four digits would be 1.571e+04 */
            snprintf(share, sizeof share, "%.4g", tokens_per_s / gpus);
        else
            cli_thousands(llround(tokens_per_s / gpus), share);
        printf(", %s tokens/s of language (%s a GPU)", cli_thousands(llround(tokens_per_s), tokens),
               share);
    }
    putchar('\n');
}

/* The peak above is of the steps that were replayed. */
static void print_training_peak(const struct execution *e) {
    const struct replay *r = e->replay;
    const long epochs = (long)e->scenario->training_fields.epochs;
    const double seen = stage_memory_device(&r->stages[r->verdict_stage].peak);
    if (isnan(r->training.likely_bytes)) {
        printf(
            "              of the %s replayed, %s", r->iteration_count == 1 ? "one step" : "steps",
            e->job->step->iteration_planner != NULL ? "each planned by itself: others are not known"
                                                    : "too few to tell of the others");
        if (isfinite(r->training.bound_bytes))
            printf(", which need up to %.1f GiB", r->training.bound_bytes / BYTES_PER_GiB);
        putchar('\n');
        return;
    }
    if (r->training.high_bytes - seen < 0.05 * BYTES_PER_GiB) return; /* as printed */
    printf("              the training (%ld epoch%s shuffled anew) needs ", epochs,
           epochs == 1 ? "," : "s, each");
    if (r->training.likely_bytes < r->training.bound_bytes)
        printf("about %.1f GiB, %s %.1f\n", r->training.likely_bytes / BYTES_PER_GiB,
               r->training.high_bytes < r->training.bound_bytes ? "one in ten more than"
                                                                : "never more than",
               r->training.high_bytes / BYTES_PER_GiB);
    else
        printf("up to %.1f GiB\n", r->training.bound_bytes / BYTES_PER_GiB);
}

/* What the backend's options cannot be told of the plan; a limit of the scenario itself is a warning
 * already. */
static void print_needed_code(const struct execution *e) {
    struct arena *arena = arena_create();
    const char *needed = launch_needs_code(e->job, arena);
    if (needed != NULL && e->scenario->limit == NULL)
        printf("  needs code  no option of the backend says it (ballast plan --emit): %s\n",
               needed);
    arena_destroy(arena);
}

void print_job(const struct execution *e) {
    const struct scenario *s = e->scenario;
    const struct replay *r = e->replay;
    const struct layout *l = &s->layout;
    char label[64];
    printf("%s\n", s->name);
    printf("  %s (%.1f B) on %s%s, %s fidelity\n", s->model->name,
           (double)model_parameters(s->model) / 1e9, e->job->dataset->name,
           data_label(e, label, sizeof label),
           r->fidelity == FIDELITY_OPERATOR ? "operator" : "stage");
    char context[64] = "";
    if (l->cp_heads > 1)
        snprintf(context, sizeof context, ", CP %ld (heads %ld)", (long)l->cp, (long)l->cp_heads);
    else if (l->cp > 1)
        snprintf(context, sizeof context, ", CP %ld", (long)l->cp);
    printf("  %ld x %s: TP %ld%s, PP %ld, DP %ld, ZeRO-%ld, %s\n", (long)layout_rank_count(l),
           cost_model_gpu(s->cost_model)->name, (long)l->tp, context, (long)l->pp, (long)l->dp,
           (long)s->layout_fields.zero_stage, s->backend->name);
    int64_t parts = e->job->plan.part_count, blocks[parts];
    partition_blocks(s->model, &e->job->plan, blocks);
    printf("  policies: batching %s, partition %s [", s->batching.name, s->partition.name);
    print_counts(blocks, parts);
    printf("], recompute %s", s->recompute.name);
    print_recomputing(e, parts);
    printf(", schedule %s\n\n", s->schedule.name);
    char outside[64] = "";
    if (r->outside_fraction > 0)
        snprintf(outside, sizeof outside, "   [%.0f %% of it priced outside the measured range]",
                 r->outside_fraction * 100);
    printf("  step time   %.3f s mean %s %%   (p50 %.3f, p95 %.3f, p99 %.3f)%s\n",
           r->step_time_mean_s, band_text(r->band, "+- ", 0).text, r->step_time_p50_s,
           r->step_time_p95_s, r->step_time_p99_s, outside);
}

static void print_head(const struct execution *e) {
    const struct scenario *s = e->scenario;
    const struct replay *r = e->replay;
    char samples[32];
    print_job(e);
    print_length(e);
    print_goodput(r);
    printf("  replayed    %ld step%s, %s sample%s\n", (long)r->iteration_count,
           r->iteration_count == 1 ? "" : "s", cli_thousands(r->samples, samples),
           r->samples == 1 ? "" : "s");
    print_throughput(e);
    const bool half = r->mfu_precision == PRECISION_BF16 || r->mfu_precision == PRECISION_FP16;
    printf("  utilisation MFU %.1f %%, HFU %.1f %%%s%s\n", r->mfu_fraction * 100,
           r->hfu_fraction * 100, half ? "" : " of the peak in ",
           half ? "" : precision_name(r->mfu_precision));
    print_planner(r);
    print_loading(e);
    const struct stage_memory *peak = &r->stages[r->verdict_stage].peak;
    const double capacity = cost_model_gpu(s->cost_model)->hbm_bytes;
    /* other steps of the training need more, as the next line says */
    const bool by_others =
        r->verdict == VERDICT_OUT_OF_MEMORY && stage_memory_device(peak) <= capacity;
    printf(
        "  memory      %s: stage %ld peaks at %.1f of %.1f GiB%s, the largest part %s (%.1f GiB)\n",
        verdict_name(r->verdict), (long)r->verdict_stage + 1,
        stage_memory_device(peak) / BYTES_PER_GiB, capacity / BYTES_PER_GiB,
        by_others ? " in the steps replayed, and more in others" : "",
        memory_class_name(r->verdict_class), peak->bytes[r->verdict_class] / BYTES_PER_GiB);
    print_training_peak(e);
    if (r->memory_close)
        printf("              close: 80 %% of measured peaks lie within %.0f %% of the predicted "
               "ones\n",
               r->memory_band_fraction * 100);
    if (r->hfu_fraction > 1)
        puts("  warning     more than the GPUs' peak: a factor of the stack or profile, or a rule, "
             "makes kernels faster than they can be");
    for (int64_t i = 0; s->warnings[i] != NULL; i++)
        printf("  warning     %s\n", s->warnings[i]);
    print_needed_code(e);
}

static void print_breakdown(const struct execution *e) {
    const struct replay *r = e->replay;
    puts("\nWhere the time of a mean step goes");
    for (int class = 0; class < REPLAY_CLASS_COUNT; class ++) {
        if (replay_class_is_rare(class) && r->classes_s[class] == 0) continue;
        double share = r->classes_s[class] / r->step_time_mean_s;
        int bars = (int)lround(share * 40);
        printf("  %-31s %10.1f ms %6.1f %%  %.*s\n", replay_class_name((enum replay_class) class),
               r->classes_s[class] * 1e3, share * 100, bars,
               "########################################");
    }
    if (r->launch_cost_s * 100 >= r->step_time_mean_s * NOTABLE_LAUNCH_PERCENT)
        printf("  without waiting for launches a step would take about %.1f %% less; how long the "
               "host takes is a figure of the\n  stack (layout.stack)%s, and the +- of the step "
               "does not tell how far another host is from it\n",
               r->launch_cost_s / r->step_time_mean_s * 100,
               cost_model_gpu(e->scenario->cost_model)->host_time_factor == 1
                   ? ""
                   : " and of the GPU's file (host_time_factor)");
}

/* An even count of blocks is rarely an even amount of work; whoever reads only the step time should
 * learn that another partition would change it. */
static void print_slowest_stage(const struct replay *r) {
    int64_t slowest = 0;
    double sum_s = 0;
    for (int64_t i = 0; i < r->stage_count; i++) {
        sum_s += r->stages[i].busy_s;
        if (r->stages[i].busy_s > r->stages[slowest].busy_s) slowest = i;
    }
    double ratio = r->stages[slowest].busy_s * (double)r->stage_count / sum_s;
    if (ratio * 100 > 100 + NOTABLE_STAGE_PERCENT)
        printf("  stage %ld works %.2f times as long as the mean, and the others wait for it "
               "(policy.partition)\n",
               (long)slowest + 1, ratio);
}

static void print_stages(const struct execution *e) {
    const struct replay *r = e->replay;
    struct arena *arena = arena_create();
    puts("\nStages (mean step; memory at the peak of the fullest GPU, GiB)");
    puts("  stage  busy s  forward  backward  recompute  in flight  weights  grads  optim  activ.  "
         "work   other  device  layers");
    for (int64_t i = 0; i < r->stage_count; i++) {
        const struct stage_outcome *o = &r->stages[i];
        const double *b = o->peak.bytes;
        printf(
            "  %5ld %7.3f %8.3f %9.3f %10.3f %10ld %8.1f %6.1f %6.1f %7.1f %5.1f %7.1f %7.1f  %s\n",
            (long)i + 1, o->busy_s, o->forward_s, o->backward_s - o->recompute_s, o->recompute_s,
            (long)o->in_flight, b[MEMORY_WEIGHTS] / BYTES_PER_GiB,
            b[MEMORY_GRADIENTS] / BYTES_PER_GiB, b[MEMORY_OPTIMIZER] / BYTES_PER_GiB,
            b[MEMORY_ACTIVATIONS] / BYTES_PER_GiB, b[MEMORY_WORKSPACE] / BYTES_PER_GiB,
            (b[MEMORY_FRAGMENTATION] + b[MEMORY_COMMUNICATION] + b[MEMORY_CONTEXT]) / BYTES_PER_GiB,
            stage_memory_device(&o->peak) / BYTES_PER_GiB, execution_stage_layers(e, i, arena));
    }
    print_slowest_stage(r);
    arena_destroy(arena);
}

/* The number of packed groups, in equal shares for all ranks, that hold about what is asked for. */
static const char *nearest_number(const struct job *job, double asked, char *text, size_t size) {
    const struct scenario *s = job->scenario;
    const struct batching_policy *batching = s->batching.row;
    const int64_t now = s->micro_batches_per_rank * s->layout.dp;
    const double per_group = job->samples_per_step / (double)now;
    const int64_t each = llround(asked / per_group / (double)s->layout.dp);
    if (!batching->packs || each < 1) return "";
    const int64_t wanted = each * s->layout.dp;
    if (wanted == now) return "";
    snprintf(text, size, ": training.global_batch={\"micro_batches\":%ld} would hold about %.0f",
             (long)wanted, per_group * (double)wanted);
    return text;
}

static void print_step_samples(const struct job *job) {
    char hint[128];
    double asked = (double)job->asked_samples_per_step;
    if (asked > 0 && fabs(job->samples_per_step - asked) > asked * NOTABLE_STEP_PERCENT / 100)
        printf("  a step holds %.0f samples on average, the scenario asks for %.0f%s\n",
               job->samples_per_step, asked, nearest_number(job, asked, hint, sizeof hint));
}

/* What the limits of the batching policy would have to be to take every sample. */
static void print_largest_sample(const struct dataset *d) {
    int64_t tokens = 0, vision = 0;
    for (int64_t i = 0; i < d->sample_count; i++) {
        const int64_t images = d->vision_patches != NULL ? (int64_t)d->vision_patches[i]
                                                         : (int64_t)d->samples[i].vision_tiles;
        if (images > vision) vision = images;
        if (d->samples[i].language_tokens > tokens) tokens = d->samples[i].language_tokens;
    }
    char text[2][32];
    printf("  oversize: more than policy.batching takes; samples hold up to %s %s and %s language "
           "tokens\n",
           cli_thousands(vision, text[0]),
           d->vision_patches != NULL ? "vision patches" : "vision tiles",
           cli_thousands(tokens, text[1]));
}

static void print_left_out(const struct job *job) {
    if (job->samples_left_out == 0) return;
    const struct batch_plan *b = &job->batches;
    double percent = job_left_out_fraction(job) * 100;
    char left[32], all[32], oversize[32], lost[32], leftover[32];
    printf("%s%s of %s samples left out (%.*f %%): %s oversize, %s lost with the last group, %s "
           "%s\n",
           percent > WARN_LEFT_OUT_PERCENT ? "warning: " : "  ",
           cli_thousands(job->samples_left_out, left), cli_thousands(b->samples_in, all),
           cli_decimals(percent, 1), percent, cli_thousands(b->oversize_skipped, oversize),
           cli_thousands(b->lost_with_last_group, lost),
           cli_thousands(b->leftover_dropped, leftover),
           b->leftover_of_plugin ? "that the plug-in gives to no rank"
                                 : "in groups that are not full");
    if (percent > WARN_LEFT_OUT_PERCENT && b->oversize_skipped > 0 && job->dataset->clip_ms == NULL)
        print_largest_sample(job->dataset);
}

static void print_dropped(const struct job *job) {
    const double fraction = job_dropped_fraction(job);
    if (fraction == 0) return;
    char passes[32];
    snprintf(passes, sizeof passes, "%.4g", job->epoch_steps / job->pass_steps);
    printf("  each pass of the sampler drops %.*f %% of the samples, which fill no round of all "
           "ranks: an epoch of all of them takes %s pass%s\n",
           cli_decimals(fraction * 100, 1), fraction * 100, passes,
           strcmp(passes, "1") == 0 ? "" : "es");
}

static void print_clips(const struct job *job) {
    const struct batch_shape *mean = &job->typical;
    const struct module *m = &job->scenario->model->modules[MODULE_DIFFUSION_DECODER];
    if (mean->video_tokens == 0) return;
    char video[32], text[32];
    cli_thousands(mean->video_tokens, video);
    cli_thousands(mean->language_tokens, text);
    if (job->dataset->frame_sizes != NULL)
        printf("  a micro-batch has %s tokens of frames of their own sizes and %s of text\n", video,
               text);
    else
        printf("  a micro-batch has %s tokens of frames of %ld x %ld px and %s of text\n", video,
               (long)m->image_size, (long)m->image_height, text);
}

void print_answer(const struct execution *e) {
    print_head(e);
    print_breakdown(e);
    print_stages(e);
    const struct batch_balance *b = &e->job->balance;
    printf("\nBatches: %.2f samples each, pad ratio %.3f, dist ratio vision %.3f, language %.3f\n",
           b->average_batch_size, b->pad_ratio, b->dist_ratio_vision, b->dist_ratio_language);
    print_clips(e->job);
    print_step_samples(e->job);
    print_left_out(e->job);
    print_dropped(e->job);
    print_assumed(e);
}

void print_assumed(const struct execution *e) {
    puts("Assumed:");
    for (int64_t i = 0; i < e->job->data_note_count; i++)
        printf("  - %s\n", e->job->data_notes[i]);
    struct arena *arena = arena_create();
    for (const char **note = execution_rule_notes(e, arena); *note != NULL; note++)
        printf("  - %s\n", *note);
    arena_destroy(arena);
    for (int64_t i = 0; e->scenario->assumptions[i] != NULL; i++)
        printf("  - %s\n", e->scenario->assumptions[i]);
}
