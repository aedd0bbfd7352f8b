/* huggingface.h - a model file made from a Hugging Face config.json.
 *
 * Knows the language models llama (also Yi, Vicuna), mistral, qwen2 (also Qwen2.5), qwen3,
 * internlm2, phi3 and gemma; the vision encoders CLIP, SigLIP, InternViT and those of Qwen2-VL and
 * Qwen2.5-VL; internvl_chat, internvl, llava, llava_next, llava_onevision, qwen2_vl, qwen2_5_vl and
 * qwen3_vl, which join one of each; and the video transformers of Wan 2.1 and 2.2. Layers that are
 * not modelled (experts, latent or linear attention, ...) are refused with the reason and a lower
 * bound on the parameters.
 *
 * Guarantee: parameters of `model` + those of `left_out` = parameters of the published checkpoint.
 * Keys that a config leaves out have the defaults of its transformers class; `notes` says which.
 *
 *     struct huggingface_model imported;
 *     if (huggingface_import(arena, config, "my-model", &imported, err)) write(imported.file);
 *     cJSON_Delete(imported.file);
 */
#ifndef BALLAST_SIM_MODEL_HUGGINGFACE_H
#define BALLAST_SIM_MODEL_HUGGINGFACE_H

#include "sim/model/model.h"

enum { HUGGINGFACE_LIST_LIMIT = 24 };

/* Weights that stand in the checkpoint and not in the model. */
struct huggingface_left_out {
    const char *what;
    int64_t parameters;
};

struct huggingface_model {
    cJSON *file; /* with inline modules; owned by the caller */
    const struct model *model;
    const char *notes[HUGGINGFACE_LIST_LIMIT];
    int64_t note_count;
    struct huggingface_left_out left_out[HUGGINGFACE_LIST_LIMIT];
    int64_t left_out_count;
};

/* `name` is the model's; NULL: from "_name_or_path" or the file's folder. Texts are in the arena,
 * and in `config` only until it is destroyed. */
bool huggingface_import(struct arena *arena, const struct json *config, const char *name,
                        struct huggingface_model *out, struct error *err);
/* The "model_type" values that can be imported, and the "_class_name" ones; NULL at the end. */
const char *const *huggingface_model_types(void);
const char *const *huggingface_class_names(void);

#endif
