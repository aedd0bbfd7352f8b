/* test_price_table.c - layer times against their operators, and against prices taken one by one. */
#include "tests/unit/step/step_fixture.h"

#include <math.h>
#include "sim/base/units.h"

/* A stack whose host is never waited for, so that operators are all there is. */
#define EVEN "layout.stack=megatron-bridge-2026"
static const char *const setups[][6] = {
    { "layout.tp=1", EVEN, NULL },
    { "layout.tp=2", EVEN, NULL },
    { "layout.tp=8", "layout.sp=false", "cluster.hardware=h800-80g-sxm", EVEN, NULL },
    { "layout.tp=4", "model={\"name\":\"internvl-6b-20b\",\"frozen\":[\"vision\"]}", EVEN, NULL },
    { "layout.tp=4", "model={\"name\":\"internvl-6b-8b\",\"frozen\":[\"vision\",\"connector\"]}",
      EVEN, NULL },
    { "layout.tp=2", "model={\"name\":\"internvl-6b-8b\",\"frozen\":[\"language\"]}", EVEN, NULL },
    { "layout.tp=2", "model=llava-1.6-7b", "cluster.hardware=h20-96g", EVEN, NULL },
    { "layout.tp=2", "model=llama3-8b", EVEN, NULL },
    { "layout.tp=2", "model=qwen2-vl-7b", EVEN, NULL },
    { "layout.tp=8", "model={\"name\":\"vlm-s\",\"precision\":{\"language\":\"fp8\"}}",
      "cluster.hardware=h100-80g-sxm", EVEN, NULL },
    { "model=llama3-8b", "training.attention=naive", "layout.tp=2", EVEN, NULL },
    { "model=internvl-6b-8b", "layout.cp=2", "layout.tp=2", EVEN, NULL },
    { "model=llama3-8b", "layout.cp=4", "cluster.gpus_per_node=2", EVEN, NULL },
    { "model=llama3-8b", "layout.cp=4", "layout.cp_kind=all-to-all", EVEN, NULL },
    { "model=llama3-8b", "layout.cp=4", "layout.cp_kind=all-gather", "layout.cp_balanced=false",
      EVEN, NULL },
    { "model=llama3-8b", "layout.cp=2", "training.attention=naive", EVEN, NULL },
    { "model=llama3-8b", "layout.backend=deepspeed", "layout.stack=hf-deepspeed",
      "layout.zero_stage=3", NULL },
    { "layout.tp=4", "model=t2v-s", "dataset=mmtrail-2m", EVEN, NULL },
    { "model=t2v-s", "dataset=mmtrail-2m", "layout.cp=4", "layout.tp=2", EVEN, NULL },
    { "model=t2v-s", "dataset=mmtrail-2m", "layout.cp=2", "training.attention=naive", EVEN, NULL },
    { "model=hunyuanvideo", "dataset=mmtrail-2m", "layout.tp=4", EVEN, NULL },
    { "model=flux.1-dev", "dataset=mmtrail-2m", "layout.cp=2", "layout.tp=2", EVEN, NULL },
    { "model=flux.1-dev", "dataset=mmtrail-2m", "training.attention=naive", "layout.tp=2", EVEN,
      NULL },
    { "layout.tp=8", "model={\"name\":\"t2v-l\",\"frozen\":[\"language\"]}", "dataset=mmtrail-2m",
      EVEN, NULL },
    { "model=llama3-8b", "layout.cp=4", "layout.cp_heads=2", "cluster.gpus_per_node=2", EVEN,
      NULL },
    { "model=llama3-8b", "layout.cp=4", "layout.cp_heads=2", "layout.cp_kind=all-gather", EVEN,
      NULL },
};
enum { SETUP_COUNT = sizeof setups / sizeof setups[0], SHAPES = 12 };

static bool has_kind(const struct model *model, int kind, int64_t *layer) {
    for (*layer = 0; *layer < model->layer_count; ++*layer)
        if ((int)model->layers[*layer].kind == kind) return true;
    return false;
}

/* ---- the two-stream rule, by exhaustive search ---- */

/* What must end before operator i starts: the operator before it on its stream; a collective waits
 * for all compute before it; compute waits for each exposed collective before it, and for a hidden
 * one unless that stands directly before it. A collective also waits for the collectives whose
 * result the compute before it, or the next one, was told to wait for; on one stream that is the
 * order of the stream. Starts are found by raising them until nothing changes. */
static int64_t brute_makespan_ns(const struct operator_time *operators, int64_t count) {
    int64_t start[PRICE_OPERATOR_LIMIT] = { 0 }, end = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (int64_t i = 0; i < count; i++) {
            bool compute = operators[i].stream == STREAM_COMPUTE;
            int64_t between = 0; /* compute operators between j and i */
            for (int64_t j = i - 1; j >= 0; j--) {
                bool before_compute = operators[j].stream == STREAM_COMPUTE;
                bool waits = before_compute == compute || before_compute ||
                             operators[j].stream == STREAM_EXPOSED || between > 0;
                if (waits && start[j] + operators[j].ns > start[i]) {
                    start[i] = start[j] + operators[j].ns;
                    changed = true;
                }
                between += before_compute;
            }
        }
    }
    for (int64_t i = 0; i < count; i++)
        if (start[i] + operators[i].ns > end) end = start[i] + operators[i].ns;
    return end;
}

/* ---- tests ---- */

static void check_pass(const struct step_fixture *f, const char *setup, int kind,
                       const struct batch_shape *shape, enum pass_set set, int64_t got_ns,
                       int64_t got_comm_ns) {
    struct operator_time operators[PRICE_OPERATOR_LIMIT];
    int64_t count = price_table_operators(f->prices, (enum layer_kind)kind, shape, set, operators);
    int64_t want_ns = brute_makespan_ns(operators, count), compute_ns = 0;
    for (int64_t i = 0; i < count; i++)
        if (operators[i].stream == STREAM_COMPUTE) compute_ns += operators[i].ns;
    if (got_ns != want_ns || got_comm_ns != want_ns - compute_ns)
        fail_msg("%s, %s, pass %d, %ld tiles, %ld tokens: got %ld ns (%ld exposed), want %ld "
                 "(%ld)",
                 setup, layer_kind_name((enum layer_kind)kind), set, (long)shape->vision_tiles,
                 (long)shape->language_tokens, (long)got_ns, (long)got_comm_ns, (long)want_ns,
                 (long)(want_ns - compute_ns));
}

static void test_layer_time_is_that_of_its_operators(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 1);
    for (int k = 0; k < SETUP_COUNT; k++) {
        struct step_fixture f;
        fixture_open(&f, setups[k]);
        struct batch_shape shapes[SHAPES];
        for (int i = 0; i < SHAPES; i++)
            shapes[i] = random_shape(&mt, f.scenario->model);
        price_table_prepare(f.prices, shapes, SHAPES);
        for (int i = 0; i < SHAPES; i++)
            for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
                struct layer_time time;
                price_table_layer(f.prices, (enum layer_kind)kind, &shapes[i], &time);
                check_pass(&f, setups[k][0], kind, &shapes[i], PASS_SET_FORWARD, time.forward_ns,
                           time.forward_comm_ns);
                check_pass(&f, setups[k][0], kind, &shapes[i], PASS_SET_BACKWARD, time.backward_ns,
                           time.backward_comm_ns);
            }
        fixture_close(&f);
    }
}

/* The rule itself must show: some collective hides, and a sum of all operators is longer. */
static void test_collectives_hide_behind_matmuls(void **state) {
    (void)state;
    struct step_fixture f;
    fixture_open(&f, setups[1]);
    struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 9, 4096, 4096.0 * 4096.0);
    price_table_prepare(f.prices, &shape, 1);
    struct operator_time operators[PRICE_OPERATOR_LIMIT];
    struct layer_time time;
    price_table_layer(f.prices, LAYER_LANGUAGE_BLOCK, &shape, &time);
    int64_t sum_ns = 0, hidden = 0, exposed = 0;
    int64_t count =
        price_table_operators(f.prices, LAYER_LANGUAGE_BLOCK, &shape, PASS_SET_BACKWARD, operators);
    for (int64_t i = 0; i < count; i++) {
        sum_ns += operators[i].ns;
        hidden += operators[i].stream == STREAM_HIDDEN;
        exposed += operators[i].stream == STREAM_EXPOSED;
    }
    /* Both halves: the saved input's gather and the input gradient's scatter hide, the gradient's
     * gather does not. */
    assert_int_equal(hidden, 4);
    assert_int_equal(exposed, 2);
    assert_true(time.backward_ns < sum_ns);
    fixture_close(&f);
}

static bool has_ring(const struct operator_list *list) {
    for (int64_t i = 0; i < list->count; i++)
        if (operator_runs_beside_attention(&list->operators[i])) return true;
    return false;
}

/* A sample of 16,384 tokens, and what a block takes for it. */
static struct batch_shape price_long_block(struct step_fixture *f, struct layer_time *time) {
    const struct batch_shape shape =
        model_batch_shape(f->scenario->model, 1, 0, 16384, 16384.0 * 16384);
    price_table_prepare(f->prices, &shape, 1);
    price_table_layer(f->prices, LAYER_LANGUAGE_BLOCK, &shape, time);
    return shape;
}

static void block_operators(const struct scenario *s, const struct batch_shape *shape,
                            enum pass_set set, struct operator_list *list) {
    const struct tensor_split split = scenario_split(s);
    int64_t layer;
    assert_true(has_kind(s->model, LAYER_LANGUAGE_BLOCK, &layer));
    layer_operators(s->model, layer, shape, &split, set, model_gradient_need(s->model, layer),
                    list);
}

/* Without tensor parallelism a layer of ring attention is the sum of its kernels, and of the ring
 * what does not fit beside the first three of four steps of attention. */
static void test_ring_hides_behind_attention(void **state) {
    (void)state;
    static const struct {
        const char *nic, *node;
        bool exposed;
    } cases[] = {
        { "cluster.nic_Gbit_per_s_per_gpu=400", "cluster.gpus_per_node=8", false },
        { "cluster.nic_Gbit_per_s_per_gpu=2", "cluster.gpus_per_node=1", true },
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct step_fixture f;
        const char *const setup[] = { "model=llama3-8b", "layout.cp=4", cases[c].nic, cases[c].node,
                                      NULL };
        fixture_open(&f, setup);
        const struct scenario *s = f.scenario;
        struct layer_time time;
        const struct batch_shape shape = price_long_block(&f, &time);
        for (int set = 0; set < 2; set++) {
            struct operator_list list = { 0 };
            block_operators(s, &shape, (enum pass_set)set, &list);
            assert_true(has_ring(&list));
            int64_t sum_ns = 0, attention_ns = 0, ring_ns = 0;
            double flop = 0;
            for (int64_t i = 0; i < list.count; i++) {
                const struct operator_work *work = &list.operators[i];
                struct communicator group = layout_communicator(&s->layout, work->communicator);
                int64_t ns = ns_from_seconds(cost_model_price(s->cost_model, work, &group).seconds);
                if (operator_runs_beside_attention(work))
                    ring_ns += ns;
                else
                    sum_ns += ns;
                if (!operator_is_core_attention(work)) continue;
                attention_ns += ns;
                flop += work->flop;
            }
            /* A quarter of the whole work: 2 x 32 heads of 128, in backward 2.5 times. */
            double whole = 2 * 32 * 128 * shape.language_square_sum * (set == 0 ? 1 : 2.5);
            assert_true(flop == whole / 4);
            int64_t beside_ns = attention_ns - attention_ns / 4;
            int64_t exposed_ns = ring_ns > beside_ns ? ring_ns - beside_ns : 0;
            assert_int_equal(exposed_ns > 0, cases[c].exposed);
            assert_int_equal(set == 0 ? time.forward_ns : time.backward_ns, sum_ns + exposed_ns);
            assert_int_equal(set == 0 ? time.forward_comm_ns : time.backward_comm_ns, exposed_ns);
            operator_list_free(&list);
        }
        fixture_close(&f);
    }
}

/* Eager PyTorch's: a gather alone has the first of four steps beside it, with the gradients behind it
 * the first three; compiled nothing has. */
static void test_gathered_ring_hides(void **state) {
    (void)state;
    static const struct {
        const char *stack;
        int64_t steps[2]; /* of four, of each pass */
    } cases[] = { { "layout.stack=hf-fsdp", { 1, 3 } }, { "layout.stack=hf-compile", { 0, 0 } } };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct step_fixture f;
        const char *const setup[] = { "model=llama3-8b",
                                      "layout.backend=fsdp",
                                      cases[c].stack,
                                      "layout.pp=1",
                                      "layout.tp=1",
                                      "layout.cp=4",
                                      "cluster.gpus_per_node=1",
                                      "cluster.nic_Gbit_per_s_per_gpu=2",
                                      NULL };
        fixture_open(&f, setup);
        const struct scenario *s = f.scenario;
        assert_int_equal(s->layout_fields.cp_kind, CONTEXT_GATHERED_RING);
        struct layer_time time;
        const struct batch_shape shape = price_long_block(&f, &time);
        for (int set = 0; set < 2; set++) {
            struct operator_list list = { 0 };
            block_operators(s, &shape, (enum pass_set)set, &list);
            int64_t attention_ns = 0, moves_ns = 0;
            for (int64_t i = 0; i < list.count; i++) {
                const struct operator_work *work = &list.operators[i];
                struct communicator group = layout_communicator(&s->layout, work->communicator);
                int64_t ns = ns_from_seconds(cost_model_price(s->cost_model, work, &group).seconds);
                if (communicator_shares_sequence(work->communicator)) moves_ns += ns;
                if (operator_is_core_attention(work)) attention_ns += ns;
            }
            operator_list_free(&list);
            const int64_t step_ns = attention_ns / 4;
            const int64_t beside_ns = cases[c].steps[set] == 3   ? attention_ns - step_ns
                                      : cases[c].steps[set] == 1 ? step_ns
                                                                 : 0;
            assert_true(moves_ns > beside_ns);
            assert_int_equal(set == 0 ? time.forward_comm_ns : time.backward_comm_ns,
                             moves_ns - beside_ns);
            struct operator_time operators[PRICE_OPERATOR_LIMIT];
            const int64_t count = price_table_operators(f.prices, LAYER_LANGUAGE_BLOCK, &shape,
                                                        (enum pass_set)set, operators);
            assert_int_equal(brute_makespan_ns(operators, count),
                             set == 0 ? time.forward_ns : time.backward_ns);
        }
        fixture_close(&f);
    }
}

/* What unpads attention beside a ring is priced like every operator: alone they sum up to the
 * layer. */
static void test_ring_beside_unpadded_attention(void **state) {
    (void)state;
    static const char *const setup[] = { "model=llama3-8b", "layout.cp=2",
                                         "layout.stack=hf-deepspeed",
                                         "training.micro_batch.samples=2", NULL };
    struct step_fixture f;
    fixture_open(&f, setup);
    assert_true(scenario_split(f.scenario).unpads_samples);
    struct batch_shape shape = model_batch_shape(f.scenario->model, 2, 0, 8192, 8192.0 * 4096);
    price_table_prepare(f.prices, &shape, 1);
    struct layer_time time;
    price_table_layer(f.prices, LAYER_LANGUAGE_BLOCK, &shape, &time);
    const int64_t want_ns[] = { time.forward_ns, time.backward_ns };
    for (int set = 0; set < 2; set++) {
        struct operator_time operators[PRICE_OPERATOR_LIMIT];
        const int64_t count = price_table_operators(f.prices, LAYER_LANGUAGE_BLOCK, &shape,
                                                    (enum pass_set)set, operators);
        assert_int_equal(brute_makespan_ns(operators, count), want_ns[set]);
    }
    fixture_close(&f);
}

/* Contiguous parts of a causal sequence: the last rank of cp does (2 cp - 1) / cp times the
 * mean. */
static void test_unbalanced_ring(void **state) {
    (void)state;
    static const char *const setups_of[][4] = {
        { "model=llama3-8b", "layout.cp=4", NULL },
        { "model=llama3-8b", "layout.cp=4", "layout.cp_balanced=false", NULL },
    };
    double flop[2] = { 0, 0 };
    for (int i = 0; i < 2; i++) {
        struct step_fixture f;
        fixture_open(&f, setups_of[i]);
        struct tensor_split split = scenario_split(f.scenario);
        struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 0, 8192, 8192.0 * 8192);
        struct operator_list list = { 0 };
        layer_attention_operators(f.scenario->model, 1, &shape, &split, PASS_SET_FORWARD,
                                  model_gradient_need(f.scenario->model, 1), &list);
        for (int64_t j = 0; j < list.count; j++)
            flop[i] += list.operators[j].flop;
        operator_list_free(&list);
        fixture_close(&f);
    }
    assert_true(flop[1] == flop[0] * 7 / 4);
}

static const struct operator_time *timed_of(const struct operator_list *list, const char *name,
                                            enum operator_pass pass,
                                            const struct operator_time *times) {
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->operators[i].name, name) == 0 && list->operators[i].pass == pass)
            return &times[i];
    fail_msg("no %s", name);
    return NULL;
}

/* One of four pieces. */
static int64_t piece_ns(const struct step_fixture *f, int64_t m, int64_t n, int64_t k) {
    struct operator_work work = operator_matmul("", PASS_FORWARD, PRECISION_BF16, m, n, k);
    work.pieces = 4;
    struct communicator alone = { 1, 1, 1, 1 };
    return ns_from_seconds(cost_model_price(f->scenario->cost_model, &work, &alone).seconds);
}

/* Llama3-8B on four TP ranks, 8192 tokens: the gather before `up` runs beside four pieces of 2048
 * rows, the scatter after `down` beside four of its own, a quarter of it after the last. */
static void test_tensor_overlap(void **state) {
    (void)state;
    static const char *const setups_of[][6] = {
        { "model=llama3-8b", "layout.tp=4", "cluster.hardware=h100-80g-sxm", "layout.stack=none",
          NULL },
        { "model=llama3-8b", "layout.tp=4", "cluster.hardware=h100-80g-sxm", "layout.stack=none",
          "layout.tp_overlap=true", NULL },
    };
    int64_t layer_ns[2], exposed_ns[2], gather_ns = 0, scatter_ns = 0;
    for (int i = 0; i < 2; i++) {
        struct step_fixture f;
        fixture_open(&f, setups_of[i]);
        struct tensor_split split = scenario_split(f.scenario);
        struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 0, 8192, 8192.0 * 8192);
        price_table_prepare(f.prices, &shape, 1);
        struct layer_time time;
        price_table_layer(f.prices, LAYER_LANGUAGE_BLOCK, &shape, &time);
        layer_ns[i] = time.forward_ns + time.backward_ns;
        exposed_ns[i] = time.forward_comm_ns + time.backward_comm_ns;
        struct operator_list list = { 0 };
        layer_operators(f.scenario->model, 1, &shape, &split, PASS_SET_FORWARD,
                        model_gradient_need(f.scenario->model, 1), &list);
        struct operator_time got[PRICE_OPERATOR_LIMIT];
        price_table_operators(f.prices, LAYER_LANGUAGE_BLOCK, &shape, PASS_SET_FORWARD, got);
        int64_t gather = timed_of(&list, "mlp all-gather", PASS_FORWARD, got)->ns,
                scatter = timed_of(&list, "mlp reduce-scatter", PASS_FORWARD, got)->ns;
        if (i == 0) {
            gather_ns = gather;
            scatter_ns = scatter;
        } else {
            int64_t up = 4 * piece_ns(&f, 2048, 7168, 4096),
                    down = 4 * piece_ns(&f, 2048, 4096, 3584);
            assert_true(gather_ns < up - up / 4);
            assert_int_equal(gather, 0);
            assert_int_equal(timed_of(&list, "up", PASS_FORWARD, got)->ns, up);
            int64_t hidden = scatter_ns - scatter_ns / 4;
            if (hidden > down - down / 4) hidden = down - down / 4;
            assert_int_equal(scatter, scatter_ns - hidden);
            assert_int_equal(timed_of(&list, "down", PASS_FORWARD, got)->ns,
                             down + hidden * 16 / 132);
        }
        operator_list_free(&list);
        fixture_close(&f);
    }
    assert_true(layer_ns[1] < layer_ns[0] && exposed_ns[1] < exposed_ns[0] / 2);
}

/* Of 8,192 tokens on four TP ranks of H100. */
static struct layer_time block_time(const char *const more[4]) {
    const char *const setup[] = { "model=llama3-8b", "layout.tp=4", "cluster.hardware=h100-80g-sxm",
                                  more[0],           more[1],       more[2],
                                  more[3],           NULL };
    struct step_fixture f;
    fixture_open(&f, setup);
    struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 0, 8192, 8192.0 * 8192);
    price_table_prepare(f.prices, &shape, 1);
    struct layer_time time;
    price_table_layer(f.prices, LAYER_LANGUAGE_BLOCK, &shape, &time);
    fixture_close(&f);
    return time;
}

static int64_t block_ns(const char *stack, const char *overlap) {
    const struct layer_time time = block_time((const char *const[4]){ stack, overlap });
    return time.forward_ns + time.backward_ns;
}

/* NeMo's factors are of runs that overlap; Megatron-core's are NeMo's, whose usual runs do not. */
static void test_tensor_overlap_in_factors(void **state) {
    (void)state;
    const int64_t with_ns = block_ns("layout.stack=nemo-2024", "layout.tp_overlap=true");
    assert_int_equal(block_ns("layout.stack=nemo-2024", NULL), with_ns);
    const int64_t without_ns = block_ns("layout.stack=nemo-2024", "layout.tp_overlap=false");
    assert_true(without_ns > with_ns + with_ns / 20 && without_ns < with_ns + with_ns / 4);
    assert_int_equal(block_ns("layout.stack=megatron-core", "layout.tp_overlap=true"),
                     block_ns("layout.stack=megatron-core", "layout.tp_overlap=false"));
}

/* What a block computes with the overlap over what it computes without. */
static double cut_compute(const char *recipe) {
    static const char *const overlaps[] = { "layout.tp_overlap=false", "layout.tp_overlap=true" };
    double compute_ns[2];
    for (int cut = 0; cut < 2; cut++) {
        const struct layer_time time = block_time((const char *const[4]){
            "layout.stack=none", overlaps[cut], "training.precision=fp8", recipe });
        compute_ns[cut] = (double)(time.forward_ns - time.forward_comm_ns + time.backward_ns -
                                   time.backward_comm_ns);
    }
    return compute_ns[1] / compute_ns[0];
}

/* Pieces of a matmul are of its recipe: cutting costs as much in scaled blocks as with one scale. */
static void test_pieces_keep_their_recipe(void **state) {
    (void)state;
    const double delayed = cut_compute("training.fp8_recipe=delayed"),
                 blocks = cut_compute("training.fp8_recipe=blockwise");
    assert_true(delayed > 1 && blocks > 1);
    if (fabs(blocks - delayed) > 0.03) fail_msg("got %g, with one scale %g", blocks, delayed);
}

/* Blocks 2 to 4 twice as long, block 4 by another rule: three tables, and a sum over the layers. */
static void test_rules_of_single_blocks(void **state) {
    (void)state;
    static const char *const setup[] = {
        "model=llama3-8b",
        "rules=[{\"module\":\"language\",\"layers\":4,\"operator\":\"matmul\",\"factor\":3},"
        "{\"module\":\"language\",\"layers\":[2,4],\"factor\":2}]",
        NULL
    };
    struct step_fixture f;
    fixture_open(&f, setup);
    struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 0, 4096, 4096.0 * 4096.0);
    price_table_prepare(f.prices, &shape, 1);
    assert_int_equal(price_table_variant_count(f.prices), 2);
    int64_t first;
    assert_true(has_kind(f.scenario->model, LAYER_LANGUAGE_BLOCK, &first));
    struct layer_time base;
    price_table_layer(f.prices, LAYER_LANGUAGE_BLOCK, &shape, &base);
    int64_t sum_ns = 0;
    for (int64_t block = 0; block < 8; block++) {
        const struct price_table *table = price_table_of_layer(f.prices, first + block);
        assert_int_equal(table == f.prices, block < 2 || block > 4);
        struct layer_time time;
        price_table_layer(table, LAYER_LANGUAGE_BLOCK, &shape, &time);
        sum_ns += time.forward_ns;
        /* each operator is rounded to a nanosecond */
        if (block == 3) assert_true(llabs(time.forward_ns - 2 * base.forward_ns) < 20);
        if (block == 4)
            assert_true(time.forward_ns > 2.5 * (double)base.forward_ns &&
                        time.forward_ns < 3 * base.forward_ns);
    }
    f.plan = (struct job_plan){ .stage_count = 1,
                                .chunk_count = 1,
                                .part_count = 1,
                                .first_layer = (int64_t[]){ 0, f.scenario->model->layer_count },
                                .recompute = arena_array(f.arena, enum recompute_kind,
                                                         f.scenario->model->layer_count),
                                .schedule = schedule_policy_find("1f1b") };
    f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(f.step, &shape, times);
    struct stage_cost cost;
    step_stage_cost(f.step, 0, &shape, times, NULL, &cost);
    assert_int_equal(
        cost.forward_ns,
        sum_ns + (f.scenario->model->modules[MODULE_LANGUAGE].layer_count - 8) * base.forward_ns +
            times[LAYER_TOKEN_EMBEDDING].forward_ns + times[LAYER_HEAD].forward_ns);
    fixture_close(&f);
}

/* A price does not depend on what was priced before: the table against each operator by itself. */
static void test_prices_are_those_of_the_cost_model(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 2);
    int hidden = 0;
    for (int k = 0; k < SETUP_COUNT; k++) {
        struct step_fixture f;
        fixture_open(&f, setups[k]);
        const struct scenario *s = f.scenario;
        struct tensor_split split = scenario_split(s);
        struct batch_shape shapes[SHAPES];
        for (int i = 0; i < SHAPES; i++) {
            shapes[i] = random_shape(&mt, s->model);
            /* The same text with other images: what was priced first must not decide. */
            if (i % 2 == 1)
                shapes[i].language_tokens = shapes[i].useful_language_tokens =
                    shapes[i - 1].language_tokens;
        }
        price_table_prepare(f.prices, shapes, SHAPES);
        for (int i = 0; i < SHAPES; i++)
            for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
                for (int set = 0; set < 2; set++) {
                    int64_t layer;
                    if (!has_kind(s->model, kind, &layer)) continue;
                    struct operator_list list = { 0 };
                    layer_operators(s->model, layer, &shapes[i], &split, (enum pass_set)set,
                                    model_gradient_need(s->model, layer), &list);
                    struct operator_time got[PRICE_OPERATOR_LIMIT];
                    int64_t count = price_table_operators(f.prices, (enum layer_kind)kind,
                                                          &shapes[i], (enum pass_set)set, got);
                    if (has_ring(&list)) { /* test_ring_hides_behind_attention() */
                        operator_list_free(&list);
                        continue;
                    }
                    if (count != list.count)
                        fail_msg("setup %d, %s: %ld operators, want %ld", k,
                                 layer_kind_name((enum layer_kind)kind), (long)count,
                                 (long)list.count);
                    for (int64_t o = 0; o < count; o++) {
                        struct communicator group =
                            layout_communicator(&s->layout, list.operators[o].communicator);
                        int64_t want_ns = ns_from_seconds(
                            cost_model_price(s->cost_model, &list.operators[o], &group).seconds);
                        /* A quarter of a gather or scatter beside a matmul is hidden. */
                        const double share = s->layout_fields.tp_overlap && s->stack != NULL
                                                 ? s->stack->tensor_overlap_fraction
                                                 : 0;
                        const bool may_hide =
                            share > 0 && list.operators[o].communicator == COMMUNICATOR_TENSOR;
                        hidden += may_hide && got[o].ns < want_ns;
                        if (may_hide && got[o].ns < want_ns)
                            want_ns -= llround(share * (double)want_ns);
                        if (got[o].ns != want_ns)
                            fail_msg("setup %d, %s %s: got %ld ns, want %ld", k,
                                     layer_kind_name((enum layer_kind)kind), list.operators[o].name,
                                     (long)got[o].ns, (long)want_ns);
                    }
                    operator_list_free(&list);
                }
        fixture_close(&f);
    }
    assert_true(hidden > 0);
}

/* Equal tokens in one long or many short samples: only attention differs. */
static void test_attention_follows_the_squares(void **state) {
    (void)state;
    struct step_fixture f;
    fixture_open(&f, setups[1]);
    struct batch_shape one = model_batch_shape(f.scenario->model, 1, 4, 4096, 4096.0 * 4096.0);
    struct batch_shape many = model_batch_shape(f.scenario->model, 16, 4, 4096, 16 * 256.0 * 256.0);
    price_table_prepare(f.prices, &one, 1);
    price_table_prepare(f.prices, &many, 1);
    struct operator_time a[PRICE_OPERATOR_LIMIT], b[PRICE_OPERATOR_LIMIT];
    for (int set = 0; set < 2; set++) {
        int64_t count =
            price_table_operators(f.prices, LAYER_LANGUAGE_BLOCK, &one, (enum pass_set)set, a);
        assert_int_equal(
            price_table_operators(f.prices, LAYER_LANGUAGE_BLOCK, &many, (enum pass_set)set, b),
            count);
        int64_t differ = 0;
        for (int64_t i = 0; i < count; i++) {
            if (a[i].ns == b[i].ns) continue;
            differ++;
            assert_true(a[i].ns > b[i].ns);
        }
        assert_int_equal(differ, 1);
    }
    /* FLOPs: 2 x squares x width (causal), here 32 heads of 128. */
    double flop = price_table_flop(f.prices, LAYER_LANGUAGE_BLOCK, &one) -
                  price_table_flop(f.prices, LAYER_LANGUAGE_BLOCK, &many);
    double want = 2 * (one.language_square_sum - many.language_square_sum) * 32 * 128;
    assert_true(fabs(flop / want - 1) < 1e-12);
    fixture_close(&f);
}

static void test_slots_grow(void **state) {
    (void)state;
    struct step_fixture f;
    fixture_open(&f, setups[0]);
    enum { MANY = 300 };
    struct batch_shape shapes[MANY];
    struct layer_time first[MANY], last;
    for (int i = 0; i < MANY; i++) {
        /* Up to 300,000 tokens: past the first capacity of the index, several times over. */
        int64_t tokens = 1 + (int64_t)i * 1003;
        shapes[i] = model_batch_shape(f.scenario->model, 1, i % 40, tokens, 1e6);
        price_table_prepare(f.prices, &shapes[i], 1);
        price_table_layer(f.prices, LAYER_LANGUAGE_BLOCK, &shapes[i], &first[i]);
    }
    for (int i = 0; i < MANY; i++) {
        price_table_layer(f.prices, LAYER_LANGUAGE_BLOCK, &shapes[i], &last);
        assert_memory_equal(&first[i], &last, sizeof last);
        /* Not everywhere monotone: measured matmul tables have steps. */
        if (i >= 10) assert_true(last.forward_ns > first[i - 10].forward_ns);
    }
    fixture_close(&f);
}

/* Equal micro-batches share an entry, and those that differ in their squares alone do not; a table
 * that borrows answers alike. */
static void test_memorised_layers_are_the_same(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 7);
    for (int k = 0; k < SETUP_COUNT; k++) {
        struct step_fixture f;
        fixture_open(&f, setups[k]);
        struct batch_shape shapes[2 * SHAPES];
        for (int i = 0; i < SHAPES; i++) {
            shapes[i] = shapes[SHAPES + i] = random_shape(&mt, f.scenario->model);
            if (i % 2 == 0) shapes[SHAPES + i].language_square_sum /= 2;
        }
        struct layer_time plain[2 * SHAPES][LAYER_KIND_COUNT], time;
        price_table_prepare(f.prices, shapes, 2 * SHAPES);
        for (int i = 0; i < 2 * SHAPES; i++)
            for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
                price_table_layer(f.prices, (enum layer_kind)kind, &shapes[i], &plain[i][kind]);
        price_table_memorise(f.prices, shapes, 2 * SHAPES);
        struct arena *arena = arena_create();
        struct price_table *other = price_table_borrow(arena, f.scenario, f.prices);
        price_table_prepare(other, shapes, 2 * SHAPES);
        for (int i = 0; i < 2 * SHAPES; i++)
            for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
                price_table_layer(f.prices, (enum layer_kind)kind, &shapes[i], &time);
                assert_memory_equal(&plain[i][kind], &time, sizeof time);
                price_table_layer(other, (enum layer_kind)kind, &shapes[i], &time);
                assert_memory_equal(&plain[i][kind], &time, sizeof time);
            }
        price_table_destroy(other);
        arena_destroy(arena);
        fixture_close(&f);
    }
}

static void test_no_tokens_cost_nothing(void **state) {
    (void)state;
    struct step_fixture f;
    static const char *const overrides[] = { "layout.tp=2", "layout.pp=2", NULL };
    fixture_open(&f, overrides);
    struct batch_shape text = model_batch_shape(f.scenario->model, 1, 0, 512, 512.0 * 512.0);
    struct batch_shape none = { 0 };
    price_table_prepare(f.prices, &text, 1);
    price_table_prepare(f.prices, &none, 1);
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
        enum layer_kind k = (enum layer_kind)kind;
        struct layer_time time;
        if (kind > LAYER_HEAD) break; /* not in this model */
        bool vision = kind <= LAYER_CONNECTOR;
        struct operator_time operators[PRICE_OPERATOR_LIMIT];
        for (int which = 0; which < 2; which++) {
            const struct batch_shape *shape = which == 0 ? &text : &none;
            bool empty = vision || which == 1;
            price_table_layer(f.prices, k, shape, &time);
            assert_int_equal(time.forward_ns == 0, empty);
            assert_int_equal(time.backward_ns == 0, empty);
            assert_int_equal(
                price_table_operators(f.prices, k, shape, PASS_SET_FORWARD, operators) == 0, empty);
            assert_int_equal(price_table_saved_bytes(f.prices, k, shape, RECOMPUTE_NONE) == 0,
                             empty);
            assert_int_equal(price_table_workspace_bytes(f.prices, k, shape) == 0, empty);
            if (kind != LAYER_TOKEN_EMBEDDING)
                assert_int_equal(price_table_flop(f.prices, k, shape) == 0, empty);
            if (kind != LAYER_HEAD)
                assert_int_equal(price_table_send_ns(f.prices, 0, k, shape) == 0, empty);
        }
    }
    fixture_close(&f);
}

/* DeepSpeed's pipeline: each TP rank sends a share of what it holds, and the next stage gathers;
 * with sequence parallelism a share is all that it holds. */
static void test_divided_sends(void **state) {
    (void)state;
    static const struct {
        const char *sp;
        bool gathers;
    } cases[] = { { "layout.sp=false", true }, { "layout.sp=true", false } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const overrides[] = { "layout.backend=megatron-deepspeed",
                                          "layout.tp=4",
                                          "layout.pp=2",
                                          "layout.stack=none",
                                          cases[i].sp,
                                          NULL };
        struct step_fixture f;
        fixture_open(&f, overrides);
        const struct batch_shape text =
            model_batch_shape(f.scenario->model, 1, 0, 4096, 4096.0 * 4096.0);
        price_table_prepare(f.prices, &text, 1);
        const struct model *model = f.scenario->model;
        int64_t layer = 0;
        while (model->layers[layer].kind != LAYER_LANGUAGE_BLOCK)
            layer++;
        const double whole = layer_output_bytes(model, layer, &text);
        const struct operator_work gather = operator_collective(
            "test", OPERATOR_ALL_GATHER, PASS_FORWARD, COMMUNICATOR_TENSOR, whole);
        const struct communicator tensor =
            layout_communicator(&f.scenario->layout, COMMUNICATOR_TENSOR);
        const double gather_s =
            cases[i].gathers ? cost_model_price(f.scenario->cost_model, &gather, &tensor).seconds
                             : 0;
        struct operator_work send;
        struct communicator pair;
        const struct price price =
            price_table_send_price(f.prices, 0, LAYER_LANGUAGE_BLOCK, &text, &send, &pair);
        assert_true(send.network_bytes == whole / 4);
        const double send_s = cost_model_price(f.scenario->cost_model, &send, &pair).seconds;
        assert_true(fabs(price.seconds - send_s - gather_s) < 1e-12);
        assert_int_equal(price_table_send_ns(f.prices, 0, LAYER_LANGUAGE_BLOCK, &text),
                         ns_from_seconds(price.seconds));
        fixture_close(&f);
    }
}

/* Rounding a mean can leave one patch and no connector token. */
static void test_a_mean_of_almost_no_images(void **state) {
    (void)state;
    struct step_fixture f;
    fixture_open(&f, setups[1]);
    enum { MICRO_BATCHES = 1200 };
    struct batch_shape *shapes = arena_array(f.arena, struct batch_shape, MICRO_BATCHES);
    for (int i = 0; i < MICRO_BATCHES; i++)
        shapes[i] = model_batch_shape(f.scenario->model, 1, i == 0, 100, 1e4);
    struct batch_shape mean = batch_shape_mean(shapes, MICRO_BATCHES);
    assert_int_equal(mean.vision_tokens, 1);
    assert_int_equal(mean.connector_tokens, 0);
    price_table_prepare(f.prices, &mean, 1);
    struct layer_time time;
    price_table_layer(f.prices, LAYER_VISION_BLOCK, &mean, &time);
    assert_true(time.forward_ns > 0);
    price_table_layer(f.prices, LAYER_CONNECTOR, &mean, &time);
    assert_int_equal(time.forward_ns, 0);
    fixture_close(&f);
}

/* Tables are shared by layouts of one key: whatever a price depends on is in it. */
static void test_key_tells_modules_apart(void **state) {
    (void)state;
    static const char *const setup[] = { "model={\"name\":\"llama3-8b\",\"lora\":{\"rank\":16}}",
                                         NULL };
    struct step_fixture f;
    fixture_open(&f, setup);
    struct module *m = (struct module *)&f.scenario->model->modules[MODULE_LANGUAGE];
    const struct module plain = *m;
    const char *keys[8];
    int count = 0;
    keys[count++] = price_table_key(f.arena, f.scenario);
    for (int change = 0; change < 7; change++, *m = plain) {
        if (change == 0) m->frozen = !m->frozen;
        if (change == 1) m->fp32_base = true;
        if (change == 2) m->adapter_rank = 32;
        if (change == 3) m->adapter_weights = ADAPTER_WEIGHTS_FP32;
        if (change == 4) m->adapter_dropout = true;
        if (change == 5) m->adapter_targets[ADAPTER_MAIN] ^= 1u << ADAPTER_DOWN;
        if (change == 6) m->precision = PRECISION_FP8;
        keys[count] = price_table_key(f.arena, f.scenario);
        for (int before = 0; before < count; before++)
            if (strcmp(keys[before], keys[count]) == 0) fail_msg("change %d", change);
        count++;
    }
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer_time_is_that_of_its_operators),
        cmocka_unit_test(test_collectives_hide_behind_matmuls),
        cmocka_unit_test(test_prices_are_those_of_the_cost_model),
        cmocka_unit_test(test_ring_hides_behind_attention),
        cmocka_unit_test(test_gathered_ring_hides),
        cmocka_unit_test(test_ring_beside_unpadded_attention),
        cmocka_unit_test(test_unbalanced_ring),
        cmocka_unit_test(test_tensor_overlap),
        cmocka_unit_test(test_tensor_overlap_in_factors),
        cmocka_unit_test(test_pieces_keep_their_recipe),
        cmocka_unit_test(test_rules_of_single_blocks),
        cmocka_unit_test(test_attention_follows_the_squares),
        cmocka_unit_test(test_slots_grow),
        cmocka_unit_test(test_memorised_layers_are_the_same),
        cmocka_unit_test(test_no_tokens_cost_nothing),
        cmocka_unit_test(test_divided_sends),
        cmocka_unit_test(test_a_mean_of_almost_no_images),
        cmocka_unit_test(test_key_tells_modules_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
