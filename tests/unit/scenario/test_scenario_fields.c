/* test_scenario_fields.c - walks every table of fields that a scenario is read by: the sections and
 * the parameters of every policy. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "sim/scenario/scenario.h"
#include "sim/scenario/scenario_fields.h"

enum { TABLE_LIMIT = 64 };

struct tables {
    const struct field_table *rows[TABLE_LIMIT];
    size_t count;
};

static void add(struct tables *tables, const struct field_table *table) {
    if (table == NULL) return;
    assert_true(tables->count < TABLE_LIMIT);
    tables->rows[tables->count++] = table;
}

static struct tables all_tables(void) {
    struct tables tables = { .count = 0 };
    size_t count;
    const struct field_table *const *sections = scenario_sections(&count);
    for (size_t i = 0; i < count; i++)
        add(&tables, sections[i]);
    const struct batching_policy *const *batching = batching_policies(&count);
    for (size_t i = 0; i < count; i++)
        add(&tables, batching[i]->parameters);
    const struct planner *const *list = planners(&count);
    for (size_t i = 0; i < count; i++)
        add(&tables, list[i]->parameters);
    assert_true(tables.count >= 8 + 4);
    return tables;
}

/* Walks every field of every table. */
typedef void (*field_check)(const struct field_table *table, const struct field *field);
static void walk(field_check check) {
    struct tables tables = all_tables();
    for (size_t t = 0; t < tables.count; t++)
        for (size_t i = 0; i < tables.rows[t]->count; i++)
            check(tables.rows[t], &tables.rows[t]->fields[i]);
}

static void check_name(const struct field_table *table, const struct field *field) {
    for (const char *c = field->name; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            fail_msg("%s.%s: a key is made of letters, digits and _", table->name, field->name);
    if (!islower((unsigned char)field->name[0]))
        fail_msg("%s.%s: a key begins with a small letter", table->name, field->name);
    if (field_table_find(table, field->name) != field)
        fail_msg("%s.%s: stands in the table twice", table->name, field->name);
}

static void check_help(const struct field_table *table, const struct field *field) {
    size_t length = field->help != NULL ? strlen(field->help) : 0;
    if (length < 4) fail_msg("%s.%s: has no help", table->name, field->name);
    if (strchr(field->help, '\n') != NULL || strchr(field->help, '|') != NULL)
        fail_msg("%s.%s: help is one line and one cell of a Markdown table", table->name,
                 field->name);
    if (field->help[length - 1] == '.' || field->help[length - 1] == ' ' || field->help[0] == ' ')
        fail_msg("%s.%s: help ends without a full stop", table->name, field->name);
}

static void check_unit(const struct field_table *table, const struct field *field) {
    if (field->unit == NULL)
        fail_msg("%s.%s: has no unit, not even \"\"", table->name, field->name);
    if (strlen(field->unit) > 8 || strchr(field->unit, ' ') != NULL)
        fail_msg("%s.%s: the unit \"%s\" is no unit", table->name, field->name, field->unit);
    /* A unit in the key is the unit that is printed. */
    static const struct {
        const char *ending, *unit;
    } endings[] = {
        { "_us", "us" },       { "_bytes", "bytes" },   { "_fraction", "" },
        { "_GiB", "GiB" },     { "_GB_per_s", "GB/s" }, { "_pixels", "pixels" },
        { "_tiles", "tiles" }, { "_tokens", "tokens" }, { "_usd_per_gpu_hour", "USD" },
    };
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t length = strlen(field->name), ending = strlen(endings[i].ending);
        if (length > ending && strcmp(field->name + length - ending, endings[i].ending) == 0 &&
            strcmp(field->unit, endings[i].unit) != 0)
            fail_msg("%s.%s: the unit is \"%s\"", table->name, field->name, field->unit);
    }
}

static void check_bounds(const struct field_table *table, const struct field *field) {
    bool number = field->type == FIELD_COUNT || field->type == FIELD_DOUBLE;
    if (number && !(field->min < field->max))
        fail_msg("%s.%s: a number needs bounds, has %g to %g", table->name, field->name, field->min,
                 field->max);
    if (!number && (field->min != 0 || field->max != 0))
        fail_msg("%s.%s: bounds of what is no number", table->name, field->name);
    /* Counts are read from JSON numbers and used as int64_t and, squared, as doubles. */
    if (field->type == FIELD_COUNT && field->max > 4.3e9)
        fail_msg("%s.%s: a count up to %g", table->name, field->name, field->max);
}

static void check_choices(const struct field_table *table, const struct field *field) {
    /* Those of a count are words beside its numbers: one suffices. */
    const bool words = field->type == FIELD_COUNT && field->choices != NULL;
    if ((field->type == FIELD_CHOICE || words) != (field->choices != NULL))
        fail_msg("%s.%s: choices and no choice, or the other way", table->name, field->name);
    if (field->choices == NULL) return;
    for (size_t i = 0; field->choices[i] != NULL; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(field->choices[i], field->choices[j]) == 0)
                fail_msg("%s.%s: \"%s\" twice", table->name, field->name, field->choices[i]);
    if (field->choices[0] == NULL || (!words && field->choices[1] == NULL))
        fail_msg("%s.%s: fewer than two choices", table->name, field->name);
}

/* A default is read by the rules that hold for a user's value: type, bounds, choices. */
static void check_default(const struct field_table *table, const struct field *field) {
    if (field->fallback == NULL) return;
    char text[256];
    snprintf(text, sizeof text, "{ \"%s\": %s }", field->name, field->fallback);
    struct error err = { 0 };
    struct json *json = json_parse("default", text, strlen(text), &err);
    if (json == NULL) fail_msg("%s.%s: %s", table->name, field->name, err.text);
    struct field alone = *field;
    alone.offset = 0;
    const struct field_table one = { table->name, table->help, &alone, 1, NULL };
    union {
        bool flag;
        int64_t count;
        double number;
        const char *text;
        int choice;
        const cJSON *node;
    } value;
    struct arena *arena = arena_create();
    if (!field_table_read(&one, json, json_root(json), &value, arena, &err))
        fail_msg("%s.%s: the default: %s", table->name, field->name, err.text);
    if (field->type == FIELD_NODE && strcmp(field->fallback, "null") != 0)
        fail_msg("%s.%s: the default of a node is null", table->name, field->name);
    arena_destroy(arena);
    json_destroy(json);
}

static void test_names(void **state) {
    (void)state;
    walk(check_name);
}

static void test_help(void **state) {
    (void)state;
    walk(check_help);
    struct tables tables = all_tables();
    for (size_t i = 0; i < tables.count; i++) {
        assert_true(strlen(tables.rows[i]->name) > 0);
        if (strlen(tables.rows[i]->help) < 4) fail_msg("%s: has no help", tables.rows[i]->name);
    }
}

static void test_units(void **state) {
    (void)state;
    walk(check_unit);
}

static void test_bounds(void **state) {
    (void)state;
    walk(check_bounds);
}

static void test_choices(void **state) {
    (void)state;
    walk(check_choices);
}

static void test_defaults(void **state) {
    (void)state;
    walk(check_default);
}

/* A parameter called "name" could not be told from the policy's name. */
static void test_no_policy_has_a_parameter_called_name(void **state) {
    (void)state;
    struct tables tables = all_tables();
    size_t section_count;
    scenario_sections(&section_count);
    for (size_t i = section_count; i < tables.count; i++)
        if (field_table_find(tables.rows[i], "name") != NULL)
            fail_msg("%s has a parameter called name", tables.rows[i]->name);
}

/* The top level and its sections name each other; `lora` stands in `model`. */
static void test_every_section_has_a_table(void **state) {
    (void)state;
    size_t count;
    const struct field_table *const *sections = scenario_sections(&count);
    assert_ptr_equal(sections[0], &scenario_top_table);
    size_t found = 0;
    for (size_t i = 0; i < scenario_top_table.count; i++) {
        const struct field *field = &scenario_top_table.fields[i];
        if (field->type != FIELD_NODE) continue;
        bool known = false;
        for (size_t j = 1; j < count; j++)
            known = known || strcmp(sections[j]->name, field->name) == 0;
        if (!known) fail_msg("section \"%s\" has no table", field->name);
        found++;
    }
    assert_int_equal(found, count - 2);
    assert_non_null(field_table_find(&scenario_model_table, scenario_lora_table.name));
}

/* ---- the policies' rows ---- */

static void check_row(const char *slot, const char *name, const char *help,
                      const struct field_table *table, size_t size) {
    if (name == NULL || name[0] == '\0') fail_msg("a %s policy has no name", slot);
    for (const char *c = name; *c != '\0'; c++)
        if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c) && *c != '-')
            fail_msg("%s policy %s: a name is made of small letters, digits and -", slot, name);
    if (help == NULL || strlen(help) < 4 || help[strlen(help) - 1] == '.' ||
        strchr(help, '\n') != NULL)
        fail_msg("%s policy %s: has no one-line help", slot, name);
    if ((table != NULL) != (size > 0))
        fail_msg("%s policy %s: parameters without a size, or the other way", slot, name);
    if (table == NULL) return;
    if (strcmp(table->name, name) != 0)
        fail_msg("%s policy %s: its parameters are called %s", slot, name, table->name);
    for (size_t i = 0; i < table->count; i++)
        if (table->fields[i].offset >= size)
            fail_msg("%s policy %s: %s lies outside", slot, name, table->fields[i].name);
}

static void check_order(const char *slot, const char *before, const char *name) {
    if (before != NULL && strcmp(before, name) >= 0)
        fail_msg("%s policy %s: not sorted after %s", slot, name, before);
}

static void test_policy_rows(void **state) {
    (void)state;
    size_t count;
    const struct batching_policy *const *batching = batching_policies(&count);
    for (size_t i = 0; i < count; i++) {
        check_row("batching", batching[i]->name, batching[i]->help, batching[i]->parameters,
                  batching[i]->parameters_size);
        check_order("batching", i > 0 ? batching[i - 1]->name : NULL, batching[i]->name);
        assert_non_null(batching[i]->plan);
        assert_ptr_equal(batching_policy_find(batching[i]->name), batching[i]);
    }
    const struct schedule_policy *const *schedules = schedule_policies(&count);
    for (size_t i = 0; i < count; i++) {
        check_row("schedule", schedules[i]->name, schedules[i]->help, NULL, 0);
        check_order("schedule", i > 0 ? schedules[i - 1]->name : NULL, schedules[i]->name);
        assert_ptr_equal(schedule_policy_find(schedules[i]->name), schedules[i]);
    }
    const struct planner *const *list = planners(&count);
    for (size_t i = 0; i < count; i++)
        check_row(planner_slot_name(list[i]->slot), list[i]->name, list[i]->help,
                  list[i]->parameters, list[i]->parameters_size);
    assert_null(batching_policy_find("ISF"));
    assert_null(schedule_policy_find(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_no_policy_has_a_parameter_called_name),
        cmocka_unit_test(test_every_section_has_a_table),
        cmocka_unit_test(test_policy_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
