/* validation_cases.c - which rows are one case: the rows of a source that differ in nothing but what
 * is told of their software, found by sorting.
 */
#include <stdlib.h>
#include <string.h>
#include "sim/base/arena.h"
#include "sim/study/measured/measured_scenario.h"
#include "sim/study/measured/validation.h"

static int compare_integers(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/* A row among those of its case, which compare as equal but for their place. */
struct case_key {
    const struct measured_run *run;
    const char *recipe;
    int64_t row;
};

/* Which software, how it is said, what was read, and what follows from the other cells. */
static const char *const beside_case[] = {
    "row_id",        "model",         "dp",      "grad_accum",        "fp8_recipe",  "attention",
    "deterministic", "overlap",       "stack",   "outcome",           "iter_time_s", "notes",
    "peak_mem_GiB",  "peak_mem_kind", "dropout", "iter_time_derived", NULL
};

static int compare_cases(const struct case_key *left, const struct case_key *right) {
    const int order = measured_run_compare(left->run, right->run, beside_case);
    return order != 0 ? order : strcmp(left->recipe, right->recipe);
}

static int compare_keys(const void *a, const void *b) {
    const struct case_key *left = a, *right = b;
    const int order = compare_cases(left, right);
    return order != 0 ? order : compare_integers(left->row, right->row);
}

void validation_find_cases(struct validation *v) {
    const int64_t count = v->runs.count;
    struct case_key *keys = memory_alloc(sizeof *keys * (size_t)(count + 1));
    for (int64_t i = 0; i < count; i++)
        keys[i] =
            (struct case_key){ v->rows[i].measured, measured_fp8_recipe(v->rows[i].measured), i };
    qsort(keys, (size_t)count, sizeof *keys, compare_keys);
    for (int64_t i = 0, first = 0; i < count; i++) {
        if (compare_cases(&keys[first], &keys[i]) != 0) first = i;
        v->rows[keys[i].row].case_row = keys[first].row;
    }
    free(keys);
}
