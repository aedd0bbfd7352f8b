/* test_muon.c - which matrices Muon orthogonalises, by whom, and what that takes and holds, against
 * figures by hand. */
#include "tests/unit/step/step_fixture.h"

#include "sim/step/muon.h"
#include "sim/step/outer_operators.h"

/* InternLM2-20B of 48 blocks: hidden 6144, 48 query heads of 128 and 8 key heads, ffn 16384. */
enum { BLOCKS = 48, HIDDEN = 6144, KEYS = 1024, FFN = 16384 };

static const double block_matrices =
    2.0 * HIDDEN * HIDDEN + 2.0 * KEYS * HIDDEN + 3.0 * FFN * HIDDEN;

static void open_muon(struct step_fixture *f, const char *optimizer, const char *zero_stage,
                      const char *stack) {
    const char *const setup[] = { "model=internlm2-20b",
                                  "layout.backend=fsdp",
                                  "layout.tp=1",
                                  "layout.pp=1",
                                  "policy.recompute=none",
                                  zero_stage,
                                  optimizer,
                                  stack,
                                  NULL };
    fixture_open_planned(f, setup);
    f->step = step_model_create(f->arena, f->scenario, &f->plan, f->prices);
}

/* Five times X X^T and B X of 2 m m n each and A A of 2 m m m. */
static double matrix_flop(double m, double n) {
    return 5 * (4 * m * m * n + 2 * m * m * m);
}

static bool is_muon(const struct outer_operator *one) {
    return strncmp(one->work.name, "muon", 4) == 0;
}

static double muon_flop(struct step_fixture *f) {
    struct outer_list list = { 0 };
    step_model_record(f->step, f->arena, &list);
    double flop = 0;
    for (int64_t i = 0; i < list.count; i++)
        if (is_muon(&list.operators[i]) && list.operators[i].work.kind == OPERATOR_MATMUL)
            flop += list.operators[i].calls * list.operators[i].work.flop;
    outer_list_free(&list);
    return flop;
}

static void check_near(const char *what, double got, double want) {
    if (fabs(got - want) > 1e-9 * fabs(want))
        fail_msg("%s: got %.17g, want %.17g", what, got, want);
}

/* Of matrices of one shape the busiest of eight ranks has an eighth: 96 of q and projection, 96 of k
 * and v, 96 of gate and up, 48 of down. */
static void test_work_by_hand(void **state) {
    (void)state;
    const double whole = BLOCKS * (2 * matrix_flop(HIDDEN, HIDDEN) + 2 * matrix_flop(KEYS, HIDDEN) +
                                   3 * matrix_flop(HIDDEN, FFN));
    static const char *const stages[] = { "layout.zero_stage=0", "layout.zero_stage=1",
                                          "layout.zero_stage=3" };
    for (int i = 0; i < 3; i++) {
        struct step_fixture f;
        open_muon(&f, "training.optimizer=muon", stages[i], "layout.stack=none");
        assert_int_equal(f.step->muon[0].owners, 8);
        check_near("parameters", f.step->muon[0].parameters, BLOCKS * block_matrices);
        check_near("owned", f.step->muon[0].owned, BLOCKS * block_matrices / 8);
        check_near(stages[i], muon_flop(&f), whole / 8);
        fixture_close(&f);
    }
    struct step_fixture f;
    open_muon(&f, "training.optimizer=muon", "layout.zero_stage=0", "layout.stack=none");
    struct backend backend = *f.scenario->backend;
    backend.step.muon_whole = true;
    f.scenario->backend = &backend;
    f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    check_near("each rank all of them", muon_flop(&f), whole);
    fixture_close(&f);
}

/* Seven ranks: 14 of each 96 and 7 of 48 for the busiest, and collectives are filled up. */
static void test_uneven_division(void **state) {
    (void)state;
    struct step_fixture f;
    struct muon_stage muon;
    open_muon(&f, "training.optimizer=muon", "layout.zero_stage=1", "layout.stack=none");
    f.scenario->layout.zero_group = 7;
    muon_stage_fill(f.step, 0, &muon);
    const double owned = 14.0 * HIDDEN * (HIDDEN + KEYS + FFN) + 7.0 * HIDDEN * FFN;
    check_near("owned", muon.owned, owned);
    check_near("padded", muon.padded, 7 * owned);
    /* fp32 weights in place of the bf16 ones that other optimizers gather */
    check_near("gathered", muon_gather_bytes(f.step, &muon),
               4 * 7 * owned - 2 * BLOCKS * block_matrices);
    fixture_close(&f);
}

/* One momentum for two moments: 8 bytes a parameter of a matrix, 12 of all others. */
static void test_state(void **state) {
    (void)state;
    const double matrices = BLOCKS * block_matrices;
    static const struct {
        const char *stage;
        double others, of_matrices; /* bytes a parameter of one rank */
    } cases[] = {
        { "layout.zero_stage=0", 12, 4 + 4.0 / 8 },
        { "layout.zero_stage=1", 12.0 / 8, 8.0 / 8 },
        { "layout.zero_stage=3", 12.0 / 8, 8.0 / 8 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct step_fixture f;
        open_muon(&f, "training.optimizer=muon", cases[i].stage, "layout.stack=none");
        const double all = (double)f.step->trainable_rank_parameters[0];
        check_bytes(f.step, 0, MEMORY_OPTIMIZER,
                    cases[i].others * (all - matrices) + cases[i].of_matrices * matrices);
        fixture_close(&f);
    }
}

/* Sharded matrices come whole to their owner and go back, in bf16. */
static void test_exchange(void **state) {
    (void)state;
    struct step_fixture f;
    struct outer_list list = { 0 };
    open_muon(&f, "training.optimizer=muon", "layout.zero_stage=3", "layout.stack=none");
    step_model_record(f.step, f.arena, &list);
    double bytes = 0;
    for (int64_t i = 0; i < list.count; i++)
        if (list.operators[i].work.kind == OPERATOR_ALL_TO_ALL)
            bytes += list.operators[i].calls * list.operators[i].work.network_bytes;
    outer_list_free(&list);
    check_near("exchanged", bytes, 2 * 2 * BLOCKS * block_matrices / 8);
    fixture_close(&f);
}

/* A stack's own optimizer is taken unless the training names one, and adamw has none of this. */
static void test_choice(void **state) {
    (void)state;
    struct step_fixture f;
    open_muon(&f, "training.optimizer=adamw", "layout.zero_stage=1", "layout.stack=nanochat");
    assert_true(f.step->muon[0].parameters == 0);
    const int64_t adamw_ns = f.step->update_ns;
    fixture_close(&f);
    open_muon(&f, "training.epochs=1", "layout.zero_stage=1", "layout.stack=nanochat");
    assert_string_equal(f.scenario->optimizer->name, "muon");
    assert_true(f.step->update_ns > adamw_ns);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_by_hand), cmocka_unit_test(test_uneven_division),
        cmocka_unit_test(test_state),        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
