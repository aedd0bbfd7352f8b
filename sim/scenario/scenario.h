/* scenario.h - one training job as the user describes it, read, checked and resolved.
 *
 *     struct scenario *s = scenario_load(&options, "scenarios/examples/x.json", err);
 *     s->model, s->layout, s->cost_model ... ready to simulate
 *     scenario_destroy(s);
 *
 * Every field stands in one table (scenario_sections) that feeds the reader, --help,
 * docs/SCENARIOS.md and the resolved scenario. Errors name file, line, column and key.
 */
#ifndef BALLAST_SIM_SCENARIO_SCENARIO_H
#define BALLAST_SIM_SCENARIO_SCENARIO_H

#include "costmodel/cost_model.h"
#include "costmodel/stack.h"
#include "sim/data/dataset.h"
#include "sim/layout/backend.h"
#include "sim/layout/layout.h"
#include "sim/model/model.h"
#include "sim/policy/batching/batching.h"
#include "sim/policy/planner.h"
#include "sim/policy/schedule/schedule.h"
#include "sim/scenario/scenario_cache.h"

struct scenario_model {
    const char *name;
    const cJSON *frozen;     /* list of roles */
    const cJSON *lora;       /* adapters of the language model */
    bool input_gradients;    /* see struct model */
    const char *frame_size;  /* "1280x720"; NULL: as the model has it */
    const cJSON *precision;  /* role -> precision */
    const cJSON *definition; /* a model file's content; NULL: read the file `name` */
};

struct scenario_dataset {
    const char *name;
    const cJSON *definition; /* a description's content; NULL: read the file `name` */
    int tiling;              /* enum tiling_kind */
    int64_t max_tiles, min_tiles, min_pixels, max_pixels;
    int64_t image_tiles;          /* with tiling as-file; -1: as the model has it */
    int64_t tile_language_tokens; /* -1: as the data set states, otherwise as the model */
    bool thumbnail;
};

struct scenario_cluster {
    const char *name;
    const char *hardware, *fabric; /* fabric: NULL for the figures below */
    int64_t gpu_count, gpus_per_node;
    double nic_Gbit_per_s_per_gpu, nic_latency_us, nic_efficiency_fraction;
    int64_t nics_per_node, nvlink_mesh_gpus;
    bool nvls;
    double host_memory_GB_per_node; /* below 0: not stated */
    int64_t gpus_per_host_link;
    double price_usd_per_gpu_hour, on_demand_usd_per_gpu_hour;
    const char *source;
};

struct scenario_layout {
    int backend;
    const char *stack; /* a name or path; "none": kernels as the profile has them */
    int64_t tp, pp, cp, dp, vpp, zero_stage, zero_group;
    int cp_kind; /* enum context_kind */
    int64_t cp_heads;
    bool sp, tp_overlap, cp_balanced, overlap_gradient_reduce, overlap_parameter_gather;
};

/* The fastest that a GPU is sold with: a ConnectX-8 of 800 Gbit/s in DGX B300 and GB300 NVL72. */
#define SCENARIO_MOST_NIC_Gbit_per_s 800

/* Flash: the stack's fused kernel, or FlashAttention, 2 or 3, or cuDNN's by name; masked: PyTorch's,
 * which reads a mask. */
enum training_attention {
    TRAINING_FLASH,
    TRAINING_NAIVE,
    TRAINING_FLASH_2,
    TRAINING_FLASH_3,
    TRAINING_MASKED,
    TRAINING_FLASH_1,
    TRAINING_CUDNN
};

struct scenario_training {
    const cJSON *global_batch, *micro_batch;
    int precision, optimizer;
    int fp8_recipe; /* enum fp8_recipe */
    bool precision_aware_optimizer;
    int exp_avg_dtype, exp_avg_sq_dtype, main_grads_dtype; /* enum state_type */
    int reduce_dtype;                                      /* enum reduce_type */
    int gradient_sync;                                     /* enum gradient_sync */
    int adamw_kernels;                                     /* enum adamw_kernels */
    int attention;                                         /* enum training_attention */
    double hidden_dropout, attention_dropout; /* probabilities; NaN: as the model's file says */
    int deterministic;                        /* enum determinism */
    int64_t epochs, offload_blocks;
};

struct scenario_simulate {
    const cJSON *iterations;
    int64_t seed;
};

/* What might go otherwise than planned; the defaults change nothing. */
struct scenario_what_if {
    double slow_gpu_factor;
    int64_t slow_gpu_stage, slow_gpu_rank;
    double straggler_fraction, straggler_factor;
    double nic_factor, slow_link_factor;
    int64_t slow_link_stage;
    double data_loading_ms_per_sample, data_loading_ms_per_megapixel;
    int64_t data_loading_workers;
    bool data_loading_overlaps;
    double gpu_mtbf_hours, checkpoint_interval_min, checkpoint_s, restart_min;
};

/* A policy by name with its parameters. `row` is the policy's table row; NULL with the name of the
 * joint policy where that decides itself, and both NULL where there is no joint policy. */
struct policy_choice {
    const char *name;
    const void *row;
    void *parameters; /* NULL when the policy has none */
    const struct field_table *table;
};

/* Where the files of names are that a scenario gives as paths; other names stay as they are. The
 * fields, and all that is kept of a scenario, have them as written. */
struct scenario_files {
    const char *model, *dataset, *hardware, *cluster, *stack;
};

struct scenario {
    struct arena *arena; /* owns everything below */
    struct json *json;   /* owned */
    const char *path;
    const char *name, *description;
    const char *directory; /* where models/, datasets/, hardware/, clusters/ are */

    struct scenario_model model_fields;
    struct scenario_dataset dataset_fields;
    struct scenario_cluster cluster_fields;
    struct scenario_layout layout_fields;
    struct scenario_training training_fields;
    struct scenario_simulate simulate_fields;
    const cJSON *rules; /* as written; NULL: none */
    struct rule_list own_rules;
    struct scenario_what_if what_if;
    struct policy_choice batching, partition, recompute, schedule, joint;

    /* resolved */
    struct scenario_files files;
    const struct cluster_preset *cluster; /* of cluster.name's file; NULL: there is none */
    const struct model *model;
    enum precision main_precision; /* of the module with the most parameters: the stack's figures
                                      for a precision are taken for it */
    const struct cost_model *cost_model;
    struct tiling tiling; /* tiles and patches as the model takes them */
    bool fixed_tiles;     /* the encoder takes images of one size only, never native resolution */
    struct layout layout;
    const struct stack *stack;         /* NULL: none */
    const struct backend *backend;     /* with the stack's own figures */
    const struct optimizer *optimizer; /* as above */
    int64_t micro_batch_samples;       /* samples of a padded micro-batch; packed: one group */
    int64_t micro_batches_per_rank;    /* per step */
    int64_t iteration_limit;           /* 0: the whole epoch */
    /* What the backend cannot run of it and the rule's name (framework_limits.h); NULL: nothing. */
    const char *limit, *limit_rule;
    const char **assumptions; /* what was assumed, one sentence each, NULL at the end */
    const char **warnings;    /* what may make the answer useless to who asks, likewise */
};

struct scenario_options {
    const char *directory;        /* the scenarios/ folder */
    const char *const *overrides; /* "path=value" of --set, NULL at the end; may be NULL */
    const char *const *removals;  /* paths of --unset, after the overrides; as these */
    const char *const *variant;   /* overrides that come after the removals; as these */
    const struct stack *stack;    /* instead of the one that layout.stack names; NULL: that one */
    struct scenario_cache *cache; /* what many scenarios share; outlives them. NULL: none */
};

/* The file at this path; a plain name that is no file stands for an example of the scenarios
 * folder. `what` it is ("scenario", "sweep") names it in messages. */
struct json *scenario_document(const char *directory, const char *what, const char *path,
                               struct error *err);
/* Overrides, removals and variant, in this order, applied to a scenario's document. */
bool scenario_change(const struct scenario_options *options, struct json *json, struct error *err);

/* The paths that --set gave are written out whole where the scenario's folder has a file of that
 * name too: for documents that are copied, and forget what --set gave. */
void scenario_settle_paths(struct json *json);

struct scenario *scenario_load(const struct scenario_options *options, const char *path,
                               struct error *err);
/* The same from a document; takes it over, also on failure. */
struct scenario *scenario_load_json(const struct scenario_options *options, struct json *json,
                                    struct error *err);
void scenario_destroy(struct scenario *scenario);
/* Every rule of the scenario matches some operator of a micro-batch between these two; false with
 * the place of the one that does not, and what there is. Names were checked while loading. */
bool scenario_rules_match_shapes(const struct scenario *scenario, const struct batch_shape *small,
                                 const struct batch_shape *large, struct error *err);
/* How its layers are divided inside a stage. */
struct tensor_split scenario_split(const struct scenario *scenario);

/* Whether sharded weights of a block whose matmuls run in fp8 are gathered as these read them. */
bool scenario_gathers_cast(const struct scenario *scenario);
/* FSDP that shards the gradients of several micro-batches, which it may reduce behind each or once
 * (training.gradient_sync). */
bool scenario_accumulates_shards(const struct scenario *scenario);
/* Gradients, sharded or not, are reduced while the backward computes. */
bool scenario_reduces_beside(const struct scenario *scenario);
/* Several GPUs of a node reduce over PCIe, at a speed that is the server's and no rule states. */
bool scenario_talks_over_pcie(const struct scenario *scenario);
/* What a GPU copies to or from its host while all behind its link copy. */
double scenario_host_copy_bytes_per_s(const struct scenario *scenario);
/* The scenario with every default written out, as stored with a run. The caller deletes it. */
cJSON *scenario_resolved(const struct scenario *scenario);

/* The sections in order, for help and documentation. */
const struct field_table *const *scenario_sections(size_t *count);
void scenario_write_help(FILE *out);      /* fields and policies, a line each */
void scenario_write_reference(FILE *out); /* docs/SCENARIOS.md */

#endif
