/* fixture.h - files for the data set tests, written to a folder of their own. */
#ifndef BALLAST_TESTS_UNIT_DATA_FIXTURE_H
#define BALLAST_TESTS_UNIT_DATA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>
#include "sim/data/dataset.h"

#define FIXTURES  BALLAST_SOURCE_DIR "/tests/data/datasets/"
#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

/* A path below the build folder that no other test program uses. Overwritten by the next call. */
static inline const char *scratch_path(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/test-data-%d", BALLAST_BINARY_DIR, (int)getpid());
    mkdir(path, 0755);
    size_t used = strlen(path);
    snprintf(path + used, sizeof path - used, "/%s", name);
    return path;
}

static inline int remove_scratch(void **state) {
    (void)state;
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s/test-data-%d'", BALLAST_BINARY_DIR,
             (int)getpid());
    return system(command);
}

static inline void write_bytes(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static inline void write_text(const char *path, const char *text) {
    write_bytes(path, text, strlen(text));
}

static inline void write_gzip(const char *path, const void *bytes, size_t size) {
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)size), size);
    assert_int_equal(gzclose(file), Z_OK);
}

/* A dataset that must load; the failing case is named. */
static inline struct dataset *load_or_fail(const char *name,
                                           const struct dataset_options *options) {
    struct error err = { 0 };
    struct dataset *d = dataset_load_with(SCENARIOS, name, options, &err);
    if (d == NULL) fail_msg("%s: %s", name, err.text);
    return d;
}

/* "%s" in `want` stands for the path. */
static inline void assert_load_error(const char *name, const char *path,
                                     const struct dataset_options *options, const char *want) {
    struct error err = { 0 };
    struct dataset *d = dataset_load_with(SCENARIOS, path, options, &err);
    if (d != NULL) fail_msg("%s: loaded %lld samples", name, (long long)d->sample_count);
    char expected[4096];
    size_t at = 0;
    for (const char *p = want; *p != '\0';) {
        bool place = p[0] == '%' && p[1] == 's';
        int n = snprintf(expected + at, sizeof expected - at, "%.*s", place ? (int)strlen(path) : 1,
                         place ? path : p);
        at += (size_t)n;
        p += place ? 2 : 1;
    }
    if (strcmp(err.text, expected) != 0)
        fail_msg("%s:\n got  %s\n want %s", name, err.text, expected);
}

#endif
