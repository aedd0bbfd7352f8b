/* scenario_cache.h - files that many scenarios name, read once.
 *
 * A sweep loads thousands of scenarios that differ in a few fields. Models, cost models and cluster
 * files come from here then, and equal ones are the same object. Any number of threads may ask.
 *
 *     struct scenario_cache *cache = scenario_cache_create();
 *     struct scenario_options options = { .directory = "scenarios", .cache = cache };
 *     ... scenario_load_json(&options, ...) ...
 *     scenario_cache_destroy(cache);      // after the last of those scenarios
 */
#ifndef BALLAST_SIM_SCENARIO_CACHE_H
#define BALLAST_SIM_SCENARIO_CACHE_H

#include "costmodel/cost_model.h"
#include "costmodel/stack.h"
#include "sim/model/model.h"

struct scenario_cache;

struct scenario_cache *scenario_cache_create(void);
void scenario_cache_destroy(struct scenario_cache *cache);

/* As model_load() and model_from_json() (definition not NULL), cost_model_create() with the stack
 * and the rules (of that document) if there are any, stack_load() and cluster_preset_read(); what
 * they return lives as long as the cache. Mistakes are not kept. */
const struct model *scenario_cache_model(struct scenario_cache *cache, const char *directory,
                                         const struct json *json, const cJSON *definition,
                                         const char *name, struct error *err);
const struct cost_model *scenario_cache_cost_model(struct scenario_cache *cache,
                                                   const char *directory, const char *hardware,
                                                   const struct cluster_network *network,
                                                   const struct stack *stack,
                                                   enum precision precision, bool writes_text,
                                                   const struct json *json, const cJSON *rules,
                                                   struct error *err);
const struct stack *scenario_cache_stack(struct scenario_cache *cache, const char *directory,
                                         const char *name, struct error *err);
bool scenario_cache_cluster(struct scenario_cache *cache, const char *directory, const char *name,
                            struct cluster_preset *preset, struct error *err);
/* As hardware_node_gpus(). */
bool scenario_cache_node_gpus(struct scenario_cache *cache, const char *directory,
                              const char *hardware, int64_t *out, struct error *err);
/* Whether one of the two files was there when it was first asked for. */
bool scenario_cache_dataset_exists(struct scenario_cache *cache, const char *path,
                                   const char *name);

#endif
