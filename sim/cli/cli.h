/* cli.h - what the commands share: the table row, the context, printing.
 *
 * Only this folder prints and chooses exit codes: 0 done, 1 ran but failed, 2 usage or bad input.
 * stdout is data, stderr is talk; a failed write to stdout is a failure, unless its reader is gone
 * (ballast ... | head): that ends every command quietly with 0.
 */
#ifndef BALLAST_SIM_CLI_CLI_H
#define BALLAST_SIM_CLI_CLI_H

#include <cjson/cJSON.h>
#include "sim/cli/options.h"
#include "sim/study/execution.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct cli {
    struct arena *arena;
    struct common_options common;
    struct arguments arguments;
    struct scenario_options scenario_options;
    struct provenance provenance;
};

struct command {
    const char *name;
    const char *usage;             /* after the name */
    const char *help;              /* one line */
    const char *more;              /* further lines of --help; may be NULL */
    void (*print_more)(FILE *out); /* the same, where it comes from tables; may be NULL */
    const struct option *options;
    size_t option_count, options_size;
    int64_t min_arguments, max_arguments; /* -1: any number */
    const char *const *words;             /* of the first argument, NULL at the end; may be NULL */
    bool takes_scenario;                  /* --set is refused where it could change nothing */
    bool takes_plugins;                   /* has --plugin though it takes no scenario */
    bool without_scenarios;               /* runs where no scenarios folder can be found */
    /* options come zeroed, then set by the command line; defaults() may fill them before. */
    void (*defaults)(void *options);
    int (*run)(struct cli *cli, void *options);
};

#define COMMAND_OPTIONS(table, type)                                                               \
    .options = (table), .option_count = sizeof(table) / sizeof((table)[0]),                        \
    .options_size = sizeof(type)

extern const struct command command_bench, command_calibrate, command_check, command_compare,
    command_completion, command_dataset, command_explain, command_export, command_man,
    command_merge, command_model, command_pack, command_plan, command_plot, command_report,
    command_reproduce, command_run, command_sweep, command_trace, command_validate, command_version;
const struct command *const *commands(size_t *count); /* sorted by name */

/* With --json: { "output": path, "KEY": count } on stdout; key NULL: the path alone. */
void cli_print_output(const struct cli *cli, const char *path, const char *key, int64_t count);
/* "error: ..." on stderr; 2 for bad input, 1 for the machine's failures. */
int cli_error(const struct error *err);
bool cli_has_overrides(const struct cli *cli);
/* The values of --set and --unset, "layout.tp=4, without layout.pp"; "" without any. */
const char *cli_overrides(const struct cli *cli);
/* The scenario's name followed by the overrides, "own [layout.tp=4]", so that stored runs can be
 * told apart; unless the overrides give a name themselves. */
const char *cli_run_name(const struct cli *cli, const char *scenario_name);
/* False and an error if --set or --unset was given: `what` ("a stored run") has no scenario to
 * change. */
bool cli_refuse_overrides(const struct cli *cli, const char *what, struct error *err);
/* False and an error that names the range, where the job has no such step, or no such data-parallel
 * rank: what --iteration and --rank ask for. */
bool cli_check_step(const struct execution *e, int64_t iteration, int64_t rank, struct error *err);
/* Prints and deletes. */
void cli_print_json(cJSON *object);
void cli_add_number(cJSON *object, const char *key, double value); /* NaN: null */
/* To who asked for it (json not NULL; to be freed), else as above. */
void cli_give_json(cJSON *object, cJSON **json);
/* Two names of one file or folder that is there. */
bool cli_same_file(const char *a, const char *b);
/* Makes it unless it is there; `made` (may be NULL): it was not. */
bool cli_make_folder(const char *path, bool *made, struct error *err);
/* A progress line on stderr: a bar with rate and time left on a terminal, now and then a plain
 * line otherwise; nothing with --quiet. */
struct progress {
    const char *label, *unit;
    bool enabled, terminal;
    double start_s, last_s;
    bool shown;
};
struct progress cli_progress(const struct cli *cli, const char *label, const char *unit);
void cli_progress_update(void *progress, int64_t done, int64_t total);
void cli_progress_end(struct progress *progress);

/* Decimals that show a value: the usual ones, more where fewer than two digits would remain. */
int cli_decimals(double value, int usual);
/* A cell of a table: so many decimals in a column as wide, `sign` with that of a value above zero
 * too. What measured rows say may be 1e300; from 1e5 on two digits and a power of ten. */
struct cli_cell {
    char text[32];
};
struct cli_cell cli_cell(double value, int width, int decimals, bool sign);
/* "1,267,819"; text is at least 32 bytes. */
const char *cli_thousands(int64_t value, char *text);

#endif
