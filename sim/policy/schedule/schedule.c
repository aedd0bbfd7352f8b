/* schedule.c - the table of schedules. A new one is a file of its own, a declaration in schedule.h
 * and a row here, sorted by name. */
#include "sim/policy/schedule/schedule.h"

#include <string.h>

static const struct schedule_policy *const policies[] = {
    &schedule_1f1b,
    &schedule_gpipe,
    &schedule_interleaved,
};

static const size_t policy_count = sizeof(policies) / sizeof(policies[0]);

const struct schedule_policy *const *schedule_policies(size_t *count) {
    *count = policy_count;
    return policies;
}

/* Rows of plug-ins. Written while the command line is read, only read afterwards. */
enum { REGISTERED_LIMIT = 16 };
static const struct schedule_policy *registered[REGISTERED_LIMIT];
static size_t registered_count;

bool schedule_policy_register(const struct schedule_policy *policy) {
    if (registered_count == REGISTERED_LIMIT) return false;
    registered[registered_count++] = policy;
    return true;
}

const struct schedule_policy *schedule_policy_find(const char *name) {
    for (size_t i = 0; i < policy_count; i++)
        if (strcmp(policies[i]->name, name) == 0) return policies[i];
    for (size_t i = 0; i < registered_count; i++)
        if (strcmp(registered[i]->name, name) == 0) return registered[i];
    return NULL;
}
