/* test_action_check.c - actions that the simulator writes are valid; whatever is broken is
 * found. */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>
#include "sim/study/action_check.h"
#include "sim/study/action_plan.h"

static struct scenario *scenario;
static struct job *job;

static int begin(void **state) {
    fixture_begin(state);
    fixture_samples("actions.csv", 64, 9);
    const char *overrides[] = {
        "policy={\"joint\": {\"name\": \"dip\", \"rollouts\": 40, \"sub_batch\": 2}}",
        "layout.backend=megatron-lm", NULL
    };
    scenario = fixture_scenario("actions.csv", overrides);
    job = fixture_job(scenario);
    return 0;
}

static int end(void **state) {
    job_destroy(job);
    scenario_destroy(scenario);
    return fixture_end(state);
}

static cJSON *actions_of(const struct job *of, int64_t iteration) {
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct action_plan *plan = action_plan_make(arena, of, iteration, 0, &err);
    if (plan == NULL) fail_msg("%s", err.text);
    cJSON *json = action_plan_json(plan);
    arena_destroy(arena);
    return json;
}

/* Faults of the document; -1: it is no such document. Deletes it. */
static int64_t faults(cJSON *json, char first[4200]) {
    char *text = cJSON_PrintUnformatted(json);
    fixture_write("actions.json", text);
    cJSON_free(text);
    cJSON_Delete(json);
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct action_check *check = action_check_file(arena, fixture_path("actions.json"), &err);
    int64_t count = check != NULL ? check->fault_count : -1;
    snprintf(first, 4200, "%s", count > 0 ? check->faults[0] : count < 0 ? err.text : "");
    /* Where sends block compute, asynchronous ones take less time. */
    if (count == 0) assert_true(check->executed_ns <= check->makespan_ns);
    arena_destroy(arena);
    return count;
}

static cJSON *list_of(cJSON *json, int rank) {
    cJSON *node = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "ranks"), rank);
    return cJSON_GetObjectItem(node, "actions");
}

static cJSON *nth(cJSON *json, int rank, const char *name, int n) {
    cJSON *node;
    cJSON_ArrayForEach(node, list_of(json, rank)) {
        if (strcmp(cJSON_GetObjectItem(node, "action")->valuestring, name) == 0 && n-- == 0)
            return node;
    }
    return NULL;
}

static void set(cJSON *node, const char *key, double value) {
    cJSON_SetNumberValue(cJSON_GetObjectItem(node, key), value);
}

static double get(cJSON *node, const char *key) {
    return cJSON_GetObjectItem(node, key)->valuedouble;
}

static void test_valid(void **state) {
    (void)state;
    char first[4200];
    for (int64_t iteration = 0; iteration < 3; iteration++)
        if (faults(actions_of(job, iteration), first) != 0) fail_msg("%s", first);
    /* Static schedules are the case of one unit a micro-batch. */
    const char *interleaved[] = { "layout.vpp=2", NULL };
    const char *plain[] = { "layout.pp=4", "layout.tp=1", NULL };
    const char *const *cases[] = { interleaved, plain };
    for (int i = 0; i < 2; i++) {
        struct scenario *s = fixture_scenario("actions.csv", cases[i]);
        struct job *other = fixture_job(s);
        if (faults(actions_of(other, 0), first) != 0) fail_msg("%d: %s", i, first);
        job_destroy(other);
        scenario_destroy(s);
    }
}

static void drop(cJSON *json) {
    cJSON_Delete(cJSON_DetachItemViaPointer(list_of(json, 0), nth(json, 0, "fw_stage", 3)));
}

static void repeat(cJSON *json) {
    cJSON_AddItemToArray(list_of(json, 1), cJSON_Duplicate(nth(json, 1, "bw_stage", 0), 1));
}

static void start_early(cJSON *json) {
    cJSON *pass = nth(json, 1, "fw_stage", 0);
    double ns = get(pass, "finish_ns") - get(pass, "start_ns");
    set(pass, "start_ns", 0);
    set(pass, "finish_ns", ns);
}

static void overlap(cJSON *json) {
    cJSON *pass = nth(json, 0, "fw_stage", 1);
    set(pass, "start_ns", get(pass, "start_ns") - 1);
    set(pass, "finish_ns", get(pass, "finish_ns") - 1);
}

static void overfill(cJSON *json) {
    set(nth(json, 0, "fw_stage", 0), "workspace_bytes", 1e12);
}

static void forget_send(cJSON *json) {
    cJSON_Delete(cJSON_DetachItemViaPointer(list_of(json, 0), nth(json, 0, "isend", 0)));
}

static void forget_wait(cJSON *json) {
    cJSON_Delete(cJSON_DetachItemViaPointer(list_of(json, 1), nth(json, 1, "wait_irecv", 0)));
}

static void free_more(cJSON *json) {
    cJSON *pass = nth(json, 0, "bw_stage", 0);
    set(pass, "activation_bytes", get(pass, "activation_bytes") + 1);
}

static cJSON *take(cJSON *json, int rank, const char *name, int n) {
    return cJSON_DetachItemViaPointer(list_of(json, rank), nth(json, rank, name, n));
}

static void drop_backward(cJSON *json) {
    cJSON_Delete(take(json, 1, "bw_stage", 2));
}

static void move_to_other_rank(cJSON *json) {
    cJSON_AddItemToArray(list_of(json, 1), take(json, 0, "fw_stage", 0));
}

static void shrink_capacity(cJSON *json) {
    cJSON *node = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "ranks"), 1);
    set(node, "activation_capacity_bytes", 1000);
}

static void send_to_nobody(cJSON *json) {
    set(nth(json, 0, "isend", 0), "peer", 0);
}

static void receive_from_itself(cJSON *json) {
    set(nth(json, 1, "irecv", 0), "peer", 1);
}

static void forget_receive(cJSON *json) {
    cJSON_Delete(take(json, 1, "irecv", 0));
}

static void forget_send_wait(cJSON *json) {
    cJSON_Delete(take(json, 0, "wait_isend", 0));
}

static void send_twice(cJSON *json) {
    cJSON *send = cJSON_Duplicate(nth(json, 0, "isend", 0), 1);
    cJSON_AddItemToArray(list_of(json, 0), send);
}

static void wait_after_use(cJSON *json) {
    cJSON_AddItemToArray(list_of(json, 1), take(json, 1, "wait_irecv", 0));
}

static void receive_after_wait(cJSON *json) {
    cJSON_AddItemToArray(list_of(json, 1), take(json, 1, "irecv", 0));
}

static void send_first(cJSON *json) {
    cJSON_InsertItemInArray(list_of(json, 0), 0, take(json, 0, "isend", 0));
}

static void arrive_early(cJSON *json) {
    set(nth(json, 0, "isend", 0), "arrival_ns", 1);
}

static void backward_first(cJSON *json) {
    cJSON_InsertItemInArray(list_of(json, 0), 0, take(json, 0, "bw_stage", 0));
}

static void carry_gradient(cJSON *json) {
    cJSON_ReplaceItemInObject(nth(json, 0, "isend", 0), "carries", cJSON_CreateString("gradient"));
}

static void end_before_start(cJSON *json) {
    cJSON *pass = nth(json, 0, "fw_stage", 0);
    set(pass, "start_ns", get(pass, "finish_ns") + 1);
}

static void recompute_more(cJSON *json) {
    cJSON *blocks = cJSON_GetObjectItem(nth(json, 0, "bw_stage", 0), "recompute_blocks");
    cJSON_SetNumberValue(blocks->child, blocks->child->valuedouble + 1);
}

static void take_no_time(cJSON *json) {
    cJSON *pass = nth(json, 0, "fw_stage", 0);
    set(pass, "finish_ns", get(pass, "start_ns"));
}

static void take_longer(cJSON *json) {
    cJSON *pass = nth(json, 0, "fw_stage", 1);
    set(pass, "finish_ns", get(pass, "finish_ns") + 1e9);
}

static void start_late(cJSON *json) {
    cJSON *pass = nth(json, 1, "bw_stage", 1);
    set(pass, "start_ns", get(pass, "start_ns") + 1e9);
    set(pass, "finish_ns", get(pass, "finish_ns") + 1e9);
}

static void keep_more(cJSON *json) {
    cJSON *pass = nth(json, 0, "fw_stage", 0);
    set(pass, "activation_bytes", 1e12);
}

static void swap_passes(cJSON *json) {
    cJSON *pass = take(json, 0, "fw_stage", 1);
    cJSON_InsertItemInArray(list_of(json, 0), 0, pass);
}

static void claim_more(cJSON *json) {
    set(json, "lower_bound_ns", get(json, "makespan_ns") + 1);
}

static void promise(cJSON *json) {
    set(json, "makespan_ns", floor(get(json, "makespan_ns") / 2));
}

static void put(cJSON *pass, const char *key, double value) {
    cJSON_AddNumberToObject(pass, key, value);
}

/* The backward of rank 0's first forward. */
static cJSON *backward_of_first(cJSON *json) {
    cJSON *forward = nth(json, 0, "fw_stage", 0), *node;
    for (int n = 0; (node = nth(json, 0, "bw_stage", n)) != NULL; n++)
        if (get(node, "chunk") == get(forward, "chunk") &&
            get(node, "micro_batch") == get(forward, "micro_batch") &&
            get(node, "sub") == get(forward, "sub"))
            return node;
    return NULL;
}

static void fetch_other(cJSON *json) {
    cJSON *pass = nth(json, 0, "fw_stage", 0);
    put(cJSON_AddObjectToObject(pass, "offload_blocks"),
        cJSON_GetObjectItem(pass, "recompute_blocks")->child->string, 1);
}

static void free_more_host(cJSON *json) {
    put(nth(json, 0, "fw_stage", 0), "host_bytes", 1000);
    put(backward_of_first(json), "host_bytes", 2000);
}

static void overfill_host(cJSON *json) {
    put(nth(json, 0, "fw_stage", 0), "host_bytes", 2e6);
    put(backward_of_first(json), "host_bytes", 2e6);
    put(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "ranks"), 0), "host_capacity_bytes", 1e6);
}

static void offload_too_many(cJSON *json) {
    cJSON *passes[] = { nth(json, 0, "fw_stage", 0), backward_of_first(json) };
    for (int i = 0; i < 2; i++)
        cJSON_AddNumberToObject(cJSON_AddObjectToObject(passes[i], "offload_blocks"), "none", 99);
}

static const struct {
    const char *name;
    void (*change)(cJSON *json);
    const char *says;
} broken[] = {
    { "other blocks come back", fetch_other, "fetches other blocks than its forward offloaded" },
    { "other host memory freed", free_more_host, "frees other memory" },
    { "too much host memory", overfill_host, "does not fit in host memory" },
    { "more offloaded than there is", offload_too_many, "offloads more blocks than it has" },
    { "a pass left out", drop, "" },
    { "a pass twice", repeat, "stands there twice" },
    { "a pass too early", start_early, "starts before its input is there" },
    { "two at a time", overlap, "starts before the pass before it ends" },
    { "too much memory", overfill, "does not fit in memory" },
    { "a message not sent", forget_send, "" },
    { "a message not waited for", forget_wait, "not sent, received and waited for once" },
    { "other memory freed", free_more, "frees other memory" },
    { "a shorter makespan", promise, "after the makespan" },
    { "a backward left out", drop_backward, "" },
    { "a pass on another rank", move_to_other_rank, "" },
    { "less memory", shrink_capacity, "does not fit in memory" },
    { "sent to itself", send_to_nobody, "names a rank that its message does not go to" },
    { "received from itself", receive_from_itself,
      "names a rank that its message does not come from" },
    { "a message not received", forget_receive, "waits for nothing" },
    { "a send not waited for", forget_send_wait, "not sent, received and waited for once" },
    { "a message sent twice", send_twice, "not sent, received and waited for once" },
    { "used before the wait", wait_after_use, "stands before the wait for its input" },
    { "waited for before it is asked for", receive_after_wait, "waits for nothing" },
    { "sent before it is computed", send_first, "sends what was not computed" },
    { "there before it is made", arrive_early, "arrives before it is made" },
    { "a backward before its forward", backward_first, "runs before its forward" },
    { "a gradient for an activation", carry_gradient, "" },
    { "an end before the start", end_before_start, "ends before it starts" },
    { "other blocks recompute", recompute_more,
      "recomputes other blocks than its forward dropped" },
    { "a pass of no time", take_no_time, "takes no time, though it keeps activations" },
    { "a pass takes longer", take_longer, "before it is made" },
    { "a pass too late", start_late, "" },
    { "more memory kept", keep_more, "frees other memory" },
    { "two passes change places", swap_passes, "starts before the pass before it ends" },
    { "a bound above the makespan", claim_more, "below the lower bound" },
};

static void test_broken(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char first[4200];
        cJSON *json = actions_of(job, 1);
        broken[i].change(json);
        const int64_t count = faults(json, first); /* what follows from it is not told */
        if (count != 1) fail_msg("%s: %ld faults", broken[i].name, (long)count);
        if (strstr(first, broken[i].says) == NULL) fail_msg("%s: %s", broken[i].name, first);
    }
}

/* Faults of two micro-batches are two. */
static void test_two_faults(void **state) {
    (void)state;
    char first[4200];
    cJSON *json = actions_of(job, 1), *one = nth(json, 0, "bw_stage", 0), *other = NULL;
    for (int n = 1; other == NULL || get(other, "micro_batch") == get(one, "micro_batch"); n++)
        other = nth(json, 0, "bw_stage", n);
    set(one, "activation_bytes", get(one, "activation_bytes") + 1);
    set(other, "activation_bytes", get(other, "activation_bytes") + 1);
    assert_int_equal(faults(json, first), 2);
}

/* A misspelt key is refused where it stands, with the one that was meant. */
static void test_unknown_keys(void **state) {
    (void)state;
    static const struct {
        const char *action; /* NULL: the file itself */
        const char *key, *says;
    } cases[] = {
        { NULL, "lower_bound", "unknown key \"lower_bound\" in a list of actions" },
        { "fw_stage", "actvation_bytes", "unknown key \"actvation_bytes\" in fw_stage" },
        { "bw_stage", "peer", "unknown key \"peer\" in bw_stage" },
        { "irecv", "arrival_ns", "unknown key \"arrival_ns\" in irecv" },
    };
    static const char *const hints[] = { "did you mean \"lower_bound_ns\"?",
                                         "did you mean \"activation_bytes\"?", "hint: ",
                                         "hint: " };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char first[4200];
        cJSON *json = actions_of(job, 1);
        cJSON_AddNumberToObject(cases[i].action != NULL ? nth(json, 1, cases[i].action, 0) : json,
                                cases[i].key, 1);
        assert_int_equal(faults(json, first), -1);
        if (strstr(first, cases[i].says) == NULL) fail_msg("%s: %s", cases[i].key, first);
        assert_non_null(strstr(first, hints[i]));
        assert_non_null(strstr(first, "actions.json:1:"));
    }
    char first[4200];
    cJSON *json = actions_of(job, 1);
    cJSON_ReplaceItemInObject(nth(json, 1, "irecv", 0), "carries", cJSON_CreateString("gradiant"));
    assert_int_equal(faults(json, first), -1);
    assert_non_null(strstr(first, "did you mean \"gradient\"?"));
}

/* What is no such file is an error with a position. */
static void test_not_actions(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "{}", "\"format\" is not" },
        { "[1]", "\"format\" is not" },
        { "{\"format\": \"ballast-actions-1\"}", "\"micro_batch_count\" is missing" },
        { "{\"format\": \"ballast-actions-1\", \"micro_batch_count\": 1e18, \"makespan_ns\": 1, "
          "\"ranks\": [1]}",
          "must be a whole number" },
        { "{\"format\": \"ballast-actions-1\", \"micro_batch_count\": 1, \"makespan_ns\": 1, "
          "\"ranks\": [1], \"modules\": [{\"first_chunk\": 0, \"chunk_count\": 9999, "
          "\"sub_microbatches\": [30000]}]}",
          "too many passes" },
        { "{\"format\": \"ballast-actions-1\", \"micro_batch_count\": 1, \"makespan_ns\": 1, "
          "\"ranks\": [{\"rank\": 0, \"activation_capacity_bytes\": 1, \"actions\": [{}]}], "
          "\"modules\": [{\"first_chunk\": 0, \"chunk_count\": 1, \"sub_microbatches\": [1]}]}",
          "unknown action" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_write("not.json", cases[i].text);
        struct arena *arena = arena_create();
        struct error err = { 0 };
        assert_null(action_check_file(arena, fixture_path("not.json"), &err));
        if (strstr(err.text, cases[i].says) == NULL) fail_msg("case %zu: %s", i, err.text);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_two_faults),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_not_actions),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
