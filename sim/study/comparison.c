/* comparison.c - Student's t: paired where the steps hold the same samples, Welch's difference of
 * means otherwise.
 *
 * The samples are data: the same for all runs, and no chance. What is random is how they are drawn.
 * A replay of a few steps drew these few, long or short, and all that steps differ by counts. A
 * replay of the whole epoch had every sample once, whatever the order: that steps of long samples
 * take longer than those of short ones (bins of length, for one) tells nothing about another order,
 * and only what steps of equal contents differ by counts. That is what neighbours differ by when
 * steps are sorted by their contents (successive differences: von Neumann et al. 1941; for
 * systematic samples Wolter, Introduction to Variance Estimation, chapter 8). Between the two, the
 * part that contents explain shrinks with the share of the epoch that is left, as in a sample of a
 * finite population. Deviations over seeds, against which this was held: docs/MODEL.md section 9.
 *
 * Where what_if has GPUs fail, how often they do in one training is chance too: its variance
 * follows from the same process as its mean (goodput.h), independent of the draw, so the two add.
 */
#include "sim/study/comparison.h"

#include <cjson/cJSON.h>
#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "costmodel/rules.h"
#include "results/run_file.h"
#include "results/run_pair.h"
#include "sim/base/units.h"
#include "sim/replay/goodput.h"

#define CONFIDENCE_LIKELY 0.975
/* Steps that fill no round of all ranks, and passes that drop some, are not replayed. */
#define WHOLE_EPOCH_SHARE 0.9

const char *const comparison_part_names[COMPARISON_PARTS] = {
    "compute",
    "padding",
    "recompute",
    "launch waits",
    "tensor communication",
    "context communication",
    "host copies",
    "pipeline sends",
    "bubble",
    "imbalance of stages",
    "imbalance over time",
    "imbalance of ranks",
    "data communication",
    "optimizer and gather",
    "data loading",
    "checkpoints and failures",
};

enum { PART_LAUNCH = 3, PART_CONTEXT = 5, PART_COPIES = 6, PART_LOADING = 14, PART_FAILURES = 15 };

bool comparison_part_is_rare(int part) {
    return part == PART_LAUNCH || part == PART_CONTEXT || part == PART_COPIES ||
           part == PART_LOADING || part == PART_FAILURES;
}

/* Of a step; checkpoints and failures come on top of all steps. */
static const size_t part_offsets[PART_FAILURES] = {
    offsetof(struct run_record, compute_ms),
    offsetof(struct run_record, padding_ms),
    offsetof(struct run_record, recompute_ms),
    offsetof(struct run_record, launch_wait_ms),
    offsetof(struct run_record, exposed_tensor_ms),
    offsetof(struct run_record, exposed_context_ms),
    offsetof(struct run_record, host_copy_ms),
    offsetof(struct run_record, exposed_pipeline_ms),
    offsetof(struct run_record, bubble_ms),
    offsetof(struct run_record, stage_imbalance_ms),
    offsetof(struct run_record, time_imbalance_ms),
    offsetof(struct run_record, rank_imbalance_ms),
    offsetof(struct run_record, exposed_data_ms),
    offsetof(struct run_record, update_ms),
    offsetof(struct run_record, loading_ms),
};

static const char *const verdict_names[] = { "sure", "likely", "open", "different jobs" };

const char *comparison_verdict_name(enum comparison_verdict verdict) {
    return verdict_names[verdict];
}

bool comparison_is_ordered(enum comparison_verdict verdict) {
    return verdict == COMPARISON_SURE || verdict == COMPARISON_LIKELY;
}

static double goodput_of(const struct run_record *run) {
    return isnan(run->goodput_fraction) ? 1 : run->goodput_fraction;
}

static double part_gpu_days(const struct run_record *run, int part) {
    const double goodput = goodput_of(run);
    if (part == PART_FAILURES) return run->gpu_days * (1 - goodput);
    double ms = *(const double *)((const char *)run + part_offsets[part]);
    return isnan(ms) ? 0 : ms / run->step_time_mean_ms * run->gpu_days * goodput;
}

static bool same_steps(const struct comparison_run *a, const struct comparison_run *b) {
    if (a->iteration_count != b->iteration_count) return false;
    for (int64_t i = 0; i < a->iteration_count; i++)
        if (a->iterations[i].useful_language_tokens != b->iterations[i].useful_language_tokens ||
            a->iterations[i].sample_count != b->iterations[i].sample_count)
            return false;
    return true;
}

static double amount_of(const struct comparison_run *r, enum comparison_quantity quantity) {
    switch (quantity) {
    case COMPARISON_TOTAL_DAYS:
        return r->record.total_days;
    case COMPARISON_MONEY:
        return r->record.money_usd;
    default:
        return r->record.gpu_days;
    }
}

/* Of the quantity, per nanosecond of mean step time. */
static double scale_of(const struct comparison_run *r, enum comparison_quantity quantity) {
    return amount_of(r, quantity) / (r->record.step_time_mean_ms * 1e6);
}

/* The variance of a mean, and how many degrees of freedom it was estimated with. */
struct variance {
    double of_mean, freedom;
};

/* How much a step holds; the unit is that of a mean step's tokens and tiles, each 1. */
struct contents {
    double amount, value;
    int64_t step; /* decides between equals */
};

static int compare_contents(const void *a, const void *b) {
    const struct contents *left = a, *right = b;
    if (left->amount != right->amount) return left->amount < right->amount ? -1 : 1;
    return (left->step > right->step) - (left->step < right->step);
}

/* Of one value: half the mean square of what neighbours differ by. */
static double neighbours_variance(const struct iteration_record *steps, const double *values,
                                  int64_t count) {
    double tokens = 0, tiles = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        tokens += (double)steps[i].useful_language_tokens / (double)count;
        tiles += (double)steps[i].vision_tiles / (double)count;
    }
    struct contents *sorted = memory_alloc(sizeof *sorted * (size_t)(count + 1));
    for (int64_t i = 0; i < count; i++) {
        sorted[i] = (struct contents){ .value = values[i], .step = i };
        if (tokens > 0) sorted[i].amount += (double)steps[i].useful_language_tokens / tokens;
        if (tiles > 0) sorted[i].amount += (double)steps[i].vision_tiles / tiles;
    }
    qsort(sorted, (size_t)count, sizeof *sorted, compare_contents);
    for (int64_t i = 1; i < count; i++)
        sum += pow(sorted[i].value - sorted[i - 1].value, 2);
    free(sorted);
    return sum / (2 * (double)(count - 1));
}

/* `share` of an epoch was replayed. */
static struct variance variance_of(const struct iteration_record *steps, const double *values,
                                   int64_t count, double share) {
    double mean = 0, sum = 0, n = (double)count;
    if (count < 2) return (struct variance){ INFINITY, n - 1 };
    for (int64_t i = 0; i < count; i++)
        mean += values[i] / n;
    for (int64_t i = 0; i < count; i++)
        sum += (values[i] - mean) * (values[i] - mean);
    const double all = sum / (n - 1), equal = fmin(all, neighbours_variance(steps, values, count));
    /* Successive differences tell as much as two thirds of the values. */
    return (struct variance){ (equal + (1 - share) * (all - equal)) / n,
                              (n - 1) * (1 - share / 3) };
}

/* Steps in the quantity of the whole training run; the caller frees them. */
static double *scaled_steps(const struct comparison_run *r, enum comparison_quantity quantity) {
    double *values = memory_alloc(sizeof *values * (size_t)(r->iteration_count + 1));
    for (int64_t i = 0; i < r->iteration_count; i++)
        values[i] = (double)r->iterations[i].step_time_ns * scale_of(r, quantity);
    return values;
}

static double epochs_of(const struct comparison_run *r) {
    cJSON *scenario =
        r->record.resolved_scenario != NULL ? cJSON_Parse(r->record.resolved_scenario) : NULL;
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(scenario, "training"), "epochs");
    const double epochs = cJSON_IsNumber(value) ? value->valuedouble : 1;
    cJSON_Delete(scenario);
    return epochs;
}

/* Of the steps that a pass over the data has, how many were replayed; 0 where the record does not
 * say. Days make up for samples that fill no round by more steps, which nothing can replay. */
static double replayed_share(const struct comparison_run *r) {
    const struct run_record *run = &r->record;
    const double dropped = isnan(run->dropped_fraction) ? 0 : run->dropped_fraction;
    const double steps = run->total_days * SECONDS_PER_DAY * goodput_of(run) /
                         (run->step_time_mean_ms * 1e-3 * epochs_of(r)) * (1 - dropped);
    return steps > 0 ? fmin(1, (double)r->iteration_count / steps) : 0;
}

static double number_of(const cJSON *scenario, const char *section, const char *key) {
    const cJSON *value =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(scenario, section), key);
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

/* Of the quantity, because failures come by chance; 0 where none were asked for. */
static double failure_variance(const struct comparison_run *r, enum comparison_quantity quantity) {
    const struct run_record *run = &r->record;
    cJSON *scenario = run->resolved_scenario != NULL ? cJSON_Parse(run->resolved_scenario) : NULL;
    const double gpus = number_of(scenario, "cluster", "gpu_count");
    const struct goodput_loss loss = {
        .mtbf_s = number_of(scenario, "what_if", "gpu_mtbf_hours") * 3600 / gpus,
        .interval_s = number_of(scenario, "what_if", "checkpoint_interval_min") * 60,
        .checkpoint_s = number_of(scenario, "what_if", "checkpoint_s"),
        .restart_s = number_of(scenario, "what_if", "restart_min") * 60,
    };
    cJSON_Delete(scenario);
    if (isnan(loss.mtbf_s) || isnan(loss.checkpoint_s) || isnan(loss.restart_s)) return 0;
    const double useful_s = run->total_days * goodput_of(run) * SECONDS_PER_DAY;
    const double days = goodput_deviation_s(&loss, useful_s) / SECONDS_PER_DAY;
    return pow(days * amount_of(r, quantity) / run->total_days, 2);
}

/* The chance of the draw and that of failures; of the latter nothing was estimated. */
static struct variance with_failures(struct variance draw, double failures) {
    if (failures == 0 || !isfinite(draw.of_mean)) return draw;
    const double sum = draw.of_mean + failures;
    const double freedom = draw.of_mean > 0
                               ? draw.freedom * pow(sum / draw.of_mean, 2) /* Satterthwaite */
                               : 1e9;
    return (struct variance){ sum, freedom };
}

static struct variance paired_variance(const struct comparison_run *a,
                                       const struct comparison_run *b,
                                       enum comparison_quantity quantity) {
    double *left = scaled_steps(a, quantity), *right = scaled_steps(b, quantity);
    for (int64_t i = 0; i < a->iteration_count; i++)
        left[i] -= right[i];
    struct variance variance = variance_of(a->iterations, left, a->iteration_count,
                                           fmin(replayed_share(a), replayed_share(b)));
    free(left);
    free(right);
    return variance;
}

/* Welch's difference of means, with the degrees of freedom of Welch and Satterthwaite. */
static struct variance welch_variance(const struct comparison_run *a,
                                      const struct comparison_run *b,
                                      enum comparison_quantity quantity) {
    double *left = scaled_steps(a, quantity), *right = scaled_steps(b, quantity);
    struct variance l = variance_of(a->iterations, left, a->iteration_count, replayed_share(a)),
                    r = variance_of(b->iterations, right, b->iteration_count, replayed_share(b));
    free(left);
    free(right);
    double sum = l.of_mean + r.of_mean;
    double parts = l.of_mean * l.of_mean / l.freedom + r.of_mean * r.of_mean / r.freedom;
    return (struct variance){ sum, parts > 0 && isfinite(parts) ? sum * sum / parts : 1 };
}

/* ---- what was compared ---- */

/* More than this apart, steps are of different sizes. */
#define SAMPLES_TOLERANCE_FRACTION 0.05

#define NO_FILE (-1)

struct setup_value {
    const char *words, *section, *key; /* of the resolved scenario */
    int file;                          /* enum run_file */
};

static const struct setup_value setup_values[] = {
    { "model", "model", "name", RUN_FILE_MODEL },
    { "data set", "dataset", "name", RUN_FILE_DATA },
    { "hardware", "cluster", "hardware", RUN_FILE_HARDWARE },
    { "number of GPUs", "cluster", "gpu_count", NO_FILE },
};

/* As text, "" if unknown. */
static const char *setup_text(const cJSON *scenario, const char *section, const char *key,
                              struct arena *arena) {
    const cJSON *value =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(scenario, section), key);
    if (cJSON_IsString(value)) return arena_text(arena, value->valuestring);
    if (cJSON_IsNumber(value)) return arena_format(arena, "%.10g", value->valuedouble);
    return "";
}

static cJSON *resolved(const struct comparison_run *run) {
    const char *text = run->record.resolved_scenario;
    return text != NULL ? cJSON_Parse(text) : NULL;
}

static double left_out(const struct comparison_run *run) {
    return isnan(run->record.left_out_fraction) ? 0 : run->record.left_out_fraction;
}

/* Of the samples, as far as it matters. */
static bool same_share(const struct comparison_run *a, const struct comparison_run *b) {
    return !record_leaves_out(fabs(left_out(a) - left_out(b)));
}

static bool same_job(const struct comparison_run *a, const struct comparison_run *b) {
    return run_same_file(&a->record, &b->record, RUN_FILE_MODEL) &&
           run_same_file(&a->record, &b->record, RUN_FILE_DATA) && same_share(a, b);
}

const char *comparison_stack(const struct comparison_run *run, struct arena *arena) {
    cJSON *scenario = resolved(run);
    const char *stack = setup_text(scenario, "layout", "stack", arena);
    cJSON_Delete(scenario);
    return stack;
}

const char **comparison_rules(const struct comparison_run *run, struct arena *arena) {
    cJSON *scenario = resolved(run);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(scenario, "rules"), *rule;
    const char **texts = arena_array(arena, const char *, cJSON_GetArraySize(list) + 1);
    int64_t count = 0;
    cJSON_ArrayForEach(rule, list) texts[count++] = rule_words(arena, rule);
    cJSON_Delete(scenario);
    return texts;
}

static double samples_per_step(const struct comparison_run *run) {
    double samples = 0;
    for (int64_t i = 0; i < run->iteration_count; i++)
        samples += (double)run->iterations[i].sample_count;
    return run->iteration_count > 0 ? samples / (double)run->iteration_count : 0;
}

/* A variant of the hardware keeps the price of the scenario that it varies. */
static bool same_price_of_another_gpu(const struct run_record *a, const cJSON *first,
                                      const struct run_record *b, const cJSON *other) {
    const double price = number_of(first, "cluster", "price_usd_per_gpu_hour");
    return price > 0 && price == number_of(other, "cluster", "price_usd_per_gpu_hour") &&
           !run_same_file(a, b, RUN_FILE_HARDWARE);
}

#define PCIE_TOLD_FRACTION 0.02

const char **comparison_warnings(const struct comparison_run *runs, int64_t run_count,
                                 struct arena *arena) {
    enum { VALUES = sizeof setup_values / sizeof setup_values[0] };
    const char **warnings = arena_array(arena, const char *, run_count *(VALUES + 7) + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < run_count; i++)
        if (runs[i].limit != NULL)
            warnings[count++] = arena_format(arena, "run %ld cannot be run so: %s", (long)i + 1,
                                             runs[i].limit);
    for (int64_t i = 0; i < run_count; i++)
        if (isnan(runs[i].record.launch_wait_ms))
            warnings[count++] =
                arena_format(arena,
                             "run %ld was stored by an older version: its waits for launches stand "
                             "in compute, padding and recompute, and no order of it is sure",
                             (long)i + 1);
    for (int64_t i = 0; i < run_count; i++) {
        cJSON *this = resolved(&runs[i]);
        if (isnan(runs[i].record.host_copy_ms) && number_of(this, "training", "offload_blocks") > 0)
            warnings[count++] =
                arena_format(arena,
                             "run %ld was stored by an older version: its copies to host memory "
                             "stand in tensor communication",
                             (long)i + 1);
        cJSON_Delete(this);
    }
    for (int64_t i = 0; i < run_count; i++) {
        const double pcie = runs[i].record.pcie_ms / runs[i].record.step_time_mean_ms;
        if (pcie > PCIE_TOLD_FRACTION)
            warnings[count++] = arena_format(
                arena,
                "%.0f %% of a step of run %ld is communication where GPUs of a node talk over "
                "PCIe, or waits for it, at a speed that is the server's and that no band covers: "
                "the order is sure only where it holds at 0.45 to 9 times what that is predicted "
                "to take",
                100 * pcie, (long)i + 1);
    }
    cJSON *first = resolved(&runs[0]);
    double first_samples = samples_per_step(&runs[0]);
    for (int64_t i = 1; i < run_count; i++) {
        cJSON *this = resolved(&runs[i]);
        for (int v = 0; v < VALUES; v++) {
            const struct setup_value *value = &setup_values[v];
            const char *want = setup_text(first, value->section, value->key, arena);
            const char *got = setup_text(this, value->section, value->key, arena);
            if (strcmp(want, got) != 0)
                warnings[count++] =
                    arena_format(arena, "run %ld has another %s than run 1: %s, not %s",
                                 (long)i + 1, value->words, got, want);
            else if (value->file != NO_FILE &&
                     !run_same_file(&runs[0].record, &runs[i].record, (enum run_file)value->file))
                warnings[count++] =
                    arena_format(arena, "run %ld has another %s than run 1 of the same name: %s",
                                 (long)i + 1, value->words, got);
        }
        if (same_price_of_another_gpu(&runs[0].record, first, &runs[i].record, this))
            warnings[count++] = arena_format(
                arena,
                "run %ld has run 1's price of a GPU-hour, %s USD, for another GPU "
                "(cluster.price_usd_per_gpu_hour)",
                (long)i + 1, setup_text(first, "cluster", "price_usd_per_gpu_hour", arena));
        if (!same_share(&runs[0], &runs[i]))
            warnings[count++] =
                arena_format(arena,
                             "run %ld leaves out %.1f %% of the samples, run 1 %.1f %%: time and "
                             "money are of the "
                             "others, and do not compare",
                             (long)i + 1, left_out(&runs[i]) * 100, left_out(&runs[0]) * 100);
        double samples = samples_per_step(&runs[i]);
        if (fabs(samples - first_samples) > SAMPLES_TOLERANCE_FRACTION * first_samples)
            warnings[count++] =
                arena_format(arena, "steps of run %ld hold %.1f samples, those of run 1 %.1f",
                             (long)i + 1, samples, first_samples);
        cJSON_Delete(this);
    }
    cJSON_Delete(first);
    warnings[count] = NULL;
    return warnings;
}

/* ---- the order ---- */

static bool fits(const struct run_record *run) {
    return run->verdict == NULL || strcmp(run->verdict, "out of memory") != 0;
}

static enum comparison_verdict verdict_of(const struct comparison_run *reference,
                                          const struct comparison_run *run,
                                          const struct comparison_row *row,
                                          const struct run_pair_error *may_err) {
    if (!same_job(reference, run)) return COMPARISON_DIFFERENT_JOBS;
    if (!fits(&reference->record) || !row->fits || row->confidence_fraction < CONFIDENCE_LIKELY)
        return COMPARISON_OPEN;
    return run_pair_is_sure(may_err, row->delta_fraction) ? COMPARISON_SURE : COMPARISON_LIKELY;
}

bool comparison_prices_differ(const struct comparison_run *runs, int64_t run_count) {
    const double first = runs[0].record.money_usd / runs[0].record.gpu_days;
    bool all = true, differ = false;
    for (int64_t i = 0; i < run_count; i++) {
        const double price = runs[i].record.money_usd / runs[i].record.gpu_days;
        all = all && !isnan(price);
        differ = differ || fabs(price - first) > 1e-9 * first;
    }
    return all && differ;
}

void comparison_make(const struct comparison_run *runs, int64_t run_count,
                     enum comparison_quantity quantity, struct comparison_row *rows) {
    const struct comparison_run *reference = &runs[0];
    const double first = amount_of(reference, quantity);
    for (int64_t i = 0; i < run_count; i++) {
        const struct comparison_run *r = &runs[i];
        struct comparison_row *row = &rows[i];
        *row = (struct comparison_row){ .gpu_days = r->record.gpu_days };
        row->speedup = reference->record.gpu_days / r->record.gpu_days;
        row->delta_fraction = amount_of(r, quantity) / first - 1;
        for (int part = 0; part < COMPARISON_PARTS; part++) {
            row->parts_gpu_days[part] = part_gpu_days(&r->record, part);
            row->parts_delta_gpu_days[part] =
                row->parts_gpu_days[part] - part_gpu_days(&reference->record, part);
        }
        row->paired = same_steps(reference, r);
        struct variance variance = row->paired ? paired_variance(reference, r, quantity)
                                               : welch_variance(reference, r, quantity);
        if (i > 0)
            variance = with_failures(variance, failure_variance(reference, quantity) +
                                                   failure_variance(r, quantity));
        double error = sqrt(variance.of_mean), freedom = fmax(variance.freedom, 1);
        double difference = fabs(amount_of(r, quantity) - first);
        row->confidence_fraction = error > 0        ? gsl_cdf_tdist_P(difference / error, freedom)
                                   : difference > 0 ? 1
                                                    : 0.5;
        double half = gsl_cdf_tdist_Pinv(CONFIDENCE_LIKELY, freedom) * error / first;
        bool known = isfinite(half);
        row->delta_low_fraction = known ? row->delta_fraction - half : NAN;
        row->delta_high_fraction = known ? row->delta_fraction + half : NAN;
        row->fits = fits(&r->record);
        const struct run_pair_error may_err =
            run_pair_error(&reference->record, first, &r->record, amount_of(r, quantity));
        row->launches_log = may_err.waits_log;
        row->pcie_log = may_err.pcie_log;
        row->may_err_log = may_err.predictions_log + may_err.pcie_log +
                           (isnan(may_err.waits_log) ? 0 : may_err.waits_log);
        row->order_fraction = gsl_cdf_ugaussian_P(fabs(log1p(row->delta_fraction)) *
                                                  gsl_cdf_ugaussian_Pinv(0.9) / row->may_err_log);
        if (isnan(row->launches_log)) row->order_fraction = NAN;
        row->verdict = verdict_of(reference, r, row, &may_err);
        row->more_steps_may_tell =
            i > 0 && row->verdict == COMPARISON_OPEN && fits(&reference->record) && row->fits &&
            fmin(replayed_share(reference), replayed_share(r)) < WHOLE_EPOCH_SHARE;
    }
}

bool comparison_more_steps_may_tell(const struct comparison_row *rows, int64_t run_count) {
    for (int64_t i = 0; i < run_count; i++)
        if (rows[i].more_steps_may_tell) return true;
    return false;
}
