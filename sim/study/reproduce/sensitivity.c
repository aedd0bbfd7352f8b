/* sensitivity.c - a table of inputs, and two answers for each: as the row has it, and changed. */
#include "sim/study/reproduce/sensitivity.h"

#include <math.h>
#include <string.h>
#include "sim/study/reproduce/run_book.h"

enum { MEASURED_STEPS = 24 };
#define MOST_FACTOR 16.0 /* of an input that explains a row alone */

/* ---- the inputs ---- */

/* Each returns the override, or NULL where the scenario leaves nothing to change. */
static const char *more_batch(const struct scenario *s, struct arena *arena) {
    int64_t samples = s->micro_batches_per_rank * s->layout.dp * s->micro_batch_samples;
    return arena_format(arena, "training.global_batch={\"samples\":%lld}",
                        (long long)(2 * samples));
}

static const char *more_network(const struct scenario *s, struct arena *arena) {
    return arena_format(arena, "cluster.nic_Gbit_per_s_per_gpu=%.17g",
                        2 * s->cluster_fields.nic_Gbit_per_s_per_gpu);
}

static const char *more_gpus(const struct scenario *s, struct arena *arena) {
    return arena_format(arena, "cluster.gpu_count=%lld",
                        (long long)(2 * s->cluster_fields.gpu_count));
}

static const char *no_recompute(const struct scenario *s, struct arena *arena) {
    (void)arena;
    return strcmp(s->recompute.name, "full") == 0 ? "policy.recompute=none" : NULL;
}

static const char *no_sequence_parallel(const struct scenario *s, struct arena *arena) {
    (void)arena;
    return s->layout.tp > 1 && s->layout_fields.sp ? "layout.sp=false" : NULL;
}

static const char *hidden_reduction(const struct scenario *s, struct arena *arena) {
    (void)arena;
    bool exposed = s->layout.dp > 1 && !scenario_reduces_beside(s);
    return exposed ? "layout.overlap_gradient_reduce=true" : NULL;
}

static const char *other_seed(const struct scenario *s, struct arena *arena) {
    return arena_format(arena, "simulate.seed=%lld",
                        (long long)(s->simulate_fields.seed + 1) % 4294967295);
}

static const struct input {
    const char *name, *change;
    double factor; /* of the change; 0: a choice, not a size */
    const char *(*override)(const struct scenario *s, struct arena *arena);
} inputs[] = {
    { "global batch", "twice", 2, more_batch },
    { "network rate", "twice", 2, more_network },
    { "GPUs", "twice", 2, more_gpus },
    { "recomputation", "none", 0, no_recompute },
    { "sequence parallelism", "off", 0, no_sequence_parallel },
    { "gradient reduction", "hidden", 0, hidden_reduction },
    { "seed", "the next", 0, other_seed },
};
enum { INPUT_COUNT = sizeof inputs / sizeof inputs[0] };

/* ---- measuring ---- */

struct asked_row {
    struct reproduction_value *value;
    int64_t base_run, base_slot, kernel_slot;
    int64_t run[INPUT_COUNT], slot[INPUT_COUNT]; /* run -1: nothing to change */
};

static const char *const *with(struct arena *arena, const char *const *set, const char *one,
                               const char *two) {
    int64_t count = 0;
    while (set[count] != NULL)
        count++;
    const char **list = arena_array(arena, const char *, count + 3);
    for (int64_t i = 0; i < count; i++)
        list[i] = set[i];
    list[count] = one;
    list[count + 1] = two;
    return list;
}

static const char *const *joined(struct arena *arena, const char *const *own,
                                 const char *const *more) {
    int64_t count = 0, extra = 0;
    while (own[count] != NULL)
        count++;
    while (more != NULL && more[extra] != NULL)
        extra++;
    const char **list = arena_array(arena, const char *, count + extra + 1);
    for (int64_t i = 0; i < count; i++)
        list[i] = own[i];
    for (int64_t i = 0; i < extra; i++)
        list[count + i] = more[i];
    return list;
}

/* The scenario is read only to see what can be changed. */
static bool ask_row(const struct reproduction_options *options, struct arena *arena,
                    struct run_book *book, struct asked_row *row, struct error *err) {
    const struct paper_run *run = &row->value->run;
    struct scenario_options scenario_options = {
        .directory = options->scenario->directory,
        .overrides = joined(arena, run->set, options->scenario->overrides),
        .removals = options->scenario->removals,
    };
    struct scenario *s = scenario_load(&scenario_options, run->path, err);
    if (s == NULL) return false;
    const char *steps = arena_format(arena, "simulate.iterations=%d", MEASURED_STEPS);
    int64_t index;
    const struct quantity *time = quantity_find(row->value->quantity, &index);
    const struct quantity *kernels = quantity_find("kernel_share", &(int64_t){ 0 });
    struct paper_run base = { run->path, with(arena, run->set, steps, NULL) };
    row->base_run = run_book_add(book, &base);
    row->base_slot = run_book_ask(book, row->base_run, time, index);
    row->kernel_slot = run_book_ask(book, row->base_run, kernels, 0);
    for (int i = 0; i < INPUT_COUNT; i++) {
        const char *change = inputs[i].override(s, arena);
        row->run[i] = -1;
        if (change == NULL) continue;
        struct paper_run changed = { run->path, with(arena, run->set, steps, change) };
        row->run[i] = run_book_add(book, &changed);
        row->slot[i] = run_book_ask(book, row->run[i], time, index);
    }
    scenario_destroy(s);
    return true;
}

static double needed_factor(double gap, double ratio, double factor) {
    if (factor == 0 || ratio == 1) return NAN;
    double elasticity = log(ratio) / log(factor);
    double needed = exp(log(gap) / elasticity);
    return needed <= MOST_FACTOR && needed >= 1 / MOST_FACTOR ? needed : NAN;
}

static void take_row(struct arena *arena, const struct run_book *book, struct asked_row *row) {
    struct reproduction_value *v = row->value;
    double gap = v->paper / v->simulated,
           base = run_book_value(book, row->base_run, row->base_slot);
    double kernels = run_book_value(book, row->base_run, row->kernel_slot);
    struct sensitivity *list = arena_array(arena, struct sensitivity, INPUT_COUNT + 2);
    /* Time is linear in the number of samples, and in the time of kernels but for traffic. */
    list[0] = (struct sensitivity){ "samples of the epoch", "10 % more", 0.1, gap };
    double slower = 1 + (gap - 1) / kernels;
    list[1] = (struct sensitivity){ "time of kernels", "10 % more", 0.1 * kernels,
                                    slower > 0 ? slower : NAN };
    v->sensitivity_count = 2;
    for (int i = 0; i < INPUT_COUNT; i++) {
        if (row->run[i] < 0) continue;
        double ratio = run_book_value(book, row->run[i], row->slot[i]) / base;
        if (isnan(ratio)) continue;
        list[v->sensitivity_count++] = (struct sensitivity){
            .input = inputs[i].name,
            .change = inputs[i].change,
            .effect_fraction = ratio - 1,
            .needed_factor = needed_factor(gap, ratio, inputs[i].factor),
        };
    }
    v->sensitivity = list;
}

static bool wanted(const struct reproduction_value *v) {
    return v->main && band_is_known(v->band) && v->paper > 0;
}

bool sensitivity_measure(const struct reproduction_options *options,
                         struct reproduction *reproduction, struct error *err) {
    struct arena *arena = reproduction->arena;
    struct run_book *book = run_book_create(arena, options->scenario);
    struct asked_row *rows = arena_array(arena, struct asked_row, reproduction->value_count + 1);
    struct run_book_options book_options = { .keep_going = true, /* not every change is possible */
                                             .progress = options->progress,
                                             .progress_context = options->progress_context };
    int64_t count = 0;
    bool ok = true;
    for (int64_t i = 0; ok && i < reproduction->value_count; i++) {
        if (!wanted(&reproduction->values[i])) continue;
        rows[count].value = &reproduction->values[i];
        ok = ask_row(options, arena, book, &rows[count++], err);
    }
    ok = ok && run_book_simulate(book, &book_options, err);
    for (int64_t i = 0; ok && i < count; i++)
        take_row(arena, book, &rows[i]);
    run_book_destroy(book);
    return ok;
}
