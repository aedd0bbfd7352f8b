/* test_measured_said_switches.c - what a source says was on or off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include "sim/study/measured/measured_said.h"

#define NEVER SWITCH_UNSAID
#define OFF   SWITCH_OFF
#define ON    SWITCH_ON

static void test_overlap(void **state) {
    (void)state;
    static const struct {
        const char *text;
        struct measured_overlap want;
    } cases[] = {
        { "--overlap-grad-reduce --overlap-param-gather", { ON, ON, NEVER } },
        { "overlap_grad_sync and overlap_param_sync", { ON, ON, NEVER } },
        { "TP 8 with SP, overlap of gradients and parameters, no TP overlap", { ON, ON, OFF } },
        { "overlap-grad-reduce TP 8", { ON, NEVER, NEVER } },
        { "TP_COMM_OVERLAP set False at the end", { NEVER, NEVER, OFF } },
        { "tp_comm_overlap: true", { NEVER, NEVER, ON } },
        { "without overlap of tensor parallelism", { NEVER, NEVER, OFF } },
        { "zero-1, overlap_comm True", { ON, NEVER, NEVER } },
        { "overlap_comm: false", { OFF, NEVER, NEVER } },
        { "overlap_grad_reduce false", { OFF, NEVER, NEVER } },
        { "gradients are overlapped with the backward pass", { ON, NEVER, NEVER } },
        { "overlap_p2p_comm", { NEVER, NEVER, NEVER } },
        { "overlap-grad-reduce, later without overlap of gradients", { NEVER, NEVER, NEVER } },
        { "would overlap gradients", { NEVER, NEVER, NEVER } },
        { "overlap not stated", { NEVER, NEVER, NEVER } },
        { "gradients not overlapped", { OFF, NEVER, NEVER } },
        { "parameters never overlap", { NEVER, OFF, NEVER } },
        { "overlap-grad-reduce and overlap-param-gather are both off", { OFF, OFF, NEVER } },
        { "tp_comm_overlap_rs false", { NEVER, NEVER, OFF } },
        { "whatever overlap_comm says", { NEVER, NEVER, NEVER } },
        { "overlap_comm has no effect", { NEVER, NEVER, NEVER } },
        { "communication overlapped with gradient checkpointing", { NEVER, NEVER, NEVER } },
        { "gradient accumulation overlapped", { NEVER, NEVER, NEVER } },
        { "overlap_p2p_comm and gradient accumulation 8", { NEVER, NEVER, NEVER } },
        { "overlap_comm with 7B params", { ON, NEVER, NEVER } },
        { "", { NEVER, NEVER, NEVER } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct measured_overlap got = measured_says_overlap(cases[i].text),
                                      want = cases[i].want;
        if (got.gradients != want.gradients || got.parameters != want.parameters ||
            got.tensor != want.tensor)
            fail_msg("\"%s\": %d %d %d", cases[i].text, got.gradients, got.parameters, got.tensor);
    }
}

static void test_dropout(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum measured_switch want;
    } cases[] = {
        { "no dropout", OFF },
        { "trained without dropout", OFF },
        { "dropout 0", OFF },
        { "dropout 0.0", OFF },
        { "hidden_dropout=0.0 attention_dropout=0.0", OFF },
        { "dropout 0.1", ON },
        { "attention-dropout 0.1", ON },
        { "attention dropout 0.1, hidden dropout 0", NEVER },
        { "lora_dropout 0.05", NEVER },
        { "LoRA of rank 16 with dropout 0.1", NEVER },
        { "bias dropout fusion", NEVER },
        { "BERT's dropout of 0.1 in the text tower", NEVER },
        { "dropout not stated", NEVER },
        { "dropout of 0.0", OFF },
        { "dropout rate 0", OFF },
        { "dropout=0.000", OFF },
        { "dropout p = 0", OFF },
        { "zero dropout", OFF },
        { "dropout was removed", OFF },
        { "dropout of 0.1", ON },
        { "with dropout", ON },
        { "dropout enabled", ON },
        { "fused dropout kernel", NEVER },
        { "no fused bias, dropout, softmax", NEVER },
        { "dropout from the launcher's flags", NEVER },
        { "states no dropout, so Megatron-core's 0.1 of both", NEVER },
        { "no dropout flags and so Megatron's default of 0.1", NEVER },
        { "attention dropout 0", NEVER },
        { "attention_dropout 0, lora_dropout 0.1", NEVER },
        { "", NEVER },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_dropout(cases[i].text) != cases[i].want)
            fail_msg("\"%s\": %d", cases[i].text, measured_says_dropout(cases[i].text));
}

static void test_adapter_dropout(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum measured_switch want;
    } cases[] = {
        { "lora_dropout 0.05", ON },      { "LoRA of rank 16, dropout of 0.1 before A", ON },
        { "lora_dropout=0.0", OFF },      { "bias dropout fusion", NEVER },
        { "LoRA of rank 16", NEVER },     { "attention_dropout 0, lora_dropout 0.1", ON },
        { "attention_dropout 0", NEVER }, { "attention_dropout 0.1", NEVER },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_adapter_dropout(cases[i].text) != cases[i].want)
            fail_msg("\"%s\": %d", cases[i].text, measured_says_adapter_dropout(cases[i].text));
}

static void test_qk_norm(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum measured_switch want;
    } cases[] = {
        { "rotary positions, QK-norm without weights", ON },
        { "--swiglu, --qk-layernorm", ON },
        { "norms of q and k", ON },
        { "qk_norm: false", OFF },
        { "no QK norm", OFF },
        { "QK norm not stated", NEVER },
        { "norms of q and k off", OFF },
        { "norms of queries and keys", ON },
        { "QK-norm in the vision encoder", NEVER },
        { "qk_norm_eps 1e-6", NEVER },
        { "layer norm", NEVER },
        { "", NEVER },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_qk_norm(cases[i].text) != cases[i].want)
            fail_msg("\"%s\": %d", cases[i].text, measured_says_qk_norm(cases[i].text));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_adapter_dropout),
        cmocka_unit_test(test_qk_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
