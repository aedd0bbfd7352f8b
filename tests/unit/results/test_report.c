/* test_report.c - what the page's answer says of made-up runs. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "results/report.h"
#include "tests/unit/results/store_fixture.h"

/* One run of a page, with 10 GPU-days x factor at a price. */
struct row {
    const char *name;
    double factor, price_usd_per_gpu_hour, band, pair, launch_wait_ms;
    const char *model, *dataset, *hardware;
    const char *verdict; /* NULL: "fits" */
};

static void store_one(struct fixture *f, struct store *store, const struct row *row) {
    struct run_record run = sample_run(row->name);
    run.resolved_scenario = arena_format(
        f->arena,
        "{\"model\":{\"name\":\"%s\"},\"dataset\":{\"name\":\"%s\"},"
        "\"cluster\":{\"hardware\":\"%s\"},\"layout\":{\"stack\":\"s\"}}",
        row->model != NULL ? row->model : "m", row->dataset != NULL ? row->dataset : "d",
        row->hardware != NULL ? row->hardware : "h");
    run.gpu_count = 8;
    run.gpu_days = 10 * row->factor;
    run.total_days = run.gpu_days / 8;
    run.money_usd = run.gpu_days * 24 * row->price_usd_per_gpu_hour;
    run.step_time_mean_ms = 1000;
    run.compute_ms = isnan(row->launch_wait_ms) ? 1000 : 1000 - row->launch_wait_ms;
    run.launch_wait_ms = run.launch_cost_ms = row->launch_wait_ms;
    run.band_fraction = row->band;
    run.pair_band_fraction = row->pair;
    run.verdict = row->verdict != NULL ? row->verdict : "fits";
    must(f, store_begin_run(store, &run, &f->err));
    must(f, store_finish_run(store, &run, &f->err));
}

/* The page's text from its answer to the table of all runs. */
static char *answer_of(struct fixture *f, const struct row *rows, int64_t count) {
    unlink(f->path);
    struct store *store = must_open(f, DB_WRITE);
    int64_t ids[8];
    assert_true(count <= 8);
    for (int64_t i = 0; i < count; i++) {
        store_one(f, store, &rows[i]);
        ids[i] = i + 1;
    }
    char *page = NULL;
    size_t size;
    FILE *out = open_memstream(&page, &size);
    const struct report_options options = { .database = "results.db", .scenarios = "scenarios" };
    char *path = strdup(getenv("PATH"));
    setenv("PATH", f->folder, 1); /* no gnuplot: pictures are not looked at here */
    must(f, report_write(out, store, ids, count, &options, &f->err));
    setenv("PATH", path, 1);
    free(path);
    fclose(out);
    store_close(store);
    char *begin = strstr(page, "id=\"answer\""), *end = strstr(page, "</section>");
    assert_true(begin != NULL && end != NULL);
    char *answer = arena_format(f->arena, "%.*s", (int)(end - begin), begin);
    free(page);
    return answer;
}

static void must_say(const char *name, const char *answer, const char *text) {
    if (strstr(answer, text) == NULL) fail_msg("%s: no \"%s\" in %s", name, text, answer);
}

static void must_not_say(const char *name, const char *answer, const char *text) {
    if (strstr(answer, text) != NULL) fail_msg("%s: \"%s\" in %s", name, text, answer);
}

/* Whether the next best is surely worse, by the rule that `ballast compare` has. */
static void test_how_sure_the_best_is(void **state) {
    struct fixture *f = *state;
    static const struct {
        const char *name;
        double factor, pair, first_ms, second_ms;
        const char *hardware, *text;
    } cases[] = {
        { "beyond", 1.2, 0.1, 0, 0, "h",
          ", which costs 20.0 % more. That is more than the 10 % that predictions for one GPU and "
          "software stack err against each other. <code>" },
        { "inside", 1.09, 0.1, 0, 0, "h", "That is no more than the 10 % that predictions" },
        { "both bands", 1.2, NAN, 0, 0, "h",
          "That is more than two such predictions err against each other by their error bands. <code>" },
        { "inside both", 1.02, NAN, 0, 0, "h",
          "no more than two such predictions err against each other by their error bands; two runs on one GPU and software stack share" },
        { "of another GPU", 1.02, 0.1, 0, 0, "g",
          "no more than two such predictions err against each other by their error bands. <code>" },
        { "waits besides", 1.4, 0.1, 0, 50, "h",
          "err against each other, and what they differ in their waits for the host's launches "
          "besides. <code>" },
        { "waits that make it", 1.2, 0.1, 0, 100, "h",
          ", but not by as much as the two differ in their waits for the host's launches, which no "
          "measured run tells: the order is not sure. <code>" },
        { "waits not told", 1.2, 0.1, 0, NAN, "h",
          ", but a run that an older version stored does not tell what it waits for the host's "
          "launches: the order is not sure. <code>" },
        { "nor of the best", 1.2, 0.1, NAN, 0, "h", "launches: the order is not sure. <code>" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct row rows[] = {
            { .name = "a",
              .factor = cases[i].factor,
              .price_usd_per_gpu_hour = 2,
              .band = 0.03,
              .pair = cases[i].pair,
              .launch_wait_ms = cases[i].second_ms,
              .hardware = cases[i].hardware },
            { .name = "b",
              .factor = 1,
              .price_usd_per_gpu_hour = 2,
              .band = 0.03,
              .pair = cases[i].pair,
              .launch_wait_ms = cases[i].first_ms },
        };
        const char *answer = answer_of(f, rows, 2);
        must_say(cases[i].name, answer, "<b>b</b>");
        must_say(cases[i].name, answer, "Next best: a, which");
        must_say(cases[i].name, answer, cases[i].text);
    }
}

/* Two dollars, bands of 3 %, and no waits. */
static struct row make_row(const char *name, double factor, const char *model, const char *dataset,
                           const char *hardware) {
    return (struct row){ .name = name,
                         .factor = factor,
                         .price_usd_per_gpu_hour = 2,
                         .band = 0.03,
                         .pair = 0.1,
                         .model = model,
                         .dataset = dataset,
                         .hardware = hardware };
}

/* Runs of another model or on other data are ranked among themselves only. */
static void test_several_jobs(void **state) {
    struct fixture *f = *state;
    struct row rows[] = {
        make_row("a", 3, "m", "d", "h"), make_row("b", 2, "m", "d", "g"),
        make_row("c", 1, "n", "d", "h"), make_row("e", 4, "n", "e", "h"),
        make_row("f", 5, "n", "e", "h"),
    };
    const char *answer = answer_of(f, rows, 5);
    static const char *const said[] = {
        "<b>These are 3 different jobs</b>: they train different models and on different data "
        "sets,",
        "<li>model: m, n</li>\n<li>data set: d, e</li>\n<li>GPU: g, h</li>\n</ul>",
        "<td>m</td><td>d</td><td class=\"n\" data-v=\"2\">2</td><td class=\"name\">b <span",
        "<td>n</td><td>d</td><td class=\"n\" data-v=\"1\">1</td><td class=\"name\">c <span",
        "<td>n</td><td>e</td><td class=\"n\" data-v=\"2\">2</td><td class=\"name\">e <span",
    };
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        must_say("three jobs", answer, said[i]);
    must_not_say("three jobs", answer, "Next best");
    must_not_say("three jobs", answer, "least");

    answer = answer_of(f, &rows[2], 2); /* one model */
    must_say("other data", answer, "2 different jobs</b>: they train one model on different data");
    must_not_say("other data", answer, "<li>model");
    answer = answer_of(f, &rows[3], 2);
    must_say("one job", answer,
             "<b>e</b> <span class=\"tag fits\">fits</span> costs least of 2 runs");
    /* What does not fit is ranked with nothing. */
    rows[2].verdict = "out of memory";
    answer = answer_of(f, &rows[2], 3);
    must_say("another that does not fit", answer, "costs least of 2 runs");
    must_say("another that does not fit", answer, "Next best: f");
}

/* Of GPUs that all cost the same the fastest is the cheapest. */
static void test_one_price_for_two_gpus(void **state) {
    struct fixture *f = *state;
    struct row rows[] = { make_row("a", 2, "m", "d", "old"), make_row("b", 1, "m", "d", "new"),
                          make_row("c", 3, "m", "d", "new") };
    must_say("one price", answer_of(f, rows, 3),
             ">old costs the same here, 2.00 USD a GPU-hour, though the GPU is another");
    must_not_say("one GPU", answer_of(f, &rows[1], 2), "another");
    rows[0].price_usd_per_gpu_hour = NAN;
    rows[1].price_usd_per_gpu_hour = NAN;
    must_say("no price", answer_of(f, rows, 2), ">old has no price either, though the GPU is");
    rows[0].price_usd_per_gpu_hour = 1;
    rows[1].price_usd_per_gpu_hour = 3;
    must_not_say("two prices", answer_of(f, rows, 2), "though the GPU is another");
    /* Dollars and GPU-days do not compare: where one has no price, both are GPU-days. */
    rows[0].factor = 3;
    rows[0].price_usd_per_gpu_hour = 0.01;
    rows[1].price_usd_per_gpu_hour = NAN;
    must_say("one without a price", answer_of(f, rows, 2),
             "<b>b</b> <span class=\"tag fits\">fits</span> costs least of 2 runs (in GPU-days)");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_how_sure_the_best_is),
        TEST(test_several_jobs),
        TEST(test_one_price_for_two_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
