/* job_limits.c - see job_limits.h. */
#include "sim/replay/job_limits.h"

#include <math.h>
#include "sim/base/units.h"
#include "sim/replay/job_data.h"
#include "sim/step/outer_operators.h"

/* That of job_check_work() by a GPU of 1 PFLOP/s. */
#define YEAR_S 3e7

bool job_check_work(const struct job *job, struct error *err) {
    const struct scenario *s = job->scenario;
    const double most_flop = YEAR_S * 1e15;
    double flop = 0;
    for (int64_t i = 0; i < s->model->layer_count; i++)
        flop += model_layer_training_flop(s->model, i, &job->largest);
    flop *= (double)s->micro_batches_per_rank;
    if (flop <= most_flop) return true;
    error_set(
        err,
        "a step would be %.1e FLOP for each data-parallel rank, a year's work of a GPU or more: "
        "a micro-batch of data set \"%s\" holds up to %lld tokens, and a rank has %lld of them",
        flop, job->dataset->name,
        (long long)(job->largest.language_tokens + job->largest.vision_tokens +
                    job->largest.video_tokens),
        (long long)s->micro_batches_per_rank);
    if (err != NULL) err->rule = "step-length";
    return error_hint(err, "shorter clips (clip_limit_ms), smaller frames or images, or a smaller "
                           "training.global_batch");
}

/* Of a rank's GPU, by what_if. */
static double slowest(const struct scenario *s) {
    const struct scenario_what_if *w = &s->what_if;
    return w->slow_gpu_factor * (w->straggler_fraction > 0 ? w->straggler_factor : 1);
}

/* Of one price or a layer of them: what ns_from_price() holds is more than it says. */
#define LONGEST_PRICE_S 1e5

static bool is_short(double step_s, double worst_s) {
    return step_s <= YEAR_S && worst_s < LONGEST_PRICE_S;
}

static bool refuse_length(double seconds, const char *takes, struct error *err) {
    error_set(err, "a step of %.1e s or more is beyond any: %s", seconds, takes);
    if (err != NULL) err->rule = "step-length";
    return error_hint(err, "look at rules, what_if, the network's rates and the peaks of the GPU's "
                           "file; ballast explain prices each operator once they are usual");
}

bool job_check_layer_times(const struct job *job, struct error *err) {
    const struct scenario *s = job->scenario;
    double seconds = 0, worst_s = 0;
    enum layer_kind worst = LAYER_LANGUAGE_BLOCK;
    for (int64_t i = 0; i < s->model->layer_count; i++) {
        const enum layer_kind kind = s->model->layers[i].kind;
        struct layer_time time;
        price_table_layer(price_table_of_layer(job->prices, i), kind, &job->largest, &time);
        double layer_s = seconds_from_ns(time.forward_ns) + seconds_from_ns(time.backward_ns);
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
            layer_s += seconds_from_ns(time.recompute_ns[how]);
        seconds += layer_s;
        if (layer_s > worst_s) worst = kind;
        if (layer_s > worst_s) worst_s = layer_s;
    }
    const double step_s = seconds * (double)s->micro_batches_per_rank * slowest(s),
                 loading_s = seconds_from_ns(job_loading_ns(job, &job->largest, 1)) *
                             (double)s->micro_batches_per_rank;
    if (loading_s > YEAR_S)
        return refuse_length(loading_s, "loading of its samples takes that (what_if)", err);
    if (is_short(step_s, worst_s)) return true;
    return refuse_length(step_s,
                         arena_format(job->arena, "one %s takes %.1e s of a micro-batch",
                                      layer_kind_name(worst), worst_s),
                         err);
}

bool job_check_outer_times(const struct job *job, struct error *err) {
    const struct scenario *s = job->scenario;
    struct outer_list list = { 0 };
    step_outer_operators(job->step, &job->typical, job->arena, &list);
    double seconds = 0, worst_s = 0, longest_s = 0;
    enum outer_purpose worst = OUTER_UPDATE;
    for (int64_t i = 0; i < list.count; i++) {
        const struct outer_operator *one = &list.operators[i];
        const double slowed = one->purpose == OUTER_SEND ? s->what_if.slow_link_factor : 1;
        const double all_s = one->price.seconds * one->calls * slowed;
        seconds += all_s;
        longest_s = fmax(longest_s, one->price.seconds);
        if (all_s > worst_s) worst = one->purpose;
        if (all_s > worst_s) worst_s = all_s;
    }
    outer_list_free(&list);
    const double step_s = seconds * slowest(s);
    if (is_short(step_s, longest_s)) return true;
    return refuse_length(step_s,
                         arena_format(job->arena, "%s of one stage: %.1e s of it",
                                      outer_purpose_name(worst), worst_s),
                         err);
}
