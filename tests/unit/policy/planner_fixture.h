/* planner_fixture.h - what the tests of planners share: a plan of a model from scenarios/models. */
#ifndef BALLAST_TESTS_PLANNER_FIXTURE_H
#define BALLAST_TESTS_PLANNER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "sim/policy/partition/partition.h"
#include "sim/policy/recompute/recompute.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

struct planning {
    struct arena *arena;
    const struct model *model;
    struct job_plan plan;
    struct batch_shape typical; /* what the oracle says; zero unless the test sets it */
    struct error err;
};

static inline struct planning planning_of(const struct model *model, int64_t stage_count) {
    struct planning p = { .arena = arena_create(), .model = model };
    p.plan.stage_count = p.plan.part_count = stage_count;
    p.plan.chunk_count = 1;
    p.plan.first_layer = arena_array(p.arena, int64_t, stage_count + 1);
    p.plan.recompute = arena_array(p.arena, enum recompute_kind, model->layer_count);
    return p;
}

static inline void planning_free(struct planning *p) {
    arena_destroy(p->arena);
}

static inline const struct model *fixture_model(struct arena *arena, const char *name) {
    struct error err = { 0 };
    const struct model *model = model_load(arena, SCENARIOS, name, &err);
    if (model == NULL) fail_msg("%s: %s", name, err.text);
    return model;
}

/* Reads the parameters from JSON text (NULL: none), checks them and plans; p->err says why not. */
static inline bool planning_run(struct planning *p, enum planner_slot slot, const char *name,
                                const char *parameters) {
    const struct planner *planner = planner_find(slot, name);
    if (planner == NULL) fail_msg("no %s policy %s", planner_slot_name(slot), name);
    const char *text = parameters != NULL ? parameters : "{}";
    struct json *json = json_parse("parameters", text, strlen(text), &p->err);
    if (json == NULL) fail_msg("%s: %s", name, p->err.text);
    void *values = NULL;
    bool ok = true;
    if (planner->parameters != NULL) {
        values = arena_alloc(p->arena, planner->parameters_size);
        ok =
            field_table_read(planner->parameters, json, json_root(json), values, p->arena, &p->err);
    }
    struct planner_oracle oracle = { .arena = p->arena,
                                     .model = p->model,
                                     .typical = p->typical };
    if (ok && planner->check != NULL)
        ok = planner->check(p->model, p->plan.stage_count, values, &p->err);
    ok = ok && planner->plan_job(&oracle, values, &p->plan, &p->err);
    json_destroy(json);
    return ok;
}

/* "57 12 12 12" */
static inline const char *planning_blocks(struct planning *p) {
    int64_t *blocks = arena_array(p->arena, int64_t, p->plan.stage_count);
    partition_blocks(p->model, &p->plan, blocks);
    const char *text = "";
    for (int64_t i = 0; i < p->plan.stage_count; i++)
        text = arena_format(p->arena, i > 0 ? "%s %ld" : "%s%ld", text, (long)blocks[i]);
    return text;
}

#endif
