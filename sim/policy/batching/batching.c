/* batching.c - the table of batching policies, and what is common to their plans. */
#include "sim/policy/batching/batching.h"

#include <stdlib.h>
#include <string.h>
#include "sim/policy/batching/policies.h"

/* Sorted by name: `--help` and docs list them in this order. */
static const struct batching_policy *const policies[] = {
    &batching_clip_group,   &batching_device_group, &batching_isf,
    &batching_length_group, &batching_pack,         &batching_random,
};

const struct batching_policy *const *batching_policies(size_t *count) {
    *count = sizeof policies / sizeof policies[0];
    return policies;
}

/* Rows of plug-ins. Written while the command line is read, only read afterwards. */
enum { REGISTERED_LIMIT = 16 };
static const struct batching_policy *registered[REGISTERED_LIMIT];
static size_t registered_count;

bool batching_policy_register(const struct batching_policy *policy) {
    if (registered_count == REGISTERED_LIMIT) return false;
    registered[registered_count++] = policy;
    return true;
}

const struct batching_policy *batching_policy_find(const char *name) {
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        if (strcmp(policies[i]->name, name) == 0) return policies[i];
    for (size_t i = 0; i < registered_count; i++)
        if (strcmp(registered[i]->name, name) == 0) return registered[i];
    return NULL;
}

void batch_plan_free(struct batch_plan *plan) {
    free(plan->samples);
    free(plan->starts);
    free(plan->order);
    free(plan->padded_tokens);
    *plan = (struct batch_plan){ 0 };
}

int64_t batching_policy_groups_joined(const struct batching_policy *policy,
                                      const void *parameters) {
    return policy->groups_joined != NULL ? policy->groups_joined(parameters) : 1;
}

int64_t batch_plan_left_out(const struct batch_plan *plan) {
    return plan->oversize_skipped + plan->lost_with_last_group + plan->leftover_dropped;
}

/* ---- text ---- */

enum { INDEX_DIGITS = 10 /* of 2^32 - 1 */, WRITE_BUFFER_BYTES = 1 << 16 };

static size_t put_index(char *to, uint32_t index) {
    char reversed[INDEX_DIGITS];
    size_t digits = 0;
    do
        reversed[digits++] = (char)('0' + index % 10);
    while ((index /= 10) > 0);
    for (size_t i = 0; i < digits; i++)
        to[i] = reversed[digits - 1 - i];
    return digits;
}

bool batch_plan_write_groups(const struct batch_plan *plan, FILE *out) {
    char buffer[WRITE_BUFFER_BYTES];
    size_t used = 0;
    for (int64_t g = 0; g < plan->group_count; g++) {
        for (uint32_t i = plan->starts[g]; i < plan->starts[g + 1]; i++) {
            if (used + INDEX_DIGITS + 1 > sizeof buffer) {
                if (fwrite(buffer, 1, used, out) != used) return false;
                used = 0;
            }
            if (i > 0) buffer[used++] = i == plan->starts[g] ? ';' : ',';
            used += put_index(buffer + used, plan->samples[i]);
        }
    }
    return fwrite(buffer, 1, used, out) == used && !ferror(out);
}
