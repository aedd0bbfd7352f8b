/* scenario_key_names.c - what else a key may be called, for the hint to an unknown one. */
#include <string.h>
#include <strings.h>
#include "sim/scenario/scenario.h"
#include "sim/scenario/scenario_fields.h"

/* Names of Megatron-LM's, DeepSpeed's and Transformers' arguments. */
static const struct {
    const char *said, *section, *key;
} usual[] = {
    { "gpus", "cluster", "gpu_count" },
    { "num_gpus", "cluster", "gpu_count" },
    { "n_gpus", "cluster", "gpu_count" },
    { "ngpus", "cluster", "gpu_count" },
    { "world_size", "cluster", "gpu_count" },
    { "nodes", "cluster", "gpu_count" },
    { "num_nodes", "cluster", "gpu_count" },
    { "nnodes", "cluster", "gpu_count" },
    { "gpu", "cluster", "hardware" },
    { "gpu_type", "cluster", "hardware" },
    { "gpu_model", "cluster", "hardware" },
    { "accelerator", "cluster", "hardware" },
    { "device", "cluster", "hardware" },
    { "bandwidth", "cluster", "nic_Gbit_per_s_per_gpu" },
    { "network", "cluster", "nic_Gbit_per_s_per_gpu" },
    { "price", "cluster", "price_usd_per_gpu_hour" },
    { "tensor_parallel", "layout", "tp" },
    { "tensor_parallel_size", "layout", "tp" },
    { "tensor_model_parallel_size", "layout", "tp" },
    { "tp_size", "layout", "tp" },
    { "sequence_parallel", "layout", "sp" },
    { "pipeline", "layout", "pp" },
    { "pipeline_parallel", "layout", "pp" },
    { "pipeline_parallel_size", "layout", "pp" },
    { "pipeline_model_parallel_size", "layout", "pp" },
    { "pp_size", "layout", "pp" },
    { "virtual_pipeline_model_parallel_size", "layout", "vpp" },
    { "virtual_pipeline", "layout", "vpp" },
    { "context_parallel", "layout", "cp" },
    { "context_parallel_size", "layout", "cp" },
    { "cp_size", "layout", "cp" },
    { "data_parallel", "layout", "dp" },
    { "data_parallel_size", "layout", "dp" },
    { "dp_size", "layout", "dp" },
    { "zero", "layout", "zero_stage" },
    { "framework", "layout", "backend" },
    { "gbs", "training", "global_batch" },
    { "batch_size", "training", "global_batch" },
    { "train_batch_size", "training", "global_batch" },
    { "global_batch_size", "training", "global_batch" },
    { "mbs", "training", "micro_batch" },
    { "micro_batch_size", "training", "micro_batch" },
    { "per_device_train_batch_size", "training", "micro_batch" },
    { "train_micro_batch_size_per_gpu", "training", "micro_batch" },
    { "precision", "training", "precision" }, /* of one module in "model" as well */
    { "dtype", "training", "precision" },
    { "mixed_precision", "training", "precision" },
    { "flash_attention", "training", "attention" },
    { "recomputation", "policy", "recompute" },
    { "activation_checkpointing", "policy", "recompute" },
    { "gradient_checkpointing", "policy", "recompute" },
    { "steps", "simulate", "iterations" },
    { "max_steps", "simulate", "iterations" },
    { "train_iters", "simulate", "iterations" },
    { "seq_len", "dataset", "definition.language_tokens" },
    { "seq_length", "dataset", "definition.language_tokens" },
    { "sequence_length", "dataset", "definition.language_tokens" },
    { "max_seq_len", "dataset", "definition.language_tokens" },
    { "max_length", "dataset", "definition.language_tokens" },
};

const char *scenario_usual_name(size_t index) {
    return index < sizeof usual / sizeof usual[0] ? usual[index].said : NULL;
}

/* The key of another section, if of one alone. */
static bool is_of_one_section(const char *said, const char **section, const char **key) {
    size_t count;
    const struct field_table *const *tables = scenario_sections(&count);
    const struct field *found = NULL;
    for (size_t i = 0; i < count; i++) {
        if (tables[i] == &scenario_top_table || tables[i] == &scenario_lora_table) continue;
        const struct field *field = field_table_find(tables[i], said);
        if (field == NULL) continue;
        if (found != NULL) return false;
        found = field;
        *section = tables[i]->name;
        *key = field->name;
    }
    return found != NULL;
}

bool scenario_key_meant(const char *said, const char **section, const char **key) {
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        if (strcasecmp(usual[i].said, said) != 0) continue;
        *section = usual[i].section;
        *key = usual[i].key;
        return true;
    }
    return is_of_one_section(said, section, key);
}
