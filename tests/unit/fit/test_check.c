/* test_check.c - groups, variants and skips of a check; and what the shipped profiles are worth on
 * recorded kernels.
 */
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
#include "calibrate/fit/check.h"

#define MEASURED  BALLAST_SOURCE_DIR "/calibrate/measured"
#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

static bool check_text(struct arena *arena, const char *text, const char *profile,
                       struct calibrate_check *check, struct error *err) {
    char path[] = "/tmp/ballast-check-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (int)strlen(text));
    close(file);
    const bool ok = calibrate_check_file(arena, SCENARIOS, profile, path, check, err);
    unlink(path);
    return ok;
}

static const struct calibrate_group *find(const struct calibrate_check *check,
                                          const char *operator_name, const char *gpu,
                                          const char *framework_prefix) {
    for (int64_t i = 0; i < check->group_count; i++) {
        const struct calibrate_group *g = &check->groups[i];
        if (strcmp(g->operator_name, operator_name) == 0 && strcmp(g->gpu, gpu) == 0 &&
            strncmp(g->framework, framework_prefix, strlen(framework_prefix)) == 0)
            return g;
    }
    fail_msg("no group %s on %s, %s", operator_name, gpu, framework_prefix);
    return NULL;
}

static int64_t skipped(const struct calibrate_check *check, const char *reason_part) {
    int64_t count = 0;
    for (int64_t i = 0; i < check->skip_count; i++)
        if (strstr(check->skips[i].reason, reason_part)) count += check->skips[i].row_count;
    return count;
}

#define GEMM "gpu,dtype,m,n,k,time_us,framework,source\n"

static void test_groups(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct calibrate_check check;
    /* 1024^3 is 2.1e9 FLOP, 4096^3 1.4e11. */
    if (!check_text(arena,
                    GEMM "H100-SXM5-80GB,bf16,4096,4096,4096,1000000,sglang 9,s\n"
                         "H100-SXM5-80GB,bf16,1024,1024,1024,1000000,sglang 9,s\n"
                         "NVIDIA H100 80GB HBM3,bf16,1024,1024,1024,2,mine,s\n"
                         "Voodoo2,bf16,1024,1024,1024,1,mine,s\n"
                         "H100-SXM5-80GB,int8,1024,1024,1024,1,mine,s\n"
                         "A100-SXM4-80GB,fp8,1024,1024,1024,1,mine,s\n"
                         "H100-SXM5-80GB,bf16,1024,1024,1024,1,\"x groups=4\",s\n"
                         "H100-SXM5-80GB,bf16,1024,,1024,1,mine,s\n"
                         "H100-SXM5-80GB,bf16,8192,8192,8192,1.6,mine,s\n",
                    NULL, &check, &err))
        fail_msg("%s", err.text);
    assert_string_equal(check.format, "gemm");
    assert_int_equal(check.row_count, 9);
    const struct calibrate_group *all = find(&check, "matmul", "H100-SXM5-80GB", "sglang");
    const struct calibrate_group *large =
        find(&check, "matmul >= 1e10 FLOP", "H100-SXM5-80GB", "sglang");
    assert_int_equal(all->row_count, 2);
    assert_int_equal(large->row_count, 1);
    assert_true(all->exact_variant);
    assert_string_equal(all->priced_by, "h100-80g-sxm, variant sglang");
    /* Prices of some microseconds against a second. */
    assert_true(all->median_abs_relative_error > 0.99 && all->mean_signed_relative_error < -0.99);
    assert_true(all->inside_band_fraction == 0);
    const struct calibrate_group *mine = find(&check, "matmul", "NVIDIA H100 80GB HBM3", "mine");
    assert_false(mine->exact_variant);
    assert_non_null(strstr(mine->priced_by, "no variant of this framework"));
    assert_true(mine->mean_signed_relative_error > 0);
    assert_int_equal(check.group_count, 3);
    assert_int_equal(skipped(&check, "no profile of GPU 'Voodoo2'"), 1);
    assert_int_equal(skipped(&check, "precision 'int8'"), 1);
    assert_int_equal(skipped(&check, "fp8 on a GPU without it"), 1);
    assert_int_equal(skipped(&check, "several matmuls"), 1);
    assert_int_equal(skipped(&check, "no shape"), 1);
    assert_int_equal(skipped(&check, "times as fast as the peak"), 1);
    /* Each priced row, the large one in the group of the large. */
    assert_int_equal(check.priced_count, 3);
    assert_int_equal(check.rows[2].row, 3);
    assert_string_equal(check.groups[check.rows[0].group].operator_name, "matmul >= 1e10 FLOP");
    assert_string_equal(check.groups[check.rows[1].group].operator_name, "matmul");
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    calibrate_check_write(&check, true, file);
    fclose(file);
    assert_non_null(strstr(text, ",\"h100-80g-sxm, variant sglang\"\n2,1e+06,"));
    free(text);
    arena_destroy(arena);
}

/* A variant of NCCL 2.8 is for 2.8 alone, whatever else the version's text says. */
static void test_version_is_exact(void **state) {
    (void)state;
    static const struct {
        const char *version;
        bool old;
    } cases[] = { { "2.8.4", true },          { "2.8", true },
                  { "2.27.3", false },        { "2.27.7+cuda12.8", false },
                  { "2.80.1", false },        { "12.8", false },
                  { "2.27.7+cuda2.8", false } };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        struct calibrate_check check;
        char text[400];
        snprintf(text, sizeof text,
                 "gpu,n_gpus,n_nodes,interconnect,op,bytes,time_us,in_place,nccl_version,source\n"
                 "A100-SXM4-40GB,8,1,NVSwitch NVLink3 300GB/s/dir,all_reduce,33554432,400,0,%s,s\n",
                 cases[i].version);
        if (!check_text(arena, text, NULL, &check, &err)) fail_msg("%s", err.text);
        assert_int_equal(check.priced_count, 1);
        const bool old = strstr(check.groups[0].priced_by, "variant nccl 2.8") != NULL;
        if (old != cases[i].old) fail_msg("%s: %s", cases[i].version, check.groups[0].priced_by);
    }
    arena_destroy(arena);
}

/* FlashAttention-2 has kernels of Ampere alone: on B200 some 3.5 times the time of those that the
 * profile was made of, on Hopper 1.75 times, on A100 the profile's own. */
static void test_flash_2(void **state) {
    (void)state;
    static const struct {
        const char *gpu, *framework;
        double least, most; /* times the price of an attention that names no kernel */
    } cases[] = {
        { "B200-SXM", "flash_attention 2", 2.5, 4.5 },
        { "B200-SXM", "FlashAttention-2 2.8.3", 2.5, 4.5 },
        { "B200-SXM", "torch flash_attn_2", 2.5, 4.5 },
        { "B200-SXM", "flash-attn v2.7", 2.5, 4.5 },
        { "B200-SXM", "flash_attn==2.7.4", 2.5, 4.5 },
        { "B200-SXM", "flash-attn@2.7", 2.5, 4.5 },
        { "B200-SXM", "flash_attn (2.8.3)", 2.5, 4.5 },
        { "B200-SXM", "Flash-Attention: 2.6", 2.5, 4.5 },
        { "B200-SXM", "flash attention version 2", 2.5, 4.5 },
        { "B200-SXM", "FA2", 2.5, 4.5 },
        { "B200-SXM", "some_flash_attn_fa2 (prefill)", 2.5, 4.5 },
        { "B200-SXM", "some_flash_attn flash_attn 2.7", 2.5, 4.5 },
        { "B200-SXM", "FlashAttention-3 (flash_attn 2.8.3)", 1, 1 },
        { "B200-SXM", "flash-attn 2.8.3 hopper FA3", 1, 1 },
        { "B200-SXM", "flash_attention_4", 1, 1 },
        { "B200-SXM", "flash-attn 25", 1, 1 },
        { "B200-SXM", "cudnn 2", 1, 1 },
        { "H100-SXM5-80GB", "FlashAttention 2", 1.6, 1.8 },
        { "H100-SXM5-80GB", "flash_attention 3", 1, 1 },
        { "A100-SXM4-80GB", "torch FlashAttention 2", 1, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct calibrate_check check;
        const char *text = arena_format(
            arena,
            "gpu,dtype,direction,batch,seqlen,heads_q,heads_kv,head_dim_qk,head_dim_v,causal,"
            "time_us,framework,source\n"
            "%s,bf16,fwd,1,16384,128,128,128,128,1,1e5,nothing,s\n"
            "%s,bf16,fwd,1,16384,128,128,128,128,1,1e5,%s,s\n",
            cases[i].gpu, cases[i].gpu, cases[i].framework);
        if (!check_text(arena, text, NULL, &check, &err)) fail_msg("%s", err.text);
        assert_int_equal(check.row_count, 2);
        const double ratio = check.rows[1].price_s / check.rows[0].price_s;
        if (ratio < cases[i].least * 0.999 || ratio > cases[i].most * 1.001)
            fail_msg("%s on %s: %g times", cases[i].framework, cases[i].gpu, ratio);
        const char *by = check.groups[check.rows[1].group].priced_by;
        if ((strstr(by, "FlashAttention-2") != NULL) != (cases[i].most > 1))
            fail_msg("%s on %s: %s", cases[i].framework, cases[i].gpu, by);
        arena_destroy(arena);
    }
}

/* A backward in a fixed order takes what a step's would, by the kernels that have a law; no forward,
 * and none on other GPUs and kernels. */
static void test_fixed_order(void **state) {
    (void)state;
    static const struct {
        const char *gpu, *direction, *framework;
        double least, most; /* times the price of the same kernel in any order */
    } cases[] = {
        { "A100-SXM4-80GB", "bwd", "flash_attention 2", 1.2, 2.5 },
        { "A100-SXM4-80GB", "fwd", "flash_attention 2", 1, 1 },
        { "A100-SXM4-80GB", "bwd", "cudnn 92700", 1, 1 },
        { "B200-SXM", "bwd", "flash_attention_4", 1.1, 1.2 },
        { "H100-SXM5-80GB", "bwd", "flash_attention_4", 1, 1 },
        { "H200-SXM", "bwd", "flash_attention_4", 1, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct calibrate_check check;
        const char *row = arena_format(arena, "%s,bf16,%s,1,8192,32,32,128,128,1,1e5,%s",
                                       cases[i].gpu, cases[i].direction, cases[i].framework);
        const char *text = arena_format(
            arena,
            "gpu,dtype,direction,batch,seqlen,heads_q,heads_kv,head_dim_qk,head_dim_v,causal,"
            "time_us,framework,source\n"
            "%s deterministic_bwd=False,s\n%s deterministic_bwd=True,s\n",
            row, row);
        if (!check_text(arena, text, NULL, &check, &err)) fail_msg("%s", err.text);
        assert_int_equal(check.row_count, 2);
        const double ratio = check.rows[1].price_s / check.rows[0].price_s;
        if (ratio < cases[i].least * 0.999 || ratio > cases[i].most * 1.001)
            fail_msg("%s on %s: %g times", cases[i].framework, cases[i].gpu, ratio);
        arena_destroy(arena);
    }
}

/* Trays of four GPUs are one NVLink domain unless the text names what joins them, whatever the
 * GPU is called. */
static void test_hosts_of_grace(void **state) {
    (void)state;
    static const struct {
        const char *gpu, *text;
        int nodes;
        bool across;
        double GB_per_s; /* that one GPU has of its node's NICs */
    } cases[] = {
        { "GB200", "NVSwitch NVLink5 900GB/s/dir", 1, false, 0 },
        { "GB200", "", 2, false, 0 },
        { "GB300", "RoCE 8x400Gb/s", 2, true, 100 },
        { "NVIDIA GB300", "RoCE 8x400Gb/s", 2, true, 100 },
        { "gb300-288g-nvl72", "RoCE 8x400Gb/s", 2, true, 100 },
        { "H100-SXM5-80GB", "RoCE 8x400Gb/s", 2, true, 50 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct calibrate_check check;
        const double bytes = 8e9;
        const char *text = arena_format(
            arena,
            "gpu,n_gpus,n_nodes,interconnect,op,bytes,time_us,in_place,nccl_version,source\n"
            "%s,8,%d,%s,all_gather,%.0f,1e6,0,,s\n",
            cases[i].gpu, cases[i].nodes, cases[i].text, bytes);
        if (!check_text(arena, text, NULL, &check, &err)) fail_msg("%s", err.text);
        const struct calibrate_group *group = &check.groups[check.rows[0].group];
        if ((strstr(group->operator_name, "across nodes") != NULL) != cases[i].across)
            fail_msg("%s, \"%s\": %s", cases[i].gpu, cases[i].text, group->operator_name);
        /* What the others have goes round a ring through the NICs of four GPUs. */
        const double least_s = bytes * 7 / 8 / (4e9 * cases[i].GB_per_s);
        const double most_s = least_s * 1.3;
        if (cases[i].across && (check.rows[0].price_s < least_s || check.rows[0].price_s > most_s))
            fail_msg("%s, \"%s\": %g s of %g to %g", cases[i].gpu, cases[i].text,
                     check.rows[0].price_s, least_s, most_s);
        arena_destroy(arena);
    }
}

#define ATTENTION                                                                                  \
    "gpu,dtype,direction,batch,seqlen,heads_q,heads_kv,head_dim_qk,head_dim_v,causal,time_us\n"
#define NCCL  "gpu,n_gpus,n_nodes,interconnect,op,bytes,time_us\n"
#define MEMBW "gpu,test,bytes,time_us,fraction_of_peak\n"

/* What no GPU does is left out with its reason: from half as fast again on as what the row's own
 * GPU has, whichever profile prices it. H20's NVLink has 450 GB/s a direction, a ring of eight
 * sends 7/4 of the buffer; its memory 4 TB/s. */
static void test_impossible(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *reason; /* NULL: it is priced */
    } cases[] = {
        { "heads of keys divide", ATTENTION "H20,bf16,fwd,1,4096,32,8,128,128,1,4000\n", NULL },
        { "heads of keys do not", ATTENTION "H20,bf16,fwd,1,4096,32,5,128,128,1,4000\n",
          "heads_kv does not divide heads_q" },
        { "all-reduce, 1.4 times", NCCL "H20,8,1,NVSwitch,all_reduce,1073741824,2983\n", NULL },
        { "all-reduce, 1.6 times", NCCL "H20,8,1,NVSwitch,all_reduce,1073741824,2610\n",
          "times as fast as the NVLink of 'h20-96g'" },
        { "more nodes than GPUs", NCCL "H20,8,16,NVSwitch,all_reduce,1073741824,4200\n",
          "more nodes than GPUs" },
        { "between nodes in ms",
          NCCL "H20,16,2,8x400Gb/s NDR InfiniBand,all_reduce,1073741824,4.2\n",
          "times as fast as the NVLink of 'h20-96g'" },
        { "stream, 1.4 times", MEMBW "H20,stream-scale,4000000000,714,1.4\n", NULL },
        { "stream, 1.6 times", MEMBW "H20,stream-scale,4000000000,625,1.6\n",
          "times as fast as the memory of 'h20-96g'" },
        { "matmul, 1.4 times", GEMM "H20,bf16,4096,4096,4096,663,x,s\n", NULL },
        { "matmul, 1.6 times", GEMM "H20,bf16,4096,4096,4096,580,x,s\n",
          "times as fast as the peak of 'h20-96g'" },
        { "stream from L2", MEMBW "H20,stream-scale,20000000,3,1.6\n", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct calibrate_check check;
        if (!check_text(arena, cases[i].text, NULL, &check, &err))
            fail_msg("%s: %s", cases[i].name, err.text);
        if (check.priced_count != (cases[i].reason == NULL))
            fail_msg("%s: %s", cases[i].name, check.skip_count ? check.skips[0].reason : "priced");
        if (cases[i].reason != NULL && skipped(&check, cases[i].reason) != 1)
            fail_msg("%s: %s", cases[i].name, check.skips[0].reason);
        arena_destroy(arena);
    }
    /* H100's all-reduce is no mistake because H800, which prices it, has a slower link. */
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct calibrate_check check;
    if (!check_text(arena, NCCL "H100-SXM5-80GB,8,1,NVSwitch,all_reduce,1073741824,4000\n",
                    "h800-80g-sxm", &check, &err))
        fail_msg("%s", err.text);
    assert_int_equal(check.priced_count, 1);
    arena_destroy(arena);
}

/* Of a user's folder: neither the shipped rows in it nor those of other GPUs nor what no fit takes;
 * frameworks together, by the profile's own curves and not by their variants. */
static void test_own(void **state) {
    (void)state;
    static const char text[] = GEMM "H20,bf16,4096,4096,4096,1200,cublasLt,mine\n"
                                    "H20,bf16,1024,1024,1024,40,torch,mine\n"
                                    "h20-96g,bf16,8192,4096,4096,2400,torch,S1:mine\n"
                                    "H20,fp8,4096,4096,4096,600,torch,mine\n"
                                    "H20,bf16,4096,4096,4096,1,torch,mine\n"
                                    "H200-SXM,bf16,4096,4096,4096,300,torch,mine\n"
                                    "Voodoo2,bf16,4096,4096,4096,300,torch,mine\n";
    char folder[] = "/tmp/ballast-check-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct arena *arena = arena_create();
    const char *path = arena_format(arena, "%s/gemm.csv", folder);
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    struct error err = { 0 };
    struct calibrate_check checks[MEASUREMENT_FORMAT_COUNT];
    const struct calibrate_check *check = &checks[MEASUREMENT_GEMM];
    const struct calibrate_gpu h20 = { .hardware = "h20-96g", .profile = "h20-96g" },
                               b200 = { .hardware = "b200-180g-sxm", .profile = "b200-180g-sxm" };
    if (!calibrate_check_own(arena, SCENARIOS, folder, MEASURED, &h20, checks, &err))
        fail_msg("%s", err.text);
    assert_int_equal(check->row_count, 4);
    assert_int_equal(check->priced_count, 3);
    assert_int_equal(skipped(check, "times as fast"), 1);
    assert_int_equal(checks[MEASUREMENT_NCCL].row_count, 0);
    int64_t count;
    const struct calibrate_group *all = calibrate_check_operators(arena, check, &count);
    assert_int_equal(count, 2);
    assert_string_equal(all[0].operator_name, "matmul");
    assert_int_equal(all[0].row_count, 3);
    assert_string_equal(all[1].operator_name, "matmul >= 1e10 FLOP");
    assert_int_equal(all[1].row_count, 2);
    double sum = 0;
    for (int64_t i = 0; i < 3; i++) {
        sum += check->rows[i].price_s / check->rows[i].measured_s - 1;
        assert_null(strstr(check->groups[check->rows[i].group].priced_by, "variant cublaslt"));
    }
    assert_true(fabs(all[0].mean_signed_relative_error - sum / 3) < 1e-12);
    /* Two profiles of one GPU share its rows; of another GPU's there are none. */
    assert_false(calibrate_check_own(arena, SCENARIOS, folder, MEASURED, &b200, checks, &err));
    unlink(path);
    rmdir(folder);
    arena_destroy(arena);
}

static void test_profile_given(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct calibrate_check check;
    if (!check_text(arena, GEMM "Voodoo2,bf16,1024,1024,1024,2,mine,s\n", "h200-141g-sxm", &check,
                    &err))
        fail_msg("%s", err.text);
    assert_int_equal(check.skip_count, 0);
    assert_non_null(strstr(find(&check, "matmul", "Voodoo2", "mine")->priced_by, "h200-141g-sxm"));
    assert_false(check_text(arena, GEMM "Voodoo2,bf16,1024,1024,1024,1,mine,s\n", "h200-141-sxm",
                            &check, &err));
    assert_non_null(strstr(err.text, "did you mean 'h200-141g-sxm'?"));
    arena_destroy(arena);
}

static void test_formats(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *format, *operator_name;
    } cases[] = {
        { "attention backward",
          "gpu,dtype,direction,batch,seqlen,heads_q,heads_kv,head_dim_qk,head_dim_v,causal,"
          "time_us,framework,source\nH20,bf16,bwd,1,4096,32,8,128,128,1,4000,x,s\n",
          "attention", "attention backward" },
        { "memory",
          "gpu,test,bytes,time_us,fraction_of_peak,framework,source\n"
          "H20,rms_norm-bwd N=1,,,0.5,x,s\n",
          "membw", "norm backward" },
        { "collective in a node",
          "gpu,n_gpus,n_nodes,interconnect,op,bytes,time_us,source\n"
          "H20,8,1,NVSwitch,all_reduce,2000000,100,s\n",
          "nccl", "all-reduce in one node >= 1 MiB" },
        { "collective between nodes",
          "gpu,n_gpus,n_nodes,interconnect,op,bytes,time_us,source\n"
          "H20,16,2,8x400Gb/s NDR InfiniBand,all_gather,2000,100,s\n",
          "nccl", "all-gather across nodes" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct calibrate_check check;
        if (!check_text(arena, cases[i].text, NULL, &check, &err))
            fail_msg("%s: %s", cases[i].name, err.text);
        if (strcmp(check.format, cases[i].format) != 0)
            fail_msg("%s: read as %s", cases[i].name, check.format);
        assert_int_equal(find(&check, cases[i].operator_name, "H20", "")->row_count, 1);
        arena_destroy(arena);
    }
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct calibrate_check check;
    assert_false(check_text(arena, "a,b\n1,2\n", NULL, &check, &err));
    assert_non_null(
        strstr(err.text, "k (gemm), seqlen (attention), n_gpus (nccl) or test (membw)"));
    arena_destroy(arena);
}

static void test_no_rows(void **state) {
    (void)state;
    static const char *const headers[] = {
        "gpu,dtype,m,n,k,time_us,framework,source\n",
        "gpu,test,bytes,time_us,fraction_of_peak,framework,source",
        "gpu,n_gpus,n_nodes,interconnect,op,bytes,time_us,algbw_gbps,busbw_gbps,in_place,"
        "nccl_version,source\n\n",
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct calibrate_check check;
        assert_false(check_text(arena, headers[i], NULL, &check, &err));
        if (!strstr(err.text, ":1: error: there is a header and no row below it"))
            fail_msg("%zu: %s", i, err.text);
        arena_destroy(arena);
    }
}

/* Through the shipped files: most of these rows made the curves, so the bounds hold the files and
 * the pricing to each other; test_fit_matmul.c and test_fit_attention.c hold shapes back. */
static void test_recorded(void **state) {
    (void)state;
    static const struct {
        const char *file, *operator_name, *gpu, *framework;
        double median_max, p90_max;
    } cases[] = {
        { "gemm", "matmul >= 1e10 FLOP", "A100-SXM4-80GB", "sglang", 0.015, 0.06 },
        { "gemm", "matmul >= 1e10 FLOP", "H100-SXM5-80GB", "trtllm", 0.015, 0.06 },
        { "gemm", "matmul >= 1e10 FLOP", "H200-SXM", "sglang", 0.040, 0.17 },
        { "gemm", "matmul >= 1e10 FLOP", "H200-SXM", "vllm 0.24.0 Cutlass", 0.015, 0.05 },
        { "gemm", "matmul >= 1e10 FLOP", "B200-SXM", "trtllm", 0.015, 0.08 },
        { "gemm", "matmul >= 1e10 FLOP", "L40S", "trtllm", 0.020, 0.08 },
        { "gemm", "matmul >= 1e10 FLOP", "H100-SXM5-80GB", "cublasLt", 0.01, 0.05 },
        { "gemm", "matmul >= 1e10 FLOP", "H200-SXM", "cublasLt", 0.01, 0.08 },
        { "gemm", "matmul >= 1e10 FLOP", "A100-PCIe-80GB", "TransformerEngine", 0.020, 0.12 },
        { "attention", "attention forward", "A100-SXM4-80GB", "sglang", 0.020, 0.12 },
        { "attention", "attention forward", "A100-SXM4-80GB", "vllm", 0.025, 0.12 },
        { "attention", "attention forward", "H100-SXM5-80GB", "sglang", 0.040, 0.12 },
        { "attention", "attention forward", "H200-SXM", "vllm 0.24.0 vllm_vit", 0.035, 0.12 },
        { "attention", "attention forward", "H200-SXM", "cudnn", 0.01, 0.03 },
        { "attention", "attention forward", "A100-PCIe-80GB", "TransformerEngine", 0.02, 0.05 },
        { "attention", "attention forward", "B200", "TransformerEngine", 0.03, 0.06 },
        { "attention", "attention forward", "GB200", "cudnn", 0.02, 0.06 },
        { "attention", "attention backward", "H200-SXM", "cudnn", 0.04, 0.06 },
        { "attention", "attention backward", "A100-PCIe-80GB", "TransformerEngine", 0.01, 0.02 },
        { "attention", "attention backward", "B200", "TransformerEngine", 0.03, 0.06 },
        { "attention", "attention backward", "GB200", "cudnn 92200.000 deterministic_bwd=False",
          0.03, 0.05 },
        { "attention", "attention backward", "GB200", "cudnn 92200.000 deterministic_bwd=True",
          0.03, 0.05 },
        { "nccl", "all-reduce in one node >= 1 MiB", "A100-SXM4-40GB", "nccl", 0.02, 0.10 },
        { "nccl", "all-reduce in one node >= 1 MiB", "H100-SXM5-80GB", "nccl", 0.05, 0.15 },
        { "nccl", "all-gather in one node >= 1 MiB", "H200-SXM", "nccl", 0.05, 0.15 },
        { "nccl", "all-to-all in one node >= 1 MiB", "B200-SXM", "nccl", 0.05, 0.15 },
        { "nccl", "all-reduce across nodes", "A100-SXM4-80GB", "nccl", 0.15, 0.40 },
        { "nccl", "all-reduce across nodes >= 1 MiB", "H100-SXM5-80GB", "nccl", 0.05, 0.10 },
        { "nccl", "all-reduce across nodes >= 1 MiB", "B200-SXM", "nccl", 0.15, 0.40 },
        { "nccl", "all-gather across nodes >= 1 MiB", "H200-SXM", "nccl", 0.05, 0.10 },
        { "nccl", "all-reduce across nodes >= 1 MiB", "GB200", "nccl", 0.20, 0.60 },
        { "membw", "norm forward", "H200-SXM", "cudnn", 0.10, 0.20 },
    };
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct calibrate_check check = { 0 };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        if ((!check.format || strcmp(check.format, cases[c].file) != 0) &&
            !calibrate_check_file(arena, SCENARIOS, NULL,
                                  arena_format(arena, "%s/%s.csv.gz", MEASURED, cases[c].file),
                                  &check, &err))
            fail_msg("%s", err.text);
        const struct calibrate_group *g =
            find(&check, cases[c].operator_name, cases[c].gpu, cases[c].framework);
        print_message("%-34s %-15s %-9.9s n %5ld: median %.2f %%, p90 %.1f, mean %+.1f\n",
                      g->operator_name, g->gpu, g->framework, (long)g->row_count,
                      100 * g->median_abs_relative_error, 100 * g->p90_abs_relative_error,
                      100 * g->mean_signed_relative_error);
        if (!(g->median_abs_relative_error < cases[c].median_max &&
              g->p90_abs_relative_error < cases[c].p90_max))
            fail_msg("%s on %s, %s: median %.3f, p90 %.3f", g->operator_name, g->gpu, g->framework,
                     g->median_abs_relative_error, g->p90_abs_relative_error);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),         cmocka_unit_test(test_version_is_exact),
        cmocka_unit_test(test_flash_2),        cmocka_unit_test(test_fixed_order),
        cmocka_unit_test(test_hosts_of_grace), cmocka_unit_test(test_profile_given),
        cmocka_unit_test(test_formats),        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_impossible),     cmocka_unit_test(test_own),
        cmocka_unit_test(test_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
