/* replay_summary.c - statistics in iteration order: threads do not matter. */
#include "sim/replay/replay_summary.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include "sim/base/units.h"
#include "sim/replay/goodput.h"
#include "sim/replay/memory_bound.h"

static void step_time_statistics(struct replay *replay) {
    double *times = memory_alloc(sizeof *times * (size_t)replay->iteration_count);
    for (int64_t i = 0; i < replay->iteration_count; i++)
        times[i] = seconds_from_ns(replay->iterations[i].step_time_ns);
    replay->step_time_mean_s = gsl_stats_mean(times, 1, (size_t)replay->iteration_count);
    gsl_sort(times, 1, (size_t)replay->iteration_count);
    replay->step_time_p50_s =
        gsl_stats_quantile_from_sorted_data(times, 1, (size_t)replay->iteration_count, 0.50);
    replay->step_time_p95_s =
        gsl_stats_quantile_from_sorted_data(times, 1, (size_t)replay->iteration_count, 0.95);
    replay->step_time_p99_s =
        gsl_stats_quantile_from_sorted_data(times, 1, (size_t)replay->iteration_count, 0.99);
    free(times);
}

static void utilisation(const struct job *job, struct replay *replay,
                        const struct iteration_sums *sums) {
    const struct scenario *s = job->scenario;
    double n = (double)replay->iteration_count, flop = 0, recompute_flop = 0;
    for (int64_t i = 0; i < replay->iteration_count; i++) {
        flop += sums[i].model_flop;
        recompute_flop += sums[i].recompute_flop;
    }
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        if (s->model->modules[role].layer_count > 0)
            replay->mfu_precision = s->model->modules[role].precision;
    const double peak = cost_model_gpu(s->cost_model)->peak_flop_per_s[replay->mfu_precision];
    double available = peak * (double)layout_rank_count(&s->layout) * replay->step_time_mean_s * n;
    replay->mfu_fraction = flop / available;
    replay->hfu_fraction = (flop + recompute_flop) / available;
}

/* Steps of a race stand for all by what they hold, not by chance; a planner of iterations may hold
 * back micro-batches where many large ones meet. */
static void extrapolate_peak(const struct job *job, double *peaks, struct replay *replay) {
    const int64_t ranks = job->batches.rank_count;
    struct training_peak *t = &replay->training;
    *t = (struct training_peak){ NAN, NAN, INFINITY };
    if (job->step->iteration_planner != NULL || job->window_count > 0) return;
    const double draws =
        job->epoch_steps * (double)job->scenario->training_fields.epochs * (double)ranks;
    *t = training_peak_of(peaks, replay->iteration_count * ranks, draws);
    struct batch_shape largest;
    const double seen = stage_memory_device(&replay->stages[replay->verdict_stage].peak);
    if (!training_peak_largest_shape(job, &largest)) return;
    price_table_prepare(job->prices, &largest, 1);
    const double bound = memory_bound_of_shape(job, &largest);
    if (isnan(bound)) return;
    t->bound_bytes = fmax(bound, seen);
    const bool others = t->bound_bytes > seen * (1 + 1e-9);
    if (others && !(t->high_bytes > seen)) /* too few peaks, or all alike, and others need more */
        t->likely_bytes = t->high_bytes = NAN;
    if (others && isnan(t->likely_bytes)) return;
    t->likely_bytes = fmin(t->likely_bytes, t->bound_bytes); /* of a NaN the bound */
    t->high_bytes = fmin(t->high_bytes, t->bound_bytes);
}

double replay_verdict_bytes(const struct replay *replay) {
    return fmax(stage_memory_device(&replay->stages[replay->verdict_stage].peak),
                replay->training.likely_bytes);
}

static void judge_memory(const struct job *job, struct replay *replay, double *peaks) {
    double capacity = cost_model_gpu(job->scenario->cost_model)->hbm_bytes, worst = -1;
    for (int64_t stage = 0; stage < replay->stage_count; stage++) {
        double bytes = stage_memory_device(&replay->stages[stage].peak);
        if (bytes <= worst) continue;
        worst = bytes;
        replay->verdict_stage = stage;
    }
    const struct stage_memory *peak = &replay->stages[replay->verdict_stage].peak;
    for (int class = 0; class < MEMORY_CONTEXT; class ++)
        if (peak->bytes[class] > peak->bytes[replay->verdict_class])
            replay->verdict_class = (enum memory_class) class;
    double band = replay->memory_band_fraction = cost_model_memory_band(job->scenario->cost_model);
    extrapolate_peak(job, peaks, replay);
    worst = replay_verdict_bytes(replay);
    replay->memory_close = worst * (1 - band) <= capacity && worst * (1 + band) >= capacity;
    replay->verdict =
        worst > capacity ? VERDICT_OUT_OF_MEMORY
        : worst > capacity * REPLAY_TIGHT_FRACTION || replay->training.high_bytes > capacity
            ? VERDICT_TIGHT
            : VERDICT_FITS;
}

/* With GPUs that fail, wall time is longer than the steps. */
static void lose_to_failures(const struct scenario *s, double useful_s, struct replay *replay) {
    const struct scenario_what_if *w = &s->what_if;
    replay->goodput_fraction = 1;
    replay->checkpoint_interval_s = NAN;
    if (isnan(w->gpu_mtbf_hours)) return;
    const struct goodput_loss loss = {
        .mtbf_s = w->gpu_mtbf_hours * 3600 / (double)layout_rank_count(&s->layout),
        .interval_s = w->checkpoint_interval_min * 60,
        .checkpoint_s = w->checkpoint_s,
        .restart_s = w->restart_min * 60,
    };
    const struct goodput goodput = goodput_of_training(&loss, useful_s);
    replay->checkpoint_interval_s = goodput.interval_s;
    replay->goodput_fraction = goodput.fraction;
}

/* The plan of an iteration is made beside the iteration before it. */
static void account_planner(struct replay *replay, const struct iteration_sums *sums,
                            int64_t ranks) {
    int64_t sum_ns = 0, most_ns = 0, exposed_ns = 0;
    replay->repeatable = true;
    replay->planner_mean_s = replay->planner_most_s = replay->planner_exposed_s = NAN;
    for (int64_t i = 0; i < replay->iteration_count; i++) {
        int64_t own_ns = replay->iterations[i].planner_ns;
        if (own_ns < 0) return;
        replay->repeatable = replay->repeatable && !sums[i].timed;
        replay->left_ranks_fraction += (double)sums[i].left_ranks;
        sum_ns += own_ns;
        if (own_ns > most_ns) most_ns = own_ns;
        if (i == 0 || own_ns <= replay->iterations[i - 1].step_time_ns) continue;
        exposed_ns += own_ns - replay->iterations[i - 1].step_time_ns;
        replay->planner_exposed_count++;
    }
    double count = (double)replay->iteration_count;
    replay->left_ranks_fraction /= count * (double)ranks;
    replay->planner_mean_s = seconds_from_ns(sum_ns) / count;
    replay->planner_most_s = seconds_from_ns(most_ns);
    replay->planner_exposed_s = seconds_from_ns(exposed_ns) / count;
}

static void answer(const struct job *job, struct replay *replay) {
    const struct scenario *s = job->scenario;
    for (int64_t i = 0; i < replay->iteration_count; i++) {
        replay->samples += replay->iterations[i].samples;
        replay->language_tokens += replay->iterations[i].language_tokens;
        replay->useful_language_tokens += replay->iterations[i].useful_language_tokens;
        replay->vision_tiles += replay->iterations[i].vision_tiles;
    }
    step_time_statistics(replay);
    const double useful_s =
        replay->step_time_mean_s * job->epoch_steps * (double)s->training_fields.epochs;
    lose_to_failures(s, useful_s, replay);
    replay->total_days = useful_s / SECONDS_PER_DAY / replay->goodput_fraction;
    replay->gpu_days = replay->total_days * (double)layout_rank_count(&s->layout);
    replay->money_usd = replay->gpu_days * 24 * s->cluster_fields.price_usd_per_gpu_hour;
}

struct step_doubt replay_doubt(const struct replay *replay) {
    return (struct step_doubt){ replay->inside_range, replay->lost_fraction,
                                replay->operators_band_fraction, replay->stated_band_fraction };
}

/* The share of the step that grows as its layers do: passes of the busiest stage, and the bubble of
 * an ideal pipeline, which is made of passes. */
static double layer_fraction(const struct job *job, const struct replay *replay) {
    const double micro_batches = fmax((double)job->scenario->micro_batches_per_rank, 1),
                 bubble = (double)(replay->stage_count - 1) /
                          (micro_batches * (double)job->plan.chunk_count);
    double most_s = 0;
    for (int64_t stage = 0; stage < replay->stage_count; stage++)
        most_s = fmax(most_s, replay->stages[stage].forward_s + replay->stages[stage].backward_s);
    return fmin(most_s * (1 + bubble) / replay->step_time_mean_s, 1);
}

/* A band is narrower where less of the step is lost. What a scenario's own rules make of the HFU is
 * no sign of that: beyond what most measured runs reach, 0.4, it counts for nothing. */
#define RULED_LOST_LEAST 0.6

static void judge_step_time(const struct job *job, struct replay *replay) {
    const struct scenario *s = job->scenario;
    replay->lost_fraction =
        fmax(1 - replay->hfu_fraction, s->own_rules.count > 0 ? RULED_LOST_LEAST : 0);
    int64_t layers[LAYER_KIND_COUNT];
    job_layers_by_kind(job, layers);
    const struct price_bands bands = price_table_bands(job->prices, &job->typical, layers);
    replay->operators_band_fraction = bands.operators;
    replay->stated_band_fraction = bands.stated * layer_fraction(job, replay);
    /* The steps that bands are made of are none in fp32: what its kernels may err is added, as on a
     * GPU that nothing was fitted on. */
    if (precision_is_single(s->main_precision))
        replay->stated_band_fraction = fmax(replay->stated_band_fraction, bands.operators);
    replay->outside_fraction = bands.outside;
    replay->inside_range = replay->outside_fraction <= OUTSIDE_RANGE_FRACTION;
    /* Stacks were fitted on text models: what is far from their runs keeps the width of runs
     * without a calibration of their own, or of its operators where that is wider. */
    const enum band_kin kin = !model_is_text_decoder(s->model) ? KIN_MULTIMODAL
                              : s->stack != NULL && backend_is_of_stack(s->backend, s->stack)
                                  ? KIN_LIKE_MEASURED
                                  : KIN_OFF_STACK;
    const struct band operators = band_even(replay->operators_band_fraction),
                      measured = cost_model_step_band(s->cost_model, kin, replay_doubt(replay));
    replay->band = !band_is_known(measured) ? operators
                   : s->stack != NULL       ? measured
                                            : band_wider(measured, operators);
    replay->pair_band_fraction =
        expm1(cost_model_pair_band(s->cost_model, kin == KIN_LIKE_MEASURED));
}

bool replay_never_finishes(const struct replay *replay) {
    return replay->goodput_fraction < 1 && replay->total_days > REPLAY_NEVER_DAYS;
}

void replay_summarise(const struct job *job, struct replay *replay,
                      const struct iteration_sums *sums, double *peaks) {
    answer(job, replay);
    account_planner(replay, sums, job->batches.rank_count);
    judge_memory(job, replay, peaks);
    utilisation(job, replay, sums);
    judge_step_time(job, replay);
}
