/* test_scenario_reference.c - the reference and the help name every field and policy. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/scenario/scenario.h"

static char *written(void (*write)(FILE *out)) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    write(out);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* The text names all fields of the table somewhere after `start`. */
static void check_fields(const char *start, const char *where, const struct field_table *table,
                         const char *format) {
    for (size_t i = 0; table != NULL && i < table->count; i++) {
        char row[128];
        snprintf(row, sizeof row, format, table->fields[i].name);
        const char *at = strstr(start, row);
        if (at == NULL) fail_msg("%s: %s is not named", where, table->fields[i].name);
        const char *help = strstr(at, table->fields[i].help);
        if (help == NULL || help > at + 1 + strcspn(at + 1, "\n"))
            fail_msg("%s: %s is not explained", where, table->fields[i].name);
    }
}

static void check_text(const char *text, const char *section_format, const char *policy_format,
                       const char *field_format) {
    char heading[128];
    size_t count;
    const struct field_table *const *sections = scenario_sections(&count);
    for (size_t i = 0; i < count; i++) {
        snprintf(heading, sizeof heading, section_format, sections[i]->name);
        const char *at = strstr(text, heading);
        if (at == NULL) fail_msg("no %s", heading);
        check_fields(at, heading, sections[i], field_format);
    }
    const struct batching_policy *const *batching = batching_policies(&count);
    for (size_t i = 0; i < count; i++) {
        snprintf(heading, sizeof heading, policy_format, batching[i]->name);
        const char *at = strstr(text, heading);
        if (at == NULL) fail_msg("no %s", heading);
        check_fields(at, heading, batching[i]->parameters, field_format);
    }
    const struct planner *const *list = planners(&count);
    for (size_t i = 0; i < count; i++) {
        snprintf(heading, sizeof heading, policy_format, list[i]->name);
        const char *at = strstr(text, heading);
        if (at == NULL) fail_msg("no %s", heading);
        check_fields(at, heading, list[i]->parameters, field_format);
    }
    const struct schedule_policy *const *schedules = schedule_policies(&count);
    for (size_t i = 0; i < count; i++) {
        snprintf(heading, sizeof heading, policy_format, schedules[i]->name);
        if (strstr(text, heading) == NULL) fail_msg("no %s", heading);
    }
}

static void test_reference(void **state) {
    (void)state;
    char *text = written(scenario_write_reference);
    check_text(text, "\n## `%s`\n", "\n#### `%s`\n", "| `%s` |");
    free(text);
}

static void test_help(void **state) {
    (void)state;
    char *text = written(scenario_write_help);
    check_text(text, "\n  \"%s\": ", " \"%s\": ", "\n    %s ");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
