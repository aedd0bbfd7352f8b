/* ballast.c - the public C interface over sim/study. */
#include "sim/ballast.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/cli/print.h"
#include "sim/plugin.h"

#ifndef BALLAST_INSTALLED_SCENARIOS
#define BALLAST_INSTALLED_SCENARIOS "scenarios"
#endif

struct ballast {
    struct arena *arena; /* of this object */
    const char *scenarios;
    char *answer; /* JSON text, cJSON's */
    struct error error;
};

int ballast_api_version(void) {
    return BALLAST_API_VERSION;
}

const char *ballast_version(void) {
    return execution_version();
}

/* An installation may have been moved: its folder stands beside the library. */
static const char *installed_scenarios(struct arena *arena) {
    static const char *const places[] = {
        "/../share/ballast/scenarios", "/../../share/ballast/scenarios"
    }; /* lib/x86_64-linux-gnu */
    Dl_info library;
    if (dladdr(places, &library) == 0) return BALLAST_INSTALLED_SCENARIOS;
    const char *end = strrchr(library.dli_fname, '/');
    for (size_t i = 0; end != NULL && i < sizeof places / sizeof places[0]; i++) {
        const char *path = arena_format(arena, "%.*s%s", (int)(end - library.dli_fname),
                                        library.dli_fname, places[i]);
        if (access(path, R_OK) == 0) return path;
    }
    return BALLAST_INSTALLED_SCENARIOS;
}

struct ballast *ballast_open(const char *scenarios) {
    struct ballast *b = memory_alloc(sizeof *b);
    *b = (struct ballast){ .arena = arena_create() };
    if (scenarios == NULL) scenarios = getenv("BALLAST_SCENARIOS");
    if (scenarios == NULL) scenarios = installed_scenarios(b->arena);
    b->scenarios = arena_text(b->arena, scenarios);
    return b;
}

static void forget(struct ballast *b) {
    cJSON_free(b->answer);
    b->answer = NULL;
    b->error = (struct error){ 0 };
}

void ballast_close(struct ballast *b) {
    if (b == NULL) return;
    forget(b);
    arena_destroy(b->arena);
    free(b);
}

const char *ballast_error(const struct ballast *b) {
    return b->error.text;
}

const char *ballast_answer_json(struct ballast *b) {
    return b->answer;
}

static double class_ms(const struct replay *r, enum replay_class first, enum replay_class second,
                       enum replay_class third) {
    double sum_s = r->classes_s[first];
    if (second != first) sum_s += r->classes_s[second];
    if (third != second) sum_s += r->classes_s[third];
    return sum_s * 1e3;
}

static struct ballast_answer answer_of(const struct execution *e) {
    const struct replay *r = e->replay;
    struct arena *arena = arena_create();
    struct run_record run = { 0 };
    execution_record(e, &(struct provenance){ .command_line = "libballast" }, arena, &run);
    struct ballast_answer a = {
        .step_time_mean_ms = r->step_time_mean_s * 1e3,
        .step_time_p50_ms = r->step_time_p50_s * 1e3,
        .step_time_p95_ms = r->step_time_p95_s * 1e3,
        .step_time_p99_ms = r->step_time_p99_s * 1e3,
        .band_fraction = r->band.above,
        .band_below_fraction = r->band.below,
        .total_days = r->total_days,
        .gpu_days = r->gpu_days,
        .money_usd = r->money_usd,
        .mfu_fraction = r->mfu_fraction,
        .hfu_fraction = r->hfu_fraction,
        .memory_peak_bytes = (double)run.memory_peak_bytes,
        .memory_capacity_bytes = (double)run.memory_capacity_bytes,
        .verdict = (int32_t)r->verdict,
        .verdict_stage_index = (int32_t)r->verdict_stage,
        .iteration_count = r->iteration_count,
        .gpu_count = run.gpu_count,
        .compute_ms = class_ms(r, REPLAY_COMPUTE, REPLAY_COMPUTE, REPLAY_COMPUTE),
        .padding_ms = class_ms(r, REPLAY_PADDING, REPLAY_PADDING, REPLAY_PADDING),
        .recompute_ms = class_ms(r, REPLAY_RECOMPUTE, REPLAY_RECOMPUTE, REPLAY_RECOMPUTE),
        .communication_ms = class_ms(r, REPLAY_TENSOR, REPLAY_SEND, REPLAY_DATA) +
                            (r->classes_s[REPLAY_CONTEXT] + r->classes_s[REPLAY_HOST_COPY]) * 1e3,
        .bubble_ms = class_ms(r, REPLAY_BUBBLE, REPLAY_BUBBLE, REPLAY_BUBBLE),
        .imbalance_ms =
            class_ms(r, REPLAY_STAGE_IMBALANCE, REPLAY_TIME_IMBALANCE, REPLAY_RANK_IMBALANCE),
        .update_ms = class_ms(r, REPLAY_UPDATE, REPLAY_UPDATE, REPLAY_UPDATE),
        .memory_training_bytes = r->training.likely_bytes,
        .launch_wait_ms = class_ms(r, REPLAY_LAUNCH, REPLAY_LAUNCH, REPLAY_LAUNCH),
    };
    arena_destroy(arena);
    return a;
}

static int run_json(struct ballast *b, struct json *json, const char *const *overrides,
                    struct ballast_answer *answer) {
    if (json == NULL) return 0;
    const struct scenario_options options = { .directory = b->scenarios, .overrides = overrides };
    const struct replay_options replay_options = { .fidelity = FIDELITY_STAGE };
    struct execution *e = execution_run_json(&options, json, &replay_options, &b->error);
    if (e == NULL) return 0;
    struct ballast_answer full = answer_of(e);
    /* An older caller has room for the first members only. */
    size_t size = answer->size < sizeof full ? answer->size : sizeof full;
    full.size = answer->size;
    memcpy(answer, &full, size);
    struct arena *arena = arena_create();
    cJSON *object = json_answer(e, arena);
    b->answer = cJSON_Print(object);
    cJSON_Delete(object);
    arena_destroy(arena);
    execution_destroy(e);
    return 1;
}

static int refuse_size(struct ballast *b, const struct ballast_answer *answer) {
    if (answer != NULL && answer->size >= sizeof(size_t)) return 0;
    error_set(&b->error, "set answer.size to sizeof(struct ballast_answer) before the call");
    return 1;
}

int ballast_run_file(struct ballast *b, const char *path, const char *const *overrides,
                     struct ballast_answer *answer) {
    forget(b);
    if (refuse_size(b, answer)) return 0;
    return run_json(b, json_load(path, &b->error), overrides, answer);
}

int ballast_run_text(struct ballast *b, const char *scenario, const char *const *overrides,
                     struct ballast_answer *answer) {
    forget(b);
    if (refuse_size(b, answer)) return 0;
    return run_json(b, json_parse("scenario", scenario, strlen(scenario), &b->error), overrides,
                    answer);
}

int ballast_load_plugin(struct ballast *b, const char *path) {
    forget(b);
    return plugin_load(path, &b->error);
}
