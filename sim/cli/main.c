/* main.c - ballast COMMAND ...: the command table, and what happens around every command. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include "sim/base/field.h"
#include "sim/base/utf8.h"
#include "sim/base/wall_clock.h"
#include "sim/cli/cli.h"
#include "sim/plugin.h"

/* One a line, so that branches that add one do not collide. */
static const struct command *const table[] = {
    &command_bench,     &command_calibrate, &command_check,  &command_compare, &command_completion,
    &command_dataset,   &command_explain,   &command_export, &command_man,     &command_merge,
    &command_model,     &command_pack,      &command_plan,   &command_plot,    &command_report,
    &command_reproduce, &command_run,       &command_sweep,  &command_trace,   &command_validate,
    &command_version,
};
enum { COMMAND_COUNT = sizeof table / sizeof table[0] };

const struct command *const *commands(size_t *count) {
    *count = COMMAND_COUNT;
    return table;
}

/* ---- shared printing ---- */

/* `ballast ... | head` has what it wanted: not a failure, and nothing to say. */
static bool reader_is_gone(void) {
    struct pollfd out = { .fd = STDOUT_FILENO };
    return ferror(stdout) && poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

/* True if a write to stdout is what failed, told from the reason that error_system() adds. */
static bool is_broken_pipe(const struct error *err) {
    const char *reason = strerror(EPIPE);
    size_t length = strlen(err->text), tail = strlen(reason);
    return err->internal && length > tail && strcmp(err->text + length - tail, reason) == 0;
}

int cli_error(const struct error *err) {
    if (is_broken_pipe(err) && reader_is_gone()) return EXIT_DONE;
    fputs(err->located ? "" : "error: ", stderr);
    /* What was given may hold what a terminal takes for a command. */
    for (const char *c = err->text; *c != '\0'; c++)
        fputc(((unsigned char)*c < 32 && *c != '\n') || *c == 127 ? '?' : *c, stderr);
    fputc('\n', stderr);
    return err->internal ? EXIT_FAILED : EXIT_USAGE;
}

void cli_print_json(cJSON *object) {
    char *text = cJSON_Print(object);
    puts(text);
    cJSON_free(text);
    cJSON_Delete(object);
}

void cli_add_number(cJSON *object, const char *key, double value) {
    if (isnan(value))
        cJSON_AddNullToObject(object, key);
    else
        cJSON_AddNumberToObject(object, key, value);
}

void cli_give_json(cJSON *object, cJSON **json) {
    if (json != NULL)
        *json = object;
    else
        cli_print_json(object);
}

void cli_print_output(const struct cli *cli, const char *path, const char *key, int64_t count) {
    if (!cli->common.json) return;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "output", path);
    if (key != NULL) cJSON_AddNumberToObject(object, key, (double)count);
    cli_print_json(object);
}

int cli_decimals(double value, int usual) {
    if (!(value > 0 && value < 1)) return usual;
    int needed = 1 - (int)floor(log10(value));
    return needed < usual ? usual : needed > 9 ? 9 : needed;
}

struct cli_cell cli_cell(double value, int width, int decimals, bool sign) {
    struct cli_cell cell;
    if (!(fabs(value) < 1e5))
        snprintf(cell.text, sizeof cell.text, sign ? "%+*.1e" : "%*.1e", width, value);
    else
        snprintf(cell.text, sizeof cell.text, sign ? "%+*.*f" : "%*.*f", width, decimals, value);
    return cell;
}

const char *cli_thousands(int64_t value, char *text) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)value);
    int at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && digits[i - 1] != '-' && (length - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

static bool names_itself(const struct option_list *set) {
    for (int64_t i = 0; i < set->count; i++)
        if (strncmp(set->items[i], "name=", 5) == 0) return true;
    return false;
}

/* Whether setting `above` sets `path` too; both end at "=". */
static bool is_at_or_below(const char *path, const char *above) {
    const size_t length = strcspn(above, "=");
    return length > 0 && strncmp(path, above, length) == 0 &&
           (path[length] == '=' || path[length] == '.');
}

/* The last --set of a path counts, as scripts expect that add to what is given; what it undoes is
 * told, and no part of the run's name. */
static void drop_undone_sets(struct option_list *set) {
    int64_t kept = 0;
    for (int64_t i = 0; i < set->count; i++) {
        const char *later = NULL;
        for (int64_t k = i + 1; k < set->count && later == NULL; k++)
            if (is_at_or_below(set->items[i], set->items[k])) later = set->items[k];
        if (later == NULL)
            set->items[kept++] = set->items[i];
        else
            fprintf(stderr, "note: --set %s is undone by --set %s\n", set->items[i], later);
    }
    if (set->count > 0) set->items[kept] = NULL;
    set->count = kept;
}

bool cli_has_overrides(const struct cli *cli) {
    return cli->common.set.count > 0 || cli->common.unset.count > 0;
}

const char *cli_overrides(const struct cli *cli) {
    const struct option_list *set = &cli->common.set, *unset = &cli->common.unset;
    const char *text = "", *comma = "";
    for (int64_t i = 0; i < set->count; i++, comma = ", ")
        text = arena_format(cli->arena, "%s%s%s", text, comma, set->items[i]);
    for (int64_t i = 0; i < unset->count; i++, comma = ", ")
        text = arena_format(cli->arena, "%s%swithout %s", text, comma, unset->items[i]);
    return text;
}

const char *cli_run_name(const struct cli *cli, const char *scenario_name) {
    if (!cli_has_overrides(cli) || names_itself(&cli->common.set))
        return arena_text(cli->arena, scenario_name);
    return arena_format(cli->arena, "%s [%s]", scenario_name, cli_overrides(cli));
}

bool cli_refuse_overrides(const struct cli *cli, const char *what, struct error *err) {
    return !cli_has_overrides(cli) || error_set(err, "--%s changes a scenario, and %s takes none",
                                                cli->common.set.count == 0 ? "unset" : "set", what);
}

bool cli_check_step(const struct execution *e, int64_t iteration, int64_t rank, struct error *err) {
    const int64_t iterations = e->job->epoch_iterations, ranks = e->job->batches.rank_count;
    if (iteration < 0 || iteration >= iterations)
        return error_set(err, "--iteration %ld: the epoch has iterations 0 to %ld", (long)iteration,
                         (long)iterations - 1);
    if (rank >= 0 && rank < ranks) return true;
    return error_set(err, "--rank %ld: the layout has data-parallel ranks 0 to %ld", (long)rank,
                     (long)ranks - 1);
}

bool cli_same_file(const char *a, const char *b) {
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

bool cli_make_folder(const char *path, bool *made, struct error *err) {
    struct stat status;
    const bool new = mkdir(path, 0777) == 0;
    if (made != NULL) *made = new;
    if (new) return true;
    const int code = errno;
    if (code == EEXIST && stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return true;
    errno = code;
    return error_output_folder(err, path);
}

struct progress cli_progress(const struct cli *cli, const char *label, const char *unit) {
    double now = wall_clock_s();
    return (struct progress){ .label = label,
                              .unit = unit,
                              .enabled = !cli->common.quiet,
                              .terminal = isatty(STDERR_FILENO) == 1,
                              .start_s = now,
                              .last_s = now };
}

/* "0 layouts/s" would be a standstill. */
static int rate_decimals(double rate) {
    return rate >= 10 ? 0 : rate >= 1 ? 1 : 2;
}

void cli_progress_update(void *context, int64_t done, int64_t total) {
    struct progress *p = context;
    double now = wall_clock_s();
    /* Work that is over in a moment needs no bar. */
    if (!p->enabled || now - p->last_s < (p->terminal ? 0.2 : 5.0) || total <= 0) return;
    p->last_s = now;
    double rate = (double)done / (now - p->start_s),
           left_s = rate > 0 ? (double)(total - done) / rate : 0;
    const bool bytes = strcmp(p->unit, "B") == 0;
    const char *unit = bytes ? "MB" : p->unit;
    if (bytes) rate /= 1e6;
    int percent = (int)(100 * done / total);
    if (p->terminal) {
        char bar[31];
        for (int i = 0; i < 30; i++)
            bar[i] = i < percent * 30 / 100 ? '#' : '.';
        bar[30] = '\0';
        fprintf(stderr, "\r%s [%s] %3d %%  %.*f %s/s  %.0f s left ", p->label, bar, percent,
                rate_decimals(rate), rate, unit, left_s);
    } else {
        fprintf(stderr, "%s: %lld of %lld %s, %.*f %s/s, %.0f s left\n", p->label, (long long)done,
                (long long)total, p->unit, rate_decimals(rate), rate, unit, left_s);
    }
    p->shown = true;
}

void cli_progress_end(struct progress *p) {
    if (p->shown && p->terminal) fprintf(stderr, "\r%80s\r", "");
}

/* ---- where the data files are ---- */

static bool is_scenario_folder(const char *path) {
    char probe[PATH_MAX + 16];
    struct stat status;
    snprintf(probe, sizeof probe, "%s/models", path);
    return stat(probe, &status) == 0 && S_ISDIR(status.st_mode);
}

/* --scenarios, then $BALLAST_SCENARIOS, then beside the program (a build folder inside the
 * repository, or an installation), then the working directory. */
static const char *find_scenarios(struct cli *cli, struct error *err) {
    const char *given =
        cli->common.scenarios != NULL ? cli->common.scenarios : getenv("BALLAST_SCENARIOS");
    if (given != NULL) {
        if (is_scenario_folder(given)) return given;
        error_set(err, "%s is not a scenarios folder: it has no models/", given);
        return NULL;
    }
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    static const char *const places[] = { "/../scenarios", "/../share/ballast/scenarios",
                                          "/scenarios" };
    if (length > 0) {
        program[length] = '\0';
        *strrchr(program, '/') = '\0';
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            const char *path = arena_format(cli->arena, "%s%s", program, places[i]);
            if (!is_scenario_folder(path)) continue;
            char *real = realpath(path, NULL);
            const char *kept = real != NULL ? arena_text(cli->arena, real) : path;
            free(real);
            return kept;
        }
    }
    if (is_scenario_folder("scenarios")) return "scenarios";
    error_set(err, "cannot find the scenarios folder: name it with --scenarios");
    return NULL;
}

/* ---- commands ---- */

static const char *command_name(const void *names, size_t index) {
    (void)names;
    return table[index]->name;
}

static void print_overview(FILE *out) {
    fputs("usage: ballast COMMAND [ARGUMENTS] [--json] [--set PATH=VALUE] [--help]\n\n"
          "Simulates the training of large multimodal models on GPU clusters.\n\n",
          out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-10s %s\n", table[i]->name, table[i]->help);
    fputs("\n`ballast COMMAND --help` explains a command; docs/SCENARIOS.md explains scenarios.\n",
          out);
}

static void print_help(const struct command *command) {
    printf("usage: ballast %s %s\n\n%s.\n", command->name, command->usage, command->help);
    if (command->more != NULL) printf("\n%s", command->more);
    puts("\nOptions:");
    options_help(command->options, command->option_count, command->takes_scenario,
                 command->takes_plugins, stdout);
    if (command->print_more != NULL) command->print_more(stdout);
}

static const struct command *find_command(const char *name, struct error *err) {
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(table[i]->name, name) == 0) return table[i];
    const char *near = nearest_name(name, COMMAND_COUNT, command_name, NULL);
    error_set(err, "unknown command \"%s\"", name);
    if (near != NULL)
        error_hint(err, "did you mean \"%s\"?", near);
    else
        error_hint(err, "`ballast --help` lists the commands");
    return NULL;
}

/* "help", "help COMMAND" */
static int help(int argc, char **argv) {
    struct error err = { 0 };
    const struct command *command = argc > 0 ? find_command(argv[0], &err) : NULL;
    if (argc > 1) {
        error_set(&err, "help takes one command, got %d", argc);
        return cli_error(&err);
    }
    if (argc == 1 && command == NULL) return cli_error(&err);
    if (command != NULL)
        print_help(command);
    else
        print_overview(stdout);
    return EXIT_DONE;
}

static const char *joined(struct arena *arena, int argc, char **argv) {
    const char *line = "ballast";
    for (int i = 1; i < argc; i++)
        line = arena_format(arena, strpbrk(argv[i], " \t\"'$") != NULL ? "%s '%s'" : "%s %s", line,
                            argv[i]);
    return line;
}

static int run_command(const struct command *command, struct cli *cli, int argc, char **argv) {
    struct error err = { 0 };
    void *options = arena_alloc(cli->arena, command->options_size + 1);
    if (command->defaults != NULL) command->defaults(options);
    if (!options_parse(command->options, command->option_count, command->takes_scenario, options,
                       &cli->common, argc, argv, cli->arena, &cli->arguments, &err))
        return cli_error(&err);
    if (cli->common.help) {
        print_help(command);
        return EXIT_DONE;
    }
    int64_t count = cli->arguments.count;
    if (count < command->min_arguments ||
        (command->max_arguments >= 0 && count > command->max_arguments)) {
        error_set(&err, "%s arguments for \"%s\"; usage: ballast %s %s",
                  count < command->min_arguments ? "not enough" : "too many", command->name,
                  command->name, command->usage);
        return cli_error(&err);
    }
    if (!command->takes_scenario &&
        !cli_refuse_overrides(cli, arena_format(cli->arena, "\"%s\"", command->name), &err))
        return cli_error(&err);
    drop_undone_sets(&cli->common.set);
    cli->scenario_options.directory = find_scenarios(cli, &err);
    if (cli->scenario_options.directory == NULL) {
        if (!command->without_scenarios || cli->common.scenarios != NULL) return cli_error(&err);
        cli->scenario_options.directory = "scenarios"; /* what needs a file there will miss it */
        err = (struct error){ 0 };
    }
    for (int64_t i = 0; i < cli->common.plugins.count; i++)
        if (!plugin_load(cli->common.plugins.items[i], &err)) return cli_error(&err);
    cli->scenario_options.overrides = cli->common.set.items;
    cli->scenario_options.removals = cli->common.unset.items;
    cli->provenance.plugins = cli->common.plugins.items;
    cli->provenance.overrides = cli->common.set.items;
    cli->provenance.removals = cli->common.unset.items;
    return command->run(cli, options);
}

/* What is given is stored and shown: in JSON, HTML, SQL and pictures, all of UTF-8. */
static bool check_arguments(int argc, char **argv, struct error *err) {
    for (int i = 1; i < argc; i++) {
        const char *foreign = utf8_invalid(argv[i], strlen(argv[i]));
        if (foreign == NULL) continue;
        error_set(err, "argument %d holds a byte 0x%02X that is no UTF-8", i,
                  (unsigned char)*foreign);
        return error_hint(err, "give the file another name, or the text in UTF-8");
    }
    return true;
}

/* The runs of a table or a sweep take and free tens of megabytes each. By default glibc gives them
 * back to the kernel, which clears the same pages anew for the next run. */
static void keep_freed_memory(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

int main(int argc, char **argv) {
    keep_freed_memory();
    /* A reader that goes away (ballast ... | head) must come back as a failed write. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* and so must a limit on the size of files */
    struct cli cli = { .arena = arena_create() };
    cli.provenance.command_line = joined(cli.arena, argc, argv);
    int code = EXIT_USAGE;
    struct error foreign = { 0 };
    if (!check_arguments(argc, argv, &foreign)) {
        code = cli_error(&foreign);
    } else if (argc < 2) {
        print_overview(stderr);
    } else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
               strcmp(argv[1], "help") == 0) {
        code = help(argc - 2, argv + 2);
    } else {
        const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
        struct error err = { 0 };
        const struct command *found = find_command(name, &err);
        code = found != NULL ? run_command(found, &cli, argc - 2, argv + 2) : cli_error(&err);
    }
    /* What was reported already needs no second message. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_DONE && !reader_is_gone()) {
        fprintf(stderr, "error: cannot write to stdout: %s\n", strerror(errno));
        code = EXIT_FAILED;
    }
    arena_destroy(cli.arena);
    return code;
}
