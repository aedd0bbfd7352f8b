/* test_interconnect.c - texts to networks; the shipped fabrics are what the fit makes of the
 * measurements. */
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
#include "calibrate/fit/calibrate.h"
#include "calibrate/fit/interconnect.h"
#include "sim/base/file_read.h"
#include "sim/base/json.h"

static void test_texts(void **state) {
    (void)state;
    static const struct {
        const char *text, *fabric;
        int64_t gpus_per_node, nics_per_node;
        double nic_GB_per_s_per_gpu;
        const char *profile;
    } cases[] = {
        { "AWS p4de EFA 4x100Gb/s per node + NVSwitch", "efa", 8, 4, 6.25, NULL },
        { "AWS p5 EFA 3200Gb/s per node + NVSwitch", "efa-3200", 8, 8, 50, NULL },
        { "AWS p5en EFA 8x400Gb/s default=Ring", "efa-3200", 8, 8, 50, NULL },
        { "AWS p6-b200 EFAv4 8x400Gb/s, NVSwitch", "efa", 8, 8, 50, NULL },
        { "GCP a3-mega TCPXO 8x200Gb/s, NVSwitch", "tcpxo", 8, 8, 25, NULL },
        { "ABCI-A 4x HDR200 per node, NVSwitch", "hdr-infiniband", 8, 4, 12.5, NULL },
        { "OCI RoCE, NVSwitch", "roce", 8, 8, 50, NULL },
        { "8x400Gb/s NDR InfiniBand + SHARP, NVSwitch", "infiniband", 8, 8, 50, NULL },
        { "16x CX7 IB NDR, NCCL_ALGO=NVLSTree", "infiniband", 8, 16, 100, NULL },
        { "NVL72 single rack", NULL, 72, 72, 50, NULL },
        { "two nodes (fabric not stated)", NULL, 8, 8, 50, NULL },
        { "", NULL, 8, 8, 50, NULL },
        { "8x200 Gb/s", NULL, 8, 8, 25, NULL },
        { "8 x 200 Gbit/s RoCE", "roce", 8, 8, 25, NULL },
        { "CX7 IB 200Gb/s (~25 GB/s max)", "infiniband", 8, 8, 25, NULL },
        { "100GbE", NULL, 8, 8, 12.5, NULL },
        { "100G roce", "roce", 8, 8, 12.5, NULL },
        { "8x100G, H100 of 80G", NULL, 8, 8, 12.5, NULL },
        { "8x80G cards by default", NULL, 8, 8, 50, NULL },
        { "0x400Gb/s NDR", "infiniband", 8, 8, 50, NULL },
        { "1600 Gb/s RoCE", "roce", 8, 8, 25, NULL },
        { "NVSwitch NVLink4 450GB/s/dir", NULL, 8, 8, 50, NULL },
        { "RoCE 8x400Gb/s", "roce", 8, 8, 50, "h100-80g-sxm" },
        /* hosts of Grace, and domains of NVLink */
        { "RoCE 8x400Gb/s", "roce", 4, 8, 100, "gb300-288g-nvl72" },
        { "NDR InfiniBand", "infiniband", 4, 4, 50, "gb200-186g-nvl72" },
        { "4x400Gb/s", NULL, 4, 4, 50, "gb200-186g-nvl72" },
        { "", NULL, 72, 72, 50, "gb200-186g-nvl72" },
        { "NVSwitch NVLink5 900GB/s/dir", NULL, 72, 72, 50, "gb300-288g-nvl72" },
        { "20x NVL72", NULL, 72, 72, 50, "gb200-186g-nvl72" },
        { "Slingshot 4x200Gb/s", "slingshot", 4, 4, 25, "gh200-96g" },
        { "", NULL, 4, 4, 50, "gh200-96g" },
        { "NDR InfiniBand 4x200Gb/s", "infiniband", 4, 4, 25, "h100-64g-sxm" },
        { "", NULL, 4, 4, 50, "a100-64g-sxm" },
        { "Slingshot 4x200Gb/s", "slingshot", 4, 4, 25, "a100-40g-sxm" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cluster_network got;
        network_from_interconnect(cases[i].text, cases[i].profile, &got);
        const bool same_fabric =
            cases[i].fabric ? got.fabric && strcmp(got.fabric, cases[i].fabric) == 0 : !got.fabric;
        if (!same_fabric || got.gpus_per_node != cases[i].gpus_per_node ||
            got.nics_per_node != cases[i].nics_per_node ||
            fabs(got.nic_bytes_per_s_per_gpu / 1e9 - cases[i].nic_GB_per_s_per_gpu) > 1e-9)
            fail_msg("'%s': %s, %ld GPUs, %ld NICs, %g GB/s", cases[i].text,
                     got.fabric ? got.fabric : "no fabric", (long)got.gpus_per_node,
                     (long)got.nics_per_node, got.nic_bytes_per_s_per_gpu / 1e9);
    }
}

static void test_shipped_is_fitted(void **state) {
    (void)state;
    for (const char *const *name = calibrate_fabric_names(); *name; name++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        cJSON *fabric = cJSON_CreateObject();
        char *shipped;
        size_t size;
        if (!calibrate_fit_fabric(arena, BALLAST_SOURCE_DIR "/calibrate/measured", *name, fabric,
                                  &err) ||
            !file_read(arena_format(arena, "%s/scenarios/hardware/fabrics/%s.json",
                                    BALLAST_SOURCE_DIR, *name),
                       &shipped, &size, &err))
            fail_msg("%s", err.text);
        char *fitted = calibrate_curves_text(fabric);
        if (size != strlen(fitted) || memcmp(fitted, shipped, size) != 0)
            fail_msg("fabrics/%s.json is not what the fit makes of calibrate/measured", *name);
        free(fitted);
        free(shipped);
        cJSON_Delete(fabric);
        arena_destroy(arena);
    }
}

static void test_unknown(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    cJSON *fabric = cJSON_CreateObject();
    assert_false(calibrate_fit_fabric(arena, BALLAST_SOURCE_DIR "/calibrate/measured", "infinband",
                                      fabric, &err));
    assert_non_null(strstr(err.text, "did you mean 'infiniband'?"));
    cJSON_Delete(fabric);
    arena_destroy(arena);
}

static void write_own(FILE *file, int nodes, const char *network, int octave, double us) {
    fprintf(file, "NVIDIA H100 80GB HBM3,%d,%d,%s,all_reduce,%.0f,%.6f,mine\n", 8 * nodes, nodes,
            network, exp2(octave), us);
}

/* Logs of one's own, as plain CSV: taken alone, whatever else their network is called. */
static void test_own(void **state) {
    (void)state;
    static const char header[] = "gpu,n_gpus,n_nodes,interconnect,op,bytes,time_us,source\n";
    char folder[] = "/tmp/ballast-fabric-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const char *path = arena_format(arena, "%s/nccl.csv", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(header, file);
    /* 100 us and a ring at 0.8 of eight NICs of 50 GB/s: an all-reduce of two nodes puts the buffer
     * once on the wire. Each was run twice, 2 % apart on either side, and on eleven other counts of
     * nodes with fewer sizes, which take as long. */
    for (int octave = 30; octave >= 20; octave--) {
        const double us = 100 + exp2(octave) / (0.8 * 400e9) * 1e6;
        for (int run = -1; run <= 1; run += 2)
            write_own(file, 2, "8x400G infiniband of ours", octave, us * pow(1.02, run));
    }
    for (int nodes = 3; nodes < 14; nodes++)
        for (int octave = 12; octave < 14; octave++)
            write_own(file, nodes, "8x400G infiniband of ours", octave,
                      100 + 10 * log2(nodes / 2.0));
    fclose(file);
    cJSON *fabric = cJSON_CreateObject();
    if (!calibrate_fit_fabric(arena, folder, "infiniband", fabric, &err)) fail_msg("%s", err.text);
    const cJSON *bytes = cJSON_GetObjectItem(fabric, "bytes"),
                *overhead = cJSON_GetObjectItem(fabric, "overhead_us");
    assert_int_equal(cJSON_GetArraySize(bytes), 13);
    assert_non_null(
        strstr(cJSON_GetObjectItem(fabric, "source")->valuestring, "44 rows of nccl-tests in "));
    assert_non_null(
        strstr(cJSON_GetObjectItem(fabric, "source")->valuestring, ", 12 kinds of run"));
    assert_int_equal(cJSON_GetObjectItem(fabric, "node_count")->valueint, 2);
    assert_string_equal(cJSON_GetObjectItem(fabric, "description")->valuestring,
                        "8x400G infiniband of ours");
    /* That of two nodes takes the largest buffer's 100 us too, 0.777; the others', which have none
     * of 1 GiB, are 0.9. */
    assert_true(fabs(cJSON_GetObjectItem(fabric, "efficiency_fraction")->valuedouble -
                     (0.777 + 11 * 0.9) / 12) < 0.002);
    for (int i = 0; i < 3; i++) /* 4 and 8 KiB, 1 MiB */
        assert_true(fabs(cJSON_GetArrayItem(overhead, i)->valuedouble - 100) < 1);
    cJSON_Delete(fabric);
    fabric = cJSON_CreateObject();
    assert_false(calibrate_fit_fabric(arena, folder, "efa", fabric, &err));
    assert_non_null(strstr(err.text, "nccl.csv:2: error: no measurements of the fabric 'efa': "
                                     "interconnect '8x400G infiniband of ours' is the fabric "
                                     "'infiniband'"));
    cJSON_Delete(fabric);
    /* One size that is no power of two says nothing; it is refused. */
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(header, file);
    fprintf(file, "H100,16,2,NDR InfiniBand,all_gather,1500000,200,mine\n");
    fclose(file);
    fabric = cJSON_CreateObject();
    assert_false(calibrate_fit_fabric(arena, folder, "infiniband", fabric, &err));
    assert_non_null(strstr(err.text, "has sizes on both sides of a power of two"));
    cJSON_Delete(fabric);
    remove(path);
    rmdir(folder);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_shipped_is_fitted),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
