/* wrong_plugin.c - a plug-in whose policies break each rule once; their parameter says which. */
#include <ballast.h>

#ifndef WRONG_API_VERSION
#define WRONG_API_VERSION BALLAST_API_VERSION
#endif
#ifndef WRONG_NAME
#define WRONG_NAME "wrong"
#endif

static int batches(struct ballast_batches *b, const double *parameters) {
    const uint32_t same[] = { 0, 0 }, beyond[] = { 4000000000u, 1 }, fine[] = { 0, 1 };
    switch ((int)parameters[0]) {
    case 0: return b->give(b, b->rank_count, fine, 2);
    case 1: return b->give(b, 0, same, 2);
    case 2: return b->give(b, 0, beyond, 2);
    case 3: return b->give(b, 0, fine, 1);
    case 4: return b->give(b, 0, fine, 2); /* the other ranks get nothing */
    case 5: b->fail(b, "the moon is wrong"); return 0;
    case 6: b->give(b, -1, fine, 2); return 1; /* goes on after a refusal */
    default: return 0;
    }
}

static int blocks(struct ballast_blocks *b, const double *parameters, int64_t *blocks_of_part) {
    for (int64_t p = 0; p < b->part_count; p++)
        blocks_of_part[p] = 1;
    switch ((int)parameters[0]) {
    case 0: return 1; /* too few */
    case 1: blocks_of_part[0] = b->block_count; blocks_of_part[1] = 0; return 1;
    case 2: b->fail(b, "no way to cut this"); return 0;
    case 3: /* a candidate that is none must be answered, not believed */
        if (b->simulate(b, blocks_of_part) >= 0 || b->stage_bytes(b, blocks_of_part, 0) >= 0)
            return 0;
        blocks_of_part[0] = b->block_count - (b->part_count - 1);
        if (b->simulate(b, blocks_of_part) <= 0 || b->stage_bytes(b, blocks_of_part, 0) <= 0 ||
            b->stage_bytes(b, blocks_of_part, 99) >= 0)
            return 0;
        return 1;
    default: return 0;
    }
}

/* Backward first: nothing can start. */
static void backward_first(const struct ballast_place *place, struct ballast_pass *passes) {
    for (int64_t i = 0; i < place->micro_batch_count; i++) {
        passes[2 * i] = (struct ballast_pass){ (int32_t)i, 0, 1 };
        passes[2 * i + 1] = (struct ballast_pass){ (int32_t)i, 0, 0 };
    }
}

static void twice(const struct ballast_place *place, struct ballast_pass *passes) {
    for (int64_t i = 0; i < 2 * place->micro_batch_count; i++)
        passes[i] = (struct ballast_pass){ 0, 0, 0 };
}

static void nothing(const struct ballast_place *place, struct ballast_pass *passes) {
    (void)place, (void)passes;
}

static int iterations(struct ballast_iteration *it, const double *parameters,
                      struct ballast_pass *order) {
    const int64_t count = 2 * it->micro_batch_count * it->chunk_count;
    const struct ballast_pass first = order[0];
    switch ((int)parameters[0]) {
    case 0: order[1] = order[0]; return 1; /* one pass twice */
    case 1: order[0].micro_batch = (int32_t)it->micro_batch_count; return 1;
    case 2: order[0] = order[count - 1]; order[count - 1] = first; return 1; /* backward first */
    case 3: it->fail(it, "no order pleases me"); return 0;
    case 4: /* a candidate that is none must be answered, not believed */
        order[0].chunk = 7;
        if (it->simulate(it, order) >= 0) return 0;
        order[0] = first;
        return it->simulate(it, order) > 0 && it->passes[0].forward_seconds > 0 &&
               it->activation_capacity_bytes[0] > 0 && it->micro_batches[0].samples > 0;
    default: return 0;
    }
}

#ifndef WRONG_PRESET
#define WRONG_PRESET "1f1b"
#endif

const struct ballast_plugin *ballast_plugin(void) {
    static const struct ballast_parameter which[] = { { "which", "mistake", 0, 0, 100 } };
    static const struct ballast_batching batching[] = { { WRONG_NAME, "w", 0, which, 1, batches } };
    static const struct ballast_partition partitions[] = { { "wrong", "w", which, 1, blocks } };
    static const struct ballast_schedule schedules[] = { { "backward-first", "w", 0,
                                                           backward_first },
                                                         { "twice", "w", 0, twice },
                                                         { "nothing", "w", 0, nothing } };
    static const struct ballast_joint joints[] = {
        { "wrong", "w", which, 1, NULL, NULL, NULL, WRONG_PRESET, iterations }
    };
    static const struct ballast_plugin plugin = { WRONG_API_VERSION, batching, 1, partitions, 1,
                                                  schedules, 3, joints, 1 };
    return &plugin;
}
