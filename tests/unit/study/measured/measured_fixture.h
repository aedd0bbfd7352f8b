/* measured_fixture.h - what the tests of measured rows share: a scenario made of one row. */
#ifndef BALLAST_TESTS_UNIT_STUDY_MEASURED_FIXTURE_H
#define BALLAST_TESTS_UNIT_STUDY_MEASURED_FIXTURE_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

#include "sim/study/measured/measured_scenario.h"

/* What a file of this text, written for the moment, holds. */
static inline void runs_of_text(struct arena *arena, const char *text, struct measured_runs *runs) {
    char path[64];
    snprintf(path, sizeof path, "test_measured_%ld.csv", (long)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    struct error err = { 0 };
    const bool read = measured_runs_read(arena, path, runs, &err);
    remove(path);
    if (!read) fail_msg("%s", err.text);
}

/* A context of the shipped scenarios; its arena is the caller's to destroy. */
static inline struct measured_context shipped_context(void) {
    struct error err = { 0 };
    struct measured_context context;
    if (!measured_context_make(&context, arena_create(), BALLAST_SOURCE_DIR "/scenarios", &err))
        fail_msg("%s", err.text);
    return context;
}

/* The scenario of a row that must be simulated; its document is the caller's. */
static inline struct measured_scenario scenario_of_row(struct measured_context *context,
                                                       const char *header, const char *row) {
    struct measured_runs runs;
    struct measured_scenario m;
    runs_of_text(context->arena, arena_format(context->arena, "%s%s", header, row), &runs);
    context->runs = &runs;
    measured_scenario_make(context, &runs.rows[0], &m);
    context->runs = NULL;
    if (m.skip != SKIP_NOTHING) fail_msg("%s: %s", row, m.skip_detail);
    return m;
}

#endif
