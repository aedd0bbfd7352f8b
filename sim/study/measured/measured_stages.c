/* measured_stages.c - where a pipeline of a measured row is cut, which no column says: told where
 * its layers do not divide evenly, since Megatron-LM refuses such a run and its source's trainer
 * may cut otherwise, and where a vision encoder goes before them, which some trainers give stages
 * of its own and others a share of the first.
 */
#include "sim/policy/partition/partition.h"
#include "sim/study/execution.h"
#include "sim/study/measured/measured_row.h"

/* "[7 (11 times) 1]" */
static const char *list_of(struct arena *arena, const int64_t *blocks, int64_t count) {
    const char *list = "";
    for (int64_t first = 0, next; first < count; first = next) {
        for (next = first; next < count && blocks[next] == blocks[first];)
            next++;
        const int64_t listed = next - first > 2 ? 1 : next - first;
        for (int64_t i = 0; i < listed; i++)
            list = arena_format(arena, "%s%s%ld", list, list[0] != '\0' ? " " : "",
                                (long)blocks[first]);
        if (next - first > 2) list = arena_format(arena, "%s (%ld times)", list, next - first);
    }
    return arena_format(arena, "[%s]", list);
}

static int64_t vision_blocks(const struct model *model) {
    int64_t count = 0;
    while (count < partition_block_count(model) && partition_is_vision(model, count))
        count++;
    return count;
}

/* What cannot be simulated says so later. */
static void note_cut(struct measured_row *row) {
    const struct scenario_options options = { .directory = row->context->directory,
                                              .stack = row->out->stack };
    struct arena *arena = row->context->arena;
    struct error ignored = { 0 };
    struct execution *e = measured_scenario_prepare(&options, row->out, &ignored);
    if (e == NULL) return;
    const int64_t parts = e->job->plan.part_count, vision = vision_blocks(e->scenario->model);
    int64_t *blocks = arena_array(arena, int64_t, parts);
    partition_blocks(e->scenario->model, &e->job->plan, blocks);
    const char *column = row->vpp > 1 ? "vpp" : "pp", *list = list_of(arena, blocks, parts),
               *policy = e->scenario->partition.name;
    if (row->vision != NULL)
        measured_row_note(row,
                          "%s: %ld vision and %ld language blocks are cut as %s by partition "
                          "policy %s, the source may cut elsewhere",
                          column, (long)vision, (long)row->run.layers, list, policy);
    else
        measured_row_note(row,
                          "%s: %ld layers do not divide into %ld x %ld parts: blocks %s by "
                          "partition policy %s",
                          column, (long)row->run.layers, (long)row->pp, (long)row->vpp, list,
                          policy);
    execution_destroy(e);
}

void measured_row_stages(struct measured_row *row) {
    const cJSON *policy = cJSON_GetObjectItemCaseSensitive(row->out->document, "policy");
    const bool stated = cJSON_HasObjectItem(policy, "partition"); /* and noted already */
    const bool even = row->vision == NULL && row->run.layers % (row->pp * row->vpp) == 0;
    if (row->pp > 1 && !stated && !even) note_cut(row);
}
