/* test_memory_program.c - candidates against enumeration, the program against GLPK. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "sim/base/random.h"
#include "sim/policy/joint/memory_program.h"

static void test_candidates(void **state) {
    (void)state;
    /* Keep or recompute, 6 equal layers: every count is a stop. */
    struct memory_group group = { 6, 2, { { 0.010, 1e6 }, { 0, 9e6 } } };
    struct memory_candidate found[10];
    assert_int_equal(memory_candidates(&group, 1, 10, found), 7);
    for (int32_t i = 0; i < 7; i++) {
        assert_true(fabs(found[i].seconds - (0.010 * (6 - i))) <= 1e-12);
        assert_true(fabs(found[i].bytes - (6e6 + 8e6 * i)) <= 1);
        assert_int_equal(found[i].counts[0][1], i);
    }
    /* 40 layers and 5 candidates: ends and the fastest of three ranges. */
    group.layers = 40;
    assert_int_equal(memory_candidates(&group, 1, 5, found), 5);
    assert_int_equal(found[0].counts[0][1], 0);
    assert_int_equal(found[1].counts[0][1], 13);
    assert_int_equal(found[2].counts[0][1], 26);
    assert_int_equal(found[3].counts[0][1], 39);
    assert_int_equal(found[4].counts[0][1], 40);
    /* A dominated option and one above the hull are never taken. */
    struct memory_group four = { 3, 4, { { 1, 10 }, { 0.95, 20 }, { 1.5, 30 }, { 0, 40 } } };
    int32_t count = memory_candidates(&four, 1, 10, found);
    assert_int_equal(count, 4);
    for (int32_t i = 0; i < count; i++)
        assert_true(found[i].counts[0][1] == 0 && found[i].counts[0][2] == 0);
}

/* Two groups: no mix of whole layers is at once smaller and faster than a candidate. */
static void test_candidates_are_undominated(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 21);
    for (int round = 0; round < 50; round++) {
        struct memory_group groups[2];
        for (int g = 0; g < 2; g++) {
            groups[g] =
                (struct memory_group){ .layers = 1 + random_mt_next(&mt) % 5, .option_count = 3 };
            for (int o = 0; o < 3; o++)
                groups[g].options[o] =
                    (struct memory_option){ 0.001 * (double)(random_mt_next(&mt) % 100),
                                            1e6 * (double)(1 + random_mt_next(&mt) % 100) };
        }
        struct memory_candidate found[32];
        int32_t count = memory_candidates(groups, 2, 32, found);
        for (int64_t a = 0; a <= groups[0].layers; a++)
            for (int64_t b = 0; a + b <= groups[0].layers; b++)
                for (int64_t c = 0; c <= groups[1].layers; c++)
                    for (int64_t d = 0; c + d <= groups[1].layers; d++) {
                        int64_t n[2][3] = { { a, b, groups[0].layers - a - b },
                                            { c, d, groups[1].layers - c - d } };
                        double seconds = 0, bytes = 0;
                        for (int g = 0; g < 2; g++)
                            for (int o = 0; o < 3; o++) {
                                seconds += (double)n[g][o] * groups[g].options[o].seconds;
                                bytes += (double)n[g][o] * groups[g].options[o].bytes;
                            }
                        for (int32_t i = 0; i < count; i++)
                            assert_false(seconds < found[i].seconds - 1e-9 &&
                                         bytes < found[i].bytes - 1e-3);
                    }
    }
}

enum { PAIRS = 400, CANDIDATES = 10 };

struct instance {
    struct memory_program program;
    int32_t first[PAIRS], last[PAIRS], counts[PAIRS];
    double capacity[2 * PAIRS], host_capacity[2 * PAIRS];
    struct memory_candidate candidates[PAIRS][CANDIDATES];
    const struct memory_candidate *lists[PAIRS];
};

/* A rank in 1F1B with lives of varied length; room for a share of what keeping all would take. */
static void draw(struct random_mt *mt, int32_t pairs, double share, struct instance *in) {
    memset(in, 0, sizeof *in);
    double peak = 0, floor = 0;
    for (int32_t i = 0; i < pairs; i++) {
        in->first[i] = 2 * i;
        int32_t life = 1 + (int32_t)(random_mt_next(mt) % 24);
        in->last[i] = 2 * i + 2 * life + 1 < 2 * pairs ? 2 * i + 2 * life + 1 : 2 * pairs - 1;
        struct memory_group group = { .layers = 16, .option_count = 2 };
        double size = 0.3 + random_mt_uniform(mt);
        group.options[0] = (struct memory_option){ size * 2e-3, size * 10e6 };
        group.options[1] = (struct memory_option){ 0, size * 170e6 };
        in->counts[i] = memory_candidates(&group, 1, CANDIDATES, in->candidates[i]);
        for (int32_t k = 0; k < in->counts[i]; k++) {
            in->candidates[i][k].seconds += 0.1 * size; /* the passes themselves */
            in->candidates[i][k].bytes = ceil(in->candidates[i][k].bytes);
        }
        in->lists[i] = in->candidates[i];
    }
    for (int32_t k = 0; k < 2 * pairs; k++) {
        double most = 0, least = 0;
        for (int32_t i = 0; i < pairs; i++) {
            if (in->first[i] > k || in->last[i] < k) continue;
            most += in->candidates[i][in->counts[i] - 1].bytes;
            least += in->candidates[i][0].bytes;
        }
        peak = fmax(peak, most);
        floor = fmax(floor, least);
    }
    for (int32_t k = 0; k < 2 * pairs; k++)
        in->capacity[k] = floor + share * (peak - floor);
    in->program = (struct memory_program){ pairs,     2 * pairs,  in->first,    in->last,
                                           in->lists, in->counts, in->capacity, NULL };
}

/* slack: GLPK keeps rows to 1e-7 of the numbers in them. */
static void check_choice(const struct memory_program *p, const int32_t *chosen, double seconds,
                         double slack) {
    double sum = 0;
    for (int32_t k = 0; k < p->event_count; k++) {
        double use = 0;
        for (int32_t i = 0; i < p->pair_count; i++)
            if (p->first[i] <= k && k <= p->last[i]) use += p->candidates[i][chosen[i]].bytes;
        assert_true(use <= p->capacity_bytes[k] * (1 + slack));
    }
    for (int32_t i = 0; i < p->pair_count; i++)
        sum += p->candidates[i][chosen[i]].seconds;
    assert_true(fabs(sum - seconds) <= 1e-9);
}

#ifdef __SANITIZE_ADDRESS__
enum { GLPK_ROUNDS = 6 };
#else
enum { GLPK_ROUNDS = 12 };
#endif

/* Small programs: our bound stands below the optimum, our choice within the gap it claims. */
static void test_against_glpk(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 22);
    struct instance *in = malloc(sizeof *in);
    for (int round = 0; round < GLPK_ROUNDS; round++) {
        draw(&mt, 10 + round, 0.1 + 0.07 * round, in);
        int32_t ours[PAIRS], exact[PAIRS];
        struct memory_program_result fast, slow;
        memory_program_solve(&in->program, 0, ours, &fast);
        memcpy(exact, ours, sizeof exact);
        assert_true(fast.feasible);
        check_choice(&in->program, ours, fast.seconds, 1e-9);
        assert_true(memory_program_exact(&in->program, 1e-6, round % 2 == 0, 5, exact, &slow));
        check_choice(&in->program, exact, slow.seconds, 1e-6);
        assert_true(fast.bound_seconds <= slow.seconds * (1 + 1e-9));
        assert_true(slow.seconds <= fast.seconds * (1 + 1e-6));
        if (fast.seconds > slow.seconds * 1.02)
            fail_msg("round %d: %g s, optimum %g s", round, fast.seconds, slow.seconds);
    }
    free(in);
}

/* A rank of VLM-S with 64 micro-batches has about 200 pairs. */
static void test_gap(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 23);
    struct instance *in = malloc(sizeof *in);
    for (int round = 0; round < 20; round++) {
        draw(&mt, 200, 0.05 + 0.045 * round, in);
        int32_t chosen[PAIRS];
        struct memory_program_result result;
        memory_program_solve(&in->program, 0.05, chosen, &result);
        check_choice(&in->program, chosen, result.seconds, 1e-9);
        if (result.gap_fraction > 0.05) fail_msg("round %d: gap %g", round, result.gap_fraction);
    }
    free(in);
}

static void test_limits(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 24);
    struct instance *in = malloc(sizeof *in);
    int32_t chosen[PAIRS];
    struct memory_program_result result;
    draw(&mt, 30, 1, in); /* room for everything: nothing is recomputed, and that is proven */
    memory_program_solve(&in->program, 0, chosen, &result);
    for (int32_t i = 0; i < 30; i++)
        assert_int_equal(chosen[i], in->counts[i] - 1);
    assert_true(result.gap_fraction <= 1e-12);
    for (int32_t k = 0; k < 60; k++)
        in->capacity[k] = 1; /* no room at all */
    memory_program_solve(&in->program, 0.05, chosen, &result);
    assert_false(result.feasible);
    free(in);
}

/* What is left at the fullest event of a pair's life. */
static double room_left(const struct memory_program *p, const int32_t *chosen, int32_t pair) {
    double least = INFINITY;
    for (int32_t k = p->first[pair]; k <= p->last[pair]; k++) {
        double left = p->capacity_bytes[k];
        for (int32_t i = 0; i < p->pair_count; i++)
            if (p->first[i] <= k && k <= p->last[i]) left -= p->candidates[i][chosen[i]].bytes;
        least = fmin(least, left);
    }
    return least;
}

/* Lives of up to the whole step: memory holds, and no pair could take one candidate more. */
static void test_long_lives(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 26);
    struct instance *in = malloc(sizeof *in);
    int solved = 0;
    for (int round = 0; round < 12; round++) {
        const int32_t pairs = 20 + 16 * round;
        int32_t chosen[PAIRS];
        struct memory_program_result result;
        draw(&mt, pairs, 0.2 + 0.05 * round, in);
        for (int32_t i = 0; i < pairs; i++) {
            const int32_t left = 2 * pairs - 1 - in->first[i];
            in->last[i] = in->first[i] + 1 + (int32_t)(random_mt_next(&mt) % (uint32_t)left);
        }
        for (int32_t k = 0; k < 2 * pairs; k++)
            in->capacity[k] *= 4;
        memory_program_solve(&in->program, 0.02, chosen, &result);
        if (!result.feasible) continue;
        solved++;
        check_choice(&in->program, chosen, result.seconds, 0);
        for (int32_t i = 0; i < pairs; i++)
            if (chosen[i] + 1 < in->counts[i])
                assert_true(in->lists[i][chosen[i] + 1].bytes - in->lists[i][chosen[i]].bytes >
                            room_left(&in->program, chosen, i));
    }
    assert_true(solved >= 6);
    free(in);
}

/* ---- with host memory ---- */

enum { FEW = 6, FEW_CANDIDATES = 4 };

/* Pairs that keep, recompute, or offload at some price, half or whole. */
static void draw_few(struct random_mt *mt, struct instance *in) {
    memset(in, 0, sizeof *in);
    double most = 0, all = 0;
    for (int32_t i = 0; i < FEW; i++) {
        in->first[i] = i + (int32_t)(random_mt_next(mt) % 3);
        in->last[i] = in->first[i] + 1 + (int32_t)(random_mt_next(mt) % 5);
        if (in->last[i] > 2 * FEW - 1) in->last[i] = 2 * FEW - 1;
        const double size = ceil(1e6 * (10 + random_mt_uniform(mt) * 90));
        const double recompute = 0.01 + 0.02 * random_mt_uniform(mt),
                     copy = 0.015 * random_mt_uniform(mt);
        struct memory_candidate *c = in->candidates[i];
        c[0] = (struct memory_candidate){ .seconds = 0.1 + copy, .host_bytes = size };
        c[1] = (struct memory_candidate){ .seconds = 0.1 + recompute, .bytes = ceil(size / 10) };
        c[2] = (struct memory_candidate){ .seconds = 0.1 + copy / 4,
                                          .bytes = ceil(size / 2),
                                          .host_bytes = ceil(size / 2) };
        c[3] = (struct memory_candidate){ .seconds = 0.1, .bytes = size };
        in->counts[i] = FEW_CANDIDATES;
        in->lists[i] = c;
        most = fmax(most, size);
        all += size;
    }
    const double room = (0.15 + 0.5 * random_mt_uniform(mt)) * all,
                 host = 0.4 * random_mt_uniform(mt) * all;
    for (int32_t k = 0; k < 2 * FEW; k++) {
        in->capacity[k] = fmax(room, 0.2 * all);
        in->host_capacity[k] = host;
    }
    in->program = (struct memory_program){ FEW,       2 * FEW,    in->first,    in->last,
                                           in->lists, in->counts, in->capacity, in->host_capacity };
}

static bool fits_both(const struct memory_program *p, const int32_t *chosen) {
    for (int32_t k = 0; k < p->event_count; k++) {
        double use = 0, host = 0;
        for (int32_t i = 0; i < p->pair_count; i++) {
            if (p->first[i] > k || p->last[i] < k) continue;
            use += p->candidates[i][chosen[i]].bytes;
            host += p->candidates[i][chosen[i]].host_bytes;
        }
        if (use > p->capacity_bytes[k] || host > p->host_capacity_bytes[k]) return false;
    }
    return true;
}

/* The least over all choices; INFINITY: none fits. */
static double enumerate(const struct memory_program *p) {
    int32_t chosen[FEW] = { 0 };
    double best = INFINITY;
    for (int32_t at = 0; at < FEW;) {
        double seconds = 0;
        for (int32_t i = 0; i < FEW; i++)
            seconds += p->candidates[i][chosen[i]].seconds;
        if (seconds < best && fits_both(p, chosen)) best = seconds;
        for (at = 0; at < FEW && ++chosen[at] == FEW_CANDIDATES; at++)
            chosen[at] = 0;
    }
    return best;
}

/* Both memories limited: our bound stands below the optimum of all choices, which GLPK finds too,
 * and our choice fits and stays close. */
static void test_two_memories(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 25);
    struct instance *in = malloc(sizeof *in);
    int offloads = 0, solved = 0;
    double worst = 0;
    for (int round = 0; round < 200; round++) {
        draw_few(&mt, in);
        int32_t ours[PAIRS], exact[PAIRS];
        struct memory_program_result fast, slow;
        memory_program_solve(&in->program, 0, ours, &fast);
        const double least = enumerate(&in->program);
        if (!fast.feasible) continue; /* the first choice is not searched for exhaustively */
        solved++;
        assert_true(fits_both(&in->program, ours));
        assert_true(fast.bound_seconds <= least + 1e-9 && least <= fast.seconds + 1e-9);
        worst = fmax(worst, fast.seconds / least - 1);
        for (int32_t i = 0; i < FEW; i++)
            offloads += in->candidates[i][ours[i]].host_bytes > 0;
        if (round % 10 != 0) continue;
        memcpy(exact, ours, sizeof exact);
        assert_true(memory_program_exact(&in->program, 1e-9, true, 5, exact, &slow));
        assert_true(fabs(slow.seconds - least) <= 1e-6);
    }
    if (solved < 190 || offloads < 100 || worst > 0.05)
        fail_msg("%d of 200 solved, %d pairs offloaded, %.3f above the optimum", solved, offloads,
                 worst);
    free(in);
}

int main(int argc, char **argv) {
    if (argc > 1) { /* test_memory_program PAIRS: milliseconds an instance */
        struct random_mt mt;
        random_mt_seed(&mt, 23);
        struct instance *in = malloc(sizeof *in);
        for (int round = 0; round < 10; round++) {
            draw(&mt, atoi(argv[1]), 0.05 + 0.09 * round, in);
            int32_t chosen[PAIRS];
            struct memory_program_result result;
            struct timespec a, b;
            clock_gettime(CLOCK_MONOTONIC, &a);
            memory_program_solve(&in->program, argc > 2 ? atof(argv[2]) : 0.05, chosen, &result);
            clock_gettime(CLOCK_MONOTONIC, &b);
            printf("%.3f ms, %.4f s, gap %.4f, %ld rounds\n",
                   (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6,
                   result.seconds, result.gap_fraction, (long)result.rounds);
        }
        free(in);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_candidates),   cmocka_unit_test(test_candidates_are_undominated),
        cmocka_unit_test(test_against_glpk), cmocka_unit_test(test_gap),
        cmocka_unit_test(test_limits),       cmocka_unit_test(test_long_lives),
        cmocka_unit_test(test_two_memories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
