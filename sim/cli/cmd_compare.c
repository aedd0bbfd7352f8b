/* cmd_compare.c - scenarios or stored runs beside each other. */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <unistd.h>
#include "results/run_pair.h"
#include "sim/base/amount.h"
#include "sim/base/band.h"
#include "sim/cli/cli.h"
#include "sim/study/comparison.h"
#include "sim/study/run_inputs.h"

struct compare_options {
    const char *db;
    struct option_list variants;
};

static const struct option options_table[] = {
    { "variant", OPTION_LIST, offsetof(struct compare_options, variants), "PATH=VALUE",
      "another run of the first scenario with this change, or several joined by ';' (repeatable)",
      NULL, 0, 0 },
    { "db", OPTION_TEXT, offsetof(struct compare_options, db), "FILE",
      "arguments that are not files are runs of this database", NULL, 0, 0 },
};

static bool is_stored(const struct compare_options *o, const char *name) {
    return o->db != NULL && access(name, R_OK) != 0;
}

static bool replay(struct cli *cli, const struct scenario_options *options, const char *path,
                   struct comparison_run *run, struct error *err) {
    struct progress progress = cli_progress(cli, "replaying", "steps");
    struct replay_options replay_options = { .progress = cli_progress_update,
                                             .progress_context = &progress };
    struct execution *e = execution_run(options, path, &replay_options, err);
    cli_progress_end(&progress);
    if (e == NULL) return false;
    execution_record(e, &cli->provenance, cli->arena, &run->record);
    run->limit = e->scenario->limit == NULL ? NULL : arena_text(cli->arena, e->scenario->limit);
    run->record.inputs = run_inputs_text(e, &cli->provenance, cli->arena);
    run->iteration_count = e->replay->iteration_count;
    run->iterations = execution_iterations(e, cli->arena);
    execution_destroy(e);
    return true;
}

/* The scenario with the changes of --set and --unset and then those of the variant. */
static bool load_variant(struct cli *cli, const char *path, const char *changes,
                         struct comparison_run *run, struct error *err) {
    int64_t count = 0, room = 2;
    for (const char *c = changes; *c != '\0'; c++)
        room += *c == ';';
    const char **variant = arena_array(cli->arena, const char *, room);
    for (const char *at = changes; *at != '\0';) {
        size_t length = strcspn(at, ";");
        while (*at == ' ' && length > 0) {
            at++;
            length--;
        }
        if (length > 0) variant[count++] = arena_format(cli->arena, "%.*s", (int)length, at);
        at += length + (at[length] == ';');
    }
    if (count == 0) {
        error_set(err, "--variant '%s' changes nothing", changes);
        return error_hint(err, "for example --variant layout.tp=4");
    }
    for (int64_t i = 0; i < count; i++) {
        const size_t length = strcspn(variant[i], "=");
        for (int64_t k = 0; k < i; k++) {
            if (strncmp(variant[k], variant[i], length + 1) != 0) continue;
            error_set(err, "--variant '%s' sets %.*s twice", changes, (int)length, variant[i]);
            return error_hint(err, "another variant is another --variant");
        }
    }
    struct scenario_options options = cli->scenario_options;
    options.variant = variant;
    if (!replay(cli, &options, path, run, err))
        return error_context(err, "in --variant '%s'", changes);
    run->label = run->record.scenario_name = arena_text(cli->arena, changes);
    return true;
}

static bool load(struct cli *cli, const struct compare_options *o, const char *name,
                 struct comparison_run *run, struct error *err) {
    if (is_stored(o, name)) {
        struct store *store = store_open(o->db, DB_READ, err);
        if (store == NULL) return false;
        int64_t id, count;
        bool ok = store_find_run(store, name, &id, err);
        struct run_record *record =
            ok ? store_load(store, RECORD_RUN, id, cli->arena, &count, err) : NULL;
        if (record != NULL) {
            run->record = *record;
            run->iterations =
                store_load(store, RECORD_ITERATION, id, cli->arena, &run->iteration_count, err);
        }
        store_close(store);
        run->label = record != NULL ? record->scenario_name : name;
        return run->iterations != NULL;
    }
    if (!replay(cli, &cli->scenario_options, name, run, err)) return false;
    run->label = run->record.scenario_name = cli_run_name(cli, run->record.scenario_name);
    return true;
}

static struct amount_unit unit_of(const struct comparison_row *rows, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, rows[i].gpu_days);
    return amount_of_gpu_days(largest);
}

static bool has_money(const struct comparison_run *runs, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isnan(runs[i].record.money_usd)) return true;
    return false;
}

static void print_money(double usd, int decimals) {
    if (isnan(usd))
        printf(" %10s", "-");
    else
        printf(" %10.*f", decimals, usd);
}

static void print_difference(const struct comparison_row *row) {
    printf(" %+.1f %%", row->delta_fraction * 100);
    if (!isnan(row->delta_low_fraction))
        printf(" (%+.1f to %+.1f)", row->delta_low_fraction * 100, row->delta_high_fraction * 100);
    printf(", %s", comparison_verdict_name(row->verdict));
    if (comparison_is_ordered(row->verdict) && !isnan(row->order_fraction))
        printf(" at %.0f %%", row->order_fraction * 100);
    printf("%s", row->paired ? " (same steps)" : "");
}

static void print_against_first(const struct comparison_row *row) {
    if (row->verdict == COMPARISON_DIFFERENT_JOBS) {
        printf(" %9s  a different job: see the warnings", "-");
        return;
    }
    printf(" %7.3f x ", row->speedup);
    print_difference(row);
}

static void print_runs(const struct comparison_run *runs, const struct comparison_row *rows,
                       int64_t count, struct amount_unit unit) {
    bool money = has_money(runs, count);
    int name_width = 20;
    for (int64_t i = 0; i < count; i++)
        if ((int)strlen(runs[i].label) > name_width) name_width = (int)strlen(runs[i].label);
    double longest_days = 0;
    for (int64_t i = 0; i < count; i++)
        longest_days = fmax(longest_days, runs[i].record.total_days);
    const struct amount_unit time = amount_of_days(longest_days);
    printf("%-*s %10s%s %9s %9s %7s  %-14s %9s  against the first\n", name_width + 3, "", unit.name,
           money ? "        USD" : "", time.name, "step s", "MFU", "memory", "speed-up");
    /* The first run's size decides for the whole table, so that its columns compare. */
    int gpu_decimals = cli_decimals(rows[0].gpu_days * unit.per_day, 2),
        day_decimals = cli_decimals(runs[0].record.total_days * time.per_day, time.decimals),
        money_decimals =
            cli_decimals(runs[0].record.money_usd, amount_money_decimals(runs[0].record.money_usd));
    for (int64_t i = 0; i < count; i++) {
        const struct run_record *r = &runs[i].record;
        printf("%-2ld %-*s %10.*f", (long)i + 1, name_width, runs[i].label, gpu_decimals,
               rows[i].gpu_days * unit.per_day);
        if (money) print_money(r->money_usd, money_decimals);
        printf(" %9.*f %9.3f %5.1f %%  %-14s", day_decimals, r->total_days * time.per_day,
               r->step_time_mean_ms / 1e3, r->mfu_fraction * 100,
               rows[i].fits ? r->verdict : "does not fit");
        if (i > 0) print_against_first(&rows[i]);
        putchar('\n');
    }
}

/* Where a GPU-hour costs not the same in all. */
static void print_in_money(const struct comparison_run *runs, const struct comparison_row *money,
                           int64_t count) {
    puts("\nIn money against the first, because the prices of a GPU-hour differ");
    for (int64_t i = 1; i < count; i++) {
        const struct run_record *first = &runs[0].record, *r = &runs[i].record;
        printf("%-2ld at %.2f, not %.2f USD", (long)i + 1, r->money_usd / r->gpu_days / 24,
               first->money_usd / first->gpu_days / 24);
        if (money[i].verdict == COMPARISON_DIFFERENT_JOBS)
            printf(": a different job: see the warnings");
        else
            print_difference(&money[i]);
        putchar('\n');
    }
}

/* Said where it is not the peak in 16 bits, which people mean by MFU. */
static void print_peaks(const struct comparison_run *runs, int64_t count) {
    bool other = false;
    for (int64_t i = 0; i < count; i++) {
        const char *precision = record_mfu_precision(runs[i].record.resolved_scenario);
        other = other || (precision != NULL && strstr(precision, "16") == NULL);
    }
    if (!other) return;
    const char *first = record_mfu_precision(runs[0].record.resolved_scenario);
    printf("MFU: of the peak in %s", first != NULL ? first : "what is not stored");
    for (int64_t i = 1; i < count; i++) {
        const char *precision = record_mfu_precision(runs[i].record.resolved_scenario);
        if (precision != first)
            printf("; of run %ld: %s", (long)i + 1, precision != NULL ? precision : "not stored");
    }
    putchar('\n');
}

/* "Software stack: nemo-2025", and of those that have another one which. */
static void print_stacks(const struct comparison_run *runs, int64_t count, struct arena *arena) {
    const char *first = comparison_stack(&runs[0], arena);
    if (first[0] == '\0') return;
    printf("\nSoftware stack: %s", first);
    for (int64_t i = 1; i < count; i++) {
        const char *stack = comparison_stack(&runs[i], arena);
        if (strcmp(stack, first) != 0)
            printf("; of run %ld: %s", (long)i + 1, stack[0] != '\0' ? stack : "not stored");
    }
    putchar('\n');
}

/* Prices that a scenario sets itself are no predictions. */
static void print_rules(const struct comparison_run *runs, int64_t count, struct arena *arena) {
    for (int64_t i = 0; i < count; i++)
        for (const char **rule = comparison_rules(&runs[i], arena); *rule != NULL; rule++)
            printf("Own rule of run %ld: %s\n", (long)i + 1, *rule);
}

static void add_rules_json(cJSON *row, const struct comparison_run *run, struct arena *arena) {
    cJSON *list = cJSON_AddArrayToObject(row, "rules");
    for (const char **rule = comparison_rules(run, arena); *rule != NULL; rule++)
        cJSON_AddItemToArray(list, cJSON_CreateString(*rule));
}

/* Of all causes, in the unit. */
static double largest_delta(const struct comparison_row *rows, int64_t count,
                            struct amount_unit unit) {
    double largest = 0;
    for (int64_t i = 1; i < count; i++)
        for (int part = 0; part < COMPARISON_PARTS; part++)
            largest = fmax(largest, fabs(rows[i].parts_delta_gpu_days[part]) * unit.per_day);
    return largest;
}

enum { CAUSE_WIDTH = 8, CAUSE_DECIMALS_MOST = 9 };

static void print_causes(const struct comparison_row *rows, int64_t count,
                         struct amount_unit unit) {
    int decimals = cli_decimals(rows[0].gpu_days * unit.per_day, 2);
    if (decimals > 2) decimals++; /* parts are smaller than the whole */
    /* Runs that hardly differ: the largest cause still shows, in two digits. */
    const double largest = largest_delta(rows, count, unit);
    while (largest > 0 && decimals < CAUSE_DECIMALS_MOST && largest < 9.5 * pow(10, -decimals))
        decimals++;
    const int width = decimals + 4 > CAUSE_WIDTH ? decimals + 4 : CAUSE_WIDTH;
    printf("\nCauses, in %s\n  %-24s", unit.name, "");
    for (int64_t i = 0; i < count; i++) {
        printf("  %*s %ld", width + 2, "run", (long)i + 1);
        if (i > 0) printf("  %*s", width, "delta");
    }
    putchar('\n');
    for (int part = 0; part < COMPARISON_PARTS; part++) {
        double all = 0;
        for (int64_t i = 0; i < count; i++)
            all += rows[i].parts_gpu_days[part];
        if (all == 0 && comparison_part_is_rare(part)) continue;
        printf("  %-24s", comparison_part_names[part]);
        for (int64_t i = 0; i < count; i++) {
            printf("  %*.*f", width + 4, decimals, rows[i].parts_gpu_days[part] * unit.per_day);
            if (i == 0) continue;
            const double delta = rows[i].parts_delta_gpu_days[part] * unit.per_day;
            const bool none = fabs(delta) < 0.5 * pow(10, -decimals); /* of either sign */
            printf("  %+*.*f", width, decimals, none ? 0 : delta);
        }
        putchar('\n');
    }
}

/* What a difference must exceed beside the first's own limit: of other stacks and GPUs, and where
 * runs wait for launches. */
static void print_limits(const struct comparison_row *rows, int64_t count) {
    bool any = false;
    for (int64_t i = 1; i < count; i++) {
        if (!(rows[i].may_err_log > rows[0].may_err_log + 0.01)) continue;
        const double more = expm1(rows[i].may_err_log) * 100,
                     less = -expm1(-rows[i].may_err_log) * 100;
        printf("%s run %ld ", any ? "," : "To be sure against the first:", (long)i + 1);
        if (rows[i].pcie_log == 0)
            printf("%.0f %% more or %.0f %% less", more, less);
        else if (rows[i].delta_fraction > 0)
            printf("%.0f %% more", more); /* less goes by another speed of PCIe */
        else
            printf("%.0f %% less", less);
        any = true;
    }
    if (any)
        puts(" (for another GPU or stack, and because no pair of measured runs\ntells how far a "
             "host's time for launches errs, or a server's PCIe).");
}

/* Each by itself: of two beside each other most of it cancels. */
static void print_bands(const struct comparison_run *runs, int64_t count) {
    fputs("80 % of measured runs that nothing was fitted on lie this far from their predictions "
          "(docs/VALIDATION.md):",
          stdout);
    for (int64_t i = 0; i < count; i++) {
        const struct run_record *r = &runs[i].record;
        const struct band band = band_of_stored(r->band_below_fraction, r->band_fraction);
        printf("%s run %ld %s %%", i == 0 ? "" : ",", (long)i + 1, band_text(band, "+- ", 0).text);
    }
    puts(".");
}

/* `money` NULL: all GPUs cost the same, or some have no price. */
static void print(const struct comparison_run *runs, const struct comparison_row *rows,
                  const struct comparison_row *money, int64_t count, const char *const *warnings,
                  struct arena *arena) {
    struct amount_unit unit = unit_of(rows, count);
    print_runs(runs, rows, count, unit);
    if (money != NULL) print_in_money(runs, money, count);
    print_stacks(runs, count, arena);
    print_rules(runs, count, arena);
    print_peaks(runs, count);
    print_causes(rows, count, unit);
    putchar('\n');
    for (int64_t i = 0; warnings[i] != NULL; i++)
        printf("warning: %s\n", warnings[i]);
    puts("In brackets: 95 % interval (Student's t) over the order in which samples are drawn and, "
         "where a part of the epoch was\nreplayed, over which part; the samples themselves are "
         "given, the same for all runs. With GPUs that fail: also\nover when they do.");
    printf("sure: beyond that chance, and by more than %.0f %%, as far as predictions for one GPU "
           "and stack err against each other\n"
           "(80 %% of the pairs of measured runs; for different GPUs, stacks or precisions both "
           "bands together, as squares of ln,\n"
           "where that is more);\n"
           "likely: beyond that chance; open: not even that, or a run does not fit. At: how often "
           "so large a difference has the right\n"
           "sign for all that predictions err.\n",
           expm1(rows[0].may_err_log) * 100);
    print_bands(runs, count);
    print_limits(rows, count);
    if (comparison_more_steps_may_tell(rows, count))
        puts("More steps may settle what is open: a part of the epoch was replayed "
             "(simulate.iterations).");
}

/* "tensor communication" as a key: "tensor_communication". */
static const char *key_of(const char *name, char key[64]) {
    size_t i = 0;
    for (; name[i] != '\0' && i < 63; i++)
        key[i] = name[i] == ' ' ? '_' : (char)tolower((unsigned char)name[i]);
    key[i] = '\0';
    return key;
}

static void add_money(cJSON *row, const struct comparison_row *money) {
    cJSON *o = cJSON_AddObjectToObject(row, "in_money");
    cJSON_AddNumberToObject(o, "delta_fraction", money->delta_fraction);
    cJSON_AddNumberToObject(o, "confidence_fraction", money->confidence_fraction);
    if (!isnan(money->delta_low_fraction)) {
        cJSON_AddNumberToObject(o, "delta_low_fraction", money->delta_low_fraction);
        cJSON_AddNumberToObject(o, "delta_high_fraction", money->delta_high_fraction);
    }
    cJSON_AddStringToObject(o, "ranking", comparison_verdict_name(money->verdict));
}

static cJSON *to_json(const struct comparison_run *runs, const struct comparison_row *rows,
                      const struct comparison_row *money, int64_t count,
                      const char *const *warnings, struct arena *arena) {
    char key[64];
    cJSON *o = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(o, "runs");
    for (int64_t i = 0; i < count; i++) {
        const struct run_record *r = &runs[i].record;
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", runs[i].label);
        cJSON_AddStringToObject(row, "stack", comparison_stack(&runs[i], arena));
        add_rules_json(row, &runs[i], arena);
        cJSON_AddNumberToObject(row, "gpu_days", r->gpu_days);
        cJSON_AddNumberToObject(row, "total_days", r->total_days);
        if (!isnan(r->money_usd)) cJSON_AddNumberToObject(row, "money_usd", r->money_usd);
        cJSON_AddNumberToObject(row, "step_time_mean_ms", r->step_time_mean_ms);
        cJSON_AddNumberToObject(row, "mfu_fraction", r->mfu_fraction);
        const char *precision = record_mfu_precision(r->resolved_scenario);
        if (precision != NULL) cJSON_AddStringToObject(row, "mfu_precision", precision);
        cJSON_AddStringToObject(row, "verdict", r->verdict);
        if (!isnan(r->left_out_fraction))
            cJSON_AddNumberToObject(row, "samples_left_out_fraction", r->left_out_fraction);
        const struct band band = band_of_stored(r->band_below_fraction, r->band_fraction);
        cJSON_AddNumberToObject(row, "band_fraction", band.above);
        cJSON_AddNumberToObject(row, "band_below_fraction", band.below);
        cJSON_AddNumberToObject(row, "speedup", rows[i].speedup);
        cJSON_AddNumberToObject(row, "delta_fraction", rows[i].delta_fraction);
        cJSON_AddBoolToObject(row, "paired", rows[i].paired);
        cJSON_AddNumberToObject(row, "confidence_fraction", rows[i].confidence_fraction);
        if (isfinite(rows[i].order_fraction))
            cJSON_AddNumberToObject(row, "order_fraction", rows[i].order_fraction);
        if (!isnan(rows[i].delta_low_fraction)) {
            cJSON_AddNumberToObject(row, "delta_low_fraction", rows[i].delta_low_fraction);
            cJSON_AddNumberToObject(row, "delta_high_fraction", rows[i].delta_high_fraction);
        }
        if (money != NULL) add_money(row, &money[i]);
        if (i > 0 && !isnan(rows[i].may_err_log) &&
            run_pair_waits_told(&runs[0].record, &runs[i].record))
            cJSON_AddNumberToObject(row, "sure_beyond_fraction", expm1(rows[i].may_err_log));
        cJSON_AddStringToObject(row, "ranking", comparison_verdict_name(rows[i].verdict));
        cJSON *parts = cJSON_AddObjectToObject(row, "parts_gpu_days");
        for (int part = 0; part < COMPARISON_PARTS; part++)
            cJSON_AddNumberToObject(parts, key_of(comparison_part_names[part], key),
                                    rows[i].parts_gpu_days[part]);
        if (!rows[i].fits) cJSON_AddStringToObject(row, "note", "does not fit");
        cJSON_AddItemToArray(list, row);
    }
    cJSON *texts = cJSON_AddArrayToObject(o, "warnings");
    for (int64_t i = 0; warnings[i] != NULL; i++)
        cJSON_AddItemToArray(texts, cJSON_CreateString(warnings[i]));
    return o;
}

/* A stored run by its number, a scenario by its file. */
static bool is_same_run(const struct compare_options *o, const char *name,
                        const struct comparison_run *run, const char *other_name,
                        const struct comparison_run *other) {
    if (is_stored(o, name) != is_stored(o, other_name)) return false;
    return is_stored(o, name) ? run->record.id == other->record.id : strcmp(name, other_name) == 0;
}

static bool load_all(struct cli *cli, const struct compare_options *o, struct comparison_run *runs,
                     struct error *err) {
    const char *const *names = cli->arguments.positional;
    int64_t stored = 0;
    for (int64_t i = 0; i < cli->arguments.count; i++) {
        stored += is_stored(o, names[i]);
        if (!load(cli, o, names[i], &runs[i], err)) return false;
        for (int64_t j = 0; j < i; j++)
            if (is_same_run(o, names[i], &runs[i], names[j], &runs[j]))
                return error_set(err, "'%s' and '%s' are the same run", names[j], names[i]);
    }
    for (int64_t i = 0; i < o->variants.count; i++) {
        if (is_stored(o, names[0]))
            return error_set(err, "--variant changes a scenario, and '%s' is a stored run",
                             names[0]);
        for (int64_t j = 0; j < i; j++)
            if (strcmp(o->variants.items[j], o->variants.items[i]) == 0)
                return error_set(err, "--variant '%s' is given twice", o->variants.items[i]);
        if (!load_variant(cli, names[0], o->variants.items[i], &runs[cli->arguments.count + i],
                          err))
            return false;
    }
    return stored < cli->arguments.count || cli_refuse_overrides(cli, "a stored run", err);
}

/* Before a second run is asked for: the first one may be the mistake. */
static bool is_known(struct cli *cli, const char *name, struct error *err) {
    struct scenario *scenario = scenario_load(&cli->scenario_options, name, err);
    const bool known = scenario != NULL;
    scenario_destroy(scenario);
    return known;
}

static int run(struct cli *cli, void *options) {
    const struct compare_options *o = options;
    struct error err = { 0 };
    int64_t count = cli->arguments.count + o->variants.count;
    if (count < 2 && o->db == NULL && !is_known(cli, cli->arguments.positional[0], &err))
        return cli_error(&err);
    if (count < 2) {
        error_set(&err, "compare what with '%s'? name another run, or a --variant",
                  cli->arguments.positional[0]);
        return cli_error(&err);
    }
    struct comparison_run *runs = arena_array(cli->arena, struct comparison_run, count);
    if (!load_all(cli, o, runs, &err)) return cli_error(&err);
    struct comparison_row *rows = arena_array(cli->arena, struct comparison_row, count);
    comparison_make(runs, count, COMPARISON_GPU_DAYS, rows);
    struct comparison_row *money = NULL;
    if (comparison_prices_differ(runs, count)) {
        money = arena_array(cli->arena, struct comparison_row, count);
        comparison_make(runs, count, COMPARISON_MONEY, money);
    }
    const char **warnings = comparison_warnings(runs, count, cli->arena);
    if (cli->common.json)
        cli_print_json(to_json(runs, rows, money, count, warnings, cli->arena));
    else
        print(runs, rows, money, count, warnings, cli->arena);
    return EXIT_DONE;
}

const struct command command_compare = {
    .name = "compare",
    .usage = "A B ... [--variant PATH=VALUE[;PATH=VALUE]] [--db FILE]",
    .help = "scenarios or stored runs beside each other: deltas, causes, how sure the order is",
    COMMAND_OPTIONS(options_table, struct compare_options),
    .min_arguments = 1,
    .max_arguments = -1,
    .takes_scenario = true,
    .run = run,
};
