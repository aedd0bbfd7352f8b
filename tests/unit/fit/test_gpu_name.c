/* test_gpu_name.c - driver names find their rows, and the table agrees with the hardware files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "calibrate/fit/gpu_name.h"
#include "costmodel/hardware.h"

static void test_find(void **state) {
    (void)state;
    static const struct {
        const char *device, *want; /* NULL: no row */
    } cases[] = {
        { "NVIDIA H100 80GB HBM3", "H100-SXM5-80GB" },
        { "NVIDIA H200", "H200-SXM" },
        { "A100-SXM4-40GB", "A100-SXM4-40GB" },
        { "NVIDIA H20", "H20" },
        { "NVIDIA H20-3e", "H20-3e" },
        { "NVIDIA A100 80GB PCIe", "A100-PCIe-80GB" },
        { "h100-64g-sxm", "H100-SXM5-64GB" },
        { "NVIDIA GeForce RTX 4090", NULL },
        { "NVIDIA H100", NULL },
        { "", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct gpu_name *got = gpu_name_find(cases[i].device);
        if (!got != !cases[i].want || (got && strcmp(got->measured, cases[i].want) != 0))
            fail_msg("%s: got %s", cases[i].device, got ? got->measured : "no row");
    }
    /* what the tables and the importer write */
    for (int i = 0; i < GPU_NAME_COUNT; i++)
        assert_ptr_equal(gpu_name_find(gpu_name_table[i].measured), &gpu_name_table[i]);
    assert_string_equal(gpu_name_short("NVIDIA GeForce RTX 4090"), "GeForce RTX 4090");
}

static void test_hardware_files(void **state) {
    (void)state;
    for (int i = 0; i < GPU_NAME_COUNT; i++) {
        const struct gpu_name *row = &gpu_name_table[i];
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct gpu gpu;
        struct json *json =
            hardware_open(arena, BALLAST_SOURCE_DIR "/scenarios", "hardware", row->profile, &err);
        if (!json || !gpu_read(json, arena, &gpu, &err)) fail_msg("%s: %s", row->device, err.text);
        if (gpu.hbm_bytes_per_s != row->hbm_GB_per_s * 1e9)
            fail_msg("%s: %g GB/s here, %g in the hardware file", row->device, row->hbm_GB_per_s,
                     gpu.hbm_bytes_per_s / 1e9);
        json_destroy(json);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_hardware_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
