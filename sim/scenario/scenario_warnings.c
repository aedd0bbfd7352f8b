/* scenario_warnings.c - what is simulated as asked and is seldom what was meant. */
#include <math.h>

#include "sim/base/arena.h"
#include "sim/scenario/scenario_reader.h"

/* Machines with more GPUs behind one switch than the GPU's own servers exist (16 of V100 or A100),
 * so it is no error; a count of the whole cluster in this place is. */
void warn_of_wide_nodes(struct reader *r, int64_t domain) {
    struct scenario *s = r->s;
    const struct scenario_cluster *f = &s->cluster_fields;
    if (f->gpus_per_node <= domain || f->gpu_count <= domain) return;
    scenario_warn(r,
                  arena_format(s->arena,
                               "%ld GPUs a node (cluster.gpus_per_node): servers of %s hold %ld; "
                               "traffic between more is priced as inside a node",
                               (long)f->gpus_per_node, f->hardware, (long)domain));
}

/* A price goes with the GPU that stands beside it; another GPU seldom costs the same. */
void warn_of_foreign_price(struct reader *r) {
    struct scenario *s = r->s;
    const struct scenario_cluster *f = &s->cluster_fields;
    const cJSON *cluster = r->top.cluster;
    const cJSON *price = scenario_member(cluster, "price_usd_per_gpu_hour");
    if (isnan(f->price_usd_per_gpu_hour) || price == cluster ||
        json_is_overridden(s->json, price) ||
        (!json_is_overridden(s->json, scenario_member(cluster, "hardware")) &&
         !json_is_overridden(s->json, scenario_member(cluster, "name"))))
        return;
    scenario_warn(r,
                  arena_format(s->arena,
                               "%.10g USD a GPU-hour stands in the file for the GPU named there: "
                               "%s may cost something else "
                               "(cluster.price_usd_per_gpu_hour; a sweep varies "
                               "\"cluster.hardware, cluster.price_usd_per_gpu_hour\" together)",
                               f->price_usd_per_gpu_hour, f->hardware));
}
