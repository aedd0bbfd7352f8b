/* test_plot.c - each picture comes out of gnuplot in each format; mistakes are sentences. The
 * drawing tests skip where gnuplot is missing. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "results/plot.h"
#include "results/plot_style.h"
#include "results/plot_chart.h"
#include "results/plot_scatter.h"
#include "results/plot_stages.h"
#include "results/plot_validation.h"
#include "tests/unit/results/sample_rows.h"

static const char hard_name[] = "it's `touch /tmp/x` $(x) \"q\" 100% _a ^b {c} \\n @d";

static bool has_gnuplot(void) {
    if (system("gnuplot --version > /dev/null 2>&1") == 0) return true;
    print_message("gnuplot is not installed: nothing drawn\n");
    return false;
}

static bool draw_timeline(const char *path, struct error *err) {
    return plot_timeline(path, hard_name, sample_spans, SAMPLE_COUNT(sample_spans), 0, 0,
                         PLOT_COLOR_AUTO, err);
}

static bool draw_memory(const char *path, struct error *err) {
    return plot_memory(path, hard_name, sample_points, SAMPLE_COUNT(sample_points), 0, 80000000000,
                       err);
}

static bool draw_steps(const char *path, struct error *err) {
    return plot_steps(path, hard_name, sample_iterations, SAMPLE_COUNT(sample_iterations), err);
}

static bool draw_one_step(const char *path, struct error *err) {
    return plot_steps(path, hard_name, sample_iterations, 1, err);
}

static bool draw_many_steps(const char *path, struct error *err) {
    static struct iteration_record iterations[5000];
    for (int i = 0; i < 5000; i++)
        iterations[i].step_time_ns = 20000000000 + (int64_t)i * i % 7919 * 1000000;
    return plot_steps(path, hard_name, iterations, 5000, err);
}

static bool draw_search(const char *path, struct error *err) {
    return plot_search(path, hard_name, sample_progress, SAMPLE_COUNT(sample_progress), err);
}

static bool draw_breakdown(const char *path, struct error *err) {
    static const char *const runs[] = { "baseline", hard_name };
    static const char *const parts[] = { "compute", "bubble", "of another kind", "update" };
    static const double part_ms[] = { 700, 300, NAN, 0, 700, 100, 20, 0 };
    static const bool out_of_memory[] = { false, true };
    struct plot_breakdown breakdown = { runs, 2, parts, 4, part_ms, out_of_memory };
    return plot_breakdown(path, hard_name, &breakdown, err);
}

static bool draw_dataset(const char *path, struct error *err) {
    static const uint32_t tiles[] = { 0, 1, 1, 7, 13 }, tokens[] = { 20, 300, 310, 2000, 4096 };
    return plot_dataset(path, hard_name, tiles, "image tiles", tokens, 5, err);
}

static bool draw_bars(const char *path, struct error *err) {
    static const struct plot_bar bars[] = { { "one", 0.3, 0.29 }, { hard_name, 0.2, NAN } };
    return plot_bars(path, hard_name, "MFU", bars, 2, err);
}

static bool draw_lines(const char *path, struct error *err) {
    static const double first[] = { 1, 2, 3 }, second[] = { 3, 1, 2 }, images[] = { 10, 20, 0 };
    static const struct plot_line lines[] = { { "first", first }, { hard_name, second } };
    const struct plot_lines all = { hard_name, "iteration", "s", lines, 2, 3, images, "images" };
    return plot_lines(path, &all, err);
}

static bool draw_modules(const char *path, struct error *err) {
    return plot_timeline(path, hard_name, sample_spans, SAMPLE_COUNT(sample_spans), 0, 0,
                         PLOT_COLOR_MODULE, err);
}

static bool draw_scatter(const char *path, struct error *err) {
    static const struct plot_point points[] = { { 61.8, 50.8, { 0.09, 0.4 }, 0 },
                                                { 21.3, 15.9, { NAN, NAN }, 1 },
                                                { 0, 3, { 0.1, 0.1 }, 1 },
                                                { 3, -1, { 0.1, 0.1 }, 0 } };
    static const char *const groups[] = { "encoder-first", hard_name };
    struct plot_scatter scatter = {
        hard_name, "printed", "simulated", points, 4, groups, 2, 0.15, 1
    };
    return plot_scatter(path, &scatter, err);
}

static bool draw_stages(const char *path, struct error *err) {
    static const struct plot_stage before[] = { { 3, 3, 6, 60 }, { 1, 1, 2, 20 } };
    static const struct plot_stage after[] = { { 1.5, 0, 3, 75 }, { 1.5, 0, 3, 85 } };
    static const struct plot_stage_run runs[] = { { "before", before, 2, 13, 80 },
                                                  { hard_name, after, 2, 5, 80 } };
    return plot_stages(path, hard_name, runs, 2, err);
}

static bool draw_convergence(const char *path, struct error *err) {
    static const struct plot_pass passes[] = { { 1, 0.14, 0.2, 3.6 }, { 2, 0, 0, 4 } };
    return plot_convergence(path, hard_name, passes, 2, err);
}

/* Five points: two on the front, one beaten in both, one out of memory, one that failed. */
enum { POINTS = 5 };
static void make_points(struct plot_choice *points) {
    static const struct {
        const char *name, *status, *verdict;
        double gpus, days, usd;
    } rows[POINTS] = {
        { "cheap", "done", "fits", 8, 10, 100 },    { hard_name, "done", "tight", 16, 6, 120 },
        { "beaten", "done", "fits", 16, 7, 130 },   { "big", "done", "out of memory", 32, 1, 10 },
        { "failed", "failed", NULL, 64, NAN, NAN },
    };
    for (int i = 0; i < POINTS; i++) {
        struct run_record run = run_record_empty();
        run.scenario_name = rows[i].name;
        run.status = rows[i].status;
        run.verdict = rows[i].verdict;
        run.gpu_count = (int64_t)rows[i].gpus;
        run.total_days = rows[i].days;
        run.gpu_days = rows[i].days * rows[i].gpus;
        run.money_usd = rows[i].usd;
        run.step_time_mean_ms = rows[i].days * 100;
        run.band_fraction = 0.1;
        points[i] = plot_choice_of(&run, NULL); /* no scenario, so no job to name */
    }
}

static bool draw_pareto(const char *path, struct error *err) {
    struct plot_choice points[POINTS];
    make_points(points);
    return plot_pareto(path, hard_name, points, POINTS, NULL, err);
}

static bool draw_scaling(const char *path, struct error *err) {
    struct plot_choice points[POINTS];
    make_points(points);
    return plot_scaling(path, hard_name, points, POINTS, err);
}

static bool draw_residuals(const char *path, struct error *err) {
    static const struct validation_record rows[] = {
        { .hardware = "h100-80g-sxm",
          .measured_value = 10,
          .predicted_value = 11,
          .band_fraction = 0.3,
          .band_below_fraction = 0.1,
          .role = "prediction" },
        { .hardware = hard_name,
          .measured_value = 10,
          .predicted_value = 8,
          .band_fraction = NAN,
          .role = "fitted" },
        { .hardware = "none", .measured_value = 10, .predicted_value = NAN, .role = "prediction" },
    };
    return plot_residuals(path, hard_name, rows, 3, err);
}

static bool draw_sweep_rounds(const char *path, struct error *err) {
    static const struct sweep_round_record rounds[] = {
        { 0, 512, 500, 12, 0, NAN, NAN, NAN },
        { 1, 1024, 700, 300, 24, 0.5, 8, 500 },
        { 2, 1500, 1000, 400, 100, 0.4, 7, 450 },
    };
    return plot_sweep_rounds(path, hard_name, rounds, 3, err);
}

static const struct {
    const char *name;
    bool (*draw)(const char *path, struct error *err);
} pictures[] = {
    { "timeline", draw_timeline },   { "memory", draw_memory },
    { "steps", draw_steps },         { "one-step", draw_one_step },
    { "search", draw_search },       { "many-steps", draw_many_steps },
    { "breakdown", draw_breakdown }, { "dataset", draw_dataset },
    { "scatter", draw_scatter },     { "bars", draw_bars },
    { "lines", draw_lines },         { "modules", draw_modules },
    { "stages", draw_stages },       { "convergence", draw_convergence },
    { "pareto", draw_pareto },       { "scaling", draw_scaling },
    { "residuals", draw_residuals }, { "sweep rounds", draw_sweep_rounds },
};

static void test_each_picture_in_each_format(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    static const struct {
        const char *extension, *begins;
    } formats[] = { { "png", "\x89PNG\r\n" }, { "svg", "<?xml" }, { "pdf", "%PDF" } };
    char *folder = sample_folder();
    for (size_t p = 0; p < sizeof pictures / sizeof pictures[0]; p++) {
        for (size_t k = 0; k < sizeof formats / sizeof formats[0]; k++) {
            char path[256], head[8] = "";
            struct error err = { 0 };
            snprintf(path, sizeof path, "%s/it's %s.%s", folder, pictures[p].name,
                     formats[k].extension);
            if (!pictures[p].draw(path, &err)) fail_msg("%s: %s", path, err.text);
            FILE *file = fopen(path, "r");
            if (file == NULL) fail_msg("%s: not there", path);
            assert_int_equal(fread(head, 1, 7, file), 7);
            fseek(file, 0, SEEK_END);
            if (strncmp(head, formats[k].begins, strlen(formats[k].begins)) != 0 ||
                ftell(file) < 4000)
                fail_msg("%s: not a picture (%ld bytes)", path, ftell(file));
            fclose(file);
        }
    }
    char left[256];
    snprintf(left, sizeof left, "test -z \"$(find %s -name '*.unfinished')\"", folder);
    assert_int_equal(system(left), 0);
    sample_remove_folder(folder);
}

static void test_nothing_to_draw(void **state) {
    (void)state;
    struct error err = { 0 };
    static const struct plot_point none[] = { { 0, 0, { NAN, NAN }, 0 } };
    static const char *const groups[] = { "x" };
    struct plot_scatter scatter = { "x", "x", "x", none, 1, groups, 1, 0, 0 };
    assert_false(plot_scatter("/tmp/none.png", &scatter, &err));
    assert_string_equal(err.text, "there is nothing to draw: no value is positive");
    struct plot_stage_run run = { .name = "x" };
    assert_false(plot_stages("/tmp/none.png", "x", &run, 1, &err));
    assert_string_equal(err.text, "there is nothing to draw: no stage takes time");
}

enum { SVG_LIMIT = 200000 };

static void draw_svg(bool (*draw)(const char *path, struct error *err), char text[SVG_LIMIT]) {
    char *folder = sample_folder();
    char path[256];
    snprintf(path, sizeof path, "%s/x.svg", folder);
    struct error err = { 0 };
    if (!draw(path, &err)) fail_msg("%s", err.text);
    FILE *file = fopen(path, "r");
    text[fread(text, 1, SVG_LIMIT - 1, file)] = '\0';
    fclose(file);
    sample_remove_folder(folder);
}

/* The SVG holds the title as text: what the user named is what is shown. */
static void test_names_have_no_special_meaning(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    char text[SVG_LIMIT];
    draw_svg(draw_timeline, text);
    assert_non_null(strstr(text, "$(x)"));
    assert_non_null(strstr(text, "100% _a ^b {c} \\n @d: pipeline of iteration 2 on DP rank 0"));
}

/* What nothing beats in time and money comes first in the list; what cannot be chosen is not
 * there. */
static bool draw_even_bars(const char *path, struct error *err) {
    static const struct plot_bar bars[] = { { "one", 0.306, 0.297 }, { "two", 0.28, NAN } };
    return plot_bars(path, "bars", "MFU", bars, 2, err);
}

static void test_bars_have_as_many_decimals(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    char text[SVG_LIMIT];
    draw_svg(draw_even_bars, text);
    static const char *const shown[] = { ">0.306<", ">0.297<", ">0.280<", ">0.30<", ">0.05<" };
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        if (strstr(text, shown[i]) == NULL) fail_msg("the bars lack \"%s\"", shown[i]);
    assert_null(strstr(text, ">0.28<"));
    assert_null(strstr(text, ">0.3<"));
}

static void test_the_front_is_listed(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    char text[SVG_LIMIT];
    draw_svg(draw_pareto, text);
    assert_non_null(strstr(text, "1  6.00 days, 120 USD, 16 GPUs"));
    assert_non_null(strstr(text, "2  10.0 days, 100 USD, 8 GPUs"));
    assert_non_null(strstr(text, "3  7.00 days, 130 USD, 16 GPUs"));
    assert_non_null(strstr(text, "cheap<"));
    assert_non_null(strstr(text, "beaten<"));
    assert_null(strstr(text, "big<"));
    assert_null(strstr(text, "failed<"));
}

/* Four fifths of the samples left out make a run fast and cheap, and no answer. */
static void make_partial(struct plot_choice *points) {
    make_points(points);
    points[2].days = 1;
    points[2].gpu_days = 16;
    points[2].money_usd = 20;
    points[2].left_out_fraction = 0.8;
}

static bool draw_partial(const char *path, struct error *err) {
    struct plot_choice points[POINTS];
    make_partial(points);
    return plot_pareto(path, "p", points, POINTS, NULL, err);
}

static bool draw_partial_scaling(const char *path, struct error *err) {
    struct plot_choice points[POINTS];
    make_partial(points);
    return plot_scaling(path, "p", points, POINTS, err);
}

static void test_what_leaves_samples_out_is_no_choice(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    char text[SVG_LIMIT];
    draw_svg(draw_partial, text);
    assert_non_null(strstr(text, "1  6.00 days, 120 USD, 16 GPUs"));
    assert_non_null(strstr(text, "leaves out samples that others train on<"));
    assert_null(strstr(text, "beaten<"));
    draw_svg(draw_partial_scaling, text);
    assert_null(strstr(text, "beaten<"));
}

/* Time and cost of two models do not make one curve. */
static bool draw_two_jobs(const char *path, struct error *err) {
    static const struct plot_choice points[] = {
        { "a", "small on text", 8, 4, 32, 64, { 0.1, 0.1 }, .done = true },
        { "b", "small on text", 16, 2.2, 35, 70, { 0.1, 0.1 }, .done = true },
        { "c", "large on text", 8, 40, 320, 640, { 0.1, 0.1 }, .done = true },
        { "d", "large on text", 16, 21, 336, 672, { 0.1, 0.1 }, .done = true },
        { "e", "lonely on text", 16, 1, 16, 32, { 0.1, 0.1 }, .done = true },
    };
    return plot_scaling(path, "two", points, 5, err);
}

static void test_a_curve_for_each_job(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    char text[SVG_LIMIT];
    draw_svg(draw_two_jobs, text);
    assert_non_null(strstr(text, "small on text<"));
    assert_non_null(strstr(text, "large on text<"));
    assert_null(strstr(text, "lonely on text<"));
    draw_svg(draw_scaling, text);
    assert_non_null(strstr(text, "cheap<")); /* of one job the layouts are named */
    assert_non_null(strstr(text, "in proportion to the first<"));
}

/* Nor do two kinds of GPU, whose money stands beside each other then. */
static bool draw_two_kinds(const char *path, struct error *err) {
    static const struct plot_choice points[] = {
        { "a", "m on d", 8, 4, 32, 64, { 0.1, 0.1 }, .done = true, .kind = "h100" },
        { "b", "m on d", 16, 2.2, 35, 70, { 0.1, 0.1 }, .done = true, .kind = "h100" },
        { "c", "m on d", 8, 3, 24, 80, { 0.1, 0.1 }, .done = true, .kind = "b200" },
        { "d", "m on d", 16, 1.6, 26, 85, { 0.1, 0.1 }, .done = true, .kind = "b200" },
    };
    return plot_scaling(path, "two", points, 4, err);
}

static void test_a_curve_for_each_kind_of_gpu(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    char text[SVG_LIMIT];
    draw_svg(draw_two_kinds, text);
    assert_non_null(strstr(text, ">h100<"));
    assert_non_null(strstr(text, ">b200<"));
    assert_non_null(strstr(text, "money of the whole training"));
}

static bool draw_jobs(const char *path, int jobs, struct error *err) {
    static const char *const names[] = { "j0", "j1", "j2", "j3", "j4", "j5", "j6", "j7" };
    struct plot_choice points[16];
    for (int i = 0; i < 2 * jobs; i++)
        points[i] = (struct plot_choice){ "a", names[i / 2], 8 << i % 2,   4.0 / (1 + i % 2),
                                          32,  64,           { 0.1, 0.1 }, .done = true };
    return plot_scaling(path, "many", points, 2 * jobs, err);
}

static bool draw_six_jobs(const char *path, struct error *err) {
    return draw_jobs(path, 6, err);
}

static bool draw_eight_jobs(const char *path, struct error *err) {
    return draw_jobs(path, 8, err);
}

static void test_curves_left_out_are_said(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    char text[SVG_LIMIT];
    draw_svg(draw_six_jobs, text);
    assert_non_null(strstr(text, ">j5<"));
    assert_null(strstr(text, "curves, the first by"));
    draw_svg(draw_eight_jobs, text);
    assert_non_null(strstr(text, ">j5<"));
    assert_null(strstr(text, ">j6<"));
    assert_non_null(strstr(text, "6 of 8 curves, the first by model, data set and kind of GPU"));
}

static bool draw_sources(const char *path, int sources, struct error *err) {
    static char names[30][8];
    struct plot_validation_point points[30];
    for (int i = 0; i < sources; i++) {
        snprintf(names[i], sizeof names[i], "s%d", i);
        points[i] = (struct plot_validation_point){ names[i], 1 + i, 1 + 0.9 * i, i % 2 == 0 };
    }
    return plot_validation(path, points, sources, err);
}

static bool draw_18_sources(const char *path, struct error *err) {
    return draw_sources(path, 18, err);
}

static bool draw_30_sources(const char *path, struct error *err) {
    return draw_sources(path, 30, err);
}

static void test_no_source_is_left_out(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    char text[SVG_LIMIT];
    draw_svg(draw_18_sources, text);
    assert_non_null(strstr(text, ">s17<"));
    assert_null(strstr(text, "more sources"));
    draw_svg(draw_30_sources, text);
    assert_non_null(strstr(text, ">s17<"));
    assert_null(strstr(text, ">s18<"));
    assert_non_null(strstr(text, ">12 more sources<"));
}

static bool draw_two_pages_of_one_site(const char *path, struct error *err) {
    static const struct plot_validation_point points[] = {
        { "docs.nvidia.com/nemo-framework, Vision Transformer", 1, 1.1, false },
        { "docs.nvidia.com/nemo-framework, CLIP (containers)", 2, 2.1, false },
    };
    return plot_validation(path, points, SAMPLE_COUNT(points), err);
}

static void test_pages_of_one_site_are_told_apart(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    char text[SVG_LIMIT];
    draw_svg(draw_two_pages_of_one_site, text);
    assert_non_null(strstr(text, ">docs.nvidia.com/nemo-framework, Vision<"));
    assert_non_null(strstr(text, ">docs.nvidia.com/nemo-framework, CLIP<"));
}

static bool draw_small_memory(const char *path, struct error *err) {
    return plot_memory(path, "s", sample_points, SAMPLE_COUNT(sample_points), 0,
                       INT64_C(42000000000), err);
}

static void test_each_stage_has_its_strip(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    char text[SVG_LIMIT];
    draw_svg(draw_memory, text);
    assert_non_null(strstr(text, "40.0 GiB, fullest<"));
    assert_non_null(strstr(text, "37.3 GiB<"));
    assert_non_null(strstr(text, "capacity, 74.5 GiB<"));
    draw_svg(draw_small_memory, text);
    assert_non_null(strstr(text, "40.0 GiB, too much<"));
    assert_non_null(strstr(text, "37.3 GiB<"));
}

/* A pass that its white edges would cover is drawn without them. */
static bool draw_thin(const char *path, struct error *err) {
    static const struct span_record spans[] = {
        { 0, 0, 0, 0, "compute", "forward", -1, 0, -1, 0, 1000000000, NULL, -1 },
        { 1, 0, 0, 0, "compute", "backward", -1, 0, -1, 1000000000, 1001000000, NULL, -1 },
    };
    return plot_timeline(path, "s", spans, 2, 0, 0, PLOT_COLOR_PASS, err);
}

static void test_a_thin_pass_is_seen(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    char text[SVG_LIMIT];
    draw_svg(draw_thin, text);
    assert_non_null(strstr(text, "forward<"));
    assert_non_null(strstr(text, "backward<"));
}

static void test_few_values_fill_their_bins(void **state) {
    (void)state;
    double values[5000];
    for (int i = 0; i < 5000; i++)
        values[i] = 100 + i;
    assert_int_equal(plot_histogram(values, 24, false).bin_count, 8);
    assert_int_equal(plot_histogram(values, 400, false).bin_count, 20);
    assert_int_equal(plot_histogram(values, 5000, false).bin_count, PLOT_BINS);
    const struct plot_histogram_bins h = plot_histogram(values, 24, false);
    assert_true(fabs(h.low + h.width * 8 - 123) < 1e-9);
    int64_t sum = 0;
    for (int64_t b = 0; b < h.bin_count; b++)
        sum += h.counts[b];
    assert_int_equal(sum, 24);
}

static void test_a_data_set_is_counted_in_whole_numbers(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    char text[SVG_LIMIT];
    draw_svg(draw_dataset, text);
    assert_non_null(strstr(text, "mean 1,345, median 310, p99 4,012, max 4,096<"));
}

static void test_residuals_say_what_is_shaded(void **state) {
    (void)state;
    if (!has_gnuplot()) skip();
    char text[SVG_LIMIT];
    draw_svg(draw_residuals, text);
    assert_non_null(strstr(text, "within 10 %<"));
}

static void test_mistakes(void **state) {
    (void)state;
    struct error err = { 0 };
    assert_false(draw_steps("x.gif", &err));
    assert_non_null(strstr(err.text, "'x.gif': the name of a picture ends in .png, .svg or .pdf"));
    assert_false(err.internal);
    assert_false(draw_steps("/no/such/folder/x.png", &err));
    assert_non_null(strstr(err.text, "cannot write /no/such/folder/x.png: there is no folder "
                                     "'/no/such/folder'"));
    assert_false(err.internal);
    assert_false(plot_timeline("x.png", "s", sample_spans, 5, 9, 0, PLOT_COLOR_PASS, &err));
    assert_non_null(strstr(err.text, "there is nothing to draw"));
    struct plot_choice points[POINTS];
    make_points(points);
    assert_false(plot_pareto("x.png", "s", points + 4, 1, NULL, &err));
    assert_non_null(strstr(err.text, "there is nothing to draw: no run has finished"));
    assert_false(plot_scaling("x.png", "s", points, 1, &err));
    assert_non_null(strstr(err.text, "at least two GPU counts"));
    assert_false(plot_sweep_rounds("x.png", "s", NULL, 0, &err));
    assert_false(plot_residuals("x.png", "s", NULL, 0, &err));
    assert_non_null(strstr(err.text, "none of the measured runs could be simulated"));
    assert_false(plot_steps("x.png", "s", NULL, 0, &err));
    assert_non_null(strstr(err.text, "there is nothing to draw"));
}

static void test_a_long_step_shows_its_beginning(void **state) {
    (void)state;
    enum { MOST = 25 };
    struct span_record spans[MOST + 1];
    for (int i = 0; i < MOST; i++)
        spans[i] = (struct span_record){ .micro_batch = i,
                                         .start_ns = 100 * i,
                                         .finish_ns = 100 * i + 100 };
    spans[MOST] = (struct span_record){ .dp_rank = 1, .micro_batch = 2, .finish_ns = 9000 };
    assert_int_equal(plot_timeline_default_until_ns(spans, MOST + 1, 0), 1000);
    assert_int_equal(plot_timeline_default_until_ns(spans, MOST - 1, 0), 0);
    assert_int_equal(plot_timeline_default_until_ns(spans, MOST + 1, 1), 0);
}

static void test_without_gnuplot(void **state) {
    (void)state;
    char *folder = sample_folder(), *search = strdup(getenv("PATH"));
    char path[256];
    snprintf(path, sizeof path, "%s/x.png", folder);
    setenv("PATH", folder, 1);
    struct error err = { 0 };
    bool drawn = draw_steps(path, &err);
    setenv("PATH", search, 1);
    assert_false(drawn);
    assert_non_null(strstr(err.text, "cannot start gnuplot"));
    assert_non_null(strstr(err.text, "hint: pictures need gnuplot"));
    assert_int_equal(access(path, F_OK), -1);
    free(search);
    sample_remove_folder(folder);
}

/* ---- disks that are full, and what is no file ---- */

/* Draws over a file; returns what went wrong with that, NULL if the old content was kept and the
 * reason named. */
static const char *draw_without_room(const char *path, const char *reason, struct error *err) {
    if (draw_memory(path, err)) return "drawn without room";
    if (strstr(err->text, reason) == NULL || !err->internal) return err->text;
    char unfinished[300], kept[16] = "";
    snprintf(unfinished, sizeof unfinished, "%s.unfinished", path);
    if (access(unfinished, F_OK) == 0) return "the unfinished picture is left";
    FILE *file = fopen(path, "r");
    if (file == NULL || fread(kept, 1, 8, file) == 0) return "the old picture is lost";
    fclose(file);
    return strcmp(kept, "old") == 0 ? NULL : "the old picture was changed";
}

/* gnuplot itself is stopped at a size and ends with 0. */
static const char *check_cut_short(const char *folder, struct error *err) {
    static const char *const names[] = { "x.png", "x.svg", "x.pdf" };
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = { 3500, 3500 }; /* more than the script, less than the picture */
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int k = 0; k < 3; k++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, names[k]);
        FILE *file = fopen(path, "w");
        fputs("old", file);
        fclose(file);
        const char *complaint = draw_without_room(path, "gnuplot failed", err);
        if (complaint != NULL) return complaint;
    }
    return NULL;
}

/* "skip" where a file system may not be mounted. */
static const char *check_full_disk(const char *folder, struct error *err) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=12k") != 0)
        return "skip";
    char path[256];
    snprintf(path, sizeof path, "%s/x.png", folder);
    FILE *file = fopen(path, "w");
    fputs("old", file);
    fclose(file);
    return draw_without_room(path, "No space left on device", err);
}

static void in_child(const char *(*check)(const char *folder, struct error *err)) {
    if (!has_gnuplot()) skip();
    char *folder = sample_folder();
    int answer[2];
    assert_int_equal(pipe(answer), 0);
    pid_t child = fork();
    if (child == 0) {
        struct error err = { 0 };
        const char *complaint = check(folder, &err);
        if (complaint != NULL && write(answer[1], complaint, strlen(complaint)) < 0) _exit(2);
        _exit(0);
    }
    close(answer[1]);
    int status;
    waitpid(child, &status, 0);
    char complaint[5000] = "";
    if (read(answer[0], complaint, sizeof complaint - 1) < 0) complaint[0] = '\0';
    close(answer[0]);
    sample_remove_folder(folder);
    if (strcmp(complaint, "skip") == 0) skip();
    if (status != 0 || complaint[0] != '\0') fail_msg("in the child: %s", complaint);
}

static void test_a_picture_cut_short(void **state) {
    (void)state;
    in_child(check_cut_short);
}

static void test_a_full_disk(void **state) {
    (void)state;
    in_child(check_full_disk);
}

static void test_a_device_is_not_replaced(void **state) {
    (void)state;
    char *folder = sample_folder(), path[256];
    snprintf(path, sizeof path, "%s/x.png", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    struct error err = { 0 };
    assert_false(draw_steps(path, &err));
    assert_non_null(strstr(err.text, "it is not a file"));
    assert_false(err.internal);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_true(S_ISFIFO(status.st_mode));
    sample_remove_folder(folder);
}

/* Of 1..20: the definition that `ballast run` has from GSL. */
static void test_percentiles_are_those_of_a_run(void **state) {
    (void)state;
    double values[20];
    for (int i = 0; i < 20; i++)
        values[i] = i + 1;
    assert_float_equal(plot_quantile(values, 20, 0.50), 10.5, 1e-9);
    assert_float_equal(plot_quantile(values, 20, 0.95), 19.05, 1e-9);
    assert_float_equal(plot_quantile(values, 20, 1.00), 20, 1e-9);
    assert_float_equal(plot_quantile(values, 1, 0.99), 1, 1e-9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_picture_in_each_format),
        cmocka_unit_test(test_nothing_to_draw),
        cmocka_unit_test(test_names_have_no_special_meaning),
        cmocka_unit_test(test_bars_have_as_many_decimals),
        cmocka_unit_test(test_the_front_is_listed),
        cmocka_unit_test(test_what_leaves_samples_out_is_no_choice),
        cmocka_unit_test(test_a_curve_for_each_job),
        cmocka_unit_test(test_a_curve_for_each_kind_of_gpu),
        cmocka_unit_test(test_curves_left_out_are_said),
        cmocka_unit_test(test_no_source_is_left_out),
        cmocka_unit_test(test_pages_of_one_site_are_told_apart),
        cmocka_unit_test(test_each_stage_has_its_strip),
        cmocka_unit_test(test_a_thin_pass_is_seen),
        cmocka_unit_test(test_few_values_fill_their_bins),
        cmocka_unit_test(test_a_data_set_is_counted_in_whole_numbers),
        cmocka_unit_test(test_residuals_say_what_is_shaded),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_a_long_step_shows_its_beginning),
        cmocka_unit_test(test_without_gnuplot),
        cmocka_unit_test(test_a_picture_cut_short),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_percentiles_are_those_of_a_run),
        cmocka_unit_test(test_a_device_is_not_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
