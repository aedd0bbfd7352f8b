/* test_reproduction.c - tables of a paper of our own: what is read from them, how errors are summed
 * up, and what a broken table says. */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>
#include "sim/study/reproduce/sensitivity.h"

static const struct provenance provenance = { .command_line = "ballast reproduce" };

/* A scenarios folder with papers of its own and everything else as it is. */
static int begin(void **state) {
    fixture_begin(state);
    fixture_samples("samples.csv", 64, 31);
    static const char *const folders[] = { "models", "datasets", "hardware", "clusters" };
    mkdir(fixture_path("scenarios"), 0755);
    mkdir(fixture_path("scenarios/papers"), 0755);
    mkdir(fixture_path("scenarios/papers/atlas"), 0755);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char from[512], to[64];
        snprintf(from, sizeof from, "%s/%s", SCENARIOS, folders[i]);
        snprintf(to, sizeof to, "scenarios/%s", folders[i]);
        assert_int_equal(symlink(from, fixture_path(to)), 0);
    }
    fixture_scenario_file("scenarios/papers/atlas/base.json", "samples.csv");
    return 0;
}

#define HEAD                                                                                       \
    "{ \"paper\": \"atlas\", \"table\": \"%s\",\n"                                                 \
    "  \"source\": \"Atlas, table 1\",\n"
#define ROW "{ \"row\": \"first\", \"scenario\": \"base.json\", \"values\": "

static void write_table(const char *name, const char *rest) {
    char text[4096], path[128];
    int used = snprintf(text, sizeof text, HEAD, name);
    snprintf(text + used, sizeof text - (size_t)used, "%s", rest);
    snprintf(path, sizeof path, "scenarios/papers/atlas/%s.table.json", name);
    fixture_write(path, text);
}

static void remove_table(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "scenarios/papers/atlas/%s.table.json", name);
    assert_int_equal(unlink(fixture_path(path)), 0);
}

static struct reproduction *reproduce(const char *selector, struct store *store,
                                      struct error *err) {
    struct scenario_options scenario = { .directory = fixture_path("scenarios") };
    struct reproduction_options options = { .scenario = &scenario,
                                            .selectors = &selector,
                                            .selector_count = selector != NULL ? 1 : 0,
                                            .store = store,
                                            .provenance = &provenance };
    return reproduction_run(&options, err);
}

/* Packs nothing and pads nothing: average_batch_size 1 and pad_ratio 0 are known beforehand. */
static const char *const good =
    "  \"note\": \"of the table\", \"assumptions\": [\"one tile an image\"],\n"
    "  \"rows\": [\n"
    "    " ROW "[\n"
    "      { \"quantity\": \"average_batch_size\", \"paper\": 0.8 },\n"
    "      { \"quantity\": \"pad_ratio\", \"paper\": 0 },\n"
    "      { \"quantity\": \"balanced\", \"paper\": 2, \"calibrated_on\": true } ] },\n"
    "    { \"row\": \"second\", \"scenario\": \"base.json\", \"reading\": \"other\",\n"
    "      \"note\": \"of the row\", \"values\": [\n"
    "      { \"quantity\": \"average_batch_size\", \"paper\": 2 },\n"
    "      { \"quantity\": \"gpu_days\", \"paper\": 1e-3, \"note\": \"of the value\" } ] } ] }\n";

static void test_values_and_summary(void **state) {
    (void)state;
    write_table("good", good);
    struct error err = { 0 };
    struct store *store = store_open(fixture_path("good.db"), DB_WRITE, &err);
    assert_non_null(store);
    struct reproduction *r = reproduce("atlas.good", store, &err);
    if (r == NULL) fail_msg("%s", err.text);
    assert_int_equal(r->value_count, 5);
    const struct reproduction_value *v = r->values;
    assert_string_equal(v[0].id, "atlas.good.first.average_batch_size");
    assert_string_equal(v[3].id, "atlas.good.second.average_batch_size.other");
    assert_string_equal(v[0].table, "atlas.good");
    assert_string_equal(v[0].unit, "samples");
    assert_string_equal(v[0].scenario_file, "scenarios/papers/atlas/base.json");
    assert_true(v[0].simulated == 1);
    assert_true(fabs(v[0].relative_error - 0.25) < 1e-12);
    assert_true(v[1].simulated == 0 && isnan(v[1].relative_error)); /* paper: 0 */
    assert_true(v[2].calibrated_on && !v[0].calibrated_on);
    assert_true(fabs(v[3].relative_error + 0.5) < 1e-12);
    assert_true(!band_is_known(v[0].band) && v[4].band.above > 0);
    assert_null(v[0].note);
    assert_string_equal(v[3].note, "of the row");
    assert_string_equal(v[4].note, "of the value");
    assert_string_equal(v[0].assumptions[0], "one tile an image");

    assert_int_equal(r->summary_count, 1);
    const struct reproduction_summary *s = &r->summaries[0];
    assert_string_equal(s->table, "atlas.good");
    assert_string_equal(s->note, "of the table");
    assert_int_equal(s->rows, 5);
    assert_int_equal(s->rows_without_relative_error, 1);
    assert_int_equal(s->rows_calibrated_on, 1);
    double sum = 0, worst = 0;
    for (int i = 0; i < 5; i++) {
        if (v[i].calibrated_on || isnan(v[i].relative_error)) continue;
        sum += fabs(v[i].relative_error);
        if (fabs(v[i].relative_error) > fabs(worst)) worst = v[i].relative_error;
    }
    assert_true(fabs(s->mean_abs_relative_error - sum / 3) < 1e-12);
    assert_true(s->worst_relative_error == worst);

    /* One scenario for both rows is simulated and stored once. */
    int64_t count;
    struct arena *arena = arena_create();
    struct reproduction_record *rows =
        store_load(store, RECORD_REPRODUCTION, -1, arena, &count, &err);
    assert_non_null(rows);
    assert_int_equal(count, 5);
    assert_string_equal(rows[2].role, "fitted");
    assert_string_equal(rows[3].row_name, "second (other)");
    assert_int_equal(rows[0].run_id, rows[4].run_id);
    assert_true(rows[1].paper_value == 0);
    arena_destroy(arena);
    store_close(store);
    reproduction_destroy(r);
    remove_table("good");
}

static void test_selectors(void **state) {
    (void)state;
    write_table("one",
                "  \"rows\": [ " ROW "[ { \"quantity\": \"pad_ratio\", \"paper\": 0 } ] } ] }");
    write_table("two",
                "  \"rows\": [ " ROW "[ { \"quantity\": \"balanced\", \"paper\": 1 } ] } ] }");
    struct error err = { 0 };
    static const struct {
        const char *selector;
        int64_t values;
    } cases[] = { { NULL, 2 }, { "atlas", 2 }, { "atlas.two", 1 } };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct reproduction *r = reproduce(cases[k].selector, NULL, &err);
        if (r == NULL) fail_msg("%s", err.text);
        assert_int_equal(r->value_count, cases[k].values);
        assert_int_equal(r->summary_count, cases[k].values);
        reproduction_destroy(r);
    }
    assert_null(reproduce("atlas.tow", NULL, &err));
    assert_string_equal(err.text,
                        "unknown table \"atlas.tow\"\n  hint: did you mean \"atlas.two\"?");
    assert_null(reproduce("zzz", NULL, &err));
    assert_string_equal(err.text,
                        "unknown table \"zzz\"\n  hint: the tables are: atlas.one, atlas.two");
    remove_table("one");
    remove_table("two");
}

/* ---- broken tables ---- */

/* `want` follows "<file>:"; the file has two lines of head. */
static const struct {
    const char *name, *rest, *want;
} broken[] = {
    { "a key of the table", "  \"rwos\": [] }",
      "3:3: error: /rwos: unknown key \"rwos\" in \"table\"" },
    { "no rows", "  \"note\": \"x\" }", "1:1: error: /: \"rows\" is missing" },
    { "rows are no list", "  \"rows\": 5 }", "3:11: error: /rows: rows must be a list" },
    { "a row without a scenario", "  \"rows\": [ { \"row\": \"x\", \"values\": [] } ] }",
      "3:13: error: /rows/0: \"scenario\" is missing" },
    { "values are no list", "  \"rows\": [ " ROW "5 } ] }",
      "3:66: error: /rows/0/values: values must be a list" },
    { "an unknown quantity",
      "  \"rows\": [ " ROW "[ { \"quantity\": \"gpu_day\", \"paper\": 1 } ] } ] }",
      "3:82: error: /rows/0/values/0/quantity: unknown quantity \"gpu_day\"" },
    { "a paper value that is no number",
      "  \"rows\": [ " ROW "[ { \"quantity\": \"gpu_days\", \"paper\": \"2\" } ] } ] }",
      "3:103: error: /rows/0/values/0/paper: must be a number, got \"2\"" },
    { "broken JSON", "  \"rows\": [ }", "3:13: error: " },
};

static void test_broken_tables(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof broken / sizeof broken[0]; k++) {
        write_table("bad", broken[k].rest);
        struct error err = { 0 };
        struct reproduction *r = reproduce("atlas.bad", NULL, &err);
        if (r != NULL) fail_msg("%s: no error", broken[k].name);
        char want[1024];
        snprintf(want, sizeof want, "%s:%s", fixture_path("scenarios/papers/atlas/bad.table.json"),
                 broken[k].want);
        if (!err.located || strncmp(err.text, want, strlen(want)) != 0)
            fail_msg("%s:\n got  %s\n want %s", broken[k].name, err.text, want);
        if (strstr(err.text, "while reproducing ") == NULL)
            fail_msg("%s: no context in\n%s", broken[k].name, err.text);
        remove_table("bad");
    }
}

/* A row's overrides, the run it stands beside, and inputs with their status. */
static void test_overrides_and_comparison(void **state) {
    (void)state;
    fixture_write(
        "scenarios/papers/atlas/inputs.json",
        "{ \"nodes\": { \"value\": \"two\", \"status\": \"stated\", \"source\": \"page 1\" },\n"
        "  \"batch\": { \"value\": \"four\", \"status\": \"assumed\" } }");
    write_table("pair",
                "  \"inputs\": [\"nodes\"], \"rows\": [\n"
                "    { \"row\": \"fast\", \"scenario\": \"base.json\", \"inputs\": [\"batch\"],\n"
                "      \"set\": [\"layout.tp=1\", \"policy.recompute=none\"],\n"
                "      \"against\": { \"scenario\": \"base.json\", \"set\": "
                "[\"policy.recompute=full\"] },\n"
                "      \"values\": [ { \"quantity\": \"gpu_days\", \"paper\": 1 },\n"
                "        { \"quantity\": \"speedup\", \"paper\": 1 },\n"
                "        { \"quantity\": \"layers_stage1\", \"paper\": 1 } ] },\n"
                "    { \"row\": \"slow\", \"scenario\": \"base.json\", \"set\": "
                "[\"policy.recompute=full\"],\n"
                "      \"values\": [ { \"quantity\": \"gpu_days\", \"paper\": 1 } ] } ] }");
    struct error err = { 0 };
    struct reproduction *r = reproduce("atlas.pair", NULL, &err);
    if (r == NULL) fail_msg("%s", err.text);
    assert_int_equal(r->value_count, 4);
    const struct reproduction_value *v = r->values;
    assert_true(v[1].simulated == v[3].simulated / v[0].simulated);
    assert_true(v[1].simulated > 1);
    assert_string_equal(v[0].set[1], "policy.recompute=none");
    assert_null(v[0].set[2]);
    assert_string_equal(v[2].id, "atlas.pair.fast.layers_stage1");
    assert_string_equal(v[2].unit, "layers");
    assert_int_equal(v[0].inputs[0]->status, INPUT_STATED);
    assert_string_equal(v[0].inputs[1]->value, "four");
    assert_null(v[3].inputs[1]);
    assert_string_equal(v[0].assumptions[0], "batch: four"); /* what is stated is no assumption */
    reproduction_destroy(r);
    remove_table("pair");

    static const struct {
        const char *name, *rest, *want;
    } cases[] = {
        { "nothing to compare with",
          "  \"rows\": [ " ROW "[ { \"quantity\": \"speedup\", \"paper\": 1 } ] } ] }",
          "/rows/0/values/0/quantity: \"speedup\" compares with another run" },
        { "an unknown input", "  \"inputs\": [\"node\"], \"rows\": [] }",
          "3:14: error: /inputs/0: must be the name of an input" },
        { "an override without a value",
          "  \"rows\": [ { \"row\": \"x\", \"scenario\": \"base.json\", \"set\": [\"layout.tp\"], "
          "\"values\": [] } ] }",
          "/rows/0/set/0: must be \"path=value\"" },
        { "an override that the scenario does not have",
          "  \"rows\": [ { \"row\": \"x\", \"scenario\": \"base.json\", \"set\": "
          "[\"layout.xy=1\"], "
          "\"values\": [] } ] }",
          "unknown key \"xy\"" },
        { "a stage that the pipeline does not have",
          "  \"rows\": [ " ROW "[ { \"quantity\": \"layers_stage9\", \"paper\": 1 } ] } ] }",
          "the run has no layers_stage9" },
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        write_table("bad", cases[k].rest);
        if (reproduce("atlas.bad", NULL, &err) != NULL) fail_msg("%s: no error", cases[k].name);
        if (strstr(err.text, cases[k].want) == NULL)
            fail_msg("%s:\n got  %s\n want %s", cases[k].name, err.text, cases[k].want);
        remove_table("bad");
    }
    assert_int_equal(unlink(fixture_path("scenarios/papers/atlas/inputs.json")), 0);
}

static double only_value(const char *rest, int64_t which) {
    struct error err = { 0 };
    write_table("steps", rest);
    struct reproduction *r = reproduce("atlas.steps", NULL, &err);
    if (r == NULL) fail_msg("%s", err.text);
    double value = r->values[which].simulated;
    reproduction_destroy(r);
    remove_table("steps");
    return value;
}

/* A printed time or speed-up counts once, met by whichever reading comes near. */
static void test_figures_met_and_missed(void **state) {
    (void)state;
    const char *none =
        "  \"rows\": [ { \"row\": \"first\", \"scenario\": \"base.json\", \"set\": "
        "[\"policy.recompute=none\"], \"values\": [ { \"quantity\": \"gpu_days\" } ] } ] }";
    const char *full = "  \"rows\": [ " ROW "[ { \"quantity\": \"gpu_days\" } ] } ] }";
    const double days = only_value(none, 0), full_days = only_value(full, 0);
    assert_true(full_days > 1.002 * days);
    static const char row[] =
        "    { \"row\": \"%s\", \"reading\": \"%s\", \"scenario\": \"base.json\", "
        "\"set\": [\"policy.recompute=%s\"], %s\n      \"values\": [ { "
        "\"quantity\": \"%s\", \"paper\": %.17g%s } ] }%s\n";
    const char *against = "\"against\": { \"scenario\": \"base.json\", \"set\": "
                          "[\"policy.recompute=full\"] },";
    char text[4096];
    int used = snprintf(text, sizeof text, "  \"rows\": [\n");
    const struct {
        const char *row, *reading, *recompute, *against, *quantity;
        double paper;
        const char *mark;
    } rows[] = {
        { "day", "far", "full", "", "gpu_days", days / 1.149, "" },
        { "day", "near", "none", "", "gpu_days", days / 1.149, "" },
        { "week", "only", "none", "", "gpu_days", 7 * days, "" },
        { "gain", "near", "none", against, "speedup", full_days / days / 1.09, "" },
        { "more", "far", "none", against, "speedup", full_days / days / 1.12, "" },
        { "fitted", "only", "none", "", "gpu_days", days, ", \"calibrated_on\": true" },
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        used += snprintf(text + used, sizeof text - (size_t)used, row, rows[k].row, rows[k].reading,
                         rows[k].recompute, rows[k].against, rows[k].quantity, rows[k].paper,
                         rows[k].mark, k + 1 < sizeof rows / sizeof rows[0] ? "," : "] }");
    struct error err = { 0 };
    write_table("figures", text);
    struct reproduction *r = reproduce("atlas.figures", NULL, &err);
    if (r == NULL) fail_msg("%s", err.text);
    const struct reproduction_summary *s = &r->summaries[0];
    assert_int_equal(s->figures, 4);
    assert_int_equal(s->figures_met, 2);
    assert_string_equal(s->missed[0], "week.gpu_days");
    assert_string_equal(s->missed[1], "more.speedup");
    reproduction_destroy(r);
    remove_table("figures");
}

/* readings.json orders readings; what has none comes behind them, before those that it leaves out,
 * and of equals the first row is the main one. Nearness plays no part. */
static void test_main_readings(void **state) {
    (void)state;
#define DAYS(row, reading, recompute, paper)                                                       \
    "{ \"row\": \"" row "\"" reading                                                               \
    ", \"scenario\": \"base.json\", \"set\": [\"policy.recompute=" recompute                       \
    "\"], \"values\": [ { \"quantity\": \"gpu_days\", \"paper\": " paper " } ] }"
#define READING(name) ", \"reading\": \"" name "\""
    static const char rows[] =
        "  \"causes\": { \"a.gpu_days\": \"tried\" }, \"rows\": [\n" DAYS("a", READING("other"), "none", "1e-3") ",\n" DAYS("a", "", "full", "1e-3") ",\n" DAYS(
            "a", READING("printed"), "full",
            "1e-3") ",\n" DAYS("b", READING("other"), "none",
                               "1e-3") ",\n" DAYS("b", "", "full",
                                                  "1e-3") ",\n" DAYS("c", READING("other"), "none",
                                                                     "1e-3") ",\n" DAYS("c",
                                                                                        READING(
                                                                                            "more"),
                                                                                        "full",
                                                                                        "1e-3") ","
                                                                                                "\n" DAYS(
                                                                                                    "d",
                                                                                                    READING(
                                                                                                        "own"),
                                                                                                    "full",
                                                                                                    "1e-3") ",\n" DAYS("d",
                                                                                                                       READING(
                                                                                                                           "printed"),
                                                                                                                       "none",
                                                                                                                       "1e-3") " ] }";
    const char *order = "scenarios/papers/atlas/readings.json";
    fixture_write(order, "{ \"rule\": \"what is stated\", \"main\": [\"printed\", \"own\"] }");
    write_table("order", rows);
    struct error err = { 0 };
    struct reproduction *r = reproduce("atlas.order", NULL, &err);
    if (r == NULL) fail_msg("%s", err.text);
    static const bool main[] = { false, false, true, false, true, true, false, false, true };
    static const int64_t count[] = { 3, 3, 3, 2, 2, 2, 2, 2, 2 };
    for (int64_t i = 0; i < r->value_count; i++)
        if (r->values[i].main != main[i] || r->values[i].reading_count != count[i])
            fail_msg("%s: main %d, %ld readings", r->values[i].id, r->values[i].main,
                     (long)r->values[i].reading_count);
    const struct reproduction_summary *s = &r->summaries[0];
    assert_string_equal(s->rule, "what is stated");
    assert_int_equal(s->figures, 4);
    assert_int_equal(s->figures_met_by_main, 0);
    assert_string_equal(s->misses[0].figure, "a.gpu_days");
    assert_ptr_equal(s->misses[0].main, &r->values[2]);
    assert_null(s->misses[0].met_by);
    assert_string_equal(s->misses[0].cause, "tried");
    assert_null(s->misses[1].cause);
    for (int64_t i = 0; i < r->value_count; i++)
        assert_true((r->values[i].cause != NULL) == (strcmp(r->values[i].row, "a") == 0));
    assert_string_equal(r->values[0].cause, "tried");
    reproduction_destroy(r);

    static const struct {
        const char *readings, *table, *want;
    } cases[] = {
        { "{ \"rule\": \"x\", \"main\": 5 }", rows, "main must be a list" },
        { "{ \"rule\": \"x\", \"main\": [ 5 ] }", rows, "must be the name of a reading" },
        { "{ \"main\": [] }", rows, "\"rule\" is missing" },
        { "{ \"rule\": \"x\", \"main\": [] }",
          "  \"causes\": { \"a.gpu_day\": \"x\" }, \"rows\": [ " DAYS("a", "", "full", "1") " ] }",
          "/causes/a.gpu_day: must be \"row.quantity\" of this table and a text" },
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        fixture_write(order, cases[k].readings);
        write_table("order", cases[k].table);
        if (reproduce("atlas.order", NULL, &err) != NULL) fail_msg("%s: no error", cases[k].want);
        if (strstr(err.text, cases[k].want) == NULL)
            fail_msg("got  %s\n want %s", err.text, cases[k].want);
    }
    assert_int_equal(unlink(fixture_path(order)), 0);
    remove_table("order");
#undef DAYS
#undef READING
}

/* Of two readings the nearer one that is near enough meets what the main one misses. */
static void test_what_meets_a_miss(void **state) {
    (void)state;
    const char *full = "  \"rows\": [ " ROW "[ { \"quantity\": \"gpu_days\" } ] } ] }";
    const double days = only_value(full, 0);
    char text[2048];
    snprintf(text, sizeof text,
             "  \"rows\": [ { \"row\": \"a\", \"reading\": \"long\", \"scenario\": \"base.json\", "
             "\"set\": "
             "[\"cluster.gpu_count=16\"], \"values\": [ { \"quantity\": \"gpu_days\", \"paper\": "
             "%.17g } ] },\n"
             "    { \"row\": \"a\", \"reading\": \"as printed\", \"scenario\": \"base.json\", "
             "\"values\": "
             "[ { \"quantity\": \"gpu_days\", \"paper\": %.17g } ] } ] }",
             days, days);
    struct error err = { 0 };
    write_table("met", text);
    struct reproduction *r = reproduce("atlas.met", NULL, &err);
    if (r == NULL) fail_msg("%s", err.text);
    const struct reproduction_summary *s = &r->summaries[0];
    assert_true(fabs(r->values[0].relative_error) > 0.15);
    assert_int_equal(s->figures_met, 1);
    assert_int_equal(s->figures_met_by_main, 0);
    assert_ptr_equal(s->misses[0].met_by, &r->values[1]);
    reproduction_destroy(r);
    remove_table("met");
}

/* Rows that share their micro-batches still replay as many steps as each asks for. */
static void test_iterations_of_rows_that_share(void **state) {
    (void)state;
#define STEPS(n)                                                                                   \
    "{ \"row\": \"" #n "\", \"scenario\": \"base.json\", \"set\": [\"simulate.iterations=" #n      \
    "\"], "                                                                                        \
    "\"values\": [ { \"quantity\": \"step_time\", \"paper\": 1 } ] }"
    double one = only_value("  \"rows\": [ " STEPS(1) " ] }", 0);
    double two = only_value("  \"rows\": [ " STEPS(2) " ] }", 0);
    assert_true(one != two);
    assert_true(only_value("  \"rows\": [ " STEPS(2) ", " STEPS(1) " ] }", 1) == one);
    assert_true(only_value("  \"rows\": [ " STEPS(1) ", " STEPS(2) " ] }", 1) == two);
}

/* InternVL 6B + 8B in one stage of one GPU holds more than 80 GiB, on eight it does not. */
static void test_runs_out_of_memory(void **state) {
    (void)state;
    write_table("full",
                "  \"rows\": [\n"
                "    { \"row\": \"fits\", \"scenario\": \"base.json\",\n"
                "      \"against\": { \"scenario\": \"base.json\", \"set\": "
                "[\"layout.tp=1\", \"layout.pp=1\", \"cluster.gpu_count=1\"] },\n"
                "      \"values\": [ { \"quantity\": \"gpu_days\", \"paper\": 1 },\n"
                "        { \"quantity\": \"speedup\", \"paper\": 1, \"note\": \"own\" } ] },\n"
                "    { \"row\": \"full\", \"scenario\": \"base.json\", \"set\": "
                "[\"layout.tp=1\", \"layout.pp=1\", \"cluster.gpu_count=1\"],\n"
                "      \"values\": [ { \"quantity\": \"gpu_days\", \"paper\": 1 } ] } ] }");
    struct error err = { 0 };
    struct reproduction *r = reproduce("atlas.full", NULL, &err);
    if (r == NULL) fail_msg("%s", err.text);
    assert_null(r->values[0].note);
    assert_string_equal(r->values[1].note, "own; compared with a run out of memory on stage 1");
    assert_string_equal(r->values[2].note, "out of memory on stage 1");
    reproduction_destroy(r);
    remove_table("full");
}

static const struct sensitivity *effect(const struct reproduction_value *v, const char *input) {
    for (int64_t i = 0; i < v->sensitivity_count; i++)
        if (strcmp(v->sensitivity[i].input, input) == 0) return &v->sensitivity[i];
    return NULL;
}

/* A paper that prints twice the time: twice the samples would do, and slower kernels by more than
 * that. */
static void test_sensitivity(void **state) {
    (void)state;
    write_table("far", "  \"rows\": [ { \"row\": \"x\", \"scenario\": \"base.json\", \"set\": "
                       "[\"policy.recompute=full\"],\n    \"values\": [\n"
                       "      { \"quantity\": \"step_time\", \"paper\": 1 },\n"
                       "      { \"quantity\": \"pad_ratio\", \"paper\": 1 } ] },\n"
                       "    { \"row\": \"x\", \"reading\": \"other\", \"scenario\": \"base.json\", "
                       "\"values\": [ { \"quantity\": \"step_time\", \"paper\": 1 } ] } ] }");
    struct scenario_options scenario = { .directory = fixture_path("scenarios") };
    const char *selector = "atlas.far";
    struct reproduction_options options = { .scenario = &scenario,
                                            .selectors = &selector,
                                            .selector_count = 1,
                                            .provenance = &provenance };
    struct error err = { 0 };
    struct reproduction *r = reproduction_run(&options, &err);
    if (r == NULL) fail_msg("%s", err.text);
    struct reproduction_value *v = r->values;
    v[0].paper = 2 * v[0].simulated;
    if (!sensitivity_measure(&options, r, &err)) fail_msg("%s", err.text);
    assert_null(v[1].sensitivity); /* no time */
    assert_null(v[2].sensitivity); /* not the main reading */
    assert_true(fabs(effect(&v[0], "samples of the epoch")->needed_factor - 2) < 1e-12);
    assert_true(effect(&v[0], "time of kernels")->needed_factor >= 2);
    const struct sensitivity *recompute = effect(&v[0], "recomputation");
    assert_non_null(recompute);
    assert_true(recompute->effect_fraction < 0 && isnan(recompute->needed_factor));
    assert_non_null(effect(&v[0], "global batch"));
    reproduction_destroy(r);
    remove_table("far");
}

static void test_hint_of_an_unknown_quantity(void **state) {
    (void)state;
    write_table("bad",
                "  \"rows\": [ " ROW "[ { \"quantity\": \"gpu_day\", \"paper\": 1 } ] } ] }");
    struct error err = { 0 };
    assert_null(reproduce("atlas.bad", NULL, &err));
    assert_non_null(strstr(err.text, "hint: did you mean \"gpu_days\"?"));
    remove_table("bad");
}

static void test_a_scenario_that_is_not_there(void **state) {
    (void)state;
    write_table(
        "bad", "  \"rows\": [ { \"row\": \"x\", \"scenario\": \"none.json\", \"values\": [] } ] }");
    struct error err = { 0 };
    assert_null(reproduce("atlas.bad", NULL, &err));
    assert_non_null(strstr(err.text, "papers/atlas/none.json"));
    remove_table("bad");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_and_summary),
        cmocka_unit_test(test_selectors),
        cmocka_unit_test(test_broken_tables),
        cmocka_unit_test(test_overrides_and_comparison),
        cmocka_unit_test(test_figures_met_and_missed),
        cmocka_unit_test(test_main_readings),
        cmocka_unit_test(test_what_meets_a_miss),
        cmocka_unit_test(test_iterations_of_rows_that_share),
        cmocka_unit_test(test_runs_out_of_memory),
        cmocka_unit_test(test_sensitivity),
        cmocka_unit_test(test_hint_of_an_unknown_quantity),
        cmocka_unit_test(test_a_scenario_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, begin, fixture_end);
}
