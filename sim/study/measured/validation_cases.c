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

static int compare_cases(const struct case_key *left, const struct case_key *right) {
    const struct measured_run *a = left->run, *b = right->run;
    const char *const texts[][2] = {
        { a->source, b->source },
        { a->hardware, b->hardware },
        { a->precision, b->precision },
        { a->recompute, b->recompute },
        { left->recipe, right->recipe },
        { a->exp_avg_dtype, b->exp_avg_dtype },
        { a->exp_avg_sq_dtype, b->exp_avg_sq_dtype },
        { a->main_grads_dtype, b->main_grads_dtype },
        { a->reduce_dtype, b->reduce_dtype },
    };
    const int64_t numbers[][2] = {
        { a->precision_aware_optimizer, b->precision_aware_optimizer },
        { a->layers, b->layers },
        { a->hidden, b->hidden },
        { a->ffn_hidden, b->ffn_hidden },
        { a->heads, b->heads },
        { a->seq_len, b->seq_len },
        { a->sample_len, b->sample_len },
        { a->text_len, b->text_len },
        { a->double_stream_blocks, b->double_stream_blocks },
        { a->gpu_count, b->gpu_count },
        { a->tp, b->tp },
        { a->pp, b->pp },
        { a->cp, b->cp },
        { a->vpp, b->vpp },
        { a->zero_stage, b->zero_stage },
        { a->zero_group, b->zero_group },
        { a->offload_blocks, b->offload_blocks },
        { a->micro_batch, b->micro_batch },
        { a->global_batch, b->global_batch },
    };
    int order = 0;
    for (size_t i = 0; order == 0 && i < sizeof texts / sizeof texts[0]; i++)
        order = strcmp(texts[i][0], texts[i][1]);
    for (size_t i = 0; order == 0 && i < sizeof numbers / sizeof numbers[0]; i++)
        order = compare_integers(numbers[i][0], numbers[i][1]);
    return order;
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
