/* scenario_fixture.h - what the tests of sim/scenario share: a scenario of seven lines, any of
 * which a case replaces, in a folder of its own, and the shape of messages. */
#ifndef BALLAST_TESTS_SCENARIO_FIXTURE_H
#define BALLAST_TESTS_SCENARIO_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "sim/scenario/scenario.h"
#include "tests/unit/scenario/shared_cache.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

/* ---- a scenario of seven lines, any of which a case replaces ---- */

enum line { MODEL, DATASET, CLUSTER, LAYOUT, TRAINING, POLICY, SIMULATE, LINE_COUNT };

static const char *const base_lines[LINE_COUNT] = {
    [MODEL] = "\"model\": \"internvl-6b-20b\"",
    [DATASET] = "\"dataset\": \"omnibal-real\"",
    [CLUSTER] = "\"cluster\": { \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 32, "
                "\"nic_Gbit_per_s_per_gpu\": 100 }",
    [LAYOUT] = "\"layout\": { \"tp\": 2, \"pp\": 4 }",
    [TRAINING] = "\"training\": { \"global_batch\": { \"samples\": 64 }, \"micro_batch\": { "
                 "\"samples\": 4 } }",
    [POLICY] = "\"policy\": { \"batching\": { \"name\": \"isf\", \"qv\": 9 } }",
    [SIMULATE] = "\"simulate\": { \"iterations\": 2 }",
};

/* The tests stand in a folder of their own, so that messages say "s.json". */
static char folder[] = "/tmp/ballast-scenario-XXXXXX";

static inline int enter_folder(void **state) {
    (void)state;
    return mkdtemp(folder) != NULL && chdir(folder) == 0 ? 0 : -1;
}

static inline int leave_folder(void **state) {
    (void)state;
    unlink("s.json");
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

static inline void write_text(const char *text) {
    FILE *file = fopen("s.json", "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The file is { newline, the lines with commas between, newline }: line 2 is the first. */
static inline void write_lines(enum line replaced, const char *text) {
    FILE *file = fopen("s.json", "w");
    assert_non_null(file);
    bool first = true;
    for (int i = 0; i < LINE_COUNT; i++) {
        const char *line = text != NULL && i == (int)replaced ? text : base_lines[i];
        if (line[0] == '\0') continue;
        fprintf(file, "%s%s", first ? "{\n" : ",\n", line);
        first = false;
    }
    fputs("\n}\n", file);
    assert_int_equal(fclose(file), 0);
}

/* As a command does that loads no other scenario. */
static inline struct scenario *load_alone(const char *const *overrides, struct error *err) {
    struct scenario_options options = { .directory = SCENARIOS, .overrides = overrides };
    return scenario_load(&options, "s.json", err);
}

static inline struct scenario *load(const char *const *overrides, struct error *err) {
    struct scenario_options options = { .directory = SCENARIOS,
                                        .overrides = overrides,
                                        .cache = shared_cache() };
    return scenario_load(&options, "s.json", err);
}

static inline struct scenario *load_valid(enum line replaced, const char *text,
                                          const char *const *overrides) {
    struct error err = { 0 };
    write_lines(replaced, text);
    struct scenario *s = load(overrides, &err);
    if (s == NULL) fail_msg("%s: %s", text != NULL ? text : "base", err.text);
    return s;
}

/* ---- messages ---- */

/* Where this repository lies is not part of a message. */
static inline void strip_source_directory(char *text) {
    static const char prefix[] = BALLAST_SOURCE_DIR "/";
    for (char *at = strstr(text, prefix); at != NULL; at = strstr(text, prefix))
        memmove(at, at + sizeof prefix - 1, strlen(at + sizeof prefix - 1) + 1);
}

/* The message begins with the line `want` and its first hint is `hint` (NULL: it has none). */
static inline void check_message(const char *name, struct error *err, const char *want,
                                 const char *hint) {
    assert_false(err->internal);
    strip_source_directory(err->text);
    size_t length = strcspn(err->text, "\n");
    if (length != strlen(want) || strncmp(err->text, want, length) != 0)
        fail_msg("%s: got\n%s\nwant\n%s", name, err->text, want);
    const char *found = strstr(err->text, "\n  hint: ");
    if (hint == NULL ? found != NULL : found == NULL) fail_msg("%s: got\n%s", name, err->text);
    if (hint == NULL) return;
    found += strlen("\n  hint: ");
    if (strcspn(found, "\n") != strlen(hint) || strncmp(found, hint, strlen(hint)) != 0)
        fail_msg("%s: got\n%s\nwant the hint\n%s", name, err->text, hint);
}

#endif
