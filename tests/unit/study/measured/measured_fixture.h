/* measured_fixture.h - what the tests of measured rows share: a scenario made of one row. */
#ifndef BALLAST_TESTS_UNIT_STUDY_MEASURED_FIXTURE_H
#define BALLAST_TESTS_UNIT_STUDY_MEASURED_FIXTURE_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "sim/study/measured/measured_scenario.h"

/* The scenario of a row that must be simulated; its document is the caller's. */
static inline struct measured_scenario scenario_of_row(struct measured_context *context,
                                                       const char *path, const char *header,
                                                       const char *row) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s%s", header, row);
    assert_int_equal(fclose(file), 0);
    struct error err = { 0 };
    struct measured_runs runs;
    if (!measured_runs_read(context->arena, path, &runs, &err)) fail_msg("%s", err.text);
    remove(path);
    context->runs = &runs;
    struct measured_scenario m;
    measured_scenario_make(context, &runs.rows[0], &m);
    context->runs = NULL;
    if (m.skip != SKIP_NOTHING) fail_msg("%s: %s", row, m.skip_detail);
    return m;
}

#endif
