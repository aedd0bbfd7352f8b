/* cmd_calibrate.c - `calibrate`: measure a GPU, fit its curves, read logs of others, check a
 * profile against measurements. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include "calibrate/fit/calibrate.h"
#include "calibrate/fit/check.h"
#include "calibrate/fit/interconnect.h"
#include "calibrate/fit/nccl_log.h"
#include "calibrate/fit/plan.h"
#include "sim/base/field.h"
#include "sim/base/file_read.h"
#include "sim/base/json.h"
#include "sim/cli/calibrate_bands.h"
#include "sim/cli/calibrate_profile.h"
#include "sim/cli/calibrate_refit.h"
#include "sim/cli/calibrate_steps.h"
#include "sim/cli/cli.h"

struct calibrate_cli_options {
    const char *output, *gpu, *fabric, *measured, *profile, *interconnect, *steps, *rows;
    int op;
    bool quick, whole, profiles;
};

#define AT(member) offsetof(struct calibrate_cli_options, member)
static const struct option options_table[] = {
    { "output", OPTION_TEXT, AT(output), "PATH",
      "bench, fit --steps: folder; fit: curves file; bands: its file; import: CSV, also .gz; "
      "check: CSV of each "
      "row's price (also -o)",
      NULL, 0, 0 },
    { "quick", OPTION_FLAG, AT(quick), NULL, "bench: fewer shapes, a few minutes", NULL, 0, 0 },
    { "gpu", OPTION_TEXT, AT(gpu), "NAME",
      "fit: which profile, or the path of a hardware file of yours; import: instead of the log's "
      "GPU",
      NULL, 0, 0 },
    { "fabric", OPTION_TEXT, AT(fabric), "NAME", "fit: which fabric between nodes", NULL, 0, 0 },
    { "measured", OPTION_TEXT, AT(measured), "DIR",
      "fit: folder of gemm, attention, nccl and membw .csv.gz (default, and for what it lacks: the "
      "shipped one)",
      NULL, 0, 0 },
    { "steps", OPTION_TEXT, AT(steps), "ROWS.csv",
      "fit: measured runs; fits the factors of their software stacks, whose files go into -o DIR",
      NULL, 0, 0 },
    { "rows", OPTION_TEXT, AT(rows), "ID,...", "fit --steps: only these rows", NULL, 0, 0 },
    { "whole", OPTION_FLAG, AT(whole), NULL,
      "fit --steps: files of all stacks, with no factors but those of these rows", NULL, 0, 0 },
    { "profiles", OPTION_FLAG, AT(profiles), NULL,
      "refit: the curves of all GPUs and fabrics too (minutes)", NULL, 0, 0 },
    { "profile", OPTION_TEXT, AT(profile), "NAME",
      "check: this hardware instead of the one each row was measured on", NULL, 0, 0 },
    { "op", OPTION_CHOICE, AT(op), "NAME", "import: the collective, where a log does not say",
      nccl_log_ops, 0, 0 },
    { "interconnect", OPTION_TEXT, AT(interconnect), "TEXT",
      "import: what connects the GPUs, for the CSV", NULL, 0, 0 },
};

static void defaults(void *options) {
    *(struct calibrate_cli_options *)options = (struct calibrate_cli_options){ .op = -1 };
}

/* ---- files ---- */

/* NAME.csv becomes NAME.csv.gz, which is what the fit reads. */
static bool compress_file(struct arena *arena, const char *path, struct error *err) {
    char *text;
    size_t size;
    if (!file_read(path, &text, &size, err)) return false;
    const bool ok = calibrate_write_file(arena_format(arena, "%s.gz", path), text, size, err);
    free(text);
    if (ok) remove(path);
    return ok;
}

/* ---- bench ---- */

/* Built by CMake into calibrate/ beside this program, each only where its libraries were found. */
static const struct bench_program {
    const char *name, *needs;
    const char *files[3]; /* in the output folder; NULL at the end */
    bool fitted;          /* its files are input of the fit */
} programs[] = {
    { "launch_gap", "the CUDA toolkit", { "launch_gap.csv" }, false },
    { "host_copy", "the CUDA toolkit", { "host_copy.csv" }, false },
    { "streaming", "the CUDA toolkit", { "membw.csv" }, true },
    { "matmul", "cuBLASLt", { "gemm.csv", "gemm_settled.csv" }, true },
    { "attention", "cuDNN", { "attention.csv" }, true },
    { "collectives", "NCCL", { "nccl.csv" }, true },
    { "layers", "cuBLASLt", { "layers.csv" }, false },
};
enum { PROGRAM_COUNT = sizeof programs / sizeof programs[0] };

/* Exit codes of a benchmark (calibrate/bench/bench_common.h). */
enum { BENCH_EXIT_DONE = 0, BENCH_EXIT_SKIPPED = 3 };

struct bench_run {
    bool built;
    int code;
    char said[512]; /* its last line that was not progress */
};

static const char *program_path(struct arena *arena, const struct bench_program *program) {
    char own[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0) return NULL;
    own[length] = '\0';
    *strrchr(own, '/') = '\0';
    return arena_format(arena, "%s/calibrate/%s", own, program->name);
}

/* The first program says it, for all. */
static bool found_no_gpu(const struct bench_run *run) {
    return strncmp(run->said, "no GPU was found", 16) == 0;
}

/* What a benchmark says: progress moves the bar, the rest is for the user. */
static void hear_line(const char *line, struct progress *progress, struct bench_run *run) {
    long done, total;
    if (sscanf(line, "progress %ld/%ld", &done, &total) == 2) {
        cli_progress_update(progress, done, total);
        return;
    }
    cli_progress_end(progress);
    snprintf(run->said, sizeof run->said, "%.500s", line);
    if (progress->enabled && !found_no_gpu(run)) fprintf(stderr, "%s: %s\n", progress->label, line);
}

static void hear(FILE *from, struct progress *progress, struct bench_run *run) {
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, from) > 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] != '\0') hear_line(line, progress, run);
    }
    free(line);
}

static bool run_program(const struct cli *cli, const struct calibrate_cli_options *o,
                        const char *path, const struct bench_program *program,
                        struct bench_run *run, struct error *err) {
    const char *device = arena_format(cli->arena, "%s/device.json", o->output);
    const char *const arguments[] = {
        path, "-o", o->output, "--device-json", device, o->quick ? "--quick" : NULL, NULL
    };
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return error_system(err, "cannot start %s", path);
    const pid_t child = fork();
    if (child < 0) {
        error_system(err, "cannot start %s", path);
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execv(path, (char *const *)arguments);
        dprintf(STDERR_FILENO, "cannot start %s: %s\n", path, strerror(errno));
        _exit(127);
    }
    close(ends[1]);
    FILE *from = fdopen(ends[0], "r");
    struct progress progress = cli_progress(cli, program->name, "shapes");
    hear(from, &progress, run);
    cli_progress_end(&progress);
    fclose(from);
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    run->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

static bool finish_program(struct arena *arena, const char *directory,
                           const struct bench_program *program, struct error *err) {
    for (int f = 0; program->fitted && program->files[f] != NULL; f++)
        if (!compress_file(arena, arena_format(arena, "%s/%s", directory, program->files[f]), err))
            return false;
    return true;
}

static const char *run_state(const struct bench_run *run) {
    return !run->built                       ? "not built"
           : run->code == BENCH_EXIT_DONE    ? "done"
           : run->code == BENCH_EXIT_SKIPPED ? "skipped"
                                             : "failed";
}

static const char *run_reason(struct arena *arena, const struct bench_program *program,
                              const struct bench_run *run) {
    if (!run->built) return arena_format(arena, "%s was not found when building", program->needs);
    if (run->code == BENCH_EXIT_DONE) return "";
    if (run->said[0] != '\0') return run->said;
    return arena_format(arena, "it ended with code %d and said nothing", run->code);
}

static void print_bench(const struct cli *cli, const char *directory,
                        const struct bench_run *runs) {
    cJSON *list = cJSON_CreateArray();
    for (int p = 0; p < PROGRAM_COUNT; p++) {
        const struct bench_program *program = &programs[p];
        const char *state = run_state(&runs[p]);
        const char *reason = run_reason(cli->arena, program, &runs[p]);
        const bool done = strcmp(state, "done") == 0;
        cJSON *row = cJSON_CreateObject(), *files = cJSON_AddArrayToObject(row, "files");
        cJSON_AddStringToObject(row, "program", program->name);
        cJSON_AddStringToObject(row, "state", state);
        cJSON_AddStringToObject(row, "reason", reason);
        const char *names = "";
        for (int f = 0; done && program->files[f] != NULL; f++) {
            const char *name =
                arena_format(cli->arena, "%s%s", program->files[f], program->fitted ? ".gz" : "");
            cJSON_AddItemToArray(files, cJSON_CreateString(name));
            names = arena_format(cli->arena, "%s%s%s", names, f > 0 ? ", " : "", name);
        }
        cJSON_AddItemToArray(list, row);
        if (!cli->common.json)
            printf("  %-12s %-10s %s\n", program->name, state, done ? names : reason);
    }
    if (!cli->common.json) {
        cJSON_Delete(list);
        return;
    }
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "directory", directory);
    cJSON_AddItemToObject(o, "programs", list);
    cli_print_json(o);
}

/* The machine's lack, not a mistake of the user: exit code 1. */
static int machine_error(struct error *err) {
    err->internal = true;
    return cli_error(err);
}

static int bench(struct cli *cli, const struct calibrate_cli_options *o) {
    struct error err = { 0 };
    struct bench_run runs[PROGRAM_COUNT] = { 0 };
    int built_count = 0, failed_count = 0, done_count = 0;
    if (o->output == NULL) {
        error_set(&err, "name the folder for the measurements with -o DIR");
        return cli_error(&err);
    }
    for (int p = 0; p < PROGRAM_COUNT; p++) {
        const char *path = program_path(cli->arena, &programs[p]);
        runs[p].built = path != NULL && access(path, X_OK) == 0;
        built_count += runs[p].built;
    }
    if (built_count == 0) {
        error_set(&err, "no microbenchmark was built beside this program");
        error_hint(&err, "install the CUDA toolkit (nvcc) and build again");
        return machine_error(&err);
    }
    bool made;
    if (!cli_make_folder(o->output, &made, &err)) return cli_error(&err);
    for (int p = 0; p < PROGRAM_COUNT; p++) {
        if (!runs[p].built) continue;
        if (!run_program(cli, o, program_path(cli->arena, &programs[p]), &programs[p], &runs[p],
                         &err))
            return cli_error(&err);
        if (found_no_gpu(&runs[p])) {
            if (made) rmdir(o->output);
            error_set(&err, "no GPU was found on this machine: nothing was measured");
            return machine_error(&err);
        }
        if (runs[p].code == BENCH_EXIT_DONE) {
            done_count++;
            if (!finish_program(cli->arena, o->output, &programs[p], &err)) return cli_error(&err);
        } else if (runs[p].code != BENCH_EXIT_SKIPPED) {
            failed_count++;
        }
    }
    print_bench(cli, o->output, runs);
    return failed_count == 0 && done_count > 0 ? EXIT_DONE : EXIT_FAILED;
}

/* ---- fit ---- */

static int fit(struct cli *cli, const struct calibrate_cli_options *o) {
    struct error err = { 0 };
    if (o->steps != NULL && (o->gpu != NULL || o->fabric != NULL)) {
        error_set(&err,
                  "--%s does not go with --steps, which fits stacks on the GPUs that the rows name",
                  o->gpu != NULL ? "gpu" : "fabric");
        error_hint(&err, "fit --gpu NAME fits a profile, fit --fabric NAME a network");
        return cli_error(&err);
    }
    if (o->steps != NULL) return calibrate_steps(cli, o->steps, o->rows, o->output, o->whole, NULL);
    if (o->rows != NULL || o->whole) {
        error_set(&err, "%s belongs to fit --steps ROWS.csv", o->whole ? "--whole" : "--rows");
        return cli_error(&err);
    }
    if ((o->gpu == NULL) == (o->fabric == NULL)) {
        error_set(&err, "name either the profile to fit with --gpu NAME, or a fabric with --fabric "
                        "NAME, or measured runs with --steps");
        error_hint(&err, "`ballast calibrate --help` lists the names");
        return cli_error(&err);
    }
    if (o->fabric != NULL && !calibrate_knows_fabric(o->fabric, &err)) return cli_error(&err);
    if (o->fabric != NULL && o->output == NULL) {
        error_set(&err, "fit --fabric %s writes a file: name it with -o FILE", o->fabric);
        return cli_error(&err);
    }
    if (o->output != NULL && !error_check_output(&err, o->output)) return cli_error(&err);
    if (o->gpu != NULL) return calibrate_profile(cli, o->gpu, o->measured, o->output, NULL);
    return calibrate_fabric(cli, o->fabric, o->measured, o->output, NULL);
}

/* ---- import ---- */

static void print_rows_json(const struct nccl_log_rows *rows) {
    cJSON *object = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(object, "rows");
    for (int64_t i = 0; i < rows->count; i++) {
        const struct nccl_log_row *r = &rows->rows[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "gpu", r->row.gpu);
        cJSON_AddNumberToObject(row, "n_gpus", (double)r->row.n_gpus);
        cJSON_AddNumberToObject(row, "n_nodes", (double)r->row.n_nodes);
        cJSON_AddStringToObject(row, "interconnect", r->row.interconnect);
        cJSON_AddStringToObject(row, "op", r->row.op);
        cJSON_AddNumberToObject(row, "bytes", r->row.bytes);
        cJSON_AddNumberToObject(row, "time_us", r->row.time_us);
        cJSON_AddNumberToObject(row, "algbw_GB_per_s", r->algbw_GB_per_s);
        cJSON_AddNumberToObject(row, "busbw_GB_per_s", r->busbw_GB_per_s);
        cJSON_AddBoolToObject(row, "in_place", r->row.in_place);
        cJSON_AddStringToObject(row, "nccl_version", r->row.nccl_version);
        cJSON_AddStringToObject(row, "source", r->row.source);
        cJSON_AddItemToArray(list, row);
    }
    cli_print_json(object);
}

static bool write_rows(const struct nccl_log_rows *rows, const char *path, struct error *err) {
    if (path == NULL)
        return nccl_log_write(rows, stdout) || error_system(err, "cannot write to stdout");
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    bool ok = stream != NULL && nccl_log_write(rows, stream);
    ok = stream != NULL && fclose(stream) == 0 && ok;
    ok = ok ? calibrate_write_file(path, text, size, err) : error_output(err, path);
    free(text);
    return ok;
}

static bool is_noted(const struct nccl_log_rows *rows, int64_t row) {
    for (int64_t i = 0; i < row; i++)
        if (strcmp(rows->rows[i].row.gpu, rows->rows[row].row.gpu) == 0) return true;
    return false;
}

/* Rows under a name that fit and check do not know are read by neither. */
static void note_unknown_gpus(const struct cli *cli, const struct nccl_log_rows *rows) {
    for (int64_t i = 0; i < rows->count && !cli->common.quiet; i++) {
        const char *gpu = rows->rows[i].row.gpu;
        if (calibrate_profile_of(gpu) != NULL || is_noted(rows, i)) continue;
        const char *near = nearest_in_list(gpu, calibrate_gpu_names());
        fprintf(
            stderr,
            "note: no profile is of GPU \"%s\": fit and check take its rows only with a hardware "
            "file of that name or description%s%s%s\n",
            gpu, near != NULL ? " (did you mean --gpu " : " (--gpu NAME gives another name",
            near != NULL ? near : "", near != NULL ? "?)" : ")");
    }
}

/* --gpu names what a log leaves open ("NVIDIA H100"); another GPU than it says is seldom meant. */
static void note_other_gpu(const struct cli *cli, const struct nccl_log_rows *rows) {
    for (int64_t i = 0; i < rows->count && !cli->common.quiet; i++) {
        const struct nccl_log_row *r = &rows->rows[i];
        const char *said = r->log_gpu != NULL ? calibrate_profile_of(r->log_gpu) : NULL,
                   *written = calibrate_profile_of(r->row.gpu);
        if (said == NULL || written == NULL || strcmp(said, written) == 0) continue;
        fprintf(stderr, "note: %s ran on %s; %s is written, as --gpu says\n", r->row.source,
                r->log_gpu, r->row.gpu);
        return;
    }
}

static int import(struct cli *cli, const struct calibrate_cli_options *o) {
    struct error err = { 0 };
    const char *const *arguments = cli->arguments.positional;
    if (cli->arguments.count < 3 || strcmp(arguments[1], "nccl-tests") != 0) {
        error_set(&err, cli->arguments.count < 2 || strcmp(arguments[1], "nccl-tests") == 0
                            ? "name the logs: ballast calibrate import nccl-tests LOG..."
                            : "the only logs that can be read are those of nccl-tests: ballast "
                              "calibrate import nccl-tests LOG...");
        return cli_error(&err);
    }
    if (o->output != NULL && (!error_check_output(&err, o->output) ||
                              !error_check_output_apart(&err, o->output, "a log is read",
                                                        arguments + 2, cli->arguments.count - 2)))
        return cli_error(&err);
    const struct nccl_log_options options = { .op = o->op < 0 ? NULL : nccl_log_ops[o->op],
                                              .gpu = o->gpu,
                                              .interconnect = o->interconnect };
    struct nccl_log_rows rows = { 0 };
    for (int64_t i = 2; i < cli->arguments.count; i++)
        if (!nccl_log_read(cli->arena, arguments[i], &options, &rows, &err)) return cli_error(&err);
    if (o->output == NULL && cli->common.json)
        print_rows_json(&rows);
    else if (!write_rows(&rows, o->output, &err))
        return cli_error(&err);
    if (o->output != NULL) cli_print_output(cli, o->output, "rows", rows.count);
    if (rows.cut != NULL && !cli->common.quiet)
        fprintf(stderr, "note: %s: was it stopped? Tables need the large sizes\n", rows.cut);
    note_unknown_gpus(cli, &rows);
    note_other_gpu(cli, &rows);
    if (!cli->common.quiet)
        fprintf(stderr, "%lld row%s of %lld log%s\n", (long long)rows.count,
                rows.count == 1 ? "" : "s", (long long)(cli->arguments.count - 2),
                cli->arguments.count == 3 ? "" : "s");
    return EXIT_DONE;
}

/* ---- check ---- */

/* No profile is so wrong for most kernels. */
static bool has_wrong_unit(const struct calibrate_check *check) {
    int64_t slow = 0, fast = 0;
    for (int64_t i = 0; i < check->priced_count; i++) {
        slow += check->rows[i].measured_s > 10 * check->rows[i].price_s;
        fast += check->rows[i].price_s > 10 * check->rows[i].measured_s;
    }
    return check->priced_count > 0 &&
           (2 * slow > check->priced_count || 2 * fast > check->priced_count);
}

/* `profile`: the one that was asked for; NULL: each row's own. */
static const char *doubt_of(const struct calibrate_check *check, const char *profile) {
    if (check->priced_count == 0) return "no row could be laid beside a price";
    return profile != NULL ? "most rows are ten times off their price or more: time_us is in "
                             "microseconds, and --profile is the GPU that was measured"
                           : "most rows are ten times off their price or more: time_us is in "
                             "microseconds";
}

static const char *priced_by(struct arena *arena, const struct calibrate_group *g) {
    return arena_format(arena, "%s%s", g->priced_by, g->exact_variant ? "" : " (nearest)");
}

static int wider(int width, const char *text) {
    const int length = (int)strlen(text);
    return length > width ? length : width;
}

static void print_check(struct arena *arena, const struct calibrate_check *check,
                        const char *profile, const char *path) {
    int width = 34, name_width = 26, gpu_width = 15;
    for (int64_t i = 0; i < check->group_count; i++) {
        const struct calibrate_group *g = &check->groups[i];
        width = wider(width, priced_by(arena, g));
        name_width = wider(name_width, g->operator_name);
        gpu_width = wider(gpu_width, g->gpu);
    }
    printf("%s: %lld row%s of %s\n", path, (long long)check->row_count,
           check->row_count == 1 ? "" : "s", check->format);
    printf("  %-*s %-*s %6s %7s %7s %7s %8s  %-*s %s\n", name_width, "operator", gpu_width, "gpu",
           "rows", "median", "p90", "mean", "in band", width, "priced by", "framework");
    for (int64_t i = 0; i < check->group_count; i++) {
        const struct calibrate_group *g = &check->groups[i];
        printf("  %-*s %-*s %6lld %s%% %s%% %s%% %7.0f%%  %-*s %s\n", name_width, g->operator_name,
               gpu_width, g->gpu, (long long)g->row_count,
               cli_cell(100 * g->median_abs_relative_error, 6, 1, false).text,
               cli_cell(100 * g->p90_abs_relative_error, 6, 1, false).text,
               cli_cell(100 * g->mean_signed_relative_error, 6, 1, true).text,
               100 * g->inside_band_fraction, width, priced_by(arena, g), g->framework);
    }
    for (int64_t i = 0; i < check->skip_count; i++)
        printf("  %lld row%s left out: %s\n", (long long)check->skips[i].row_count,
               check->skips[i].row_count == 1 ? "" : "s", check->skips[i].reason);
    if (check->priced_count == 0 || has_wrong_unit(check))
        printf("  %s\n", doubt_of(check, profile));
}

/* A table of the bench without prices: a check of a whole folder goes on. */
static void pass_over(struct cli *cli, const char *path, cJSON *skips) {
    static const char reason[] = "launches, copies, layers or power: no row is of one price";
    cJSON *skip = cJSON_CreateObject();
    cJSON_AddStringToObject(skip, "file", path);
    cJSON_AddStringToObject(skip, "reason", reason);
    cJSON_AddNullToObject(skip, "rows"); /* not read */
    cJSON_AddItemToArray(skips, skip);
    if (!cli->common.json) printf("%s: %s\n", path, reason);
}

static void add_check(const struct calibrate_check *check, const char *path, cJSON *groups,
                      cJSON *skips) {
    for (int64_t i = 0; i < check->group_count; i++) {
        const struct calibrate_group *g = &check->groups[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "file", path);
        cJSON_AddStringToObject(row, "operator", g->operator_name);
        cJSON_AddStringToObject(row, "gpu", g->gpu);
        cJSON_AddStringToObject(row, "framework", g->framework);
        cJSON_AddStringToObject(row, "priced_by", g->priced_by);
        cJSON_AddBoolToObject(row, "exact_variant", g->exact_variant);
        cJSON_AddNumberToObject(row, "rows", (double)g->row_count);
        cJSON_AddNumberToObject(row, "median_abs_relative_error", g->median_abs_relative_error);
        cJSON_AddNumberToObject(row, "p90_abs_relative_error", g->p90_abs_relative_error);
        cJSON_AddNumberToObject(row, "mean_signed_relative_error", g->mean_signed_relative_error);
        cJSON_AddNumberToObject(row, "inside_band_fraction", g->inside_band_fraction);
        cJSON_AddItemToArray(groups, row);
    }
    for (int64_t i = 0; i < check->skip_count; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "file", path);
        cJSON_AddStringToObject(row, "reason", check->skips[i].reason);
        cJSON_AddNumberToObject(row, "rows", (double)check->skips[i].row_count);
        cJSON_AddItemToArray(skips, row);
    }
}

static int check(struct cli *cli, const struct calibrate_cli_options *o) {
    struct error err = { 0 };
    if (cli->arguments.count < 2) {
        error_set(&err, "name the measurements: ballast calibrate check FILE.csv[.gz]...");
        return cli_error(&err);
    }
    if (o->output != NULL &&
        (!error_check_output(&err, o->output) ||
         !error_check_output_apart(&err, o->output, "measurements are read",
                                   cli->arguments.positional + 1, cli->arguments.count - 1)))
        return cli_error(&err);
    char *text = NULL;
    size_t size = 0;
    FILE *rows = o->output != NULL ? open_memstream(&text, &size) : NULL;
    if (o->output != NULL && rows == NULL) {
        error_output(&err, o->output);
        return cli_error(&err);
    }
    cJSON *object = cJSON_CreateObject();
    cJSON *groups = cJSON_AddArrayToObject(object, "groups");
    cJSON *skips = cJSON_AddArrayToObject(object, "skipped");
    cJSON *warnings = cJSON_AddArrayToObject(object, "warnings");
    int64_t checked_count = 0;
    for (int64_t i = 1; i < cli->arguments.count; i++) {
        const char *path = cli->arguments.positional[i];
        struct calibrate_check result;
        if (!calibrate_check_file(cli->arena, cli->scenario_options.directory, o->profile, path,
                                  &result, &err)) {
            cJSON_Delete(object);
            if (rows != NULL) fclose(rows);
            free(text);
            return cli_error(&err);
        }
        if (result.format == NULL) {
            pass_over(cli, path, skips);
            continue;
        }
        if (rows != NULL) calibrate_check_write(&result, checked_count == 0, rows);
        checked_count++;
        if (result.priced_count == 0 || has_wrong_unit(&result))
            cJSON_AddItemToArray(warnings,
                                 cJSON_CreateString(arena_format(cli->arena, "%s: %s", path,
                                                                 doubt_of(&result, o->profile))));
        if (cli->common.json)
            add_check(&result, path, groups, skips);
        else
            print_check(cli->arena, &result, o->profile, path);
    }
    if (cli->common.json)
        cli_print_json(object);
    else
        cJSON_Delete(object);
    const bool whole = rows == NULL || fclose(rows) == 0;
    const bool ok = whole ? rows == NULL || calibrate_write_file(o->output, text, size, &err)
                          : error_output(&err, o->output);
    free(text);
    return ok ? EXIT_DONE : cli_error(&err);
}

/* ---- bands ---- */

static int bands(struct cli *cli, const struct calibrate_cli_options *o) {
    return calibrate_bands(cli, cli->arguments.positional + 1, cli->arguments.count - 1, o->output,
                           NULL);
}

/* ---- refit ---- */

static int refit(struct cli *cli, const struct calibrate_cli_options *o) {
    return calibrate_refit(cli, o->profiles);
}

/* ---- the command ---- */

static const struct action {
    const char *name;
    int (*run)(struct cli *cli, const struct calibrate_cli_options *options);
    const char *options;    /* those that it takes */
    int64_t most_arguments; /* its own name among them */
} actions[] = {
    { "bands", bands, "output", INT64_MAX },
    { "bench", bench, "output quick", 1 },
    { "check", check, "output profile", INT64_MAX },
    { "fit", fit, "output gpu fabric measured steps rows whole", 1 },
    { "import", import, "output gpu op interconnect", INT64_MAX },
    { "refit", refit, "profiles", 1 },
};
enum { ACTION_COUNT = sizeof actions / sizeof actions[0] };

static bool is_given(const struct option *option, const struct calibrate_cli_options *o) {
    const void *value = (const char *)o + option->offset;
    switch (option->type) {
    case OPTION_FLAG:
        return *(const bool *)value;
    case OPTION_CHOICE:
        return *(const int *)value >= 0;
    default:
        return *(const char *const *)value != NULL;
    }
}

static bool is_word_of(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = strstr(list, word); at != NULL; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
    return false;
}

/* What another action would take is no word to pass over. */
static bool takes(const struct action *action, const struct cli *cli,
                  const struct calibrate_cli_options *o, struct error *err) {
    for (size_t i = 0; i < sizeof options_table / sizeof options_table[0]; i++) {
        const struct option *option = &options_table[i];
        if (!is_given(option, o) || is_word_of(action->options, option->name)) continue;
        error_set(err, "--%s does not go with calibrate %s", option->name, action->name);
        return error_hint(err, "`ballast calibrate --help` says what each of them takes");
    }
    if (cli->arguments.count <= action->most_arguments) return true;
    error_set(err, "calibrate %s takes no file: \"%s\"", action->name,
              cli->arguments.positional[action->most_arguments]);
    return error_hint(err, strcmp(action->name, "fit") == 0
                               ? "--steps names one file of measured runs, --measured a folder"
                               : "`ballast calibrate --help` says what each of them takes");
}

static const char *action_name(const void *names, size_t index) {
    (void)names;
    return actions[index].name;
}

static int run(struct cli *cli, void *options) {
    const char *name = cli->arguments.positional[0];
    struct error err = { 0 };
    for (int a = 0; a < ACTION_COUNT; a++)
        if (strcmp(actions[a].name, name) == 0)
            return takes(&actions[a], cli, options, &err) ? actions[a].run(cli, options)
                                                          : cli_error(&err);
    const char *near = nearest_name(name, ACTION_COUNT, action_name, NULL);
    error_set(&err, "calibrate does not know \"%s\": bands, bench, check, fit, import or refit",
              name);
    if (near != NULL) error_hint(&err, "did you mean \"%s\"?", near);
    return cli_error(&err);
}

static void print_names(FILE *out) {
    fputs("\nProfiles that can be fitted:\n ", out);
    for (const char *const *name = calibrate_gpu_names(); *name != NULL; name++)
        fprintf(out, " %s", *name);
    fputs("\nFabrics that can be fitted:\n ", out);
    for (const char *const *name = calibrate_fabric_names(); *name != NULL; name++)
        fprintf(out, " %s", *name);
    fputc('\n', out);
}

const struct command command_calibrate = {
    .name = "calibrate",
    .usage = "bench -o DIR [--quick] | fit --gpu NAME | --fabric NAME [--measured DIR] [-o FILE]\n"
             "       | fit --steps ROWS.csv -o DIR [--rows ID,...] [--whole]\n"
             "       | bands [ROWS.csv...] [-o FILE] | refit [--profiles]\n"
             "       | import nccl-tests LOG... [-o CSV] | check FILE.csv[.gz]...\n"
             "         [--profile NAME] [-o CSV]",
    .help = "measure a GPU, fit its profile, check a profile against measurements",
    .more =
        "bench runs the CUDA microbenchmarks that were built and writes their CSV files and\n"
        "device.json. fit turns measurements into efficiency curves and says how well they\n"
        "repeat them. import turns what nccl-tests print, or write with -J FILE, into nccl.csv.\n"
        "check compares the prices of a profile with measurements, per operator, GPU and\n"
        "framework. refit makes what the project fitted anew from its own measurements.\n",
    .print_more = print_names,
    COMMAND_OPTIONS(options_table, struct calibrate_cli_options),
    .min_arguments = 1,
    .max_arguments = -1,
    .defaults = defaults,
    .run = run,
};
