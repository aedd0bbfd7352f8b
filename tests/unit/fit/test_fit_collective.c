/* test_fit_collective.c - collectives that were not measured: from which others, by which rule. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "calibrate/fit/fit_collective.h"
#include "costmodel/efficiency.h"

static struct nccl_row row(const char *gpu, const char *op, int64_t rank_count, double bytes,
                           double time_us) {
    return (struct nccl_row){ .gpu = gpu,
                              .op = op,
                              .n_gpus = rank_count,
                              .n_nodes = 1,
                              .bytes = bytes,
                              .time_us = time_us,
                              .interconnect = "",
                              .nccl_version = "",
                              .source = "test" };
}

#define TWO_SIZES(gpu, op, ranks, us)                                                              \
    row(gpu, op, ranks, 1e6, us), row(gpu, op, ranks, 2e6, 2 * (us))

static void test_rules(void **state) {
    (void)state;
    const struct nccl_row rows[] = {
        TWO_SIZES("B200", "all_gather", 2, 10),      TWO_SIZES("B200", "all_gather", 4, 20),
        TWO_SIZES("B200", "all_gather", 8, 30),      TWO_SIZES("B200", "reduce_scatter", 2, 20),
        TWO_SIZES("B200", "reduce_scatter", 8, 240), TWO_SIZES("B200", "alltoall", 4, 40),
        TWO_SIZES("B200", "all_reduce", 4, 50),      TWO_SIZES("H100", "all_gather", 4, 100),
        TWO_SIZES("H100", "reduce_scatter", 4, 100), TWO_SIZES("H100", "reduce_scatter", 8, 150),
        TWO_SIZES("H100", "alltoall", 4, 100),       TWO_SIZES("H100", "alltoall", 8, 170),
        TWO_SIZES("H200", "all_gather", 8, 180),     TWO_SIZES("H200", "reduce_scatter", 4, 110),
        TWO_SIZES("H200", "reduce_scatter", 8, 132), TWO_SIZES("H200", "sendrecv", 2, 70),
        TWO_SIZES("A100", "alltoall", 4, 40),        TWO_SIZES("A100", "all_reduce", 4, 50),
        TWO_SIZES("H100", "all_reduce", 2, 60),      TWO_SIZES("H100", "all_reduce", 4, 80),
        TWO_SIZES("L40S", "alltoall", 2, 30),        TWO_SIZES("L40S", "alltoall", 8, 102),
    };
    static const struct {
        const char *name, *gpu, *relative;
        enum operator_kind op;
        int64_t rank_count;
        double want_us;
        const char *rule;
    } cases[] = {
        { "measured", "B200", "H100", OPERATOR_ALL_GATHER, 4, 20, NULL },
        { "between two ratios of 2 and 8: 4", "B200", "H100", OPERATOR_REDUCE_SCATTER, 4, 80,
          "all-gather among 4 GPUs of B200, times the ratio" },
        { "the sibling with a ratio", "B200", "H100", OPERATOR_ALL_TO_ALL, 8, 60,
          "all-gather among 8 GPUs of B200, times the ratio" },
        { "both siblings, two passes", "H200", "B300", OPERATOR_ALL_REDUCE, 8, 308.2855818879631,
          "all-gather and reduce-scatter among 8 GPUs of H200" },
        { "the relative's ratio", "A100", "H100", OPERATOR_ALL_TO_ALL, 8, 68,
          "4 GPUs of A100 times the ratio of 8 to 4 on H100" },
        { "no ratio: the sibling itself", "H200", "B300", OPERATOR_ALL_GATHER, 4, 110 * 180 / 132.0,
          "reduce-scatter among 4 GPUs of H200, times the ratio" },
        { "twins: before the sibling", "H100", "H200", OPERATOR_ALL_GATHER, 8, 150,
          "reduce-scatter among 8 GPUs of H100, times the ratio" },
        { "all-reduce by the ring", "A100", "H100", OPERATOR_ALL_REDUCE, 8,
          50 * (0.5 + 0.5 * 7 / 3), "by the ring law" },
        { "all-reduce of fewer: the relative's ratio", "A100", "H100", OPERATOR_ALL_REDUCE, 2, 37.5,
          "4 GPUs of A100 times the ratio of 2 to 4 on H100" },
        { "of two as near, the larger", "L40S", "H100", OPERATOR_ALL_TO_ALL, 4, 60,
          "8 GPUs of L40S times the ratio of 4 to 8 on H100" },
        { "from the relative alone", "H100", "H200", OPERATOR_SEND, 2, 70,
          "H200 times what H100 takes more among 4 GPUs" },
        { "the relative's by how much slower this GPU is", "L40S", "H100", OPERATOR_ALL_GATHER, 4,
          60, "H100 times what L40S takes more among 8 GPUs" },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct collective_source source = { rows, sizeof rows / sizeof rows[0], cases[i].gpu,
                                                  cases[i].relative };
        struct collective_fit fit;
        if (!fit_collective_or_derive(arena, &source, cases[i].op, cases[i].rank_count, &fit))
            fail_msg("%s: not found", cases[i].name);
        if (fabs(fit.time_us[0] / cases[i].want_us - 1) > 1e-9)
            fail_msg("%s: %.6g us, want %.6g", cases[i].name, fit.time_us[0], cases[i].want_us);
        if (fit.op != cases[i].op || fit.rank_count != cases[i].rank_count)
            fail_msg("%s: another collective", cases[i].name);
        if (!cases[i].rule ? fit.rule != NULL : !fit.rule || !strstr(fit.rule, cases[i].rule))
            fail_msg("%s: %s", cases[i].name, fit.rule ? fit.rule : "measured");
    }
    const struct collective_source none = { rows, sizeof rows / sizeof rows[0], "B200", "H100" };
    struct collective_fit fit;
    assert_false(fit_collective_or_derive(arena, &none, OPERATOR_SEND, 2, &fit));
    arena_destroy(arena);
}

/* Each table of the shipped ones, hidden and derived again from the rest of its GPU: median of what
 * the sizes from 1 MiB on are off. */
static void test_hidden(void **state) {
    (void)state;
    static const struct {
        const char *gpu, *relative;
        double median_max;
    } cases[] = {
        { "A100-SXM4-80GB", "H100-SXM5-80GB", 0.07 }, { "H100-SXM5-80GB", "H200-SXM", 0.04 },
        { "H200-SXM", "H100-SXM5-80GB", 0.04 },       { "B200-SXM", "H100-SXM5-80GB", 0.10 },
        { "L40S", "H100-SXM5-80GB", 0.22 },
    };
    static const int64_t rank_counts[] = { 2, 4, 8 };
    static const struct {
        enum operator_kind op;
        const char *name;
    } ops[] = { { OPERATOR_ALL_GATHER, "all_gather" },
                { OPERATOR_REDUCE_SCATTER, "reduce_scatter" },
                { OPERATOR_ALL_REDUCE, "all_reduce" },
                { OPERATOR_ALL_TO_ALL, "alltoall" } };
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct nccl_rows all;
    if (!nccl_rows_read(arena, BALLAST_SOURCE_DIR "/calibrate/measured/nccl.csv.gz", &all, &err))
        fail_msg("%s", err.text);
    struct nccl_row *rest = arena_array(arena, struct nccl_row, all.count);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        double error[12 * COLLECTIVE_FIT_SIZES];
        int64_t error_count = 0;
        for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++)
            for (size_t n = 0; n < 3; n++) {
                struct collective_fit measured, derived;
                int64_t count = 0;
                if (!fit_collective(all.rows, all.count, cases[c].gpu, ops[o].op, rank_counts[n],
                                    &measured))
                    continue;
                for (int64_t i = 0; i < all.count; i++)
                    if (strcmp(all.rows[i].gpu, cases[c].gpu) != 0 ||
                        strcmp(all.rows[i].op, ops[o].name) != 0 ||
                        all.rows[i].n_gpus != rank_counts[n])
                        rest[count++] = all.rows[i];
                const struct collective_source source = { rest, count, cases[c].gpu,
                                                          cases[c].relative };
                if (!fit_collective_or_derive(arena, &source, ops[o].op, rank_counts[n], &derived))
                    fail_msg("%s: not found", cases[c].gpu);
                assert_non_null(derived.rule);
                for (int64_t i = 0; i < measured.count; i++)
                    for (int64_t j = 0; j < derived.count; j++)
                        if (measured.bytes[i] == derived.bytes[j] && measured.bytes[i] >= 1048576)
                            error[error_count++] = log(derived.time_us[j] / measured.time_us[i]);
            }
        const struct error_summary s = error_summary_of(error, error_count);
        print_message("%-14s %ld sizes of hidden tables, median %.1f %%, p90 %.1f\n", cases[c].gpu,
                      (long)s.count, 100 * s.median, 100 * s.p90);
        if (!(s.count >= 30 && s.median < cases[c].median_max))
            fail_msg("%s: median %.4f of %ld", cases[c].gpu, s.median, (long)s.count);
    }
    arena_destroy(arena);
}

/* 10 us and 20 GB/s where the table is slower, but not below its smallest time. */
static void test_line(void **state) {
    (void)state;
    struct collective_fit table = { .op = OPERATOR_ALL_REDUCE,
                                    .rank_count = 2,
                                    .count = 4,
                                    .bytes = { 1e3, 1e5, 1e6, 1e8 },
                                    .time_us = { 12, 14, 100, 9000 } };
    const double want_us[] = { 12, 14, 60, 5010 };
    const struct collective_fit got = collective_by_line(&table, 10, 20);
    for (int i = 0; i < 4; i++)
        if (fabs(got.time_us[i] - want_us[i]) > 0.01)
            fail_msg("size %d: %g us, want %g", i, got.time_us[i], want_us[i]);
    table.rule = "derived"; /* faster than the line, but nobody measured it */
    table.time_us[1] = 12.5;
    assert_true(fabs(collective_by_line(&table, 10, 20).time_us[1] - 15) < 0.01);
}

/* Half of the links take what all take for twice as much; links half as fast again save of what is
 * not latency; no bus bandwidth is above the cap. */
static void test_link(void **state) {
    (void)state;
    const struct collective_fit table = { .op = OPERATOR_ALL_REDUCE,
                                          .rank_count = 2,
                                          .count = 4,
                                          .bytes = { 1024, 2048, 4096, 8192 },
                                          .time_us = { 10, 12, 20, 36 } };
    const struct {
        double ratio, cap_GB_per_s, want_us[4];
    } cases[] = {
        { 0.5, 0, { 10, 20, 36, 72 } },
        { 1.5, 0, { 10, 10 + 2 / 1.5, 10 + 10 / 1.5, 10 + 26 / 1.5 } },
        { 0.5, 0.1, { 20.24, 30.48, 50.96, 91.92 } },
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const struct collective_fit got =
            collective_by_link(&table, cases[c].ratio, cases[c].cap_GB_per_s);
        for (int i = 0; i < 4; i++)
            if (fabs(got.time_us[i] - cases[c].want_us[i]) > 1e-9)
                fail_msg("case %zu, size %d: %g us, want %g", c, i, got.time_us[i],
                         cases[c].want_us[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rules), cmocka_unit_test(test_hidden),
                                        cmocka_unit_test(test_line), cmocka_unit_test(test_link) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
