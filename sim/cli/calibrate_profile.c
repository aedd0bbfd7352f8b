/* calibrate_profile.c - fits a profile's curves and says what went into them, how well they repeat
 * it and how they are used. */
#include "sim/cli/calibrate_profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include "calibrate/fit/calibrate.h"
#include "calibrate/fit/check.h"
#include "calibrate/fit/interconnect.h"
#include "costmodel/hardware.h"
#include "sim/base/json.h"
#include "sim/base/output_draft.h"

/* "T": the same stream of zlib, uncompressed. */
static bool write_text(int descriptor, const char *text, size_t size, bool gzip) {
    const int own = dup(descriptor);
    gzFile file = own >= 0 ? gzdopen(own, gzip ? "wb9" : "wbT") : NULL;
    if (file == NULL) {
        if (own >= 0) close(own);
        return false;
    }
    const bool ok = size == 0 || gzwrite(file, text, (unsigned)size) == (int)size;
    return gzclose(file) == Z_OK && ok;
}

bool calibrate_write_file(const char *path, const char *text, size_t size, struct error *err) {
    const size_t length = strlen(path);
    const bool gzip = length > 3 && strcmp(path + length - 3, ".gz") == 0;
    struct output_draft draft;
    errno = 0;
    const bool ok =
        output_draft_open(&draft, path) && write_text(draft.descriptor, text, size, gzip);
    const int code = errno;
    if (!output_draft_close(&draft, ok)) {
        if (!ok) errno = code;
        return error_output(err, path);
    }
    return true;
}

bool calibrate_write_curves(const cJSON *curves, const char *path, struct error *err) {
    char *text = calibrate_curves_text(curves);
    const bool ok = calibrate_write_file(path, text, strlen(text), err);
    free(text);
    return ok;
}

/* ---- what goes in ---- */

/* What the user's rows do not suffice for. */
static const char *stand_ins(struct cli *cli, const struct calibrate_gpu *gpu) {
    return gpu->name != NULL ? arena_format(cli->arena, "those of %s", gpu->profile)
                             : "the shipped rows";
}

/* A folder that has none of the tables is a mistake; what it lacks is noted. */
static bool check_tables(struct cli *cli, const struct calibrate_gpu *gpu, const char *measured,
                         const char *shipped, struct error *err) {
    const char *missing = "";
    int missing_count = 0;
    for (int f = 0; f < MEASUREMENT_FORMAT_COUNT; f++) {
        const char *name = measurement_format_names[f];
        const char *own = calibrate_table(cli->arena, measured, NULL, name);
        if (strcmp(own, calibrate_table(cli->arena, measured, shipped, name)) == 0) continue;
        missing =
            arena_format(cli->arena, "%s%s%s", missing, missing_count++ > 0 ? ", " : "", name);
    }
    if (missing_count == MEASUREMENT_FORMAT_COUNT) {
        error_set(err, "%s has no gemm, attention, nccl or membw as .csv.gz or .csv", measured);
        return error_hint(err, "name the folder that `ballast calibrate bench` wrote");
    }
    if (missing_count > 0 && !cli->common.quiet)
        fprintf(stderr, "%s has no %s: %s stand in\n", measured, missing, stand_ins(cli, gpu));
    return true;
}

/* The output is none of the files that are read. */
static bool apart_from_input(struct cli *cli, const char *output, const char *hardware,
                             const char *measured, struct error *err) {
    const char *read[MEASUREMENT_FORMAT_COUNT + 1];
    int64_t count = 0;
    if (output == NULL) return true;
    if (hardware != NULL) read[count++] = hardware;
    for (int f = 0; measured != NULL && f < MEASUREMENT_FORMAT_COUNT; f++)
        read[count++] = calibrate_table(cli->arena, measured, NULL, measurement_format_names[f]);
    return error_check_output_apart(err, output, "what is fitted is read", read, count);
}

/* ---- the shipped curves on the same rows ---- */

struct shipped_errors {
    int64_t count;
    struct calibrate_group *groups; /* one an operator */
};

/* Whether the fit was worth it: what the curves that the profile has make of the user's rows. */
static bool shipped_errors_of(struct cli *cli, const struct calibrate_gpu *gpu,
                              const char *measured, const char *shipped, struct shipped_errors *out,
                              struct error *err) {
    enum { OPERATORS_MAX = 32 };
    *out = (struct shipped_errors){ 0, arena_array(cli->arena, struct calibrate_group,
                                                   OPERATORS_MAX) };
    struct calibrate_check checks[MEASUREMENT_FORMAT_COUNT];
    if (!calibrate_check_own(cli->arena, cli->scenario_options.directory, measured, shipped, gpu,
                             checks, err))
        return false;
    for (int f = 0; f < MEASUREMENT_FORMAT_COUNT; f++) {
        int64_t count;
        const struct calibrate_group *groups =
            calibrate_check_operators(cli->arena, &checks[f], &count);
        for (int64_t i = 0; i < count && out->count < OPERATORS_MAX; i++)
            out->groups[out->count++] = groups[i];
    }
    return true;
}

/* ---- what it says ---- */

static cJSON *summary_json(const struct error_summary *s) {
    if (s->count == 0) return cJSON_CreateNull();
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "points", (double)s->count);
    cJSON_AddNumberToObject(o, "median_abs_relative_error", s->median);
    cJSON_AddNumberToObject(o, "p80_abs_relative_error", s->p80);
    cJSON_AddNumberToObject(o, "p90_abs_relative_error", s->p90);
    cJSON_AddNumberToObject(o, "median_signed_relative_error", s->bias);
    return o;
}

static cJSON *shipped_json(const struct shipped_errors *shipped) {
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < shipped->count; i++) {
        const struct calibrate_group *g = &shipped->groups[i];
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "operator", g->operator_name);
        cJSON_AddNumberToObject(o, "rows", (double)g->row_count);
        cJSON_AddNumberToObject(o, "median_abs_relative_error", g->median_abs_relative_error);
        cJSON_AddNumberToObject(o, "p90_abs_relative_error", g->p90_abs_relative_error);
        cJSON_AddNumberToObject(o, "mean_signed_relative_error", g->mean_signed_relative_error);
        cJSON_AddNumberToObject(o, "inside_band_fraction", g->inside_band_fraction);
        cJSON_AddItemToArray(list, o);
    }
    return list;
}

static cJSON *report_json(const char *gpu, const struct calibrate_report *report,
                          const struct shipped_errors *shipped, const char *output) {
    cJSON *o = cJSON_CreateObject(), *lines = cJSON_CreateArray();
    cJSON_AddStringToObject(o, "gpu", gpu);
    cJSON_AddItemToObject(o, "fits", lines);
    for (int64_t i = 0; i < report->line_count; i++) {
        cJSON *line = cJSON_CreateObject();
        cJSON_AddStringToObject(line, "what", report->lines[i].what);
        cJSON_AddStringToObject(line, "from", report->lines[i].from);
        cJSON_AddItemToObject(line, "form", summary_json(&report->lines[i].form));
        cJSON_AddItemToObject(line, "held_out", summary_json(&report->lines[i].held_out));
        cJSON_AddItemToArray(lines, line);
    }
    cJSON_AddItemToObject(o, "by_shipped_curves", shipped_json(shipped));
    cJSON *notes = cJSON_AddArrayToObject(o, "notes");
    for (int64_t i = 0; i < report->note_count; i++)
        cJSON_AddItemToArray(notes, cJSON_CreateString(report->notes[i]));
    cJSON_AddItemToObject(o, "file",
                          output != NULL ? cJSON_CreateString(output) : cJSON_CreateNull());
    return o;
}

static void print_lines(const char *gpu, const struct calibrate_report *report) {
    printf("%s: each point predicted without itself\n", gpu);
    printf("  %-46s %7s %8s %8s %8s%s\n", "", "points", "median", "p90", "bias",
           report->own ? "  from" : "");
    for (int64_t i = 0; i < report->line_count; i++) {
        const struct calibrate_line *line = &report->lines[i];
        const struct error_summary *s = &line->held_out;
        printf("  %-46s %7lld %s%% %s%% %s%%%s%s\n", line->what, (long long)s->count,
               cli_cell(100 * s->median, 7, 1, false).text,
               cli_cell(100 * s->p90, 7, 1, false).text, cli_cell(100 * s->bias, 7, 1, true).text,
               report->own ? "  " : "", report->own ? line->from : "");
    }
}

static void print_shipped(struct cli *cli, const struct calibrate_gpu *gpu,
                          const struct shipped_errors *shipped) {
    if (shipped->count == 0) return;
    printf("rows of yours that a fit takes, by the %s (price / measured - 1)\n",
           gpu->name != NULL ? arena_format(cli->arena, "curves that %s has", gpu->hardware)
                             : "shipped curves");
    printf("  %-46s %7s %8s %8s %8s %8s\n", "", "rows", "median", "p90", "mean", "in band");
    for (int64_t i = 0; i < shipped->count; i++) {
        const struct calibrate_group *g = &shipped->groups[i];
        printf("  %-46s %7lld %s%% %s%% %s%% %7.0f%%\n", g->operator_name, (long long)g->row_count,
               cli_cell(100 * g->median_abs_relative_error, 7, 1, false).text,
               cli_cell(100 * g->p90_abs_relative_error, 7, 1, false).text,
               cli_cell(100 * g->mean_signed_relative_error, 7, 1, true).text,
               100 * g->inside_band_fraction);
    }
}

/* Own curves are a profile; factors of stacks were fitted beside the shipped ones. */
static void print_use(const struct calibrate_gpu *gpu, const struct calibrate_report *report,
                      const char *output) {
    if (output == NULL) {
        puts("nothing was written: name the curves file with -o FILE");
        return;
    }
    printf("written: %s\n", output);
    if (!report->own) return;
    if (gpu->name != NULL)
        printf("to use it: name it in \"curves\" of %s\n", gpu->hardware);
    else
        puts("to use it: name it in cluster.hardware of a scenario, in column hardware of measured "
             "runs (validate), as --profile of calibrate check");
    puts("factors of software stacks were fitted beside the shipped curves: fit them anew with "
         "steps that "
         "you measured\n"
         "(calibrate fit --steps); docs/HOWTO-CALIBRATE.md");
}

/* Which table of the user's made a curve that no GPU has. */
static bool curves_can_be(struct cli *cli, const struct calibrate_gpu *gpu,
                          const struct calibrate_report *report, const cJSON *curves,
                          struct error *err) {
    static const struct {
        const char *place;
        enum measurement_format table;
    } parts[] = { { "/matmul/", MEASUREMENT_GEMM },
                  { "/attention/", MEASUREMENT_ATTENTION },
                  { "/collectives/", MEASUREMENT_NCCL },
                  { "/streaming/", MEASUREMENT_MEMBW } };
    struct error own = { 0 };
    if (calibrate_curves_check(cli->arena, curves, &own)) return true;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *what = strstr(own.text, parts[i].place);
        if (what == NULL || !report->own_used[parts[i].table]) continue;
        error_set(err, "%s: its rows make a curve that no GPU has: %.*s",
                  report->own_paths[parts[i].table], (int)strcspn(what, "\n"), what);
        if (parts[i].table == MEASUREMENT_GEMM)
            return error_hint(
                err,
                "the rows are faster than the bf16 peak of %.0f TFLOP/s in %s: another "
                "GPU is a hardware file of its own, with its peak (--gpu FILE)",
                gpu->bf16_flop_per_s / 1e12, gpu->hardware);
        return error_hint(err,
                          "times are in microseconds, sizes in bytes; too few or equal times tell "
                          "no curve");
    }
    *err = own;
    return false;
}

int calibrate_profile(struct cli *cli, const char *name, const char *measured, const char *output,
                      cJSON **json) {
    struct error err = { 0 };
    const char *shipped =
        arena_format(cli->arena, "%s/../calibrate/measured", cli->scenario_options.directory);
    struct calibrate_gpu gpu;
    struct calibrate_report *report = arena_new(cli->arena, struct calibrate_report);
    if (!calibrate_gpu_read(cli->arena, cli->scenario_options.directory, name, &gpu, &err) ||
        !apart_from_input(cli, output, gpu.name != NULL ? name : NULL, measured, &err) ||
        (measured != NULL && !check_tables(cli, &gpu, measured, shipped, &err)))
        return cli_error(&err);
    struct shipped_errors by_shipped = { 0 };
    cJSON *curves = cJSON_CreateObject();
    const bool ok =
        calibrate_fit_profile(cli->arena, measured != NULL ? measured : shipped, shipped, &gpu,
                              curves, report, &err) &&
        curves_can_be(cli, &gpu, report, curves, &err) &&
        (measured == NULL || shipped_errors_of(cli, &gpu, measured, shipped, &by_shipped, &err)) &&
        (output == NULL || calibrate_write_curves(curves, output, &err));
    cJSON_Delete(curves);
    if (!ok) return cli_error(&err);
    for (int64_t i = 0; i < report->note_count && !cli->common.quiet; i++)
        fprintf(stderr, "%s%s\n", report->notes[i],
                i < report->unused_count
                    ? arena_format(cli->arena, ": %s stand in", stand_ins(cli, &gpu))
                    : "");
    if (cli->common.json) {
        cli_give_json(report_json(name, report, &by_shipped, output), json);
        return EXIT_DONE;
    }
    print_lines(name, report);
    print_shipped(cli, &gpu, &by_shipped);
    print_use(&gpu, report, output);
    return EXIT_DONE;
}

/* ---- fabrics ---- */

static void print_fabric(const struct cli *cli, const cJSON *fabric, const char *output,
                         cJSON **json) {
    const char *source = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(fabric, "source"));
    if (cli->common.json) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToObject(o, "fabric", cJSON_Duplicate(fabric, true));
        cJSON_AddStringToObject(o, "file", output);
        cli_give_json(o, json);
        return;
    }
    printf("%s\nwritten: %s, for \"fabric\" of a cluster\n", source, output);
}

int calibrate_fabric(struct cli *cli, const char *fabric, const char *measured, const char *output,
                     cJSON **json) {
    struct error err = { 0 };
    if (measured == NULL)
        measured =
            arena_format(cli->arena, "%s/../calibrate/measured", cli->scenario_options.directory);
    if (!apart_from_input(cli, output, NULL, measured, &err)) return cli_error(&err);
    cJSON *curves = cJSON_CreateObject();
    const bool ok = calibrate_fit_fabric(cli->arena, measured, fabric, curves, &err) &&
                    calibrate_write_curves(curves, output, &err);
    if (ok) print_fabric(cli, curves, output, json);
    cJSON_Delete(curves);
    return ok ? EXIT_DONE : cli_error(&err);
}
