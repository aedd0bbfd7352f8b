/* stack_fixture.h - the shipped stacks, and stacks of a text. */
#ifndef BALLAST_TESTS_UNIT_COSTMODEL_STACK_FIXTURE_H
#define BALLAST_TESTS_UNIT_COSTMODEL_STACK_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include "costmodel/stack.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

static inline struct stack_list fixture_stacks(struct arena *arena) {
    struct stack_list list;
    struct error err = { 0 };
    if (!stack_load_all(arena, SCENARIOS, &list, &err)) fail_msg("%s", err.text);
    return list;
}

/* One factor on A100, none on H100; thrice the traffic of norms in backward; twice the traffic of
 * norms; a fifth of TP traffic hidden. */
static const char fixture_stack_text[] =
    "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\",\"norm_traffic\":2,"
    "\"norm_backward_traffic\":3,\"elementwise_traffic\":1.5,\"rotary_traffic\":4,"
    "\"kernel_traffic\":{\"rms-norm\":[6,7],\"gelu-new\":[9,9.5],\"rotary\":[8,10],"
    "\"softmax\":[11,12],\"dropped-causal-softmax\":[0.75,0.33]},"
    "\"softmax_traffic\":5,\"tensor_hidden_fraction\":0.2,\"attention_forward_time\":1.5,"
    "\"factors\":[{\"gpu\":\"a100\",\"precision\":\"bf16\",\"kernel_time_factor\":1.1,"
    "\"attention_time_factor\":2,\"calibrated_on\":[\"r\"]}],"
    "\"sources\":{\"kernel_traffic\":\"x\",\"norm_traffic\":\"x\",\"norm_backward_traffic\":\"x\","
    "\"elementwise_traffic\":\"x\",\"rotary_traffic\":\"x\",\"softmax_traffic\":\"x\",\"tensor_"
    "hidden_fraction\":\"x\","
    "\"attention_forward_time\":\"x\"}}";

static inline const struct stack *fixture_stack(struct arena *arena, const char *content,
                                                struct error *err) {
    char path[] = "/tmp/ballast-stack-XXXXXX.json";
    const int file = mkstemps(path, 5);
    FILE *out = fdopen(file, "w");
    fputs(content, out);
    fclose(out);
    const struct stack *stack = stack_load(arena, SCENARIOS, path, err);
    remove(path);
    return stack;
}

#endif
