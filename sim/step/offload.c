/* offload.c - copies over PCIe beside compute.
 *
 * Transformer Engine (cpu_offload.py, the double-buffered handler of groups; Megatron-LM,
 * --cpu-offloading-num-layers): after the forward of a block its kept tensors are copied out on a
 * stream of their own. Of L blocks the first n are offloaded, and their copies take turns beside
 * all of them (layer_window_map): each has floor(L / n) blocks, the first L mod n one more, at the
 * end of which it must be done. In backward the copies come back likewise, a window ahead. With
 * c = bytes / PCIe rate, w the window, blocks of one kind, f and b the time of a block's forward
 * and of its backward with recomputation:
 *
 *     exposed in forward = max(c - w f, 0)        in backward = max(c - w b, 0)        a block
 *
 * Out and in are two directions of one link and do not slow each other. Where this stops being
 * true: the first copy of a pass begins with nothing beside it, and the last has the next layer; a
 * GPU file's rate is that of one GPU copying, and GPUs behind one switch share it; kernels that
 * touch HBM beside a copy are slowed by its traffic, some percent.
 */
#include "sim/step/offload.h"

#include "sim/base/units.h"

int64_t offload_window(int64_t blocks, int64_t offloaded, int64_t index) {
    return blocks / offloaded + (index < blocks % offloaded);
}

struct offload_time offload_time(double bytes, double pcie_bytes_per_s,
                                 const struct layer_time *layer, enum recompute_kind how,
                                 int64_t window) {
    if (layer->backward_ns == 0) return (struct offload_time){ 0 };
    int64_t copy_ns = ns_from_price(bytes / pcie_bytes_per_s);
    int64_t forward_ns = window * layer->forward_ns;
    int64_t backward_ns = window * (layer->backward_ns + layer->recompute_ns[how]);
    return (struct offload_time){
        .forward_ns = copy_ns > forward_ns ? copy_ns - forward_ns : 0,
        .backward_ns = copy_ns > backward_ns ? copy_ns - backward_ns : 0,
    };
}
