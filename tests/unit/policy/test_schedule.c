/* test_schedule.c - the orders of the schedules, and what each holds in flight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "sim/policy/schedule/schedule.h"

enum { MAX_STAGES = 9, MAX_MICRO_BATCHES = 12 };

static const struct {
    const char *policy;
    int64_t stage, stage_count, micro_batch_count;
    const char *want;
    int64_t want_in_flight;
} orders[] = {
    { "1f1b", 0, 4, 6, "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5", 4 },
    { "1f1b", 1, 4, 6, "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5", 3 },
    { "1f1b", 2, 4, 6, "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5", 2 },
    { "1f1b", 3, 4, 6, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5", 1 },
    { "1f1b", 0, 4, 2, "F0 F1 B0 B1", 2 },
    { "1f1b", 2, 4, 2, "F0 F1 B0 B1", 2 },
    { "1f1b", 3, 4, 2, "F0 B0 F1 B1", 1 },
    { "1f1b", 0, 1, 3, "F0 B0 F1 B1 F2 B2", 1 },
    { "1f1b", 0, 2, 1, "F0 B0", 1 },
    { "gpipe", 0, 4, 3, "F0 F1 F2 B2 B1 B0", 3 },
    { "gpipe", 3, 4, 3, "F0 F1 F2 B2 B1 B0", 3 },
    { "gpipe", 0, 1, 1, "F0 B0", 1 },
};

static void test_orders(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        const struct schedule_policy *policy = schedule_policy_find(orders[i].policy);
        assert_non_null(policy);
        struct schedule_entry entries[2 * MAX_MICRO_BATCHES];
        struct schedule_place place = { orders[i].stage, orders[i].stage_count, 1,
                                        orders[i].micro_batch_count, false };
        policy->order(&place, entries);
        char text[256] = "";
        for (int64_t k = 0; k < 2 * orders[i].micro_batch_count; k++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%c%d", k > 0 ? " " : "",
                     entries[k].backward ? 'B' : 'F', entries[k].micro_batch);
        if (strcmp(text, orders[i].want) != 0)
            fail_msg("row %zu, %s: got %s, want %s", i, orders[i].policy, text, orders[i].want);
        int64_t in_flight = policy->in_flight(&place);
        if (in_flight != orders[i].want_in_flight)
            fail_msg("row %zu, %s: %lld in flight, want %lld", i, orders[i].policy,
                     (long long)in_flight, (long long)orders[i].want_in_flight);
    }
}

/* Any policy: each micro-batch runs forward once and then backward once, and the most that are in
 * between is what in_flight says. */
static void check_order(const struct schedule_policy *policy, int64_t stage, int64_t stage_count,
                        int64_t micro_batch_count) {
    struct schedule_entry entries[2 * MAX_MICRO_BATCHES];
    int passes[MAX_MICRO_BATCHES] = { 0 };
    int64_t held = 0, most = 0;
    struct schedule_place place = { stage, stage_count, 1, micro_batch_count, false };
    policy->order(&place, entries);
    for (int64_t k = 0; k < 2 * micro_batch_count; k++) {
        int32_t g = entries[k].micro_batch;
        if (g < 0 || g >= micro_batch_count || passes[g] != (entries[k].backward ? 1 : 0))
            fail_msg("%s, stage %lld of %lld, %lld micro-batches: entry %lld is out of place",
                     policy->name, (long long)stage, (long long)stage_count,
                     (long long)micro_batch_count, (long long)k);
        passes[g]++;
        held += entries[k].backward ? -1 : 1;
        if (held > most) most = held;
    }
    if (most != policy->in_flight(&place))
        fail_msg("%s, stage %lld of %lld, %lld micro-batches: %lld in flight", policy->name,
                 (long long)stage, (long long)stage_count, (long long)micro_batch_count,
                 (long long)most);
}

/* Chunks: every stage runs each pass of each (micro-batch, chunk) once, forward before backward, a
 * chunk's forward after that of the chunk before it, and holds at most in_flight. */
static void check_chunks(bool fills_one_round) {
    for (int64_t stage_count = 2; stage_count <= 4; stage_count++)
        for (int64_t chunks = 2; chunks <= 4; chunks++)
            for (int64_t m = stage_count; m <= 4 * stage_count; m += stage_count)
                for (int64_t stage = 0; stage < stage_count; stage++) {
                    struct schedule_place place = { stage, stage_count, chunks, m,
                                                    fills_one_round };
                    struct schedule_entry entries[2 * 16 * 4];
                    int passes[4][16] = { { 0 } };
                    int64_t held = 0, most = 0;
                    schedule_interleaved.order(&place, entries);
                    for (int64_t k = 0; k < schedule_entry_count(&place); k++) {
                        struct schedule_entry e = entries[k];
                        bool inside = e.micro_batch >= 0 && e.micro_batch < m && e.chunk >= 0 &&
                                      e.chunk < chunks;
                        bool order =
                            inside && passes[e.chunk][e.micro_batch] == (e.backward ? 1 : 0);
                        if (order && !e.backward && e.chunk > 0)
                            order = passes[e.chunk - 1][e.micro_batch] > 0;
                        if (!order)
                            fail_msg("P %d, v %d, m %d, stage %d: entry %d", (int)stage_count,
                                     (int)chunks, (int)m, (int)stage, (int)k);
                        passes[e.chunk][e.micro_batch]++;
                        held += e.backward ? -1 : 1;
                        if (held > most) most = held;
                    }
                    assert_int_equal(most, schedule_interleaved.in_flight(&place));
                    const int64_t ahead =
                        2 * (stage_count - 1 - stage) + (chunks - 1) * stage_count + 1;
                    const bool all = fills_one_round && m == stage_count;
                    assert_int_equal(most, all || ahead > m * chunks ? m * chunks : ahead);
                }
}

static void test_chunks_are_complete(void **state) {
    (void)state;
    check_chunks(false);
    check_chunks(true);
}

static void test_every_policy_is_complete(void **state) {
    (void)state;
    size_t count;
    const struct schedule_policy *const *policies = schedule_policies(&count);
    for (size_t i = 0; i < count; i++)
        for (int64_t stage_count = 1; stage_count <= MAX_STAGES; stage_count++)
            for (int64_t stage = 0; stage < stage_count; stage++)
                for (int64_t m = 1; m <= MAX_MICRO_BATCHES; m++)
                    check_order(policies[i], stage, stage_count, m);
}

static void test_table(void **state) {
    (void)state;
    size_t count;
    const struct schedule_policy *const *policies = schedule_policies(&count);
    assert_true(count >= 2);
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(schedule_policy_find(policies[i]->name), policies[i]);
        if (strlen(policies[i]->help) < 10) fail_msg("%s has no help", policies[i]->name);
        if (i > 0 && strcmp(policies[i - 1]->name, policies[i]->name) >= 0)
            fail_msg("%s is not in its place", policies[i]->name);
    }
    assert_null(schedule_policy_find("1F1B"));
    assert_null(schedule_policy_find(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_every_policy_is_complete),
        cmocka_unit_test(test_chunks_are_complete),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
