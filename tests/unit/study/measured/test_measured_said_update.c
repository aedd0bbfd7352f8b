/* test_measured_said_update.c - what a source says of the end of a step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "sim/study/measured/measured_said.h"

static void test_adamw_kernels(void **state) {
    (void)state;
    int failed = 0;
    static const struct {
        const char *text, *want; /* NULL: nothing, or both */
    } cases[] = {
        { "PyTorch eager, fused AdamW", "fused" },
        { "AdamW fused, clip 1.0", "fused" },
        { "AdamW (fused=True)", "fused" },
        { "torch.optim.AdamW(fused=True, lr=1e-4)", "fused" },
        { "torch.optim.AdamW(fused=False)", "foreach" },
        { "AdamW(foreach=True)", "foreach" },
        { "AdamW(foreach=False)", NULL },
        { "AdamW (lr 1e-4)", NULL },
        { "AdamW (fused)", "fused" },
        { "AdamW is fused", "fused" },
        { "AdamW is not fused", "foreach" },
        { "adamw_torch_fused", "fused" },
        { "optim adamw_torch", "foreach" },
        { "adamw_torch_npu_fused", NULL },
        { "AdamW fused no_sync", "fused" },
        { "adamw_torch_fused no gradient checkpointing", "fused" },
        { "AdamW fused: no", "foreach" },
        { "fused_adamw=False", "foreach" },
        { "use_fused_adamw: false", "foreach" },
        { "fused AdamW disabled", "foreach" },
        { "fused AdamW is not used", "foreach" },
        { "not a fused AdamW", "foreach" },
        { "unfused AdamW", "foreach" },
        { "AdamW for each, NGC 25.01", "foreach" },
        { "AdamW for each parameter group has its own rate", NULL },
        { "AdamW not fused", "foreach" },
        { "AdamW with foreach", "foreach" },
        { "AdamW foreach=False", NULL },
        { "AdamW foreach_sr with stochastic rounding", "foreach" },
        { "non-fused AdamW", "foreach" },
        { "AdamW fused or foreach: not stated", NULL },
        { "fused AdamW or foreach", NULL },
        { "AdamW fused is not stated", NULL },
        { "fused AdamW on one GPU, foreach AdamW on two", NULL },
        { "the table has 11.9 s with --enable_fused, without fused Adam 12.01 s", NULL },
        { "fused Adam of Apex", NULL },
        { "DeepSpeed's fused Adam", NULL },
        { "fused kernels and AdamW", NULL },
        { "", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *got = measured_adamw_kernels(cases[i].text);
        if ((got == NULL) != (cases[i].want == NULL) ||
            (got != NULL && strcmp(got, cases[i].want) != 0))
            print_error("\"%s\": %s\n", cases[i].text, got == NULL ? "nothing" : got), failed++;
    }
    assert_int_equal(failed, 0);
}

static void test_optimizer(void **state) {
    (void)state;
    int failed = 0;
    static const struct {
        const char *text, *want; /* NULL: it does not say */
    } cases[] = {
        { "Muon for the blocks, AdamW fused for the table", "muon" },
        { "JAX (Flax NNX) of its own, jitted, NorMuon, one GPU", "muon" },
        { "nanochat 2026 (torch.compile, bf16, Muon), PyTorch 2.9.1", "muon" },
        { "AdamW, not Muon", NULL },
        { "without Muon", NULL },
        { "(the later code uses Muon and flex attention)", NULL },
        { "fused AdamW", NULL },
        { "muonic", NULL },
        { "", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *got = measured_optimizer(cases[i].text);
        if ((got == NULL) != (cases[i].want == NULL) ||
            (got != NULL && strcmp(got, cases[i].want) != 0))
            print_error("\"%s\": %s\n", cases[i].text, got == NULL ? "nothing" : got), failed++;
    }
    assert_int_equal(failed, 0);
}

static void test_gradient_sync(void **state) {
    (void)state;
    int failed = 0;
    static const struct {
        const char *text, *want; /* NULL: nothing, or both */
    } cases[] = {
        { "gradients reduced in bf16 every micro-batch", "each" },
        { "gradients are reduced each micro-batch", "each" },
        { "gradients synchronised each micro-batch", "each" },
        { "gradients not reduced every micro-batch", NULL },
        { "gradients accumulated every micro-batch", NULL },
        { "gradients of every micro-batch accumulate whole and are reduced once a step", "last" },
        { "gradients are reduced once a step", "last" },
        { "gradients reduced in the last micro-batch only", "last" },
        { "gradient norm over each micro-batch with reduced loss", NULL },
        { "loss reduced and gradients clipped each micro-batch", NULL },
        { "no_sync while accumulating", "last" },
        { "FSDP2 under no_sync", "last" },
        { "each reducing its gradients (no no_sync)", "each" },
        { "without no_sync", "each" },
        { "without the no_sync context", "each" },
        { "does not use no_sync", "each" },
        { "no_sync is not used", "each" },
        { "no_sync=False", "each" },
        { "never enters no_sync", "each" },
        { "timed with no sync points", NULL },
        { "there is no sync between nodes until the outer step", NULL },
        { "sync_each_batch: true", "each" },
        { "sync_each_batch=False", "last" },
        { "sync_each_batch (False)", "last" },
        { "sync_each_batch left at its default", NULL },
        { "set_requires_gradient_sync(False)", "last" },
        { "kept whole (set_requires_gradient_sync false)", "last" },
        { "set_requires_gradient_sync(True)", NULL },
        { "no_sync in stage 1, sync_each_batch in stage 2", NULL },
        { "", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *got = measured_gradient_sync(cases[i].text);
        if ((got == NULL) != (cases[i].want == NULL) ||
            (got != NULL && strcmp(got, cases[i].want) != 0))
            print_error("\"%s\": %s\n", cases[i].text, got == NULL ? "nothing" : got), failed++;
    }
    assert_int_equal(failed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient_sync),
        cmocka_unit_test(test_adamw_kernels),
        cmocka_unit_test(test_optimizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
