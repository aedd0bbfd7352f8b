/* test_run_inputs.c - every file that a run rests on is named with its SHA-256. */
#include "tests/unit/replay/replay_fixture.h"

#include "sim/study/run_inputs.h"

static int begin(void **state) {
    fixture_begin(state);
    fixture_samples("samples.csv", 40, 21);
    return 0;
}

/* coreutils' answer for a file, without its name. */
static const char *sha256sum(const char *path) {
    static char text[65];
    char command[600];
    snprintf(command, sizeof command, "sha256sum '%s'", path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fread(text, 1, 64, pipe), 64);
    assert_int_equal(pclose(pipe), 0);
    return text;
}

static const cJSON *input(const cJSON *list, const char *kind, const char *name) {
    const cJSON *one;
    cJSON_ArrayForEach(one, list) {
        const char *its_kind = cJSON_GetObjectItemCaseSensitive(one, "kind")->valuestring;
        const char *its_name = cJSON_GetObjectItemCaseSensitive(one, "name")->valuestring;
        if (strcmp(its_kind, kind) == 0 && strcmp(its_name, name) == 0) return one;
    }
    fail_msg("no %s \"%s\"", kind, name);
    return NULL;
}

static void test_every_file_of_a_run(void **state) {
    (void)state;
    static const struct {
        const char *kind, *name;
    } files[] = {
        { "model", "models/internvl-6b-8b.json" },
        { "model", "models/modules/internvit-6b-448px.json" },
        { "cluster", "clusters/omnibal-a100-4x200g.json" },
        { "hardware", "hardware/a100-80g-sxm.json" },
        { "curves", "hardware/curves/a100-80g-sxm.json" },
        { "fabric", "hardware/fabrics/roce.json" },
        { "bands", "bands.json" },
        { "stack", "stacks/ms-swift.json" },
        { "stack", "stacks/llama-factory.json" }, /* its base */
        { "stack", "stacks/hf-deepspeed.json" },  /* that one's */
        { "stack", "stacks/kempnerforge.json" },  /* of whose factors, as these have none */
    };
    static const char *const overrides[] = { "cluster.name=omnibal-a100-4x200g",
                                             "cluster.fabric=roce", "layout.stack=ms-swift",
                                             "simulate.iterations=1", NULL };
    static const char *const removals[] = { "training.micro_batch", NULL };
    const struct provenance provenance = { .command_line = "ballast run scenario.json",
                                           .overrides = overrides,
                                           .removals = removals };
    const struct scenario_options options = { .directory = SCENARIOS,
                                              .overrides = overrides,
                                              .removals = removals };
    const struct replay_options replay = { .threads = 1 };
    const char *path = fixture_scenario_file("scenario.json", "samples.csv");
    struct error err = { 0 };
    struct execution *e = execution_run(&options, path, &replay, &err);
    if (e == NULL) fail_msg("%s", err.text);
    struct arena *arena = arena_create();
    cJSON *list = cJSON_Parse(run_inputs_text(e, &provenance, arena));
    assert_non_null(list);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const cJSON *one = input(list, files[i].kind, files[i].name);
        const cJSON *hash = cJSON_GetObjectItemCaseSensitive(one, "sha256");
        if (!cJSON_IsString(hash)) fail_msg("%s has no hash", files[i].name);
        assert_string_equal(hash->valuestring,
                            sha256sum(arena_format(arena, SCENARIOS "/%s", files[i].name)));
    }
    input(list, "scenario", path);
    input(list, "set", "cluster.fabric");
    input(list, "unset", "training.micro_batch");
    cJSON_Delete(list);
    arena_destroy(arena);
    execution_destroy(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_file_of_a_run, begin, fixture_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
