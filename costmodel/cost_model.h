/* cost_model.h - the price of an operator on a given GPU, node and network.
 *
 * Price = launch + max(flop / (efficiency(shape) x peak), memory_bytes / (efficiency x bandwidth))
 * for compute (DIP section 6.1 with efficiency that depends on the shape), and a size-dependent
 * curve for collectives. The equations and where they stop being true are at the top of
 * efficiency.c (kernels, one node) and cost_model.c (training step, between nodes).
 *
 *     struct cost_model *cm = cost_model_create(arena, &cluster, err);
 *     struct price p = cost_model_price(cm, &work, &groups[work.communicator]);
 *
 * A cost_model is read-only after creation: any number of threads may price with it.
 */
#ifndef BALLAST_COSTMODEL_COST_MODEL_H
#define BALLAST_COSTMODEL_COST_MODEL_H

#include "costmodel/operator_work.h"
#include "costmodel/rules.h"
#include "sim/base/arena.h"
#include "sim/base/band.h"
#include "sim/base/error.h"
#include "sim/base/json.h"

/* A group of ranks as the network sees it. */
struct communicator {
    int64_t rank_count;     /* 1: no traffic */
    int64_t node_count;     /* distinct nodes the ranks stand on */
    int64_t ranks_per_node; /* of this group, on its fullest node */
    /* groups of this kind that talk through one node's NICs at the same time, or inside one node
     * from one half of its GPUs to the other; 1 if alone. They share those NICs, or what links the
     * processors of a node without NVLink. */
    int64_t groups_per_node;
};

enum price_bound { PRICE_COMPUTE, PRICE_MEMORY, PRICE_NETWORK, PRICE_LAUNCH };

struct price {
    double seconds; /* all of it; seconds = launch_s + max(compute_s, memory_s) or network_s */
    double launch_s, compute_s, memory_s, network_s;
    double efficiency;    /* of the peak of its bound, 0..1 */
    double traffic;       /* bytes moved over the operator's, as its stack's kernels do; 0: none */
    double band_fraction; /* 80 % of measurements lie within seconds x (1 +- this) */
    enum price_bound bound;
    bool inside_range;       /* the shape lies inside the measured range */
    const char *source;      /* the curve or rule that priced it; static or arena text */
    const struct rule *rule; /* NULL: none did */
};

/* The band that a rule states; 0: none does. */
double price_stated_band(const struct price *price);

/* The cluster as the scenario gives it; hardware files are under scenarios/hardware. */
struct gpu {
    const char *name; /* "a100-80g-sxm" */
    const char *description;
    const char *not_priced; /* what some servers have of it and no price counts; "": nothing */
    double peak_flop_per_s[PRECISION_COUNT]; /* dense; 0 where the GPU cannot */
    double hbm_bytes;                        /* capacity */
    double hbm_bytes_per_s;
    double nvlink_bytes_per_s;    /* one direction, per GPU; 0: none */
    double pcie_bytes_per_s;      /* one direction, host link */
    double socket_bytes_per_s;    /* bus bandwidth between the processors of a node; 0: no limit */
    int64_t gpus_per_node;        /* its NVLink domain */
    int64_t mesh_gpus;            /* boards of so many have no switch; 0: none */
    double server_nic_Gbit_per_s; /* a GPU, as servers are sold */
    double tdp_w;
    double reserved_bytes;   /* context, driver: not usable by the framework */
    double host_time_factor; /* on the host times of a stack, which are those of Xeon servers */
    int64_t sm_count;
    const char *curves;     /* file of its efficiency curves, beside its own */
    struct rule_list rules; /* its nodes are gone with the file */
};

struct cluster_network {
    int64_t gpus_per_node;
    double nic_bytes_per_s_per_gpu; /* one direction: a node's NICs over its GPUs */
    double nic_latency_s;           /* what one hop between nodes adds to a small collective */
    int64_t nics_per_node;          /* 0: one per GPU. A lone flow gets one NIC */
    double nic_efficiency_fraction; /* of the NIC rate that a collective reaches; 0: 0.90 */
    /* A name in scenarios/hardware/fabrics ("infiniband", "hdr-infiniband", "roce", "efa",
     * "efa-3200", "tcpxo"), whose measured latency by size and efficiency then stand in for
     * nic_latency_s and nic_efficiency_fraction; NULL: those two figures. */
    const char *fabric;
    /* GPUs of a node whose links go straight to each other: 4, shared evenly (the four-GPU boards
     * of A100 and Hopper), or 8, the cube mesh of V100; 0: all hang on a switch. */
    int64_t nvlink_mesh_gpus;
    bool without_nvls; /* the switch adds nothing up (NCCL_NVLS_ENABLE=0) */
    int64_t gpu_count; /* of the job, whose steps wait for the slowest; 0: one alone */
};

/* A cluster file, scenarios/clusters/<name>.json: what stands there when nothing overrides it. */
struct cluster_preset {
    const char *description, *hardware;
    const char *words; /* what measured runs of this machine say, with semicolons; "" for none */
    int64_t gpu_count; /* 0: not stated */
    struct cluster_network network;
    double host_memory_bytes_per_node; /* 0: not stated */
    int64_t gpus_per_host_link;
};

struct cost_model;
struct stack;

/* Reads scenarios/hardware/<name>.json (or a path) with its efficiency curves. `search` is the
 * directory that holds hardware/; borrowed texts live in the arena. */
struct cost_model *cost_model_create(struct arena *arena, const char *search_directory,
                                     const char *hardware, const struct cluster_network *network,
                                     struct error *err);
/* The same GPU as `other`'s in another network, without a stack and rules of a scenario: reads none
 * of the GPU's files again. Borrows what `other` read, so that its arena must outlive this
 * one's. */
struct cost_model *cost_model_create_beside(struct arena *arena, const char *search_directory,
                                            const struct cost_model *other,
                                            const struct cluster_network *network,
                                            struct error *err);
/* A file that the prices rest on: "hardware", its "curves", a "fabric", "bands". */
struct cost_model_file {
    const char *kind, *path;
};
/* Those that cost_model_create() read, in its order. */
const struct cost_model_file *cost_model_files(const struct cost_model *model, int64_t *count);
/* cost_model_price() from here on gives what this stack (stack.h, borrowed; NULL: none) makes of
 * the profile when its matmuls are of this precision, for a model that writes text or for one of
 * encoders or diffusion. Before any thread prices. */
void cost_model_use_stack(struct cost_model *model, const struct stack *stack,
                          enum precision precision, bool writes_text);
/* That stack and its factors: of one that nothing was fitted for, and of models that write no
 * text, with what such runs take more (step_band.h). */
struct stack_use cost_model_stack(const struct cost_model *model);
bool cost_model_writes_text(const struct cost_model *model);
/* What kernels take more because the model writes no text; 1: nothing. */
double cost_model_encoder_factor(const struct cost_model *model);
enum band_kin {
    KIN_LIKE_MEASURED, /* a text decoder on the stack's backend, as the runs it was fitted on */
    KIN_OFF_STACK,     /* on another backend or stack: the width of an uncalibrated stack */
    KIN_MULTIMODAL,    /* no text decoder: that, and never less than such runs were off */
};
/* A step of which a band is asked. */
struct step_doubt {
    bool inside_range;
    double lost_fraction;  /* 1 - HFU */
    double operators_band; /* the mean of its operators' bands, by their time */
    double stated_band;    /* ... of the bands that rules state, 0 for the others */
};
/* 80 % of measured steps lie in this band of the predicted time, by stack and GPU and by the
 * share of the step that is lost (step_band.h); NaN where the scenarios folder has no bands. On a
 * GPU of which neither matmuls nor the steps of any stack were measured the operators' band is
 * added, as a square; elsewhere what rules state of their prices. Where the stack's factor was
 * fitted on rows that do not ship, they are taken to be of the same place. */
struct band cost_model_step_band(const struct cost_model *model, enum band_kin kin,
                                 struct step_doubt doubt);
/* The shipped GPU whose curves it has, or has where its own were not measured. */
const char *cost_model_curves_of(const struct cost_model *model);
/* Of the bf16 peak that its endless isolated matmuls reach. */
double cost_model_matmul_efficiency(const struct cost_model *model);
/* The curves of its matmuls are another GPU's by a rule. */
bool cost_model_is_derived(const struct cost_model *model);
/* Nobody measured a matmul or, by a stack that is known here, a step on a GPU of this family. */
bool cost_model_gpu_is_strange(const struct cost_model *model);
/* What its bands come from; NULL: none. */
const struct step_bands *cost_model_bands(const struct cost_model *model);
/* The stack, on a GPU that it was calibrated on, says how far off its runs of models of images or
 * video were. */
bool cost_model_knows_multimodal(const struct cost_model *model);
/* How long measured runs of such models took over what is predicted here, whatever their stack;
 * NaN: not stated. */
struct step_ratios cost_model_multimodal_ratios(const struct cost_model *model);
/* The least band of such models: that of the stack or, where it says nothing or is to be passed
 * over, that of these runs; NaN: not stated. */
struct band cost_model_multimodal_band(const struct cost_model *model, bool pass_stack_over);
/* The band of a step of a text run of this source: one that the stack's factor comes from has its
 * own width. */
struct band cost_model_step_band_of_source(const struct cost_model *model, const char *source,
                                           struct step_doubt doubt);
/* The same of measured runs whose stack is not known, whatever stands in for it. */
struct band cost_model_unknown_stack_band(const struct cost_model *model, double lost_fraction);
/* The ln of two such times is off by no more against each other in 80 % of the pairs of one GPU and
 * stack; NaN as above. */
double cost_model_pair_band(const struct cost_model *model, bool text_only);
/* The band of peak memory. */
double cost_model_memory_band(const struct cost_model *model);
/* What the stack makes of the prices on this GPU, and the band that results: two models that differ
 * in any of it differ here. "none" without a stack. */
const char *cost_model_stack_id(const struct cost_model *model, struct arena *arena);
const struct gpu *cost_model_gpu(const struct cost_model *model);
const struct cluster_network *cost_model_network(const struct cost_model *model);
/* Its network is without NVLS and its GPUs would reduce in their switch. */
bool cost_model_rings_alone(const struct cost_model *model);
/* Name and hash of the profile, stored with each run. */
const char *cost_model_profile_id(const struct cost_model *model);

/* groups may be NULL for operators without communication. A collective in a group of one is free.
 */
struct price cost_model_price(const struct cost_model *model, const struct operator_work *work,
                              const struct communicator *group);
/* The same of an operator of one layer, which rules may ask for. */
struct price cost_model_price_at(const struct cost_model *model, const struct operator_work *work,
                                 const struct communicator *group, const struct rule_place *place);
/* Rules that go before those of the GPU's file. */
void cost_model_use_rules(struct cost_model *model, struct arena *arena,
                          const struct rule_list *rules);
/* Of a collective's time, the seconds in which SMs and memory move its bytes: what eight GPUs (all
 * ranks, where there are fewer) take for it with all their links at work. The rest it waits for
 * links and NICs. How many GPUs a node holds plays no part: what a rank receives is S (n-1)/n
 * wherever the others stand. */
double cost_model_moving_s(const struct cost_model *model, const struct operator_work *work,
                           const struct communicator *group);
const struct rule_list *cost_model_rules(const struct cost_model *model); /* all of them */
/* The same operator alone on an idle GPU inside a CUDA graph, at boost clock: what microbenchmarks
 * measure and what a profile is checked against. A training step's GPU has settled at its power
 * limit, starts kernels from a stream and waits for other ranks, so cost_model_price() is never
 * below it. */
struct price cost_model_price_isolated(const struct cost_model *model,
                                       const struct operator_work *work,
                                       const struct communicator *group);
/* Measured runs (row ids) to which a constant of the cost model was fitted; NULL at the end. */
extern const char *const cost_model_calibration_rows[];
/* Named variants: the kernels of one framework ("sglang", "vllm", "trtllm", "transformerengine",
 * "cublaslt", "cudnn") as its benchmark ran them on this GPU. An index is valid from 0 to count - 1; find
 * returns -1 for a name that this profile does not have. */
int64_t cost_model_variant_count(const struct cost_model *model);
const char *cost_model_variant_name(const struct cost_model *model, int64_t variant_index);
int64_t cost_model_variant_find(const struct cost_model *model, const char *name);
/* As cost_model_price_isolated(), by the curves of that variant; what it did not measure is priced
 * by the profile's own. variant_index -1: the profile's own, and what `work` says of attention (its
 * kernel, dropout, a fixed order), as in cost_model_price(). */
struct price cost_model_price_variant(const struct cost_model *model, int64_t variant_index,
                                      const struct operator_work *work,
                                      const struct communicator *group);
/* The fit's door: a model from a GPU file and curves given as documents (both may be freed
 * afterwards), instead of from scenarios/hardware. */
struct cost_model *cost_model_create_from(struct arena *arena, const struct json *gpu,
                                          const struct json *curves,
                                          const struct cluster_network *network, struct error *err);

/* `cluster` is a name in <search_directory>/clusters, or a path. */
bool cluster_preset_read(struct arena *arena, const char *search_directory, const char *cluster,
                         struct cluster_preset *out, struct error *err);

#endif
