/* sweep_rescale.c - rows that differ in the size of their steps alone.
 *
 * A packing policy makes each group a micro-batch and keeps the number of micro-batches that
 * training.global_batch asks for in samples (docs/SCENARIOS.md): global batch / micro-batch. So
 * values of training.micro_batch give the same layout with more or fewer groups in a step, and the
 * largest steps would win for being large. Of such rows the one stands that keeps the limits, if
 * one does, then one that counts, and of those the one whose steps hold most nearly the samples
 * that are asked for. A question asks for its own limit alone, and so chooses for itself.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/study/sweep/sweep_race.h"

static const char *name_at(const cJSON *root, const char *path) {
    const cJSON *node = condition_field(root, path);
    if (cJSON_IsObject(node)) node = cJSON_GetObjectItemCaseSensitive(node, "name");
    return cJSON_IsString(node) ? node->valuestring : NULL;
}

static bool packs(const struct sweep_file *file, int64_t index) {
    struct error ignored = { 0 };
    struct json *json = sweep_file_scenario(file, index, &ignored);
    if (json == NULL) return false;
    const char *batching = name_at(json_root(json), "policy.batching"),
               *joint = name_at(json_root(json), "policy.joint");
    const struct planner *planner =
        batching == NULL && joint != NULL ? planner_find(PLANNER_JOINT, joint) : NULL;
    if (planner != NULL && planner->preset != NULL) batching = planner->preset->batching;
    const struct batching_policy *policy = batching != NULL ? batching_policy_find(batching) : NULL;
    const bool answer = policy != NULL && policy->packs;
    json_destroy(json);
    return answer;
}

struct member {
    int64_t family, row; /* the first index that differs in the micro-batch alone */
    bool misses_limit, is_second_class;
    double off; /* of the samples that are asked for: by what factor, as a logarithm */
};

static int compare_members(const void *a, const void *b) {
    const struct member *l = a, *r = b;
    if (l->family != r->family) return l->family < r->family ? -1 : 1;
    if (l->misses_limit != r->misses_limit) return l->misses_limit ? 1 : -1;
    if (l->is_second_class != r->is_second_class) return l->is_second_class ? 1 : -1;
    if (l->off != r->off) return l->off < r->off ? -1 : 1;
    return (l->row > r->row) - (l->row < r->row);
}

/* Of rows alike the first speaks for all, so that families of rows alike choose alike. */
static const struct sweep_row_record *speaker(const struct sweep *sweep, int64_t row) {
    return &sweep->rows[sweep->alike[row]];
}

static bool is_choice(const struct sweep_row_record *row) {
    return row->verdict != NULL && strcmp(row->verdict, "out of memory") != 0 &&
           row->asked_samples_per_step > 0;
}

/* The returned bits are the caller's. */
static bool *mark_others(const struct sweep *sweep, struct member *members, int64_t count) {
    bool *others = memory_alloc(sizeof *others * (size_t)(sweep->row_count + 1));
    memset(others, 0, sizeof *others * (size_t)(sweep->row_count + 1));
    qsort(members, (size_t)count, sizeof *members, compare_members);
    for (int64_t i = 1; i < count; i++)
        others[members[i].row] = members[i].family == members[i - 1].family;
    return others;
}

void sweep_find_rescaled(struct sweep *sweep) {
    struct member *members = memory_alloc(sizeof *members * (size_t)(sweep->row_count + 1));
    int64_t count = 0;
    for (int64_t i = 0; sweep->file->varies_micro_batch && i < sweep->row_count; i++) {
        const struct sweep_row_record *row = speaker(sweep, i);
        if (!is_choice(row) || !packs(sweep->file, sweep->rows[i].row_index)) continue;
        members[count++] = (struct member){
            .family = sweep_file_without_micro_batch(sweep->file, sweep->rows[i].row_index),
            .row = i,
            .misses_limit = !sweep_row_is_candidate(sweep, row),
            .is_second_class = sweep_row_is_second_class(sweep, row),
            .off = fabs(log(row->samples_per_step / (double)row->asked_samples_per_step)),
        };
    }
    free(sweep->rescaled);
    sweep->rescaled = mark_others(sweep, members, count);
    sweep->rescaled_count = 0;
    for (int64_t i = 0; i < sweep->row_count; i++)
        sweep->rescaled_count += sweep->rescaled[i];
    for (int question = 0; question < SWEEP_QUESTION_COUNT; question++) {
        for (int64_t i = 0; i < count; i++) {
            const struct sweep_row_record *row = speaker(sweep, members[i].row);
            members[i].misses_limit = !sweep_row_keeps_limit(sweep, row, question);
        }
        free(sweep->rescaled_for[question]);
        sweep->rescaled_for[question] = mark_others(sweep, members, count);
    }
    free(members);
}
