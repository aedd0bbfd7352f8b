/* cmd_plan.c - what each policy would choose, and the launch flags that realise the scenario's
 * plan. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "sim/base/output_draft.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/cli/plan_schedule.h"
#include "sim/study/launch_flags.h"
#include "sim/study/planning.h"

struct plan_options {
    int64_t limit;
    int emit;
    bool convergence;
    struct plan_schedule_options schedule;
};

enum { EMIT_NOTHING, EMIT_MEGATRON, EMIT_DEEPSPEED, EMIT_ACTIONS };
static const char *const emit_names[] = { "nothing", "megatron", "deepspeed", "actions", NULL };

#define AT(member) offsetof(struct plan_options, member)
static const struct option options_table[] = {
    { "convergence", OPTION_FLAG, AT(convergence), NULL,
      "of a policy that searches each iteration's order: how it and two simpler methods get ahead",
      NULL, 0, 0 },
    { "emit", OPTION_CHOICE, AT(emit), "WHAT",
      "print only what realises the plan: megatron or deepspeed (launch flags), actions (JSON; "
      "`check --schedule` reads them)",
      emit_names, 0, 0 },
    { "iteration", OPTION_COUNT, AT(schedule.iteration), "N",
      "of actions, and of a plan that orders each iteration anew: which one (default 0)", NULL, 0,
      1e9 },
    { "limit", OPTION_COUNT, AT(limit), "N",
      "partitions that the search for the best simulates at most (default 20000)", NULL, 1, 1e9 },
    { "output", OPTION_OUTPUT, AT(schedule.output), "FILE", "of --emit (also -o); default stdout",
      NULL, 0, 0 },
    { "rollouts", OPTION_COUNT, AT(schedule.rollouts), "N",
      "with --convergence: schedules that each method tries (default: as many as the policy)", NULL,
      1, 1e9 },
    { "rank", OPTION_COUNT, AT(schedule.rank), "N",
      "with --iteration: which data-parallel rank (default 0)", NULL, 0, 1e9 },
};

static void defaults(void *options) {
    ((struct plan_options *)options)->limit = 20000;
}

/* ---- text ---- */

static const char *counts_text(struct arena *arena, const int64_t *counts, int64_t n) {
    const char *text = "";
    for (int64_t i = 0; i < n; i++)
        text = arena_format(arena, i > 0 ? "%s %ld" : "%s%ld", text, (long)counts[i]);
    return text;
}

/* More stages than this are shown as least and most. */
enum { STAGE_LIST_LIMIT = 8 };

static const char *range_text(struct arena *arena, const double *values, int64_t n) {
    double least = values[0], most = values[0];
    for (int64_t i = 1; i < n; i++) {
        least = fmin(least, values[i]);
        most = fmax(most, values[i]);
    }
    return arena_format(arena, "%.1f to %.1f", least, most);
}

static const char *list_text(struct arena *arena, const double *values, int64_t n) {
    if (n > STAGE_LIST_LIMIT) return range_text(arena, values, n);
    const char *text = "";
    for (int64_t i = 0; i < n; i++)
        text = arena_format(arena, i > 0 ? "%s %.1f" : "%s%.1f", text, values[i]);
    return text;
}

static const char *stage_text(struct arena *arena, const struct planning *p,
                              const struct planning_row *row) {
    double *ms = arena_array(arena, double, p->stage_count);
    for (int64_t i = 0; i < p->stage_count; i++)
        ms[i] = (row->forward_seconds[i] + row->backward_seconds[i]) * 1e3;
    return list_text(arena, ms, p->stage_count);
}

/* On its fullest stage, with the largest micro-batch in every place. */
static double worst_free_bytes(const struct planning *p, const struct planning_row *row) {
    double least = INFINITY;
    for (int64_t i = 0; i < p->stage_count; i++)
        least = fmin(least, p->capacity_bytes - row->worst_bytes[i]);
    return least;
}

/* What a row says of its memory: a plan may run out only in a later epoch than the one replayed. */
static const char *memory_mark(const struct planning *p, const struct planning_row *row) {
    if (row->verdict == VERDICT_FITS) return "";
    if (row->verdict == VERDICT_TIGHT) return "  tight";
    for (int64_t i = 0; i < p->stage_count; i++)
        if (row->bytes[i] > p->capacity_bytes) return "  out of memory";
    return "  out of memory in another shuffle";
}

static const char *free_text(struct arena *arena, const struct planning *p,
                             const struct planning_row *row) {
    double *GiB = arena_array(arena, double, p->stage_count);
    for (int64_t i = 0; i < p->stage_count; i++)
        GiB[i] = (p->capacity_bytes - row->bytes[i]) / BYTES_PER_GiB;
    return list_text(arena, GiB, p->stage_count);
}

static int widest(int width, const char *text) {
    return (int)strlen(text) > width ? (int)strlen(text) : width;
}

/* On one part all partition policies come to the same. */
static bool is_left_out(const struct planning *p, const struct planning_row *row) {
    return row->group == PLANNING_PARTITION && p->stage_count * p->chunk_count == 1 &&
           row->refusal == NULL && !row->chosen;
}

static void print_group(const struct planning *p, enum planning_group group, struct arena *arena) {
    int64_t parts = p->stage_count * p->chunk_count;
    int blocks = 6, stages = 20, room = 18;
    bool partition = group == PLANNING_PARTITION;
    for (int64_t i = 0; i < p->row_count; i++) {
        const struct planning_row *row = &p->rows[i];
        if (row->group != group || row->refusal != NULL) continue;
        const int64_t *counts = partition ? row->blocks : row->recomputing;
        blocks = widest(blocks, counts_text(arena, counts, parts));
        stages = widest(stages, stage_text(arena, p, row));
        room = widest(room, free_text(arena, p, row));
    }
    printf("    %-14s %-*s  %-*s  %-*s %10s %9s %9s %11s%s\n", "policy", blocks,
           partition ? "blocks" : "recomp", stages, "stage ms (fwd + bwd)", room,
           "free GiB by stage", "worst case", "sent MiB", "step s", "pipeline s",
           partition ? "  over the best" : "");
    for (int64_t i = 0; i < p->row_count; i++) {
        const struct planning_row *row = &p->rows[i];
        if (row->group != group || is_left_out(p, row)) continue;
        if (row->refusal != NULL) {
            printf("    %-14s %s\n", row->policy, row->refusal);
            continue;
        }
        printf("  %c %-14s %-*s  %-*s  %-*s %10.1f %9.1f", row->chosen ? '*' : ' ', row->policy,
               blocks, counts_text(arena, partition ? row->blocks : row->recomputing, parts),
               stages, stage_text(arena, p, row), room, free_text(arena, p, row),
               worst_free_bytes(p, row) / BYTES_PER_GiB, row->sent_bytes / BYTES_PER_MiB);
        if (isnan(row->step_seconds))
            printf(" %9s", "-");
        else
            printf(" %9.3f", row->step_seconds);
        printf(" %11.3f", row->seconds);
        if (partition && isfinite(row->distance_fraction))
            printf("  %11.2f %%", row->distance_fraction * 100);
        puts(memory_mark(p, row));
    }
}

/* Partitions are chosen and compared by their pipeline, which reductions and the optimizer follow. */
static void print_shorter_step(const struct planning *p) {
    const struct planning_row *best = NULL, *step = NULL;
    for (int64_t i = 0; i < p->row_count; i++) {
        const struct planning_row *row = &p->rows[i];
        if (row->group != PLANNING_PARTITION || row->refusal != NULL || isnan(row->step_seconds) ||
            is_left_out(p, row))
            continue;
        if (best == NULL || row->seconds < best->seconds) best = row;
        if (step == NULL || row->step_seconds < step->step_seconds) step = row;
    }
    if (best == NULL || step->step_seconds > 0.999 * best->step_seconds) return;
    printf("  %s has the shortest step: partitions are compared by the pipeline alone, without the "
           "reductions and the optimizer that follow it\n",
           step->policy);
}

static void print_search(const struct planning *p) {
    if (p->best_seconds <= 0) {
        puts("  The best partition is not searched where chunks are interleaved.");
    } else if (p->best_bound_seconds < p->best_seconds) {
        printf("  exact: the best of %ld partition%s, then the search stopped (--limit); none is "
               "faster than %.3f s, %.2f %% less\n",
               (long)p->best_simulated, p->best_simulated == 1 ? "" : "s", p->best_bound_seconds,
               (1 - p->best_bound_seconds / p->best_seconds) * 100);
    } else {
        printf(
            "  exact: the fastest pipeline of all partitions, proven by simulating %ld of them\n",
            (long)p->best_simulated);
    }
}

/* Its first metric is the forward alone, as OmniBal has it. */
static void print_bmp_hint(const struct planning *p) {
    const double far_fraction = 0.01;
    for (int64_t i = 0; i < p->row_count; i++) {
        const struct planning_row *row = &p->rows[i];
        if (row->group == PLANNING_PARTITION && row->refusal == NULL &&
            strcmp(row->policy, "bmp") == 0 && row->distance_fraction > far_fraction)
            puts("  bmp looks at forward times unless told otherwise: where backwards are not in "
                 "their proportion,\n  policy.partition {\"name\": \"bmp\", \"time\": \"step\"} "
                 "may come nearer.");
    }
}

static void print_flags(const struct launch_flags *f) {
    printf("\nLaunch flags, %s\n", f->framework);
    for (int64_t i = 0; i < f->flag_count; i++)
        printf("  %s\n", f->flags[i]);
    if (f->pipeline_module != NULL) printf("  PipelineModule(%s)\n", f->pipeline_module);
    if (f->config != NULL) printf("  configuration file:\n%s\n", f->config);
    for (int64_t i = 0; i < f->refusal_count; i++)
        printf("  cannot be expressed: %s\n", f->refusals[i]);
    for (int64_t i = 0; i < f->note_count; i++)
        printf("  note: %s\n", f->notes[i]);
}

static void print_plan(const struct job *job, const struct planning *p,
                       const struct launch_flags *flags, struct arena *arena) {
    const struct scenario *s = job->scenario;
    printf("%s on %ld %s%s; %ld micro-batch%s an iteration\n", s->model->name, (long)p->stage_count,
           p->stage_count == 1 ? "stage" : "stages",
           p->chunk_count > 1 ? arena_format(arena, " of %ld chunks", (long)p->chunk_count) : "",
           (long)s->micro_batches_per_rank, s->micro_batches_per_rank == 1 ? "" : "es");
    printf("mean micro-batch %ld tiles and %ld language tokens, largest %ld and %ld",
           (long)p->typical.vision_tiles, (long)p->typical.language_tokens,
           (long)p->largest.vision_tiles, (long)p->largest.language_tokens);
    if (p->typical.video_tokens > 0)
        printf("; %ld video tokens, largest %ld", (long)p->typical.video_tokens,
               (long)p->largest.video_tokens);
    puts("\n");
    if (p->replayed_steps > 0)
        printf(
            "step s and free GiB: mean and least of %ld replayed step%s, as `run` has them\n"
            "worst case: what is free on the fullest stage if all micro-batches were the largest\n"
            "stage ms and pipeline s: all micro-batches the mean one, before gradient "
            "reduction\n\n",
            (long)p->replayed_steps, p->replayed_steps == 1 ? "" : "s");
    else
        puts("A policy plans each step: times of the mean micro-batch, memory as if all were the "
             "largest\n");
    printf("Partition policies with recompute %s (* the scenario's)\n", s->recompute.name);
    print_group(p, PLANNING_PARTITION, arena);
    if (p->stage_count * p->chunk_count == 1) {
        puts("  One stage holds all blocks: every partition policy comes to this one.");
    } else {
        print_shorter_step(p);
        print_search(p);
        print_bmp_hint(p);
    }
    printf("\nRecompute policies on [%s]\n",
           counts_text(arena, p->rows[0].blocks, p->stage_count * p->chunk_count));
    print_group(p, PLANNING_RECOMPUTE, arena);
    if (framework_of_backend(s->backend->name) == FRAMEWORK_FSDP)
        printf("\nLaunch flags: none. %s\n", flags->refusals[0]);
    else
        print_flags(flags);
}

/* ---- JSON ---- */

static void add_counts(cJSON *o, const char *key, const int64_t *counts, int64_t n) {
    cJSON *list = cJSON_AddArrayToObject(o, key);
    for (int64_t i = 0; i < n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)counts[i]));
}

static void add_values(cJSON *o, const char *key, const double *values, int64_t n, double scale) {
    cJSON *list = cJSON_AddArrayToObject(o, key);
    for (int64_t i = 0; i < n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(values[i] * scale));
}

static void add_texts(cJSON *o, const char *key, const char *const *texts, int64_t n) {
    cJSON *list = cJSON_AddArrayToObject(o, key);
    for (int64_t i = 0; i < n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(texts[i]));
}

static cJSON *row_json(const struct planning *p, const struct planning_row *row) {
    static const char *const groups[] = { "own", "partition", "recompute" };
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "slot", groups[row->group]);
    cJSON_AddStringToObject(o, "policy", row->policy);
    cJSON_AddBoolToObject(o, "chosen", row->chosen);
    if (row->refusal != NULL) {
        cJSON_AddStringToObject(o, "refusal", row->refusal);
        return o;
    }
    int64_t parts = p->stage_count * p->chunk_count;
    add_counts(o, "blocks_by_part", row->blocks, parts);
    add_counts(o, "recomputing_blocks_by_part", row->recomputing, parts);
    add_values(o, "forward_ms_by_stage", row->forward_seconds, p->stage_count, 1e3);
    add_values(o, "backward_ms_by_stage", row->backward_seconds, p->stage_count, 1e3);
    add_values(o, "device_GiB_by_stage", row->bytes, p->stage_count, 1 / BYTES_PER_GiB);
    add_values(o, "worst_case_device_GiB_by_stage", row->worst_bytes, p->stage_count,
               1 / BYTES_PER_GiB);
    cli_add_number(o, "training_GiB", row->training_bytes / BYTES_PER_GiB);
    cJSON_AddBoolToObject(o, "fits", row->verdict != VERDICT_OUT_OF_MEMORY);
    cJSON_AddStringToObject(o, "verdict", verdict_name(row->verdict));
    cli_add_number(o, "step_time_mean_ms", row->step_seconds * 1e3);
    cJSON_AddNumberToObject(o, "sent_MiB", row->sent_bytes / BYTES_PER_MiB);
    cJSON_AddNumberToObject(o, "iteration_ms", row->seconds * 1e3);
    if (isfinite(row->distance_fraction))
        cJSON_AddNumberToObject(o, "over_best_fraction", row->distance_fraction);
    return o;
}

static cJSON *flags_json(const struct launch_flags *f) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "framework", f->framework);
    add_texts(o, "flags", f->flags, f->flag_count);
    if (f->config != NULL) cJSON_AddItemToObject(o, "config", cJSON_Parse(f->config));
    if (f->pipeline_module != NULL)
        cJSON_AddStringToObject(o, "pipeline_module", f->pipeline_module);
    add_texts(o, "cannot_express", f->refusals, f->refusal_count);
    add_texts(o, "notes", f->notes, f->note_count);
    return o;
}

static cJSON *to_json(const struct planning *p, const struct launch_flags *megatron,
                      const struct launch_flags *deepspeed) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "stage_count", (double)p->stage_count);
    cJSON_AddNumberToObject(o, "chunk_count", (double)p->chunk_count);
    cJSON_AddNumberToObject(o, "hbm_GiB", p->capacity_bytes / BYTES_PER_GiB);
    cJSON_AddNumberToObject(o, "replayed_steps", (double)p->replayed_steps);
    if (p->best_seconds > 0) {
        cJSON_AddNumberToObject(o, "best_iteration_ms", p->best_seconds * 1e3);
        cJSON_AddNumberToObject(o, "best_bound_ms", p->best_bound_seconds * 1e3);
        cJSON_AddNumberToObject(o, "partitions_simulated", (double)p->best_simulated);
    }
    cJSON *rows = cJSON_AddArrayToObject(o, "plans");
    for (int64_t i = 0; i < p->row_count; i++)
        cJSON_AddItemToArray(rows, row_json(p, &p->rows[i]));
    cJSON *launch = cJSON_AddArrayToObject(o, "launch");
    cJSON_AddItemToArray(launch, flags_json(megatron));
    cJSON_AddItemToArray(launch, flags_json(deepspeed));
    return o;
}

/* ---- the command ---- */

static void write_flags(const struct launch_flags *f, bool json, FILE *out) {
    if (json) {
        cJSON *object = flags_json(f);
        char *text = cJSON_Print(object);
        fprintf(out, "%s\n", text);
        cJSON_free(text);
        cJSON_Delete(object);
        return;
    }
    for (int64_t i = 0; i < f->flag_count; i++)
        fprintf(out, "%s%s\n", f->flags[i], i + 1 < f->flag_count ? " \\" : "");
    if (f->pipeline_module != NULL) fprintf(out, "# PipelineModule(%s)\n", f->pipeline_module);
    if (f->config != NULL) fprintf(out, "%s\n", f->config);
}

/* Flags alone, to paste; a plan that they cannot express fails. */
static int emit_flags(const struct cli *cli, const struct launch_flags *f, const char *path) {
    const bool json = cli->common.json;
    if (f->refusal_count > 0) {
        struct error err = { 0 };
        error_set(&err, "%s's options cannot express this plan", f->framework);
        for (int64_t i = 0; i < f->refusal_count; i++)
            error_context(&err, "%s", f->refusals[i]);
        cli_error(&err);
        return EXIT_FAILED;
    }
    for (int64_t i = 0; i < f->note_count; i++)
        fprintf(stderr, "note: %s\n", f->notes[i]);
    if (path == NULL) {
        write_flags(f, json, stdout);
        return EXIT_DONE;
    }
    struct error err = { 0 };
    struct output_draft draft;
    FILE *out = output_draft_stream(&draft, path, &err);
    if (out == NULL) return cli_error(&err);
    write_flags(f, json, out);
    if (!output_draft_end(&draft, true, &err)) return cli_error(&err);
    fprintf(stderr, "launch flags written to %s\n", path);
    cli_print_output(cli, path, NULL, 0);
    return EXIT_DONE;
}

/* Options that would change nothing. */
static bool check_options(const struct plan_options *o, struct error *err) {
    if (o->schedule.output != NULL && o->emit == EMIT_NOTHING) {
        error_set(err, "--output is that of --emit; the plan itself goes to stdout");
        return error_hint(err, "--emit megatron, deepspeed or actions");
    }
    if (o->convergence && o->emit != EMIT_NOTHING)
        return error_set(err, "--convergence and --emit are different answers: ask for one");
    if (o->schedule.rollouts > 0 && !o->convergence)
        return error_set(err, "--rollouts is that of --convergence");
    return true;
}

/* Flags are for a cluster: whoever pastes them should know before it does. */
static bool warn_of_memory(struct execution *e, struct arena *arena, struct error *err) {
    struct planning_row own;
    if (!planning_own(e->job, arena, &own, err)) return false;
    if (own.verdict != VERDICT_OUT_OF_MEMORY) return true;
    int64_t fullest = 0;
    for (int64_t stage = 1; stage < e->job->plan.stage_count; stage++)
        if (own.bytes[stage] > own.bytes[fullest]) fullest = stage;
    const double capacity = cost_model_gpu(e->scenario->cost_model)->hbm_bytes;
    const bool later = own.bytes[fullest] <= capacity;
    fprintf(stderr,
            "warning: this plan runs out of memory: stage %ld needs %s%.1f GiB%s, a GPU has %.1f\n",
            (long)fullest + 1, later ? "about " : "",
            (later ? own.training_bytes : own.bytes[fullest]) / BYTES_PER_GiB,
            later ? " in some step of the training" : "", capacity / BYTES_PER_GiB);
    return true;
}

static int run(struct cli *cli, void *options) {
    const struct plan_options *o = options;
    struct error err = { 0 };
    if (!check_options(o, &err)) return cli_error(&err);
    struct execution *e =
        execution_prepare(&cli->scenario_options, cli->arguments.positional[0], &err);
    if (e == NULL) return cli_error(&err);
    if (!cli_check_step(e, o->schedule.iteration, o->schedule.rank, &err) ||
        (o->convergence && o->schedule.rank > 0 &&
         !error_set(&err, "--rank %ld: --convergence is that of rank 0", (long)o->schedule.rank))) {
        execution_destroy(e);
        return cli_error(&err);
    }
    if (o->convergence) {
        int code = plan_schedule_convergence(cli, e, &o->schedule);
        execution_destroy(e);
        return code;
    }
    if (o->emit == EMIT_ACTIONS || (o->emit == EMIT_NOTHING && e->job->plan.module_count > 0)) {
        int code = o->emit == EMIT_ACTIONS ? plan_schedule_emit(cli, e, &o->schedule)
                                           : plan_schedule_show(cli, e, &o->schedule);
        execution_destroy(e);
        return code;
    }
    struct launch_flags megatron, deepspeed;
    launch_flags_make(FRAMEWORK_MEGATRON, e->job, cli->arena, &megatron);
    launch_flags_make(FRAMEWORK_DEEPSPEED, e->job, cli->arena, &deepspeed);
    int code = EXIT_DONE;
    struct planning p;
    if (o->emit != EMIT_NOTHING && !warn_of_memory(e, cli->arena, &err)) {
        code = cli_error(&err);
    } else if (o->emit != EMIT_NOTHING) {
        code =
            emit_flags(cli, o->emit == EMIT_MEGATRON ? &megatron : &deepspeed, o->schedule.output);
    } else if (!planning_make(e->job, o->limit, cli->arena, &p, &err)) {
        code = cli_error(&err);
    } else if (cli->common.json) {
        cli_print_json(to_json(&p, &megatron, &deepspeed));
    } else {
        bool own = strcmp(e->scenario->backend->name, "megatron-lm") == 0;
        print_plan(e->job, &p, own ? &megatron : &deepspeed, cli->arena);
    }
    execution_destroy(e);
    return code;
}

const struct command command_plan = {
    .name = "plan",
    .usage = "SCENARIO [--emit megatron|deepspeed|actions] [--limit N] [-o FILE]",
    .help = "what each partition and recompute policy would choose, and the launch flags for it",
    COMMAND_OPTIONS(options_table, struct plan_options),
    .defaults = defaults,
    .min_arguments = 1,
    .max_arguments = 1,
    .takes_scenario = true,
    .run = run,
};
