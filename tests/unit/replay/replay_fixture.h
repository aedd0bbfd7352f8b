/* replay_fixture.h - scenario, data set and hardware files of a test's own, in a scratch folder.
 *
 *     fixture_begin(state);   // set-up and clean-up of a group of tests, or called by one's own
 *     fixture_samples("few.csv", 100, seed);
 *     struct scenario *s = fixture_scenario("few.csv", overrides);   // "path=value", NULL at end
 *     fixture_end(state);
 */
#ifndef BALLAST_TESTS_REPLAY_FIXTURE_H
#define BALLAST_TESTS_REPLAY_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "sim/base/random.h"
#include "sim/replay/replay.h"
#include "tests/unit/scenario/shared_cache.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

static const struct scenario_options fixture_options = { .directory = SCENARIOS };

/* A path in the scratch folder of this program; four can be held at a time. */
static inline const char *fixture_path(const char *name) {
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/test-replay-%d/%s", BALLAST_BINARY_DIR, (int)getpid(),
             name);
    return path;
}

static inline int fixture_begin(void **state) {
    (void)state;
    return mkdir(fixture_path(""), 0755);
}

static inline int fixture_end(void **state) {
    (void)state;
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", fixture_path(""));
    return system(command);
}

static inline void fixture_write(const char *name, const char *text) {
    FILE *file = fopen(fixture_path(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Samples of 20 to 2019 text tokens; every fifth has no image, others 1 to 7 tiles. */
static inline void fixture_samples(const char *name, int64_t count, uint32_t seed) {
    struct random_mt mt;
    random_mt_seed(&mt, seed);
    FILE *file = fopen(fixture_path(name), "w");
    assert_non_null(file);
    fputs("vision_tiles,text_tokens\n", file);
    for (int64_t i = 0; i < count; i++) {
        uint32_t tiles = random_mt_next(&mt) % 5 == 0 ? 0 : 1 + random_mt_next(&mt) % 7;
        fprintf(file, "%u,%u\n", tiles, 20 + random_mt_next(&mt) % 2000);
    }
    assert_int_equal(fclose(file), 0);
}

/* TP 2 x PP 2 x DP 2, 8 micro-batches of 1 sample for each rank, unless overridden. */
static inline const char *fixture_scenario_file(const char *name, const char *samples) {
    char text[2048];
    snprintf(text, sizeof text,
             "{ \"model\": \"internvl-6b-8b\", \"dataset\": \"%s\","
             "  \"cluster\": { \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 8,"
             "                 \"gpus_per_node\": 8, \"nic_Gbit_per_s_per_gpu\": 100,"
             "                 \"price_usd_per_gpu_hour\": 2.5 },"
             "  \"layout\": { \"backend\": \"megatron-deepspeed\", \"stack\": \"none\", \"tp\": 2, "
             "\"pp\": 2 },"
             "  \"training\": { \"global_batch\": { \"micro_batches\": 16 },"
             "                  \"micro_batch\": { \"samples\": 1 } },"
             "  \"policy\": { \"partition\": \"layer\", \"recompute\": \"full\" } }",
             fixture_path(samples));
    fixture_write(name, text);
    return fixture_path(name);
}

static inline struct scenario *fixture_scenario(const char *samples, const char *const *overrides) {
    struct scenario_options options = { .directory = SCENARIOS,
                                        .overrides = overrides,
                                        .cache = shared_cache() };
    struct error err = { 0 };
    struct scenario *s =
        scenario_load(&options, fixture_scenario_file("scenario.json", samples), &err);
    if (s == NULL) fail_msg("%s", err.text);
    return s;
}

static inline struct job *fixture_job(const struct scenario *scenario) {
    struct error err = { 0 };
    struct job *job = job_create(scenario, &err);
    if (job == NULL) fail_msg("%s", err.text);
    return job;
}

static inline struct replay *fixture_replay(const struct job *job, enum fidelity fidelity,
                                            int threads) {
    struct replay_options options = { .fidelity = fidelity, .threads = threads };
    struct error err = { 0 };
    struct replay *replay = replay_run(job, &options, &err);
    if (replay == NULL) fail_msg("%s", err.text);
    return replay;
}

/* scenarios/hardware/a100-80g-sxm.json with some figures scaled. */
struct fixture_scale {
    const char *key;
    double factor;
};

static inline const char *fixture_hardware(const char *name, const struct fixture_scale *scales,
                                           int count) {
    struct error err = { 0 };
    struct json *json = json_load(SCENARIOS "/hardware/a100-80g-sxm.json", &err);
    if (json == NULL) fail_msg("%s", err.text);
    cJSON *root = json_root(json);
    for (int i = 0; i < count; i++) {
        cJSON *value = cJSON_GetObjectItemCaseSensitive(root, scales[i].key);
        assert_non_null(value);
        cJSON_SetNumberValue(value, value->valuedouble * scales[i].factor);
    }
    cJSON_ReplaceItemInObjectCaseSensitive(
        root, "curves", cJSON_CreateString(SCENARIOS "/hardware/curves/a100-80g-sxm.json"));
    char *text = cJSON_Print(root);
    fixture_write(name, text);
    cJSON_free(text);
    json_destroy(json);
    return fixture_path(name);
}

#endif
