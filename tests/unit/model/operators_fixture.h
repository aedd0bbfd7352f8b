/* operators_fixture.h - the operators of a layer, and one of them by name. */
#ifndef BALLAST_TESTS_MODEL_OPERATORS_FIXTURE_H
#define BALLAST_TESTS_MODEL_OPERATORS_FIXTURE_H

#include "tests/unit/model/model_fixture.h"

static const struct gradient_need both = { .input = true, .weight = true };
static const struct gradient_need input_only = { .input = true, .weight = false };
static const struct gradient_need weight_only = { .input = false, .weight = true };

static inline struct operator_list operators_of(const struct model *m, enum layer_kind kind,
                                                const struct batch_shape *shape,
                                                struct tensor_split split, enum pass_set set,
                                                struct gradient_need need) {
    struct operator_list list = { 0 };
    layer_operators(m, fixture_layer(m, kind), shape, &split, set, need, &list);
    return list;
}

static inline struct tensor_split split_of(int64_t tp, bool sequence_parallel) {
    return (struct tensor_split){ .tp = tp, .sequence_parallel = sequence_parallel, .cp = 1 };
}

static inline const struct operator_work *find_operator(const struct operator_list *list,
                                                        const char *name, enum operator_pass pass) {
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->operators[i].name, name) == 0 && list->operators[i].pass == pass)
            return &list->operators[i];
    return NULL;
}

static inline void expect_bytes(const char *what, double got, double want) {
    if (got != want) fail_msg("%s: got %.0f, want %.0f", what, got, want);
}

/* "name/pass kind" of each operator, one per line, passes as f, i, w, b. */
static inline void sequence_of(const struct operator_list *list, char *text, size_t size) {
    static const char passes[] = { [PASS_FORWARD] = 'f',
                                   [PASS_INPUT_GRADIENT] = 'i',
                                   [PASS_WEIGHT_GRADIENT] = 'w',
                                   [PASS_BACKWARD] = 'b' };
    size_t used = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < list->count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s %c", i > 0 ? ", " : "",
                                 list->operators[i].name, passes[list->operators[i].pass]);
}

#endif
