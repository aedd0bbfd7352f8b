/* sharded_pass.c - two streams, compute and network, each in order of issue. */
#include "sim/step/sharded_pass.h"

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

int64_t sharded_forward_ns(const struct sharded_pass *pass) {
    int64_t network = pass->root_gather_ns;
    int64_t compute = network + pass->first.forward_ns;
    int64_t before = 0, before_that = 0; /* ends of the last two units */
    for (int64_t i = 0; i < pass->unit_count; i++) {
        const struct sharded_unit *unit = &pass->units[i];
        if (unit->gather_ns > 0) {
            network = later(network, before_that) + unit->gather_ns;
            compute = later(compute, network);
        }
        compute += unit->forward_ns;
        before_that = before;
        before = compute;
    }
    return compute + pass->last.gather_ns + pass->last.forward_ns;
}

int64_t sharded_backward_ns(const struct sharded_pass *pass) {
    int64_t network = pass->last.gather_again_ns, before = 0;
    int64_t compute = network + pass->last.backward_ns;
    /* The first unit's gather starts at once, beside the head. */
    int64_t gathered = 0;
    if (pass->unit_count > 0 && pass->units[pass->unit_count - 1].gather_again_ns > 0)
        gathered = network += pass->units[pass->unit_count - 1].gather_again_ns;
    for (int64_t i = pass->unit_count - 1; i >= 0; i--) {
        const struct sharded_unit *unit = &pass->units[i];
        int64_t ready = gathered;
        if (i > 0 && pass->units[i - 1].gather_again_ns > 0)
            gathered = network = later(network, before) + pass->units[i - 1].gather_again_ns;
        compute = later(compute, ready) + unit->backward_ns;
        if (unit->reduce_ns > 0) network = later(network, compute) + unit->reduce_ns;
        if (pass->reduces_alone) compute = later(compute, network);
        before = compute;
    }
    compute += pass->first.backward_ns;
    if (pass->root_reduce_ns > 0) network = later(network, compute) + pass->root_reduce_ns;
    return later(compute, network);
}
