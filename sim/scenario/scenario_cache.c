/* scenario_cache.c - short lists from text to object under one lock. A sweep has a handful of
 * models and networks, so that a list is searched faster than a table would be hashed. */
#include "sim/scenario/scenario_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "costmodel/hardware.h"

struct entry {
    struct entry *next;
    const char *key;
    const void *object;
};

struct scenario_cache {
    pthread_mutex_t lock;
    struct arena *arena;
    struct entry *models, *profiles, *cost_models, *stacks, *clusters, *datasets, *nodes;
};

struct scenario_cache *scenario_cache_create(void) {
    struct scenario_cache *cache = memory_alloc(sizeof *cache);
    *cache = (struct scenario_cache){ .arena = arena_create() };
    pthread_mutex_init(&cache->lock, NULL);
    return cache;
}

void scenario_cache_destroy(struct scenario_cache *cache) {
    if (cache == NULL) return;
    pthread_mutex_destroy(&cache->lock);
    arena_destroy(cache->arena);
    free(cache);
}

static const void *find(const struct entry *list, const char *key) {
    while (list != NULL && strcmp(list->key, key) != 0)
        list = list->next;
    return list != NULL ? list->object : NULL;
}

static void keep(struct scenario_cache *cache, struct entry **list, const char *key,
                 const void *object) {
    struct entry *entry = arena_new(cache->arena, struct entry);
    *entry = (struct entry){ *list, arena_text(cache->arena, key), object };
    *list = entry;
}

const struct model *scenario_cache_model(struct scenario_cache *cache, const char *directory,
                                         const struct json *json, const cJSON *definition,
                                         const char *name, struct error *err) {
    char *text = definition != NULL ? cJSON_PrintUnformatted(definition) : NULL;
    const char *key = text != NULL ? text : name;
    pthread_mutex_lock(&cache->lock);
    const struct model *model = find(cache->models, key);
    if (model == NULL) {
        model = definition != NULL ? model_from_json(cache->arena, directory, json, definition, err)
                                   : model_load(cache->arena, directory, name, err);
        if (model != NULL) keep(cache, &cache->models, key, model);
    }
    pthread_mutex_unlock(&cache->lock);
    cJSON_free(text);
    return model;
}

/* The curves of a GPU are the largest files of all, and networks, job sizes and stacks many. */
static struct cost_model *make_cost_model(struct scenario_cache *cache, const char *directory,
                                          const char *hardware,
                                          const struct cluster_network *network,
                                          struct error *err) {
    const struct cost_model *known = find(cache->profiles, hardware);
    struct cost_model *made =
        known != NULL ? cost_model_create_beside(cache->arena, directory, known, network, err)
                      : cost_model_create(cache->arena, directory, hardware, network, err);
    if (made == NULL && known != NULL) error_context(err, "while loading hardware '%s'", hardware);
    if (made != NULL && known == NULL) keep(cache, &cache->profiles, hardware, made);
    return made;
}

const struct cost_model *
scenario_cache_cost_model(struct scenario_cache *cache, const char *directory, const char *hardware,
                          const struct cluster_network *n, const struct stack *stack,
                          enum precision precision, bool writes_text, const struct json *json,
                          const cJSON *rules, struct error *err) {
    char key[8192];
    char *rules_text = rules != NULL ? cJSON_PrintUnformatted(rules) : NULL;
    int length = snprintf(
        key, sizeof key, "%s\n%ld %.17g %.17g %ld %ld %d %ld %.17g %s\n%p %d %d %s", hardware,
        (long)n->gpus_per_node, n->nic_bytes_per_s_per_gpu, n->nic_latency_s,
        (long)n->nics_per_node, (long)n->nvlink_mesh_gpus, n->without_nvls,
        stack != NULL ? (long)n->gpu_count : 0, n->nic_efficiency_fraction,
        n->fabric != NULL ? n->fabric : "", (const void *)stack, stack != NULL ? (int)precision : 0,
        writes_text, rules_text != NULL ? rules_text : "");
    cJSON_free(rules_text);
    if (length < 0 || (size_t)length >= sizeof key) {
        error_set(err, "the rules, or the names of hardware and fabric, are too long");
        return NULL;
    }
    pthread_mutex_lock(&cache->lock);
    const struct cost_model *model = find(cache->cost_models, key);
    if (model == NULL) {
        struct cluster_network network = *n; /* whose name must outlive the scenario */
        if (n->fabric != NULL) network.fabric = arena_text(cache->arena, n->fabric);
        struct cost_model *made = make_cost_model(cache, directory, hardware, &network, err);
        if (made != NULL) cost_model_use_stack(made, stack, precision, writes_text);
        struct rule_list list = { 0 };
        if (made != NULL && rules != NULL &&
            rules_read(json, rules, "the scenario", cache->arena, &list, err))
            cost_model_use_rules(made, cache->arena, &list);
        if (made != NULL) keep(cache, &cache->cost_models, key, made);
        model = made;
    }
    pthread_mutex_unlock(&cache->lock);
    return model;
}

const struct stack *scenario_cache_stack(struct scenario_cache *cache, const char *directory,
                                         const char *name, struct error *err) {
    pthread_mutex_lock(&cache->lock);
    const struct stack *stack = find(cache->stacks, name);
    if (stack == NULL) {
        stack = stack_load(cache->arena, directory, name, err);
        if (stack != NULL) keep(cache, &cache->stacks, name, stack);
    }
    pthread_mutex_unlock(&cache->lock);
    return stack;
}

bool scenario_cache_cluster(struct scenario_cache *cache, const char *directory, const char *name,
                            struct cluster_preset *preset, struct error *err) {
    pthread_mutex_lock(&cache->lock);
    const struct cluster_preset *known = find(cache->clusters, name);
    if (known == NULL) {
        struct cluster_preset *read = arena_new(cache->arena, struct cluster_preset);
        if (cluster_preset_read(cache->arena, directory, name, read, err)) {
            keep(cache, &cache->clusters, name, read);
            known = read;
        }
    }
    if (known != NULL) *preset = *known;
    pthread_mutex_unlock(&cache->lock);
    return known != NULL;
}

bool scenario_cache_node_gpus(struct scenario_cache *cache, const char *directory,
                              const char *hardware, int64_t *out, struct error *err) {
    pthread_mutex_lock(&cache->lock);
    const int64_t *known = find(cache->nodes, hardware);
    if (known == NULL) {
        int64_t *read = arena_new(cache->arena, int64_t);
        if (hardware_node_gpus(cache->arena, directory, hardware, read, err)) {
            keep(cache, &cache->nodes, hardware, read);
            known = read;
        }
    }
    if (known != NULL) *out = *known;
    pthread_mutex_unlock(&cache->lock);
    return known != NULL;
}

bool scenario_cache_dataset_exists(struct scenario_cache *cache, const char *path,
                                   const char *name) {
    static const char there[] = "there";
    pthread_mutex_lock(&cache->lock);
    bool known = find(cache->datasets, name) != NULL;
    if (!known &&
        ((strchr(name, '/') == NULL && access(path, F_OK) == 0) || access(name, F_OK) == 0)) {
        keep(cache, &cache->datasets, name, there);
        known = true;
    }
    pthread_mutex_unlock(&cache->lock);
    return known;
}
