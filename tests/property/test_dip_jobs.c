/* test_dip_jobs.c - random jobs, few micro-batches or many, from the scenario to the simulated
 * step: DIP with all of its parts is never slower than 1F1B of a static plan (nnscaler),
 * Megatron-LM's interleaved order, encoders first or the greedy dual queue on its own segments,
 * each with the memory step too; nor than Megatron-LM's interleaved schedule on chunks of its own,
 * with parameters balanced and as few recomputing blocks as fit. Plans that do not fit in memory do
 * not count.
 *
 * More of them by hand: test_dip_jobs COUNT [SEED].
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/random.h"
#include "sim/replay/replay.h"
#include "tests/unit/scenario/shared_cache.h"

#ifdef __SANITIZE_ADDRESS__
enum { JOBS = 4 };
#else
enum { JOBS = 16 };
#endif
static int job_count = JOBS;
static uint32_t first_seed = 1;

struct drawn {
    const char *file, *batching;
    int tp, pp, micro_batches, seed;
};

static int from_to(struct random_mt *mt, int least, int most) {
    return least + (int)(random_mt_next(mt) % (unsigned)(most - least + 1));
}

static struct drawn draw(uint32_t seed) {
    static const char *const files[] = { "vlm-s", "vlm-m", "t2v-s", "vit-2b-lm-5b" };
    static const int batches[] = { 1, 1, 2, 3, 5, 8, 12 };
    struct random_mt mt;
    random_mt_seed(&mt, seed);
    struct drawn d = { .file = files[from_to(&mt, 0, 3)], .tp = from_to(&mt, 0, 1) ? 4 : 8 };
    bool video = strcmp(d.file, "t2v-s") == 0;
    d.batching = video ? "clip-group" : "pack";
    if (video) d.tp = 4; /* 28 heads */
    d.pp = d.tp == 8 ? from_to(&mt, 2, 8) : 2 * from_to(&mt, 1, 4);
    d.micro_batches = batches[from_to(&mt, 0, 6)];
    d.seed = from_to(&mt, 0, 1000);
    return d;
}

/* Seconds of a mean step; INFINITY: it does not fit. The policy is all but the batching. */
static double step_of(const struct drawn *d, const char *rest, int vpp) {
    char path[256], policy[256], layout[4][64], batch[64], seed[64];
    struct error err = { 0 };
    snprintf(path, sizeof path, BALLAST_SOURCE_DIR "/scenarios/papers/dip/%s.json", d->file);
    snprintf(policy, sizeof policy, "policy={\"batching\":\"%s\",%s}", d->batching, rest);
    snprintf(layout[0], sizeof layout[0], "layout.tp=%d", d->tp);
    snprintf(layout[1], sizeof layout[1], "layout.pp=%d", d->pp);
    snprintf(layout[2], sizeof layout[2], "cluster.gpu_count=%d", d->tp * d->pp);
    snprintf(layout[3], sizeof layout[3], "layout.vpp=%d", vpp);
    snprintf(batch, sizeof batch, "training.global_batch={\"micro_batches\":%d}", d->micro_batches);
    snprintf(seed, sizeof seed, "simulate.seed=%d", d->seed);
    const char *set[] = { policy, layout[0], layout[1], layout[2], batch, seed,
                          "simulate.iterations=8", vpp > 1 ? layout[3] : NULL, NULL };
    struct scenario_options options = { .directory = BALLAST_SOURCE_DIR "/scenarios",
                                        .overrides = set,
                                        .cache = shared_cache() };
    struct scenario *s = scenario_load(&options, path, &err);
    struct job *job = s != NULL ? job_create(s, &err) : NULL;
    struct replay_options one = { .threads = 1, .answer_only = true };
    struct replay *r = job != NULL ? replay_run(job, &one, &err) : NULL;
    if (r == NULL) fail_msg("%s: %s", d->file, err.text);
    double seconds = r->verdict == VERDICT_OUT_OF_MEMORY ? INFINITY : r->step_time_mean_s;
    replay_destroy(r);
    job_destroy(job);
    scenario_destroy(s);
    return seconds;
}

static double step_s(const struct drawn *d, const char *joint) {
    char rest[200];
    snprintf(rest, sizeof rest, "\"joint\":%s", joint);
    return step_of(d, rest, 1);
}

static const struct {
    const char *name, *joint;
} others[] = {
    { "1F1B of a static plan", "\"nnscaler\"" },
    { "interleaved, lead 1", "{\"name\":\"dip\",\"order\":\"fixed\",\"lead\":1}" },
    { "interleaved, lead 2", "{\"name\":\"dip\",\"order\":\"fixed\",\"lead\":2}" },
    { "encoders first", "{\"name\":\"dip\",\"order\":\"encoders-first\"}" },
    { "greedy dual queue", "{\"name\":\"dip\",\"order\":\"greedy\"}" },
};
enum { OTHERS = sizeof others / sizeof others[0] };

static void test_never_slower(void **state) {
    (void)state;
    int counted[OTHERS] = { 0 }, slower[OTHERS] = { 0 }, few = 0;
    for (int i = 0; i < job_count; i++) {
        struct drawn d = draw(first_seed + (uint32_t)i);
        double ours = step_s(&d, "{\"name\":\"dip\",\"rollouts\":60}");
        few += d.micro_batches < d.pp;
        for (int k = 0; k < OTHERS; k++) {
            double other = step_s(&d, others[k].joint);
            if (isinf(other)) continue;
            if (ours > other)
                fail_msg("seed %u: %s, TP %d, PP %d, %d micro-batches: DIP %.6f s, %s %.6f s",
                         first_seed + (uint32_t)i, d.file, d.tp, d.pp, d.micro_batches, ours,
                         others[k].name, other);
            counted[k]++;
            slower[k] += other > ours;
        }
    }
    for (int k = 0; k < OTHERS; k++) {
        print_message("%s: fits in %d of %d jobs, slower in %d\n", others[k].name, counted[k],
                      job_count, slower[k]);
        assert_true(counted[k] >= job_count / 3 && slower[k] >= counted[k] / 4);
    }
    print_message("fewer micro-batches than stages in %d\n", few);
    assert_true(few >= job_count / 4);
}

/* Its micro-batches are a multiple of the stages. */
static void test_never_slower_than_vpp(void **state) {
    (void)state;
    static const int chunks[] = { 2, 4 };
    enum { DEGREES = sizeof chunks / sizeof chunks[0] };
    int counted[DEGREES] = { 0 }, slower[DEGREES] = { 0 };
    const int jobs = (job_count + 1) / 2;
    for (int i = 0; i < jobs; i++) {
        struct drawn d = draw(first_seed + (uint32_t)i);
        d.micro_batches = d.pp * (1 + i % 3);
        double ours = step_s(&d, "{\"name\":\"dip\",\"rollouts\":60}");
        for (int k = 0; k < DEGREES; k++) {
            double other =
                step_of(&d, "\"partition\":\"parameter\",\"recompute\":\"adaptive\"", chunks[k]);
            if (isinf(other)) continue;
            if (ours > other)
                fail_msg("seed %u: %s, TP %d, PP %d, %d micro-batches: DIP %.6f s, VPP %d %.6f s",
                         first_seed + (uint32_t)i, d.file, d.tp, d.pp, d.micro_batches, ours,
                         chunks[k], other);
            counted[k]++;
            slower[k] += other > ours;
        }
    }
    for (int k = 0; k < DEGREES; k++) {
        print_message("VPP %d on its own chunks: fits in %d of %d jobs, slower in %d\n", chunks[k],
                      counted[k], jobs, slower[k]);
        assert_true(counted[k] >= jobs / 3 && slower[k] >= counted[k] / 4);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) job_count = atoi(argv[1]);
    if (argc > 2) first_seed = (uint32_t)atol(argv[2]);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_never_slower),
                                        cmocka_unit_test(test_never_slower_than_vpp) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
