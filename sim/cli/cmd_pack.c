/* cmd_pack.c - run a batching policy alone and say how even its micro-batches are.
 *
 * Policy parameters are options of their own, as in a scenario: --qv 9 is {"qv": 9}. They are read
 * by the policy's field table, so names, ranges and messages are the scenario's.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot.h"
#include "sim/base/output_draft.h"
#include "sim/base/wall_clock.h"
#include "sim/cli/cli.h"
#include "sim/policy/batching/isf_choice.h"
#include "sim/policy/batching/policies.h"

struct pack_options {
    const char *policy, *groups_out, *output;
    bool convergence;
    int tiling;
    int64_t dp, micro_batch, seed, max_tiles, tile_pixels, tile_language_tokens;
    struct option_list parameters;
    /* the parameters that have options of their own */
    const char *qv, *qt, *vision_threshold, *llm_threshold, *threshold_rule, *leftovers,
        *iterations, *rng, *sampler, *variant, *choose;
};

#define AT(member) offsetof(struct pack_options, member)
static const struct option options_table[] = {
    { "policy", OPTION_TEXT, AT(policy), "NAME", "batching policy (default isf)", NULL, 0, 0 },
    { "qv", OPTION_TEXT, AT(qv), "N|auto",
      "most tiles in a group, of isf or a plug-in; auto (isf): --choose code, qt too", NULL, 0, 0 },
    { "qt", OPTION_TEXT, AT(qt), "N|auto",
      "most language tokens in a group, of isf or a plug-in; auto (isf): --choose code, qv too",
      NULL, 0, 0 },
    { "choose", OPTION_TEXT, AT(choose), "paper|code",
      "isf: qv and qt from the data, as the paper or as its published program does", NULL, 0, 0 },
    { "convergence", OPTION_FLAG, AT(convergence), NULL,
      "isf: a line for each number of passes up to --iterations", NULL, 0, 0 },
    { "output", OPTION_PICTURE, AT(output), "FILE",
      "the convergence as a picture: .png, .svg or .pdf (also -o)", NULL, 0, 0 },
    { "vision-threshold", OPTION_TEXT, AT(vision_threshold), "N",
      "isf: tiles of a full group (default Qv)", NULL, 0, 0 },
    { "llm-threshold", OPTION_TEXT, AT(llm_threshold), "N",
      "isf: language tokens of a full group (default Qt - 128)", NULL, 0, 0 },
    { "threshold-rule", OPTION_TEXT, AT(threshold_rule), "code|paper",
      "isf: which rule decides that a group is full (default code)", NULL, 0, 0 },
    { "iterations", OPTION_TEXT, AT(iterations), "N", "isf: passes", NULL, 0, 0 },
    { "rng", OPTION_TEXT, AT(rng), "numpy|gsl", "isf: random stream", NULL, 0, 0 },
    { "leftovers", OPTION_TEXT, AT(leftovers), "keep|drop",
      "isf: samples of groups that no pass filled (default keep)", NULL, 0, 0 },
    { "sampler", OPTION_TEXT, AT(sampler), "block|shuffle", "how groups are dealt to ranks", NULL,
      0, 0 },
    { "variant", OPTION_TEXT, AT(variant), "NAME",
      "length-group, device-group: as the paper or as the code", NULL, 0, 0 },
    { "parameter", OPTION_LIST, AT(parameters), "NAME=VALUE",
      "any other parameter of the policy, of a plug-in's too (repeatable)", NULL, 0, 0 },
    { "seed", OPTION_COUNT, AT(seed), "N",
      "seed of shuffles and samplers (default 1024: the published streams)", NULL, 0,
      4294967295.0 },
    { "dp", OPTION_COUNT, AT(dp), "N", "data-parallel ranks of the ratios (default 8)", NULL, 1,
      1e6 },
    { "micro-batch", OPTION_COUNT, AT(micro_batch), "N",
      "samples in a micro-batch; 1 for a policy that packs (default 1)", NULL, 1, 1e6 },
    { "tiling", OPTION_CHOICE, AT(tiling), "NAME",
      "tiles from the image sizes, as a scenario's dataset.tiling: internvl, native, anyres, ... "
      "(default as-file)",
      tiling_names, 0, 0 },
    { "max-tiles", OPTION_COUNT, AT(max_tiles), "N",
      "internvl: most tiles of an image (default 12)", NULL, 1, 64 },
    { "tile-pixels", OPTION_COUNT, AT(tile_pixels), "N",
      "internvl, anyres: side of a tile (default 448; a scenario takes the model's)", NULL, 1,
      4096 },
    { "tile-tokens", OPTION_COUNT, AT(tile_language_tokens), "N",
      "language tokens of a tile or image (default: as the data set states, or 256)", NULL, 1,
      65536 },
    { "groups-out", OPTION_OUTPUT, AT(groups_out), "FILE",
      "write the groups as sample indices: , inside and ; between groups", NULL, 0, 0 },
};

static void defaults(void *options) {
    struct pack_options *o = options;
    *o = (struct pack_options){
        .policy = "isf", .dp = 8, .micro_batch = 1, .seed = BATCH_DEFAULT_SEED, .max_tiles = 12
    };
}

static bool is_auto(const char *limit) {
    return limit != NULL && strcmp(limit, "auto") == 0;
}

/* Text of an option becomes JSON: a number, true, false, null, or a string. */
static void add_parameter(cJSON *object, const char *name, const char *text) {
    if (text == NULL) return;
    cJSON *value = cJSON_Parse(text);
    cJSON_DeleteItemFromObjectCaseSensitive(object, name);
    cJSON_AddItemToObject(object, name, value != NULL ? value : cJSON_CreateString(text));
}

static bool read_parameters(const struct pack_options *o, const struct batching_policy *policy,
                            struct arena *arena, void **parameters, struct error *err) {
    cJSON *object = cJSON_CreateObject();
    const struct {
        const char *name, *text;
    } own[] = {
        { "qv", o->qv },
        { "qt", o->qt },
        { "vision_threshold", o->vision_threshold },
        { "llm_threshold", o->llm_threshold },
        { "threshold_rule", o->threshold_rule },
        { "leftovers", o->leftovers },
        { "iterations", o->iterations },
        { "rng", o->rng },
        { "sampler", o->sampler },
        { "variant", o->variant },
        { "choose", o->choose },
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        add_parameter(object, own[i].name, own[i].text);
    bool ok = true;
    for (int64_t i = 0; ok && i < o->parameters.count; i++) {
        const char *equals = strchr(o->parameters.items[i], '=');
        if (equals == NULL) {
            ok = error_set(err, "--parameter %s: expected NAME=VALUE", o->parameters.items[i]);
        } else {
            char *name = arena_text(arena, o->parameters.items[i]);
            name[equals - o->parameters.items[i]] = '\0';
            add_parameter(object, name, equals + 1);
        }
    }
    if (ok && policy->parameters == NULL) {
        if (object->child != NULL)
            ok = error_set(err, "policy \"%s\" has no parameter \"%s\"", policy->name,
                           object->child->string);
    } else if (ok) {
        char *text = cJSON_Print(object);
        struct json *json = json_parse("options", text, strlen(text), err);
        *parameters = arena_alloc(arena, policy->parameters_size);
        ok = json != NULL &&
             field_table_read(policy->parameters, json, json_root(json), *parameters, arena, err);
        if (!ok) {
            /* The place in our own text means nothing to the user. */
            const char *message = strstr(err->text, "error: ");
            struct error plain = { 0 };
            const char *end = message != NULL ? strchr(message, '\n') : NULL;
            const char *hint = strstr(err->text, "hint: ");
            if (message != NULL)
                error_set(&plain, "policy \"%s\": %.*s", policy->name,
                          (int)(end != NULL ? end - message - 7 : (long)strlen(message) - 7),
                          message + 7);
            if (message != NULL && hint != NULL) error_hint(&plain, "%s", hint + 6);
            if (message != NULL) *err = plain;
        }
        json_destroy(json);
        cJSON_free(text);
    }
    cJSON_Delete(object);
    return ok;
}

static bool write_groups(const struct batch_plan *plan, const char *path, struct error *err) {
    struct output_draft draft;
    FILE *file = output_draft_stream(&draft, path, err);
    if (file == NULL) return false;
    const bool ok = batch_plan_write_groups(plan, file);
    if (!ok) error_output(err, path);
    return output_draft_end(&draft, ok, err);
}

/* ---- what isf chose ---- */

static cJSON *choice_json(const struct isf_choice *choice) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "qv_tiles", (double)choice->qv);
    cJSON_AddNumberToObject(o, "qt_tokens", (double)choice->qt);
    cJSON_AddNumberToObject(o, "tokens_per_tile", choice->tokens_per_tile);
    cJSON *steps = cJSON_AddArrayToObject(o, "steps");
    for (int64_t i = 0; i < choice->step_count; i++) {
        const struct isf_choice_step *s = &choice->steps[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddNumberToObject(row, "qv_tiles", (double)s->qv);
        cJSON_AddNumberToObject(row, "qt_tokens", (double)s->qt);
        cJSON_AddNumberToObject(row, "average_batch_size", s->average_batch_size);
        cJSON_AddNumberToObject(row, "pad_ratio", s->pad_ratio);
        cJSON_AddNumberToObject(row, "dist_ratio_vision", s->dist_ratio_vision);
        cJSON_AddNumberToObject(row, "dist_ratio_language", s->dist_ratio_language);
        cJSON_AddBoolToObject(row, "in_range", s->kept);
        cJSON_AddItemToArray(steps, row);
    }
    return o;
}

static void print_choice(const struct isf_choice *choice) {
    printf("  chosen from the data  qv %ld, qt %ld (%.1f tokens for a tile)\n", (long)choice->qv,
           (long)choice->qt, choice->tokens_per_tile);
    if (choice->step_count == 0) return;
    printf("  %6s %8s %15s %10s %12s %14s\n", "qv", "qt", "average batch", "pad ratio",
           "dist vision", "dist language");
    for (int64_t i = 0; i < choice->step_count; i++) {
        const struct isf_choice_step *s = &choice->steps[i];
        bool taken = s->qv == choice->qv && s->qt == choice->qt;
        printf("  %6ld %8ld %15.3f %10.4f %12.4f %14.4f%s\n", (long)s->qv, (long)s->qt,
               s->average_batch_size, s->pad_ratio, s->dist_ratio_vision, s->dist_ratio_language,
               taken     ? "  taken"
               : s->kept ? "  in range"
                         : "");
    }
}

/* ---- the packing ---- */

static void print_notes(const struct dataset *d) {
    for (int64_t i = 0; i < d->note_count; i++)
        printf("  note: %s\n", d->notes[i]);
}

static void print(const struct cli *cli, const struct dataset *d,
                  const struct batching_policy *policy, const struct batch_plan *plan,
                  const struct batch_balance *b, const struct isf_choice *choice, double ms) {
    if (cli->common.json) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "dataset", d->name);
        cJSON_AddStringToObject(o, "dataset_status", d->status);
        cJSON *notes = cJSON_AddArrayToObject(o, "dataset_notes");
        for (int64_t i = 0; i < d->note_count; i++)
            cJSON_AddItemToArray(notes, cJSON_CreateString(d->notes[i]));
        cJSON_AddStringToObject(o, "policy", policy->name);
        cJSON_AddNumberToObject(o, "samples_in", (double)plan->samples_in);
        cJSON_AddNumberToObject(o, "samples_packed", (double)plan->samples_packed);
        cJSON_AddNumberToObject(o, "oversize_skipped", (double)plan->oversize_skipped);
        cJSON_AddNumberToObject(o, "lost_with_last_group", (double)plan->lost_with_last_group);
        cJSON_AddNumberToObject(o, "leftover_dropped", (double)plan->leftover_dropped);
        cJSON_AddNumberToObject(o, "groups", (double)plan->group_count);
        cJSON_AddNumberToObject(o, "full_groups", (double)plan->full_group_count);
        cJSON_AddNumberToObject(o, "average_batch_size", b->average_batch_size);
        cJSON_AddNumberToObject(o, "pad_ratio", b->pad_ratio);
        cJSON_AddNumberToObject(o, "dist_ratio_vision", b->dist_ratio_vision);
        cJSON_AddNumberToObject(o, "dist_ratio_language", b->dist_ratio_language);
        cJSON_AddNumberToObject(o, d->clip_ms != NULL ? "max_clip_ms" : "max_vision_tiles",
                                (double)b->max_vision_tiles);
        cJSON_AddNumberToObject(o, "max_language_tokens", (double)b->max_language_tokens);
        cJSON_AddNumberToObject(o, "dropped_by_sampler", (double)plan->dropped_by_sampler);
        cJSON_AddNumberToObject(o, "repeated_by_sampler", (double)plan->repeated_by_sampler);
        cJSON_AddNumberToObject(o, "wall_ms", ms);
        if (choice != NULL) cJSON_AddItemToObject(o, "choice", choice_json(choice));
        cli_print_json(o);
        return;
    }
    char text[32];
    printf("%s on %s [%s]\n", policy->name, d->name, d->status);
    print_notes(d);
    printf("  samples in            %s\n", cli_thousands(plan->samples_in, text));
    printf("  samples packed        %s\n", cli_thousands(plan->samples_packed, text));
    printf("  oversize skipped      %s\n", cli_thousands(plan->oversize_skipped, text));
    printf("  lost with last group  %s\n", cli_thousands(plan->lost_with_last_group, text));
    if (plan->leftover_dropped > 0)
        printf("  %s%s\n",
               plan->leftover_of_plugin ? "given to no rank      " : "left over, dropped    ",
               cli_thousands(plan->leftover_dropped, text));
    printf("  groups                %s (%ld full)\n", cli_thousands(plan->group_count, text),
           (long)plan->full_group_count);
    printf("  average batch size    %.3f samples\n", b->average_batch_size);
    if (d->clip_ms != NULL)
        printf("  per group             %.2f s of clips (most %.2f)", b->mean_vision_tiles / 1000,
               (double)b->max_vision_tiles / 1000);
    else
        printf("  per group             %.2f tiles (most %ld)", b->mean_vision_tiles,
               (long)b->max_vision_tiles);
    printf(", %.0f language tokens (most %ld)\n", b->mean_language_tokens,
           (long)b->max_language_tokens);
    printf("  pad ratio             %.4f\n", b->pad_ratio);
    printf("  dist ratio            vision %.4f, language %.4f over %ld rank%s\n",
           b->dist_ratio_vision, b->dist_ratio_language, (long)plan->rank_count,
           plan->rank_count == 1 ? "" : "s");
    printf("  packed in             %.1f ms\n", ms);
    if (choice != NULL) print_choice(choice);
}

/* ---- how isf settles ---- */

enum { PASS_LIMIT = 1000 };

/* isf with 1, 2, ... passes; each is a packing of its own. */
static bool converge(struct cli *cli, const struct pack_options *o, const struct dataset *d,
                     const struct batch_request *request, struct error *err) {
    int64_t count = o->iterations != NULL ? atol(o->iterations) : 10;
    if (count < 1 || count > PASS_LIMIT)
        return error_set(err, "--convergence: --iterations must be 1 to %d", PASS_LIMIT);
    struct plot_pass *passes = arena_array(cli->arena, struct plot_pass, count);
    cJSON *rows = cJSON_CreateArray();
    if (!cli->common.json) {
        printf("isf on %s [%s]\n", d->name, d->status);
        print_notes(d);
        printf("  %6s %10s %10s %10s %15s %12s %14s\n", "passes", "groups", "full", "left over",
               "average batch", "dist vision", "dist language");
    }
    bool ok = true;
    for (int64_t n = 1; ok && n <= count; n++) {
        struct pack_options with = *o;
        void *parameters = NULL;
        struct batch_plan plan;
        struct batch_balance b;
        with.iterations = arena_format(cli->arena, "%ld", (long)n);
        ok = read_parameters(&with, &batching_isf, cli->arena, &parameters, err) &&
             batching_isf.plan(request, parameters, &plan, err);
        if (!ok) break;
        batch_plan_balance(&plan, d, &b);
        passes[n - 1] = (struct plot_pass){ n, b.dist_ratio_vision, b.dist_ratio_language,
                                            b.average_batch_size };
        if (cli->common.json) {
            cJSON *row = cJSON_CreateObject();
            cJSON_AddNumberToObject(row, "passes", (double)n);
            cJSON_AddNumberToObject(row, "groups", (double)plan.group_count);
            cJSON_AddNumberToObject(row, "full_groups", (double)plan.full_group_count);
            cJSON_AddNumberToObject(row, "leftover_dropped", (double)plan.leftover_dropped);
            cJSON_AddNumberToObject(row, "average_batch_size", b.average_batch_size);
            cJSON_AddNumberToObject(row, "dist_ratio_vision", b.dist_ratio_vision);
            cJSON_AddNumberToObject(row, "dist_ratio_language", b.dist_ratio_language);
            cJSON_AddItemToArray(rows, row);
        } else {
            printf("  %6ld %10ld %10ld %10ld %15.3f %12.4f %14.4f\n", (long)n,
                   (long)plan.group_count, (long)plan.full_group_count, (long)plan.leftover_dropped,
                   b.average_batch_size, b.dist_ratio_vision, b.dist_ratio_language);
        }
        batch_plan_free(&plan);
    }
    if (ok && cli->common.json)
        cli_print_json(rows);
    else
        cJSON_Delete(rows);
    return ok &&
           (o->output == NULL ||
            plot_convergence(o->output, arena_format(cli->arena, "%s: ISF by passes", d->name),
                             passes, count, err));
}

static const char *batching_name(const void *list, size_t index) {
    return ((const struct batching_policy *const *)list)[index]->name;
}

static int run(struct cli *cli, void *options) {
    struct pack_options *o = options;
    if (o->choose == NULL && (is_auto(o->qv) || is_auto(o->qt))) o->choose = "code";
    struct error err = { 0 };
    const struct batching_policy *policy = batching_policy_find(o->policy);
    if (policy == NULL) {
        size_t count;
        const struct batching_policy *const *list = batching_policies(&count);
        error_set(&err, "unknown batching policy \"%s\"", o->policy);
        error_hint(&err, "%s", nearest_hint(cli->arena, o->policy, count, batching_name, list));
        return cli_error(&err);
    }
    void *parameters = NULL;
    if (!read_parameters(o, policy, cli->arena, &parameters, &err)) return cli_error(&err);
    struct tiling tiling = tiling_default();
    tiling.kind = (enum tiling_kind)o->tiling;
    tiling.max_tiles = o->max_tiles;
    if (o->tile_pixels > 0) tiling.tile_pixels = o->tile_pixels;
    if (o->tile_language_tokens > 0) tiling.tile_language_tokens = o->tile_language_tokens;
    struct dataset_options load = { .tiling = &tiling,
                                    .tile_language_tokens = o->tile_language_tokens };
    struct dataset *d = dataset_load_with(cli->scenario_options.directory,
                                          cli->arguments.positional[0], &load, &err);
    if (d == NULL) return cli_error(&err);
    struct batch_request request = {
        .dataset = d, .dp = o->dp, .micro_batch = o->micro_batch, .seed = (uint32_t)o->seed
    };
    if (o->convergence || o->output != NULL) {
        bool settled =
            policy == &batching_isf
                ? converge(cli, o, d, &request, &err)
                : error_set(&err, "--convergence: policy \"%s\" makes no passes, isf does",
                            policy->name);
        dataset_destroy(d);
        return settled ? EXIT_DONE : cli_error(&err);
    }
    struct batch_plan plan;
    const double start_s = wall_clock_s();
    bool ok = policy->plan(&request, parameters, &plan, &err);
    const double took_ms = (wall_clock_s() - start_s) * 1e3;
    if (ok) {
        struct batch_balance balance;
        struct isf_choice choice;
        batch_plan_balance(&plan, d, &balance);
        if (plan.limits_chosen) ok = isf_choice_of(&request, parameters, &choice, &err);
        ok = ok && (o->groups_out == NULL || write_groups(&plan, o->groups_out, &err));
        if (ok)
            print(cli, d, policy, &plan, &balance, plan.limits_chosen ? &choice : NULL, took_ms);
        batch_plan_free(&plan);
    }
    dataset_destroy(d);
    return ok ? EXIT_DONE : cli_error(&err);
}

const struct command command_pack = {
    .name = "pack",
    .usage = "DATASET [--policy NAME] [policy parameters] [--groups-out FILE] [--convergence]",
    .help = "run a batching policy alone",
    COMMAND_OPTIONS(options_table, struct pack_options),
    .min_arguments = 1,
    .max_arguments = 1,
    .takes_plugins = true,
    .defaults = defaults,
    .run = run,
};
