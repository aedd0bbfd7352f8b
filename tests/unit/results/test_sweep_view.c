/* test_sweep_view.c - a stored sweep as its pictures read and show it. What is drawn skips where
 * gnuplot is missing. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "results/plot_style.h"
#include "results/sweep_view.h"
#include "tests/unit/results/store_fixture.h"

enum { SVG_LIMIT = 200000 };

static bool has_gnuplot(void) {
    if (system("gnuplot --version > /dev/null 2>&1") == 0) return true;
    print_message("gnuplot is not installed: nothing drawn\n");
    return false;
}

static void read_svg(const char *path, char text[SVG_LIMIT]) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, SVG_LIMIT - 1, file)] = '\0';
    fclose(file);
}

/* A configuration of the sweep below: no cost stands for one that was pruned. */
struct configuration {
    const char *assignments, *status, *verdict;
    int64_t steps;
    double days, usd;
};

static const char definition[] =
    "{\"vary\":{\"layout.tp\":{\"powers_of_two\":[1,2]},\"layout.pp\":[1,2],\"cluster.gpu_count\":["
    "8],"
    "\"cluster.hardware, cluster.price\":[[\"h100\",2],[\"a100\",1]],"
    "\"policy.batching\":[{\"name\":\"isf\",\"qt\":1},{\"name\":\"isf\",\"qt\":2},\"random\"]}}";

static struct store *store_sweep(struct fixture *f, const struct configuration *rows,
                                 int64_t count) {
    struct store *store = must_open(f, DB_WRITE);
    struct sweep_record sweep = { .name = "it's 100 %",
                                  .tool_version = "0.1.0",
                                  .source_commit = "abc",
                                  .command_line = "ballast sweep",
                                  .definition = definition,
                                  .row_count = count,
                                  .objective = "money_usd",
                                  .deadline_days = 2.5,
                                  .budget_usd = 1000 };
    int64_t sweep_id;
    must(f, store_begin_sweep(store, &sweep, &sweep_id, &f->err));
    for (int64_t i = 0; i < count; i++) {
        struct sweep_row_record row =
            sample_sweep_row(arena_format(f->arena, "hash %ld", (long)i), i);
        row.assignments = rows[i].assignments;
        row.status = rows[i].status;
        row.verdict = rows[i].verdict;
        row.replayed_iterations = rows[i].steps;
        row.total_days = rows[i].days;
        row.gpu_days = 8 * rows[i].days;
        row.money_usd = rows[i].usd;
        must(f, store_add_sweep_rows(store, &row, 1, &f->err));
    }
    return store;
}

/* Two numbers of GPUs by four degrees: replayed, raced, out of memory, pruned, and nothing. */
static const struct configuration map_rows[] = {
    { "{\"gpus\":8,\"tp\":1}", "replayed", "fits", 40, 3, 10482.4 },
    { "{\"gpus\":8,\"tp\":1}", "raced", "fits", 2, 9, 30000 },
    { "{\"gpus\":16,\"tp\":1}", "raced", "tight", 2, 2, 11550.6 },
    { "{\"gpus\":8,\"tp\":2}", "raced", "out of memory", 2, 1, 5 },
    { "{\"gpus\":16,\"tp\":2}", "pruned", NULL, -1, NAN, NAN },
    { "{\"gpus\":8,\"tp\":4}", "raced", "fits", 2, 4, 110000 },
};

static void test_a_cell_says_what_its_value_rests_on(void **state) {
    struct fixture *f = *state;
    struct store *store = store_sweep(f, map_rows, SAMPLE_COUNT(map_rows));
    struct plot_heatmap map;
    must(f, sweep_view_heatmap(store, 1, "s", "gpus", "tp", f->arena, &map, &f->err));
    assert_int_equal(map.x_count, 2);
    assert_int_equal(map.y_count, 3);
    static const struct {
        double value;
        int64_t points, pruned, steps;
        bool replayed;
    } wanted[3][2] = {
        { { 10482.4, 2, 0, 40, true }, { 11550.6, 1, 0, 2, false } },
        { { NAN, 1, 0, 2, false }, { NAN, 0, 1, 0, false } },
        { { 110000, 1, 0, 2, false }, { 0, 0, 0, 0, false } },
    };
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 2; x++) {
            const struct plot_cell *cell = &map.cells[y * PLOT_HEATMAP_LIMIT + x];
            if (!(isnan(wanted[y][x].value) ? isnan(cell->value)
                                            : fabs(cell->value - wanted[y][x].value) < 1e-6) ||
                cell->points != wanted[y][x].points || cell->pruned != wanted[y][x].pruned ||
                cell->replayed != wanted[y][x].replayed)
                fail_msg("row %d, column %d: %g of %ld points, %ld pruned", y, x, cell->value,
                         (long)cell->points, (long)cell->pruned);
            if (cell->value > 0) assert_int_equal(cell->steps, wanted[y][x].steps);
        }
    store_close(store);
}

static void test_the_heat_map_in_each_format(void **state) {
    if (!has_gnuplot()) skip();
    struct fixture *f = *state;
    struct store *store = store_sweep(f, map_rows, SAMPLE_COUNT(map_rows));
    struct plot_heatmap map;
    must(f, sweep_view_heatmap(store, 1, "it's 100 %", "gpus", "tp", f->arena, &map, &f->err));
    static const char *const extensions[] = { "png", "pdf", "svg" };
    const char *path = NULL;
    for (int i = 0; i < 3; i++) {
        path = arena_format(f->arena, "%s/map.%s", f->folder, extensions[i]);
        must(f, plot_heatmap(path, &map, &f->err));
    }
    char text[SVG_LIMIT];
    read_svg(path, text);
    static const char *const shown[] = {
        "10,482<",
        "best<",
        "\xe2\x89\x88 11,551<",
        "+10 %<",
        "\xe2\x89\x88 110,000<",
        "x 10.5<",
        "replayed in full, 40 steps<",
        "only raced, 2 steps<",
        "nothing fits in memory<",
        "a bound left all out<",
        "no valid configuration<",
        ">USD<",
        ">20,000<",
        "it's 100 %: least money of all configurations that fit<",
    };
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        if (strstr(text, shown[i]) == NULL) fail_msg("the heat map lacks \"%s\"", shown[i]);
    assert_null(strstr(text, "e+0"));
    store_close(store);
}

/* Where the middle or start of the text stands. */
static void place_of(const char *svg, const char *text, double *x, double *y) {
    const char *found = strstr(svg, text), *translate = NULL;
    if (found == NULL) fail_msg("the heat map lacks \"%s\"", text);
    for (const char *at = svg; at != NULL && at < found; at = strstr(at + 1, "translate("))
        translate = at;
    assert_int_equal(sscanf(translate, "translate(%lf,%lf)", x, y), 2);
}

static void test_names_in_the_heat_map_stand_apart(void **state) {
    if (!has_gnuplot()) skip();
    struct fixture *f = *state;
    static const struct {
        const char *column, *row;
        bool turned;
    } cases[] = {
        { "x1", "y1", false },
        { "x isf qv 9, qt 4096, iterations 10", "y h100-80g-sxm", true },
        { "x whose name is longer than what any picture has room for, whatever may be in it",
          "y whose name is longer than what any picture has room for, whatever may be in it",
          true },
    };
    static const double high = 17, wide = 9; /* of a character */
    char svg[SVG_LIMIT];
    for (size_t i = 0; i < SAMPLE_COUNT(cases); i++) {
        const char *columns[] = { "1", "2", cases[i].column }, *rows[] = { "3", cases[i].row };
        struct plot_heatmap map = { "map", "the columns", "the rows", "USD", columns, rows, 3, 2,
                                    arena_array(f->arena, struct plot_cell,
                                                PLOT_HEATMAP_LIMIT * PLOT_HEATMAP_LIMIT) };
        map.cells[0] = (struct plot_cell){ .value = 1, .points = 1, .steps = 2, .replayed = true };
        const char *path = arena_format(f->arena, "%s/apart.svg", f->folder);
        must(f, plot_heatmap(path, &map, &f->err));
        read_svg(path, svg);
        double width, height, x, y, title_y, key_y, title_x, row_x;
        const char *size = strstr(svg, " width=");
        assert_int_equal(sscanf(size, " width=\"%lf\" height=\"%lf\"", &width, &height), 2);
        const double length = fmin((double)strlen(cases[i].column), 60),
                     row_length = fmin((double)strlen(cases[i].row), 60);
        place_of(svg, ">x", &x, &y);
        place_of(svg, ">the columns<", &title_x, &title_y);
        place_of(svg, ">replayed in full", &title_x, &key_y);
        const double end = cases[i].turned ? y + 0.34 * wide * length : y;
        if (title_y < end + high || key_y < title_y + high || key_y + 2 * high > height)
            fail_msg("%s: ends at %g, the title at %g, the key at %g of %g", cases[i].column, end,
                     title_y, key_y, height);
        if (cases[i].turned && x + 0.94 * wide * length > width)
            fail_msg("%s: from %g, over the edge at %g", cases[i].column, x, width);
        place_of(svg, ">y", &row_x, &y);
        place_of(svg, ">the rows<", &title_x, &y);
        if (row_x - wide * row_length < title_x + high / 2)
            fail_msg("%s: ends at %g, the title at %g", cases[i].row, row_x, title_x);
    }
}

#define CONFIGURATION(tp, hardware, batching)                                                      \
    "{\"layout.tp\":" tp                                                                           \
    ",\"layout.pp\":1,\"cluster.gpu_count\":8,\"cluster.hardware\":\"" hardware                    \
    "\",\"cluster.price\":1,\"policy.batching\":" batching "}"
#define ISF(qt) "{\"name\":\"isf\",\"qt\":" qt "}"

/* The front is the first three; the band of each is 10 %. */
static const struct configuration front_rows[] = {
    { CONFIGURATION("1", "h100", ISF("1")), "raced", "fits", 1, 2, 1200 },
    { CONFIGURATION("1", "h100", ISF("2")), "replayed", "fits", 40, 2.4, 950 },
    { CONFIGURATION("2", "a100", ISF("1")), "replayed", "tight", 40, 3, 700 },
    { CONFIGURATION("2", "a100", "\"random\""), "raced", "fits", 1, 4, 1400 },
    { CONFIGURATION("2", "h100", "\"random\""), "raced", "out of memory", 1, 1, 500 },
};

static void test_points_are_named_by_all_that_varies(void **state) {
    struct fixture *f = *state;
    struct store *store = store_sweep(f, front_rows, SAMPLE_COUNT(front_rows));
    int64_t count;
    const struct plot_choice *points = sweep_view_points(store, 1, f->arena, &count, &f->err);
    assert_non_null(points);
    assert_int_equal(count, 5);
    assert_string_equal(points[1].name, "TP 1 PP 1 DP 8, h100, batching isf qt 2");
    assert_string_equal(points[3].name, "TP 2 PP 1 DP 4, a100, batching random");
    assert_true(points[0].raced && !points[1].raced && points[2].tight && points[4].out_of_memory);
    assert_int_equal(points[1].steps, 40);
    const struct plot_choice *const two[] = { &points[0], &points[1] };
    const char *texts[2], *shared;
    plot_choice_differences(two, 2, f->arena, texts, &shared);
    assert_string_equal(texts[0], "batching isf qt 1");
    assert_string_equal(texts[1], "batching isf qt 2");
    assert_string_equal(shared, "TP 1 PP 1 DP 8, h100");
    plot_choice_differences(two, 1, f->arena, texts, &shared);
    assert_string_equal(texts[0], points[0].name);
    assert_string_equal(shared, "");
    struct plot_limits limits;
    must(f, sweep_view_limits(store, 1, f->arena, &limits, &f->err));
    assert_float_equal(limits.deadline_days, 2.5, 1e-12);
    assert_float_equal(limits.budget_usd, 1000, 1e-9);
    store_close(store);
}

static void test_the_front_says_what_keeps_the_limits(void **state) {
    if (!has_gnuplot()) skip();
    struct fixture *f = *state;
    struct store *store = store_sweep(f, front_rows, SAMPLE_COUNT(front_rows));
    int64_t count;
    struct plot_limits limits;
    const struct plot_choice *points = sweep_view_points(store, 1, f->arena, &count, &f->err);
    must(f, sweep_view_limits(store, 1, f->arena, &limits, &f->err));
    const char *path = arena_format(f->arena, "%s/front.svg", f->folder);
    must(f, plot_pareto(path, "s", points, count, &limits, &f->err));
    char text[SVG_LIMIT];
    read_svg(path, text);
    static const char *const shown[] = {
        "1  \xe2\x89\x88 2.00 days, 1,200 USD, 8 GPUs<",
        "    beyond the budget<",
        "2  2.40 days, 950 USD, 8 GPUs<",
        "    perhaps late, perhaps beyond the budget<",
        "3  3.00 days, 700 USD, 8 GPUs<",
        "    late<",
        "    TP 2 PP 1 DP 4, a100, batching isf qt 1<",
        "deadline 2.50 days<",
        "budget 1,000 USD<",
        "\xe2\x89\x88 raced, 1 step<",
        "replayed in full, 40 steps<",
        "error band: time and cost err alike<",
    };
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        if (strstr(text, shown[i]) == NULL) fail_msg("the front lacks \"%s\"", shown[i]);
    /* Limits far away are only named. */
    limits = (struct plot_limits){ 400, 20 };
    must(f, plot_pareto(path, "s", points, count, &limits, &f->err));
    read_svg(path, text);
    assert_non_null(strstr(text, "deadline 400 days, all keep it<"));
    assert_non_null(strstr(text, "budget 20.00 USD, none keeps it<"));
    store_close(store);
}

static void test_numbers_have_no_exponent(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = { { 1267712.4, "1,267,712" }, { 10482, "10,482" },    { 999.6, "1,000" },
                  { 482.4, "482" },           { 48.24, "48.2" },      { 4.8249, "4.82" },
                  { 0.482, "0.482" },         { 0.00123, "0.00123" }, { 0, "0" },
                  { -1234.5, "-1,234" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[PLOT_NUMBER_SIZE];
        assert_string_equal(plot_number(text, cases[i].value), cases[i].text);
    }
}

static void test_a_text_is_cut_between_characters(void **state) {
    (void)state;
    char out[16];
    assert_string_equal(plot_cut(out, sizeof out, "short", 10), "short");
    assert_string_equal(plot_cut(out, sizeof out, "a long text", 8), "a lon...");
    assert_string_equal(plot_cut(out, sizeof out,
                                 "abc\xc3\xa9"
                                 "defgh",
                                 7),
                        "abc...");
    assert_string_equal(plot_cut(out, sizeof out, "longer than there is room", 99),
                        "longer than ...");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_cell_says_what_its_value_rests_on, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_names_in_the_heat_map_stand_apart, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_heat_map_in_each_format, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_points_are_named_by_all_that_varies, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_front_says_what_keeps_the_limits, set_up,
                                        tear_down),
        cmocka_unit_test(test_numbers_have_no_exponent),
        cmocka_unit_test(test_a_text_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
