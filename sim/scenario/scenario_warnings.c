/* scenario_warnings.c - what is simulated as asked and is seldom what was meant. */
#include <math.h>
#include <string.h>

#include "costmodel/generation.h"
#include "costmodel/hardware.h"
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

void warn_of_trays(struct reader *r, int64_t domain) {
    struct scenario *s = r->s;
    const struct scenario_cluster *f = &s->cluster_fields;
    if (!hardware_is_tray(domain, f->gpus_per_node, f->gpu_count)) return;
    scenario_warn(r, arena_format(s->arena,
                                  "%ld GPUs a node (cluster.gpus_per_node): NVLink joins %ld of "
                                  "%s; traffic between trays of one rack is priced at the rate of "
                                  "their NICs, unless this key is left out (boards of NVL4: a "
                                  "hardware file with gpus_per_node 4)",
                                  (long)f->gpus_per_node, (long)domain, f->hardware));
}

void warn_of_idle_recipe(struct reader *r) {
    struct scenario *s = r->s;
    if (s->training_fields.fp8_recipe == FP8_RECIPE_USUAL ||
        model_computes_in(s->model, PRECISION_FP8))
        return;
    scenario_warn(r, "no module computes in fp8: training.fp8_recipe changes nothing");
}

/* An exchange of heads gives each rank whole sequences, and without a mask all tokens cost alike. */
void warn_of_idle_balance(struct reader *r) {
    const struct scenario *s = r->s;
    if (s->layout_fields.cp_balanced || s->layout.cp == 1) return;
    if (s->layout_fields.cp_kind == CONTEXT_ALL_TO_ALL)
        scenario_warn(r, "cp_kind all-to-all gives each rank whole sequences of its heads: "
                         "layout.cp_balanced false changes nothing");
    else if (!model_attends_causally(s->model))
        scenario_warn(r, "no attention of this model is causal: layout.cp_balanced false changes "
                         "nothing");
}

void warn_of_idle_overlap(struct reader *r) {
    const int64_t stage = r->s->layout_fields.zero_stage;
    const struct {
        const char *key, *does;
    } idle[] = { { "overlap_gradient_reduce", "reduces beside the backward" },
                 { "overlap_parameter_gather", "gathers beside the passes" } };
    if (!backend_always_hides(r->s->backend, stage)) return;
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++) {
        const cJSON *said = scenario_present(scenario_member(r->top.layout, idle[i].key));
        if (said != NULL && cJSON_IsFalse(said))
            scenario_warn(r,
                          arena_format(r->s->arena, "ZeRO-%ld %s: layout.%s false changes nothing",
                                       (long)stage, idle[i].does, idle[i].key));
    }
}

/* What a node's NICs have together stands where a GPU's share is asked for. */
void warn_of_fast_nics(struct reader *r) {
    struct scenario *s = r->s;
    const struct scenario_cluster *f = &s->cluster_fields;
    const double rate = f->nic_Gbit_per_s_per_gpu;
    if (rate <= SCENARIO_MOST_NIC_Gbit_per_s || f->gpu_count <= f->gpus_per_node) return;
    scenario_warn(
        r, arena_format(s->arena,
                        "NICs of %.10g Gbit/s for each GPU (cluster.nic_Gbit_per_s_per_gpu): "
                        "no server has more than %d; if a node of %ld GPUs has that, %.10g "
                        "is a GPU's share",
                        rate, SCENARIO_MOST_NIC_Gbit_per_s, (long)f->gpus_per_node,
                        rate / (double)f->gpus_per_node));
}

/* Prices are by the NICs' rate alone. Nothing is said of Blackwell: in some of its servers NICs have
 * a link of their own to the GPU, and its name does not tell in which. */
void warn_of_nics_beyond_pcie(struct reader *r) {
    struct scenario *s = r->s;
    const struct scenario_cluster *f = &s->cluster_fields;
    const struct gpu *gpu = cost_model_gpu(s->cost_model);
    const double carries = gpu->pcie_bytes_per_s * 8 / 1e9, rate = f->nic_Gbit_per_s_per_gpu;
    if (!(rate > 1.02 * carries) || rate > SCENARIO_MOST_NIC_Gbit_per_s ||
        f->gpu_count <= f->gpus_per_node || gpu_generation_of(gpu->name) == GENERATION_BLACKWELL)
        return;
    scenario_warn(r, arena_format(s->arena,
                                  "NICs of %.10g Gbit/s for each GPU "
                                  "(cluster.nic_Gbit_per_s_per_gpu): the PCIe link of %s carries "
                                  "%.0f; traffic between nodes, priced by the NICs, is no faster "
                                  "than that",
                                  rate, gpu->name, carries));
}

/* A name of one's own says nothing of the network; one letter beside a file's may mean that file. */
void warn_of_near_cluster(struct reader *r, const char *name) {
    struct scenario *s = r->s;
    const char *near =
        nearest_file(s->arena, arena_format(s->arena, "%s/clusters", s->directory), name);
    if (near == NULL) return;
    scenario_warn(r, arena_format(s->arena,
                                  "cluster.name \"%s\" is no file of scenarios/clusters, so its "
                                  "network is what the scenario says; did you mean \"%s\"?",
                                  name, near));
}

/* The GPU that the file names, itself or by a cluster, where --set gave another of either; "":
 * none.
 */
static const char *hardware_in_file(struct reader *r) {
    struct scenario *s = r->s;
    const cJSON *cluster = r->top.cluster, *hardware = scenario_member(cluster, "hardware"),
                *name = scenario_member(cluster, "name");
    const bool named = json_is_overridden(s->json, name);
    const char *own = json_text_before(s->json, hardware);
    if (own == NULL && !json_is_overridden(s->json, hardware) &&
        !(named && r->hardware_is_the_clusters))
        own = s->cluster_fields.hardware;
    if (own != NULL) return own;
    const char *preset_name = named ? json_text_before(s->json, name) : name->valuestring;
    struct cluster_preset preset;
    return preset_name != NULL &&
                   cluster_preset_read(s->arena, s->directory, scenario_place(s, NULL, preset_name),
                                       &preset, NULL)
               ? preset.hardware
               : "";
}

/* A price goes with the GPU that stands beside it; another GPU seldom costs the same. */
void warn_of_foreign_price(struct reader *r) {
    struct scenario *s = r->s;
    const struct scenario_cluster *f = &s->cluster_fields;
    const cJSON *cluster = r->top.cluster;
    const cJSON *price = scenario_member(cluster, "price_usd_per_gpu_hour");
    if (isnan(f->price_usd_per_gpu_hour) || price == cluster || json_is_overridden(s->json, price))
        return;
    const char *in_file = hardware_in_file(r);
    if (in_file[0] == '\0' || strcmp(in_file, f->hardware) == 0) return;
    scenario_warn(r,
                  arena_format(s->arena,
                               "%.10g USD a GPU-hour stands in the file for the GPU named there: "
                               "%s may cost something else "
                               "(cluster.price_usd_per_gpu_hour; a sweep varies "
                               "\"cluster.hardware, cluster.price_usd_per_gpu_hour\" together)",
                               f->price_usd_per_gpu_hour, f->hardware));
}
