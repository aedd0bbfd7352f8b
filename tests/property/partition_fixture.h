/* partition_fixture.h - a job on any model and layout over a few samples of a test's own, for the
 * properties of partition and recompute policies. */
#ifndef BALLAST_TESTS_PARTITION_FIXTURE_H
#define BALLAST_TESTS_PARTITION_FIXTURE_H

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "sim/base/random.h"
#include "sim/policy/partition/partition.h"
#include "sim/replay/job.h"
#include "tests/unit/scenario/shared_cache.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

struct partition_job {
    struct scenario *scenario;
    struct job *job;
    struct planner_oracle oracle;
};

/* 64 samples of 1 to 5 tiles and 20 to 2019 text tokens. */
static inline void fixture_samples(const char *path) {
    struct random_mt mt;
    random_mt_seed(&mt, 7);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("vision_tiles,text_tokens,clip_ms\n", file);
    for (int i = 0; i < 64; i++) {
        uint32_t tiles = 1 + random_mt_next(&mt) % 5;
        fprintf(file, "%u,%u,%d\n", tiles, 20 + random_mt_next(&mt) % 2000, 500 + 97 * i);
    }
    assert_int_equal(fclose(file), 0);
}

/* `policy` is the content of the section, for example "\"recompute\": \"full\"". */
static inline struct partition_job fixture_job(const char *model, const char *layout, int64_t gpus,
                                               int64_t micro_batches, const char *policy,
                                               const char *const *overrides) {
    char samples[512], text[2048];
    snprintf(samples, sizeof samples, "%s/partition-property-%d.csv", BALLAST_BINARY_DIR,
             (int)getpid());
    fixture_samples(samples);
    snprintf(text, sizeof text,
             "{ \"name\": \"x\", \"model\": \"%s\", \"dataset\": \"%s\","
             "  \"cluster\": { \"hardware\": \"a100-80g-sxm\", \"gpu_count\": %ld,"
             "                 \"gpus_per_node\": 8, \"nic_Gbit_per_s_per_gpu\": 100 },"
             "  \"layout\": { %s },"
             "  \"training\": { \"global_batch\": { \"micro_batches\": %ld } },"
             "  \"policy\": { %s } }",
             model, samples, (long)gpus, layout, (long)micro_batches, policy);
    struct scenario_options options = { .directory = SCENARIOS,
                                        .overrides = overrides,
                                        .cache = shared_cache() };
    struct error err = { 0 };
    struct json *json = json_parse("x.json", text, strlen(text), &err);
    struct partition_job p = { 0 };
    p.scenario = json != NULL ? scenario_load_json(&options, json, &err) : NULL;
    if (p.scenario == NULL) fail_msg("%s", err.text);
    p.job = job_create(p.scenario, &err);
    if (p.job == NULL) fail_msg("%s", err.text);
    p.oracle = job_oracle(p.job);
    unlink(samples);
    return p;
}

static inline void fixture_close(struct partition_job *p) {
    job_destroy(p->job);
    scenario_destroy(p->scenario);
}

/* The next blocks per stage in lexicographic order, each at least 1; false after the last. */
static inline bool fixture_next(int64_t *blocks, int64_t stages) {
    for (int64_t stage = stages - 2; stage >= 0; stage--) {
        int64_t after = 0;
        for (int64_t s = stage + 1; s < stages; s++)
            after += blocks[s];
        if (after == stages - stage - 1) continue;
        blocks[stage]++;
        for (int64_t s = stage + 1; s < stages - 1; s++)
            blocks[s] = 1;
        blocks[stages - 1] = after - 1 - (stages - stage - 2);
        return true;
    }
    return false;
}

#endif
