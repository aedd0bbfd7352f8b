/* test_own_tables.c - a user's rows are told from the shipped ones, by table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "calibrate/fit/own_tables.h"

#define MEASURED         BALLAST_SOURCE_DIR "/calibrate/measured"
#define HEADER           "gpu,test,bytes,time_us,fraction_of_peak,framework,source\n"
#define SHIPPED          "S10:gpu-stream/h100_pcie.txt"
#define ROW(gpu, source) gpu ",stream-scale,1e9,600,0.9,mine," source "\n"

static const struct {
    const char *name, *text;
    int64_t own, others; /* rows of membw; others -1: the shipped table's */
    const char *error;   /* NULL: none */
} cases[] = {
    { "own rows", HEADER ROW("H100-SXM5-80GB", "ballast:streaming"), 1, -1, NULL },
    { "of another GPU too", HEADER ROW("H100-SXM5-80GB", "Sx:") ROW("H20", "S1"), 1, -1, NULL },
    { "a shipped source", HEADER ROW("H100-PCIe", SHIPPED), 0, 1, NULL },
    { "own beside it", HEADER ROW("H100-SXM5-80GB", SHIPPED) ROW("H100-SXM5-80GB", "me"), 1, 1,
      NULL },
    { "a key of one's own", HEADER ROW("H100-SXM5-80GB", "S24:file"), 1, -1, NULL },
    { "a bucket", HEADER ROW("H100-SXM5-80GB", "S3://bucket/mine"), 1, -1, NULL },
    { "a key before words", HEADER ROW("H100-SXM5-80GB", "S10: mine"), 1, -1, NULL },
    { "no rows", HEADER, 0, -1, "membw.csv holds no row\n" },
    { "no name", HEADER ROW("", "me"), 0, -1, "holds no GPU (1 row)" },
    { "foreign", HEADER ROW("RTX 4090", "me") ROW("RTX 4090", "me"), 0, -1,
      "holds RTX 4090 (2 rows)\n  hint: the column `gpu`" },
    { "of another profile", HEADER ROW("H20", "me"), 0, -1, "--gpu h20-96g" },
    { "as the driver has it", HEADER ROW("NVIDIA H100 80GB HBM3", "me"), 1, -1, NULL },
};

static void test_cases(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    char mine[] = "/tmp/ballast-own-XXXXXX";
    assert_non_null(mkdtemp(mine));
    const char *path = arena_format(arena, "%s/membw.csv", mine);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(cases[i].text, file);
        fclose(file);
        struct own_tables own;
        struct error err = { 0 };
        const bool ok = own_tables_read(arena, mine, MEASURED,
                                        &(struct calibrate_gpu){ .profile = "h100-80g-sxm" },
                                        "H100-SXM5-80GB", &own, &err);
        if (ok != (cases[i].error == NULL)) fail_msg("%s: %s", cases[i].name, err.text);
        if (!ok && !strstr(err.text, cases[i].error)) fail_msg("%s: %s", cases[i].name, err.text);
        if (!ok) continue;
        const int64_t others = own.others.membw.count;
        if (own.rows.membw.count != cases[i].own ||
            (cases[i].others < 0 ? others < 100 : others != cases[i].others))
            fail_msg("%s: %ld own, %ld others", cases[i].name, (long)own.rows.membw.count,
                     (long)others);
        assert_true(own.any == (cases[i].own > 0));
        if (!own.any) continue;
        const char *source =
            own_tables_source(arena, &own, MEASUREMENT_MEMBW, cases[i].own, "streams");
        assert_non_null(strstr(source, "1 row of H100-SXM5-80GB (streams) in /tmp/ballast-own-"));
        assert_non_null(strstr(source, " of 20"));
    }
    remove(path);
    rmdir(mine);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
