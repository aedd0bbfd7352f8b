/* planner.c - the table of planners. A new policy adds its file and one line here. */
#include "sim/policy/planner.h"

#include <string.h>
#include "sim/policy/joint/joint.h"
#include "sim/policy/partition/partition.h"
#include "sim/policy/recompute/recompute.h"

/* One a line, so that branches that add one do not collide. */
static const struct planner *const table[] = {
    &partition_bmp,
    &partition_cumulative,
    &partition_encoder_first,
    &partition_exact,
    &partition_layer,
    &partition_manual,
    &partition_parameter,
    &partition_profile_based,
    &partition_uneven_flop,
    &recompute_adaptive,
    &recompute_full,
    &recompute_modules,
    &recompute_none,
    &recompute_selective,
    &recompute_stages,
    &recompute_uniform,
    &joint_dip,
    &joint_nnscaler,
    &joint_omnibal,
    &joint_optimus,
};

static const char *const slot_names[PLANNER_SLOT_COUNT] = {
    [PLANNER_PARTITION] = "partition",
    [PLANNER_RECOMPUTE] = "recompute",
    [PLANNER_JOINT] = "joint",
};

const struct planner *const *planners(size_t *count) {
    *count = sizeof table / sizeof table[0];
    return table;
}

/* Rows of plug-ins. Written while the command line is read, only read afterwards. */
enum { REGISTERED_LIMIT = 16 };
static const struct planner *registered[REGISTERED_LIMIT];
static size_t registered_count;

bool planner_register(const struct planner *planner) {
    if (registered_count == REGISTERED_LIMIT) return false;
    registered[registered_count++] = planner;
    return true;
}

static bool is(const struct planner *planner, enum planner_slot slot, const char *name) {
    return planner->slot == slot && strcmp(planner->name, name) == 0;
}

const struct planner *planner_find(enum planner_slot slot, const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (is(table[i], slot, name)) return table[i];
    for (size_t i = 0; i < registered_count; i++)
        if (is(registered[i], slot, name)) return registered[i];
    return NULL;
}

static const char *name_at(const void *names, size_t index) {
    return ((const char *const *)names)[index];
}

const char *planner_hint(struct arena *arena, enum planner_slot slot, const char *name) {
    const char *names[sizeof table / sizeof table[0]];
    size_t count = 0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i]->slot == slot) names[count++] = table[i]->name;
    return nearest_hint(arena, name, count, name_at, names);
}

const char *planner_slot_name(enum planner_slot slot) {
    return slot_names[slot];
}
