/* plugin_joint.c - a joint policy as a plug-in: each iteration's micro-batches in the order that is
 * simulated fastest. docs/PLUGIN.md walks through it.
 *
 *     cc -shared -fPIC -O2 -I ../../sim plugin_joint.c -o plugin_joint.so
 *     ballast run study.json --plugin plugin_joint.so --set policy.joint=order-search
 *
 * The stages keep the skeleton of their schedule (1F1B); what changes is which micro-batch runs
 * when. The search begins with the data's own order, longest first and shortest first, and then
 * swaps two micro-batches of the best so far.
 */
#include <ballast.h>
#include <stdlib.h>
#include <string.h>

struct search {
    struct ballast_iteration *it;
    const struct ballast_pass *skeleton; /* what the schedule policy gave */
    struct ballast_pass *candidate, *best;
    int64_t pass_count;
    double best_seconds;
};

/* Seconds of a micro-batch on all parts. */
static double seconds_of(const struct ballast_iteration *it, int64_t micro_batch) {
    double seconds = 0;
    for (int64_t part = 0; part < it->stage_count * it->chunk_count; part++) {
        const struct ballast_iteration_pass *p =
            &it->passes[part * it->micro_batch_count + micro_batch];
        seconds += p->forward_seconds + p->backward_seconds;
    }
    return seconds;
}

/* Keeps the order in which micro-batch order[i] takes the place of i, if it is faster. */
static int try_order(struct search *s, const int64_t *order) {
    for (int64_t i = 0; i < s->pass_count; i++) {
        s->candidate[i] = s->skeleton[i];
        s->candidate[i].micro_batch = (int32_t)order[s->skeleton[i].micro_batch];
    }
    const double seconds = s->it->simulate(s->it, s->candidate);
    if (seconds < 0 || (s->best_seconds >= 0 && seconds >= s->best_seconds)) return 0;
    s->best_seconds = seconds;
    memcpy(s->best, s->candidate, (size_t)s->pass_count * sizeof *s->best);
    return 1;
}

/* Insertion: stable, so that equal micro-batches keep the data's order. */
static void sort_by_seconds(const struct ballast_iteration *it, int64_t *order, int descending) {
    for (int64_t i = 0; i < it->micro_batch_count; i++) {
        const double seconds = seconds_of(it, i);
        int64_t at = i;
        for (; at > 0; at--) {
            const double before = seconds_of(it, order[at - 1]);
            if (descending ? before >= seconds : before <= seconds) break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

static void improve(struct search *s, int64_t *order, int64_t swaps) {
    const uint64_t count = (uint64_t)s->it->micro_batch_count;
    uint64_t state = 0x9e3779b97f4a7c15u; /* the same for every iteration: same input, same plan */
    for (int64_t k = 0; k < swaps; k++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint64_t a = (state >> 33) % count;
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint64_t b = (state >> 33) % count;
        const int64_t kept = order[a];
        order[a] = order[b];
        order[b] = kept;
        if (a == b || try_order(s, order)) continue;
        order[b] = order[a];
        order[a] = kept;
    }
}

static int plan_iteration(struct ballast_iteration *it, const double *parameters,
                          struct ballast_pass *order) {
    struct search s = { it, order, NULL, NULL, 0, -1 };
    s.pass_count = 2 * it->micro_batch_count * it->chunk_count * it->stage_count;
    s.candidate = malloc((size_t)s.pass_count * sizeof *s.candidate);
    s.best = malloc((size_t)s.pass_count * sizeof *s.best);
    int64_t *by = malloc((size_t)(3 * it->micro_batch_count) * sizeof *by), *best = by;
    for (int64_t i = 0; i < it->micro_batch_count; i++)
        by[i] = i;
    sort_by_seconds(it, by + it->micro_batch_count, 1);
    sort_by_seconds(it, by + 2 * it->micro_batch_count, 0);
    for (int64_t k = 0; k < 3; k++)
        if (try_order(&s, by + k * it->micro_batch_count)) best = by + k * it->micro_batch_count;
    improve(&s, best, (int64_t)parameters[0]);
    const int found = s.best_seconds >= 0;
    if (found)
        memcpy(order, s.best, (size_t)s.pass_count * sizeof *order);
    else
        it->fail(it, "no order of the micro-batches can be simulated");
    free(s.candidate);
    free(s.best);
    free(by);
    return found;
}

static const struct ballast_parameter parameters[] = {
    { "swaps", "pairs of micro-batches that are tried the other way round", 32, 0, 100000 },
};

const struct ballast_plugin *ballast_plugin(void) {
    static const struct ballast_joint joints[] = {
        { "order-search", "each iteration's micro-batches in the fastest order found", parameters,
          1, NULL, NULL, NULL, "1f1b", plan_iteration },
    };
    static const struct ballast_plugin plugin = { .api_version = BALLAST_API_VERSION,
                                                  .joints = joints,
                                                  .joint_count = 1 };
    return &plugin;
}
