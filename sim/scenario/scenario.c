/* scenario.c - reading order: sections by table, files they name, then the rules between fields.
 *
 * What follows from the values together is in scenario_rules.c, policies are in
 * scenario_policies.c.
 */
#include "sim/scenario/scenario.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "costmodel/generation.h"
#include "costmodel/hardware.h"
#include "sim/base/file_place.h"
#include "sim/base/units.h"
#include "sim/scenario/scenario_reader.h"

enum { ASSUMPTION_LIMIT = 96, WARNING_LIMIT = 24 };

const cJSON *scenario_present(const cJSON *node) {
    return node == NULL || cJSON_IsNull(node) ? NULL : node;
}

const cJSON *scenario_member(const cJSON *object, const char *name) {
    const cJSON *node = object != NULL ? cJSON_GetObjectItemCaseSensitive(object, name) : NULL;
    return node != NULL ? node : object;
}

const cJSON *scenario_suspect(struct reader *r, const cJSON *const *nodes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (json_is_overridden(r->s->json, nodes[i])) return nodes[i];
    return nodes[0];
}

void scenario_assume(struct reader *r, const char *text) {
    ballast_check(r->assumption_count + 1 < ASSUMPTION_LIMIT);
    r->s->assumptions[r->assumption_count++] = text;
}

void scenario_warn(struct reader *r, const char *text) {
    ballast_check(r->warning_count + 1 < WARNING_LIMIT);
    r->s->warnings[r->warning_count++] = text;
}

/* A bare string stands for a section with that name and defaults: make it the object. */
static bool section_object(struct reader *r, const cJSON **node) {
    if (!cJSON_IsString(*node)) return true;
    cJSON *parent = json_root(r->s->json);
    const char *key = (*node)->string;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", (*node)->valuestring);
    char *kept = arena_text(r->s->arena, key);
    cJSON_ReplaceItemInObjectCaseSensitive(parent, kept, object);
    *node = cJSON_GetObjectItemCaseSensitive(parent, kept);
    return *node != NULL;
}

static bool read_section(struct reader *r, const struct field_table *table, const cJSON **node,
                         void *out) {
    *node = scenario_present(*node);
    const bool has_name = field_table_find(table, "name") != NULL;
    if (*node != NULL && has_name && !section_object(r, node)) return false;
    return field_table_read(table, r->s->json, *node, out, r->s->arena, r->err);
}

/* A named file failed: its own mistakes keep their place, a wrong name gets the scenario's. */
bool scenario_relocate(struct reader *r, const cJSON *node, const char *what, const char *name) {
    char said[64];
    snprintf(said, sizeof said, "while loading %s ", what);
    if (r->err->located && strstr(r->err->text, said) != NULL) return false;
    if (r->err->located) return error_context(r->err, "while loading %s \"%s\"", what, name);
    struct error inner = *r->err;
    return json_error(r->s->json, node, r->err, NULL, "%s", inner.text);
}

/* ---- paths ---- */

const char *scenario_place(const struct scenario *s, const cJSON *node, const char *name) {
    const char *path = file_beside(s->arena, s->path, name);
    const bool typed = path != NULL && json_is_overridden(s->json, node) && file_is_there(name);
    return path == NULL || typed ? name : path;
}

/* That of a cluster's file is beside it first. */
static const char *place_hardware(struct reader *r) {
    const struct scenario *s = r->s;
    const char *name = s->cluster_fields.hardware,
               *path = r->hardware_is_the_clusters ? file_beside(s->arena, s->files.cluster, name)
                                                   : NULL;
    return path != NULL ? path
                        : scenario_place(s, scenario_member(r->top.cluster, "hardware"), name);
}

static void place_files(struct reader *r) {
    struct scenario *s = r->s;
    s->files.model = scenario_place(s, scenario_member(r->top.model, "name"), s->model_fields.name);
    s->files.dataset =
        scenario_place(s, scenario_member(r->top.dataset, "name"), s->dataset_fields.name);
    s->files.hardware = place_hardware(r);
}

void scenario_settle_paths(struct json *json) {
    static const char *const keys[][2] = { { "model", "name" },
                                           { "dataset", "name" },
                                           { "cluster", "name" },
                                           { "cluster", "hardware" },
                                           { "layout", "stack" } };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        cJSON *section = cJSON_GetObjectItemCaseSensitive(json_root(json), keys[i][0]);
        const bool bare = cJSON_IsString(section) && strcmp(keys[i][1], "name") == 0;
        const cJSON *node = bare ? section : cJSON_GetObjectItemCaseSensitive(section, keys[i][1]);
        const char *name = cJSON_GetStringValue(node);
        char *whole = NULL;
        if (file_beside(arena, json_name(json), name) != NULL && json_is_overridden(json, node) &&
            file_is_there(name))
            whole = realpath(name, NULL);
        if (whole == NULL) continue;
        cJSON *value = cJSON_CreateString(whole);
        json_assign(json, bare ? keys[i][0] : arena_format(arena, "%s.%s", keys[i][0], keys[i][1]),
                    value);
        cJSON_Delete(value);
        free(whole);
    }
    arena_destroy(arena);
}

/* ---- cluster: a named file whose values hold unless the scenario gives its own ---- */

static void add_missing_number(cJSON *section, const char *key, double value) {
    if (cJSON_GetObjectItemCaseSensitive(section, key) == NULL)
        cJSON_AddNumberToObject(section, key, value);
}

/* A measured fabric stands in for latency and efficiency: who states one of them wants that. */
static void add_fabric(struct reader *r, cJSON *section, const char *fabric) {
    static const char *const own[] = { "nic_latency_us", "nic_efficiency_fraction" };
    if (fabric == NULL || cJSON_GetObjectItemCaseSensitive(section, "fabric") != NULL) return;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (cJSON_GetObjectItemCaseSensitive(section, own[i]) != NULL) {
            scenario_assume(r, arena_format(r->s->arena,
                                            "cluster.%s holds, not fabric %s of the named cluster",
                                            own[i], fabric));
            return;
        }
    cJSON_AddStringToObject(section, "fabric", fabric);
}

static bool merge_cluster_file(struct reader *r) {
    cJSON *section = cJSON_GetObjectItemCaseSensitive(json_root(r->s->json), "cluster");
    const cJSON *name = section != NULL ? cJSON_GetObjectItemCaseSensitive(section, "name") : NULL;
    if (!cJSON_IsString(name)) return true;
    struct scenario *s = r->s;
    struct cluster_preset preset;
    struct scenario_cache *cache = r->options->cache;
    s->files.cluster = scenario_place(s, name, name->valuestring);
    bool known =
        cache != NULL
            ? scenario_cache_cluster(cache, s->directory, s->files.cluster, &preset, r->err)
            : cluster_preset_read(s->arena, s->directory, s->files.cluster, &preset, r->err);
    if (!known) {
        /* A name of one's own is welcome as long as the section says everything itself. */
        if (!r->err->located && cJSON_GetObjectItemCaseSensitive(section, "hardware") != NULL) {
            warn_of_near_cluster(r, name->valuestring);
            return true;
        }
        return scenario_relocate(r, name, "cluster", name->valuestring);
    }
    struct cluster_preset *kept = arena_new(s->arena, struct cluster_preset);
    *kept = preset;
    s->cluster = kept;
    r->hardware_is_the_clusters = cJSON_GetObjectItemCaseSensitive(section, "hardware") == NULL;
    if (r->hardware_is_the_clusters) cJSON_AddStringToObject(section, "hardware", preset.hardware);
    if (preset.gpu_count > 0) add_missing_number(section, "gpu_count", (double)preset.gpu_count);
    if (preset.network.gpus_per_node > 0)
        add_missing_number(section, "gpus_per_node", (double)preset.network.gpus_per_node);
    add_missing_number(section, "nic_Gbit_per_s_per_gpu",
                       preset.network.nic_bytes_per_s_per_gpu * 8 / 1e9);
    add_fabric(r, section, preset.network.fabric);
    add_missing_number(section, "nic_latency_us", preset.network.nic_latency_s * 1e6);
    add_missing_number(section, "nics_per_node", (double)preset.network.nics_per_node);
    add_missing_number(section, "nvlink_mesh_gpus", (double)preset.network.nvlink_mesh_gpus);
    if (preset.host_memory_bytes_per_node > 0)
        add_missing_number(section, "host_memory_GB_per_node",
                           preset.host_memory_bytes_per_node / 1e9);
    add_missing_number(section, "gpus_per_host_link", (double)preset.gpus_per_host_link);
    if (preset.network.nic_efficiency_fraction > 0)
        add_missing_number(section, "nic_efficiency_fraction",
                           preset.network.nic_efficiency_fraction);
    return true;
}

/* The samples are read later, but a name that leads nowhere is a mistake of the scenario. */
static bool check_dataset(struct reader *r) {
    struct scenario *s = r->s;
    r->rule = NULL;
    const char *name = s->files.dataset;
    if (scenario_present(s->dataset_fields.definition) != NULL) return true;
    const char *path = arena_format(s->arena, "%s/datasets/%s.json", s->directory, name);
    if (r->options->cache != NULL && scenario_cache_dataset_exists(r->options->cache, path, name))
        return true;
    bool by_name = strchr(name, '/') == NULL && access(path, F_OK) == 0;
    const cJSON *node = scenario_member(r->top.dataset, "name");
    struct stat status;
    if (!by_name && stat(name, &status) == 0 && S_ISDIR(status.st_mode))
        return json_error(s->json, node, r->err,
                          "name a file: .csv, .json or .jsonl, also with .gz", "%s is a folder",
                          name);
    if (by_name || access(name, F_OK) == 0) return true;
    struct dataset *dataset = dataset_load(s->directory, name, &s->tiling, r->err);
    ballast_check(dataset == NULL);
    return scenario_relocate(r, node, "data set", name);
}

/* Both are shared until something of the scenario's own changes them. */
static void own_backend_and_optimizer(struct scenario *s, struct backend **backend,
                                      struct optimizer **optimizer) {
    *backend = arena_new(s->arena, struct backend);
    *optimizer = arena_new(s->arena, struct optimizer);
    **backend = *s->backend;
    **optimizer = *s->optimizer;
    s->backend = *backend;
    s->optimizer = *optimizer;
}

/* Before the layout's rules, which read what a backend reduces. */
static void use_reduce_dtype(struct scenario *s) {
    if (s->training_fields.reduce_dtype == REDUCE_USUAL) return;
    struct backend *backend;
    struct optimizer *optimizer;
    own_backend_and_optimizer(s, &backend, &optimizer);
    backend_reduce_in(backend, optimizer, s->stack,
                      (enum reduce_type)s->training_fields.reduce_dtype);
}

static void use_adamw_kernels(struct scenario *s) {
    if (s->training_fields.adamw_kernels == ADAMW_KERNELS_USUAL) return;
    struct backend *backend;
    struct optimizer *optimizer;
    own_backend_and_optimizer(s, &backend, &optimizer);
    optimizer_use_adamw_kernels(optimizer, backend, s->stack,
                                (enum adamw_kernels)s->training_fields.adamw_kernels);
}

/* After the precisions of the modules are known. */
static void use_precision_aware(struct scenario *s) {
    const struct scenario_training *training = &s->training_fields;
    if (!training->precision_aware_optimizer) return;
    struct backend *backend;
    struct optimizer *optimizer;
    own_backend_and_optimizer(s, &backend, &optimizer);
    const bool scales_itself =
        training->fp8_recipe != FP8_RECIPE_USUAL && training->fp8_recipe != FP8_RECIPE_DELAYED;
    const struct precision_aware how = {
        .exp_avg = (enum state_type)training->exp_avg_dtype,
        .exp_avg_sq = (enum state_type)training->exp_avg_sq_dtype,
        .bf16_gradients = training->main_grads_dtype == STATE_BF16,
        .precision = model_computes_in_single(s->model) ? PRECISION_FP32 : s->main_precision,
        .fp32_weights_apart = model_computes_in(s->model, PRECISION_FP8) && scales_itself
    };
    optimizer_use_precision_aware(optimizer, backend, s->stack, &how);
}

/* Own figures go before those of the hardware file. */
static bool read_rules(struct reader *r, struct rule_list *rules) {
    struct scenario *s = r->s;
    s->rules = scenario_present(r->top.rules);
    return rules_read(s->json, s->rules, "the scenario", s->arena, rules, r->err) &&
           rule_rules(r, rules);
}

/* A wrong name of the hardware is told where its prices are read. */
static void choose_node(struct reader *r) {
    struct scenario *s = r->s;
    struct scenario_cluster *f = &s->cluster_fields;
    struct error ignored = { 0 };
    int64_t domain = HARDWARE_SERVER_GPUS;
    if (r->options->cache != NULL)
        scenario_cache_node_gpus(r->options->cache, s->directory, s->files.hardware, &domain,
                                 &ignored);
    else
        hardware_node_gpus(s->arena, s->directory, s->files.hardware, &domain, &ignored);
    if (f->gpus_per_node > 0) {
        warn_of_wide_nodes(r, domain);
        warn_of_trays(r, domain);
        return;
    }
    f->gpus_per_node = domain;
    if (domain <= HARDWARE_SERVER_GPUS) return;
    const int64_t share = hardware_node_share(domain, f->gpu_count, s->layout_fields.tp);
    if (share < HARDWARE_SERVER_GPUS && share < f->gpu_count)
        return; /* no even parts: rule_layout() says so */
    f->gpus_per_node = share;
    scenario_assume(r,
                    arena_format(s->arena,
                                 "a node is %ld GPUs%s the NVLink domain of %ld of %s "
                                 "(cluster.gpus_per_node)",
                                 (long)f->gpus_per_node, f->gpus_per_node == domain ? "," : " of",
                                 (long)domain, f->hardware));
}

/* Of model.precision, whose mistakes scenario_apply_model() tells. */
static enum precision find_main_precision(const struct scenario *s) {
    const cJSON *precisions = scenario_present(s->model_fields.precision);
    enum precision found = (enum precision)s->training_fields.precision;
    int64_t most = -1;
    for (int role = 0; role < MODULE_ROLE_COUNT; role++) {
        const int64_t parameters = module_parameters(s->model, (enum module_role)role);
        const int own = scenario_precision_named(
            cJSON_GetObjectItemCaseSensitive(precisions, module_role_name((enum module_role)role)));
        if (s->model->modules[role].layer_count == 0 || parameters <= most) continue;
        most = parameters;
        found = own >= 0 ? (enum precision)own : (enum precision)s->training_fields.precision;
    }
    return found;
}

static bool read_files(struct reader *r) {
    struct scenario *s = r->s;
    const cJSON *definition = scenario_present(s->model_fields.definition);
    struct scenario_cache *cache = r->options->cache;
    if (cache != NULL)
        s->model =
            scenario_cache_model(cache, s->directory, s->json, definition, s->files.model, r->err);
    else
        s->model = definition != NULL
                       ? model_from_json(s->arena, s->directory, s->json, definition, r->err)
                       : model_load(s->arena, s->directory, s->files.model, r->err);
    if (s->model == NULL && definition != NULL) return false;
    if (s->model == NULL)
        return scenario_relocate(r, scenario_member(r->top.model, "name"), "model",
                                 s->model_fields.name);
    s->main_precision = find_main_precision(s);
    choose_node(r);
    struct cluster_network network = {
        .gpus_per_node = s->cluster_fields.gpus_per_node,
        .nic_bytes_per_s_per_gpu =
            s->cluster_fields.nic_Gbit_per_s_per_gpu * s->what_if.nic_factor * 1e9 / 8,
        .nic_latency_s = s->cluster_fields.nic_latency_us * 1e-6,
        .nics_per_node = s->cluster_fields.nics_per_node,
        .nic_efficiency_fraction = s->cluster_fields.nic_efficiency_fraction,
        .fabric = s->cluster_fields.fabric,
        .nvlink_mesh_gpus = s->cluster_fields.nvlink_mesh_gpus,
        .without_nvls = !s->cluster_fields.nvls,
        .gpu_count = s->cluster_fields.gpu_count,
    };
    const enum precision precision = s->main_precision;
    struct rule_list rules;
    if (!scenario_load_stack(r) || !read_rules(r, &rules)) return false;
    s->own_rules = rules;
    if (cache != NULL) {
        s->cost_model = scenario_cache_cost_model(cache, s->directory, s->files.hardware, &network,
                                                  s->stack, precision, model_writes_text(s->model),
                                                  s->json, s->rules, r->err);
    } else {
        struct cost_model *own =
            cost_model_create(s->arena, s->directory, s->files.hardware, &network, r->err);
        if (own != NULL)
            cost_model_use_stack(own, s->stack, precision, model_writes_text(s->model));
        if (own != NULL && rules.count > 0) cost_model_use_rules(own, s->arena, &rules);
        s->cost_model = own;
    }
    if (s->cost_model == NULL) {
        /* Whichever of the two names is wrong. */
        struct error ignored = { 0 };
        const char *fabric = network.fabric;
        network.fabric = NULL;
        bool fabric_is_wrong =
            fabric != NULL && cost_model_create(s->arena, s->directory, s->files.hardware, &network,
                                                &ignored) != NULL;
        return fabric_is_wrong ? scenario_relocate(r, scenario_member(r->top.cluster, "fabric"),
                                                   "fabric", fabric)
                               : scenario_relocate(r, scenario_member(r->top.cluster, "hardware"),
                                                   "hardware", s->cluster_fields.hardware);
    }
    scenario_choose_launches(s);
    return rule_tiling(r) && check_dataset(r);
}

/* A definition written here and its section have one name: either place is enough. */
static bool share_name(struct reader *r, const char *section) {
    cJSON *object = cJSON_GetObjectItemCaseSensitive(json_root(r->s->json), section),
          *definition = cJSON_GetObjectItemCaseSensitive(object, "definition");
    if (!cJSON_IsObject(definition)) return true;
    const cJSON *outer = cJSON_GetObjectItemCaseSensitive(object, "name"),
                *inner = cJSON_GetObjectItemCaseSensitive(definition, "name");
    if (outer == NULL && inner != NULL && !cJSON_IsString(inner))
        return json_error(r->s->json, inner, r->err, "by which results call it",
                          "must be a text in quotes");
    if (outer == NULL && cJSON_IsString(inner))
        cJSON_AddStringToObject(object, "name", inner->valuestring);
    if (inner == NULL && cJSON_IsString(outer))
        cJSON_AddStringToObject(definition, "name", outer->valuestring);
    return true;
}

static bool read_all(struct reader *r) {
    struct scenario *s = r->s;
    const cJSON *vary = cJSON_GetObjectItemCaseSensitive(json_root(s->json), "vary");
    if (vary != NULL)
        return json_error(s->json, vary, r->err, "`ballast sweep` runs it",
                          "this is a sweep, not a scenario");
    if (!share_name(r, "model") || !share_name(r, "dataset")) return false;
    if (!field_table_read(&scenario_top_table, s->json, json_root(s->json), &r->top, s->arena,
                          r->err))
        return false;
    if (!read_section(r, &scenario_model_table, &r->top.model, &s->model_fields)) return false;
    if (!read_section(r, &scenario_dataset_table, &r->top.dataset, &s->dataset_fields))
        return false;
    if (scenario_present(r->top.cluster) != NULL && !section_object(r, &r->top.cluster))
        return false;
    if (!merge_cluster_file(r)) return false;
    if (!read_section(r, &scenario_cluster_table, &r->top.cluster, &s->cluster_fields))
        return false;
    if (!read_section(r, &scenario_layout_table, &r->top.layout, &s->layout_fields)) return false;
    if (!read_section(r, &scenario_training_table, &r->top.training, &s->training_fields))
        return false;
    if (!read_section(r, &scenario_policy_table, &r->top.policy, &r->policy)) return false;
    if (!read_section(r, &scenario_simulate_table, &r->top.simulate, &s->simulate_fields))
        return false;
    if (!read_section(r, &scenario_what_if_table, &r->top.what_if, &s->what_if)) return false;

    place_files(r);
    s->tiling = tiling_default();
    s->tiling.kind = (enum tiling_kind)s->dataset_fields.tiling;
    s->tiling.min_tiles = s->dataset_fields.min_tiles;
    s->tiling.max_tiles = s->dataset_fields.max_tiles;
    s->tiling.thumbnail = s->dataset_fields.thumbnail;
    if (s->tiling.min_tiles > s->tiling.max_tiles)
        return json_error(s->json,
                          SUSPECT(r, scenario_member(r->top.dataset, "min_tiles"),
                                  scenario_member(r->top.dataset, "max_tiles")),
                          r->err, NULL, "min_tiles is above max_tiles");

    if (!read_files(r) || !scenario_apply_model(r)) return false;
    if (!rule_precision(r) || !rule_fp8_recipe(r) || !rule_precision_aware(r) ||
        !rule_reduce_dtype(r) || !rule_adamw_kernels(r) || !rule_attention(r))
        return false;
    use_reduce_dtype(s);
    use_adamw_kernels(s);
    if (!rule_layout(r) || !rule_gradient_sync(r) || !rule_model(r) || !rule_lora(r) ||
        !rule_batch(r) || !rule_iterations(r) || !rule_what_if(r))
        return false;
    use_precision_aware(s);
    if (!scenario_read_joint(r)) return false;
    if (!scenario_read_batching(r) || !rule_sequence_groups(r)) return false;
    if (!scenario_read_schedule(r) || !rule_schedule(r)) return false;
    if (!scenario_read_partition(r) || !scenario_read_recompute(r)) return false;
    standing_assumptions(r);
    warn_of_idle_recipe(r);
    warn_of_idle_balance(r);
    warn_of_idle_overlap(r);
    warn_of_fast_nics(r);
    warn_of_nics_beyond_pcie(r);
    warn_of_foreign_price(r);
    backend_limits(r);
    return rule_rules_match(r);
}

static const char *file_stem(struct arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    char *stem = arena_text(arena, slash != NULL ? slash + 1 : path);
    char *dot = strrchr(stem, '.');
    if (dot != NULL && dot != stem) *dot = '\0';
    for (char *c = stem; *c != '\0'; c++)
        if ((unsigned char)*c < 32 || *c == 127) *c = '?'; /* a name stands in tables */
    return stem;
}

struct json *scenario_document(const char *directory, const char *what, const char *path,
                               struct error *err) {
    const size_t length = strlen(path);
    if (access(path, F_OK) == 0 || strchr(path, '/') != NULL ||
        (length > 5 && strcmp(path + length - 5, ".json") == 0))
        return json_load(path, err);
    struct arena *arena = arena_create();
    const char *example = arena_format(arena, "%s/examples/%s.json", directory, path);
    struct json *json = NULL;
    if (access(example, F_OK) == 0) {
        json = json_load(example, err);
    } else {
        error_set(err, "there is no %s '%s'", what, path);
        const char *near = nearest_file(arena, arena_format(arena, "%s/examples", directory), path);
        if (near != NULL)
            error_hint(err, "did you mean '%s'?", near);
        else
            error_hint(err, "the path of a file, or the name of one in %s/examples", directory);
    }
    arena_destroy(arena);
    return json;
}

struct scenario *scenario_load(const struct scenario_options *options, const char *path,
                               struct error *err) {
    struct json *json = scenario_document(options->directory, "scenario", path, err);
    return json != NULL ? scenario_load_json(options, json, err) : NULL;
}

typedef bool change_one(struct json *json, const char *text, struct error *err);

static bool change_all(struct json *json, const char *const *texts, change_one *change,
                       struct error *err) {
    for (; texts != NULL && *texts != NULL; texts++)
        if (!change(json, *texts, err)) return false;
    return true;
}

static bool override_by_variant(struct json *json, const char *text, struct error *err) {
    return json_override_by(json, "--variant", text, err);
}

bool scenario_change(const struct scenario_options *options, struct json *json, struct error *err) {
    return change_all(json, options->overrides, json_override, err) &&
           change_all(json, options->removals, json_remove, err) &&
           change_all(json, options->variant, override_by_variant, err);
}

struct scenario *scenario_load_json(const struct scenario_options *options, struct json *json,
                                    struct error *err) {
    struct arena *arena = arena_create();
    struct scenario *s = arena_new(arena, struct scenario);
    s->arena = arena;
    s->json = json;
    s->path = arena_text(arena, json_name(json));
    s->directory = arena_text(arena, options->directory);
    s->assumptions = arena_array(arena, const char *, ASSUMPTION_LIMIT);
    s->warnings = arena_array(arena, const char *, WARNING_LIMIT);
    struct reader reader = { .s = s, .options = options, .err = err };
    const bool ok = scenario_change(options, json, err) && read_all(&reader);
    if (!ok) {
        if (err != NULL) err->rule = reader.rule;
        scenario_destroy(s);
        return NULL;
    }
    s->name = reader.top.name != NULL ? reader.top.name : file_stem(arena, s->path);
    s->description = reader.top.description;
    return s;
}

void scenario_destroy(struct scenario *scenario) {
    if (scenario == NULL) return;
    json_destroy(scenario->json);
    arena_destroy(scenario->arena);
}

static enum attention_kernel kernel_of(int attention) {
    return attention == TRAINING_FLASH_2   ? ATTENTION_KERNEL_FLASH_2
           : attention == TRAINING_FLASH_3 ? ATTENTION_KERNEL_FLASH_3
           : attention == TRAINING_FLASH_1 ? ATTENTION_KERNEL_FLASH_1
           : attention == TRAINING_CUDNN   ? ATTENTION_KERNEL_CUDNN
           : attention == TRAINING_MASKED  ? ATTENTION_KERNEL_MASKED
                                           : ATTENTION_KERNEL_USUAL;
}

/* As the training or, where it names none, the stack has it. */
static enum attention_kernel attention_kernel_of(const struct scenario *s) {
    const enum attention_kernel named = kernel_of(s->training_fields.attention);
    const bool flash_2 =
        s->stack != NULL && s->stack->flash_2_blackwell &&
        gpu_generation_of(cost_model_gpu(s->cost_model)->name) == GENERATION_BLACKWELL;
    return named == ATTENTION_KERNEL_USUAL && flash_2 ? ATTENTION_KERNEL_FLASH_2 : named;
}

/* A probability of a training: NaN leaves it to the model's file. */
static enum dropout dropout_of(double probability) {
    if (isnan(probability)) return DROPOUT_OF_MODEL;
    return probability > 0 ? DROPOUT_ON : DROPOUT_OFF;
}

static bool is_constant(const cJSON *value) {
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(value, "distribution");
    return value == NULL || cJSON_IsNumber(value) ||
           (cJSON_IsString(kind) && strcmp(kind->valuestring, "constant") == 0);
}

/* Samples of a file differ in length, and those that are drawn unless every part is one number. */
static bool samples_differ(const struct scenario_dataset *dataset) {
    static const char *const lengths[] = { "language_tokens", "text_tokens", "vision_tiles" };
    const cJSON *drawn = dataset->definition;
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(drawn, "kind");
    if (!cJSON_IsString(kind) || strcmp(kind->valuestring, "distribution") != 0) return true;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        if (!is_constant(cJSON_GetObjectItemCaseSensitive(drawn, lengths[i]))) return true;
    return false;
}

static bool unpads_attention(const struct scenario *s) {
    if (s->backend->block.unpads != UNPADS_PADDED) return s->backend->block.unpads == UNPADS_ALWAYS;
    const struct batching_policy *batching = s->batching.row;
    return !batching->packs && s->micro_batch_samples > 1 && samples_differ(&s->dataset_fields);
}

/* torchao gathers weights cast with one scale a tensor alone (float8/fsdp_utils.py); Megatron-core
 * blocks of 128 too, but MXFP8 is cast from a buffer of bf16 after the gather
 * (param_and_grad_buffer.py). */
static bool recipe_gathers_cast(const struct scenario *s) {
    switch ((enum fp8_recipe)s->training_fields.fp8_recipe) {
    case FP8_RECIPE_USUAL:
    case FP8_RECIPE_DELAYED:
    case FP8_RECIPE_TENSORWISE:
        return true;
    case FP8_RECIPE_BLOCKWISE:
        return s->backend->block.casts != CASTS_DYNAMIC;
    case FP8_RECIPE_ROWWISE:
    case FP8_RECIPE_MXFP8:
    case FP8_RECIPE_COUNT:
        break;
    }
    return false;
}

bool scenario_gathers_cast(const struct scenario *s) {
    return s->backend->fp8_gather_saves > 0 && s->layout.zero_stage >= 1 &&
           s->layout.zero_group > 1 && recipe_gathers_cast(s);
}

bool scenario_reduces_beside(const struct scenario *s) {
    return s->layout.overlap_gradient_reduce ||
           backend_always_hides(s->backend, s->layout.zero_stage);
}

bool scenario_accumulates_shards(const struct scenario *s) {
    return strcmp(s->backend->name, "fsdp") == 0 && s->layout.zero_stage >= 2 &&
           s->layout.zero_group > 1 && s->micro_batches_per_rank > 1;
}

struct tensor_split scenario_split(const struct scenario *s) {
    struct tensor_split split = {
        .tp = s->layout.tp,
        .sequence_parallel = s->layout.sequence_parallel,
        .cp = s->layout.cp,
        .context_heads = s->layout.cp_heads,
        .attention =
            s->training_fields.attention == TRAINING_NAIVE ? ATTENTION_NAIVE : ATTENTION_FLASH,
        .attention_kernel = attention_kernel_of(s),
        .block = s->backend->block,
        .context = (enum context_kind)s->layout_fields.cp_kind,
        .context_unbalanced = !s->layout_fields.cp_balanced,
        .fp8_recipe = (enum fp8_recipe)s->training_fields.fp8_recipe,
        .weights_come_cast = scenario_gathers_cast(s),
        .adds_in_matmul = s->backend->adds_in_matmul && s->backend->accumulate_bytes_moved == 0,
        .unpads_samples = unpads_attention(s),
        .hidden_dropout = dropout_of(s->training_fields.hidden_dropout),
        .attention_dropout = dropout_of(s->training_fields.attention_dropout),
        .determinism = (enum determinism)s->training_fields.deterministic
    };
    if (s->model->modules[MODULE_VISION].flash_attention) split.block.unfused_encoder = false;
    /* gathered in 16 bits, whatever the shards are in */
    if (backend_always_hides(s->backend, s->layout.zero_stage) && s->layout.zero_group > 1)
        split.block.casts_adapter_inputs = false;
    return split;
}

/* ---- the resolved scenario ---- */

double scenario_host_copy_bytes_per_s(const struct scenario *s) {
    return cost_model_gpu(s->cost_model)->pcie_bytes_per_s /
           (double)s->cluster_fields.gpus_per_host_link;
}

static cJSON *resolved_policy(const struct policy_choice *choice) {
    if (choice->row == NULL) return cJSON_CreateNull();
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", choice->name);
    if (choice->table == NULL) return object;
    cJSON *parameters = field_table_write(choice->table, choice->parameters);
    while (parameters->child != NULL) {
        cJSON *item = cJSON_DetachItemViaPointer(parameters, parameters->child);
        char *key = item->string;
        item->string = NULL;
        cJSON_AddItemToObject(object, key, item);
        cJSON_free(key);
    }
    cJSON_Delete(parameters);
    return object;
}

cJSON *scenario_resolved(const struct scenario *s) {
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "name", s->name);
    if (s->description != NULL) cJSON_AddStringToObject(root, "description", s->description);
    cJSON_AddItemToObject(root, "model",
                          field_table_write(&scenario_model_table, &s->model_fields));
    cJSON_AddItemToObject(root, "dataset",
                          field_table_write(&scenario_dataset_table, &s->dataset_fields));
    cJSON_AddItemToObject(root, "cluster",
                          field_table_write(&scenario_cluster_table, &s->cluster_fields));
    cJSON_AddItemToObject(root, "layout",
                          field_table_write(&scenario_layout_table, &s->layout_fields));
    cJSON *training = field_table_write(&scenario_training_table, &s->training_fields);
    cJSON *global = cJSON_CreateObject(), *micro = cJSON_CreateObject();
    cJSON_AddNumberToObject(global, "micro_batches",
                            (double)(s->micro_batches_per_rank * s->layout.dp));
    cJSON_AddNumberToObject(micro, "samples", (double)s->micro_batch_samples);
    cJSON_ReplaceItemInObjectCaseSensitive(training, "global_batch", global);
    cJSON_ReplaceItemInObjectCaseSensitive(training, "micro_batch", micro);
    cJSON_AddItemToObject(root, "training", training);
    cJSON *policy = cJSON_AddObjectToObject(root, "policy");
    cJSON_AddItemToObject(policy, "batching", resolved_policy(&s->batching));
    cJSON_AddItemToObject(policy, "partition", resolved_policy(&s->partition));
    cJSON_AddItemToObject(policy, "recompute", resolved_policy(&s->recompute));
    cJSON_AddItemToObject(policy, "schedule", resolved_policy(&s->schedule));
    if (s->joint.row != NULL) cJSON_AddItemToObject(policy, "joint", resolved_policy(&s->joint));
    cJSON *simulate = field_table_write(&scenario_simulate_table, &s->simulate_fields);
    if (s->iteration_limit == 0)
        cJSON_ReplaceItemInObjectCaseSensitive(simulate, "iterations", cJSON_CreateString("epoch"));
    cJSON_AddItemToObject(root, "simulate", simulate);
    if (s->rules != NULL) cJSON_AddItemToObject(root, "rules", cJSON_Duplicate(s->rules, true));
    cJSON_AddItemToObject(root, "what_if", field_table_write(&scenario_what_if_table, &s->what_if));
    return root;
}
