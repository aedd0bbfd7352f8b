/* test_calibrate_own.c - what is fitted on a user's rows, what it is called, and which rows are
 * refused or left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "calibrate/fit/calibrate.h"
#include "sim/base/json.h"

#define MEASURED BALLAST_SOURCE_DIR "/calibrate/measured"
#define GEMM     "gpu,dtype,m,n,k,time_us,framework,source\n"
#define NCCL     "gpu,n_gpus,n_nodes,interconnect,op,bytes,time_us,in_place,nccl_version,source\n"
#define MEMBW    "gpu,test,bytes,time_us,fraction_of_peak,framework,source\n"
#define ATTENTION                                                                                  \
    "gpu,dtype,direction,batch,seqlen,heads_q,heads_kv,head_dim_qk,head_dim_v,causal,time_us,"     \
    "framework,source\n"
#define FORWARD(seqlen, kv, us) "H20,bf16,fwd,1," seqlen ",32," kv ",128,128,1," us ",fa3,mine\n"
#define SIX_FORWARD                                                                                \
    FORWARD("1024", "8", "110")                                                                    \
    FORWARD("2048", "8", "380")                                                                    \
    FORWARD("4096", "8", "1400")                                                                   \
    FORWARD("8192", "8", "5400") FORWARD("12288", "8", "12000") FORWARD("16384", "8", "21300")
#define REDUCE(bytes, us, version)                                                                 \
    "H20,8,1,NVSwitch,all_reduce," bytes "," us ",0," version ",mine\n"
#define STREAM(framework) "H20,stream-scale,1e9,270,0.9," framework ",mine\n"

/* A table `file` of a fit for H20: the curves, or the error, or a note, hold `want`. */
static const struct {
    const char *file, *text;
    enum { IN_CURVES, IN_ERROR, IN_NOTES, IN_LINES } where;
    const char *want;
} cases[] = {
    { "nccl",
      NCCL REDUCE("1048576", "40", "2.21.5") REDUCE("67108864", "500", "2.21.5")
          REDUCE("134217728", "700", "2.27.3"),
      IN_CURVES, "3 rows of H20 (NCCL 2.21.5 (2), 2.27.3 (1)) in " },
    { "nccl", NCCL REDUCE("1048576", "40", "2.21.5") REDUCE("67108864", "500", ""), IN_CURVES,
      "(NCCL 2.21.5 (1), not stated (1)) in " },
    { "nccl", NCCL REDUCE("1048576", "40", "") REDUCE("1073741824", "4.7", ""), IN_ERROR,
      "nccl.csv:3: error: all_reduce of 1.07374e+09 bytes among 8 GPUs in 4.7 us is 4e+05 GB/s a "
      "GPU, where H20's NVLink has 450: time_us is in" },
    /* ten times NVLink, which memory could do */
    { "nccl", NCCL REDUCE("1048576", "40", "") REDUCE("1073741824", "400", ""), IN_ERROR,
      "nccl.csv:3: error: all_reduce of 1.07374e+09 bytes among 8 GPUs in 400 us is " },
    { "nccl", NCCL REDUCE("1048576", "40000", "") REDUCE("1073741824", "4700000", ""), IN_ERROR,
      "nccl.csv:2: error: all_reduce of 1.04858e+06 bytes among 8 GPUs in 40000 us takes 9.81e+03 "
      "times what the links at their full rate make of it: is time_us in microseconds?" },
    { "nccl",
      NCCL REDUCE("1048576", "25", "") REDUCE("2097152", "9", "") REDUCE("67108864", "500", ""),
      IN_NOTES, "all-reduce of 8 on H20: one in five points lies " },
    /* a run that was stopped before its sizes tell a bandwidth */
    { "nccl", NCCL REDUCE("1024", "20", "") REDUCE("65536", "22", ""), IN_ERROR,
      "2 rows of H20 not taken: the largest sizes of their collective and ranks tell no bandwidth: "
      "a "
      "table needs 64 MB, no faster than the links (the first in line 2)" },
    { "nccl", NCCL REDUCE("67108864", "400", "") REDUCE("134217728", "460", ""), IN_ERROR,
      "tell no bandwidth" },
    { "membw", MEMBW STREAM("a") "H20,stream-scale,1e9,270,0.2,a,mine\n", IN_ERROR,
      "stream-scale of 1e+09 bytes in 270 us is 0.93 of H20's peak of memory, fraction_of_peak "
      "says "
      "0.2: which of them is it?" },
    { "attention",
      ATTENTION FORWARD("4096", "8", "1400") FORWARD("4096", "8", "1401")
          FORWARD("4096", "8", "1402") FORWARD("4096", "8", "1403") FORWARD("4096", "8", "1404")
              FORWARD("4096", "8", "1405"),
      IN_ERROR, "of two lengths" },
    { "gemm", GEMM "H20,bf16,4096,4096,4096,1200000,torch,mine\n", IN_ERROR,
      "gemm.csv:2: error: a matmul of 4096 x 4096 x 4096 in 1.2e+06 us takes 1.23e+03 times what "
      "the GPU's peaks and a launch make of it: is time_us in microseconds?" },
    { "gemm", GEMM "H20,bf16,4096,4096,4096,1200,torch,\"mine\n", IN_ERROR,
      "gemm.csv:2: error: a quote is opened and not closed" },
    { "nccl",
      NCCL REDUCE("1048576", "40", "")
          REDUCE("134217728", "700", "") "H20,1,1,,all_reduce,1073741824,0.4"
                                         ",1,,mine\n",
      IN_CURVES, "2 rows of H20 in " },
    { "membw", MEMBW STREAM("a") STREAM("b") STREAM("a"), IN_CURVES,
      "3 rows of H20 (streams, a (2), b (1)) in " },
    { "membw", MEMBW STREAM("a") "H20,stream-scale,1e9,270,91,a,mine\n", IN_ERROR,
      "fraction_of_peak is a fraction" },
    { "membw", MEMBW STREAM("a") "H20,stream-scale,1e9,270,,a,mine\n", IN_NOTES,
      "1 row of H20 not taken: fraction_of_peak is blank" },
    { "membw", MEMBW STREAM("a") "H20,rms_norm-fwd,1e9,270,0.8,a,mine\n", IN_NOTES,
      "not fused rms_norm" },
    { "membw",
      MEMBW STREAM("a") "H20,rms_norm-fwd,1e9,270,0.8,cudnn,mine\n"
                        "H20,rms_norm-bwd,1e9,270,0.7,cudnn,mine\n",
      IN_CURVES, ", 2 fused norms there\"" },
    { "membw", MEMBW STREAM("a") ",stream-scale,1e9,270,0.9,a,mine\n", IN_NOTES,
      "holds H20 (1 row), no GPU (1 row): only those of H20 are taken" },
    { "attention", ATTENTION SIX_FORWARD, IN_CURVES, "6 rows of H20 (fa3) in " },
    { "attention", ATTENTION SIX_FORWARD FORWARD("4096", "", "1400"), IN_NOTES,
      "1 row of H20 not taken: dtype, a size or time_us is blank or 0" },
    { "attention", ATTENTION FORWARD("4096", "8", "1.4"), IN_ERROR,
      "an attention of 1 x 4096 tokens with 32 heads of 128 in 1.4 us is " },
    { "gemm", GEMM "H20,fp8,4096,4096,4096,1,torch,mine\n", IN_ERROR, "nothing was fitted: " },
    { "gemm",
      GEMM "H20,fp8,4096,4096,4096,1,torch,mine\nH100-SXM5-80GB,bf16,4096,4096,4096,190,t,mine\n",
      IN_ERROR, "hint: " },
    { "gemm", GEMM "H20,,4096,4096,4096,1,torch,mine\n", IN_ERROR,
      "1 row of H20 not taken: dtype, m, n, k or time_us is blank or 0" },
    { "membw", MEMBW STREAM("a") STREAM("a"), IN_LINES, "streams H20: 2 of " },
    { "membw", MEMBW STREAM("a") STREAM("a"), IN_LINES, "norms H200-SXM: 31 of shipped" },
};

static void run_case(struct arena *arena, const char *mine, size_t i) {
    struct error err = { 0 };
    const struct calibrate_gpu h20 = { .profile = "h20-96g",
                                       .bf16_flop_per_s = 148e12,
                                       .hbm_bytes_per_s = 4e12,
                                       .nvlink_bytes_per_s = 450e9,
                                       .pcie_bytes_per_s = 50e9 };
    struct calibrate_report *report = arena_new(arena, struct calibrate_report);
    const char *path = arena_format(arena, "%s/%s.csv", mine, cases[i].file);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(cases[i].text, file);
    fclose(file);
    cJSON *curves = cJSON_CreateObject();
    const bool ok = calibrate_fit_profile(arena, mine, MEASURED, &h20, curves, report, &err);
    remove(path);
    char *text = ok ? calibrate_curves_text(curves) : NULL;
    const char *notes = "";
    for (int64_t n = 0; n < report->note_count; n++)
        notes = arena_format(arena, "%s%s\n", notes, report->notes[n]);
    const char *lines = "";
    for (int64_t n = 0; n < report->line_count; n++)
        lines = arena_format(arena, "%s%s: %lld of %s\n", lines, report->lines[n].what,
                             (long long)report->lines[n].held_out.count, report->lines[n].from);
    const char *got = cases[i].where == IN_ERROR   ? err.text
                      : cases[i].where == IN_NOTES ? notes
                      : cases[i].where == IN_LINES ? lines
                                                   : text;
    if (ok != (cases[i].where != IN_ERROR) || !strstr(got, cases[i].want))
        fail_msg("case %ld, %s: no \"%s\" in \"%.600s\" (%s)", (long)i, cases[i].file,
                 cases[i].want, cases[i].where == IN_CURVES ? "" : got, err.text);
    free(text);
    cJSON_Delete(curves);
}

static void test_cases(void **state) {
    (void)state;
    char mine[] = "/tmp/ballast-calibrate-own-XXXXXX";
    assert_non_null(mkdtemp(mine));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        run_case(arena, mine, i);
        arena_destroy(arena);
    }
    rmdir(mine);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
