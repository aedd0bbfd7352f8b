/* huggingface_config.h - reading of single keys of a config.json; shared by huggingface*.c only.
 *
 * A key that is missing or null has the fallback of its transformers class. All readers return
 * false with an error that names the place of a wrong value.
 */
#ifndef BALLAST_SIM_MODEL_HUGGINGFACE_CONFIG_H
#define BALLAST_SIM_MODEL_HUGGINGFACE_CONFIG_H

#include "sim/model/huggingface.h"

struct huggingface_config {
    struct arena *arena;
    const struct json *json;
    struct huggingface_model *out;
    const char *assumed; /* keys read from defaults so far, "hidden_size 4096, ..." */
    struct error *err;
    bool reads_final_norm; /* the connector takes the encoder's output behind its last norm */
};

/* The value, or NULL if it is missing or null. */
const cJSON *huggingface_key(const cJSON *object, const char *key);
/* A whole number from 1 on, or the first of a list of equal ones ("patch_size": [14, 14]). A
 * fallback of 0: the key is required. */
bool huggingface_count(struct huggingface_config *c, const cJSON *object, const char *key,
                       int64_t fallback, int64_t *out);
/* The same, for a key that has a derived value where it is missing: no note. */
bool huggingface_count_or(struct huggingface_config *c, const cJSON *object, const char *key,
                          int64_t derived, int64_t *out);
bool huggingface_flag(struct huggingface_config *c, const cJSON *object, const char *key,
                      bool fallback, bool *out);
/* False, at the heads' key (the object where it is missing), unless they divide the width. */
bool huggingface_check_heads(struct huggingface_config *c, const cJSON *object,
                             const char *heads_key, int64_t heads, const char *width_key,
                             int64_t width);
const char *huggingface_text(const cJSON *object, const char *key, const char *fallback);
/* False, with `why` at the key of the outermost object (the object where it is missing). */
bool huggingface_refuse(struct huggingface_config *c, const char *key, const char *why,
                        const char *hint);
/* "_name_or_path", which whole dumps of a config leave empty, or else the type. */
const char *huggingface_module_name(const cJSON *object, const char *model_type);
/* Puts `assumed` into the notes, as defaults of `model_type`, and forgets it. */
void huggingface_note_defaults(struct huggingface_config *c, const char *model_type);
void huggingface_note(struct huggingface_config *c, const char *note);
void huggingface_leave_out(struct huggingface_config *c, const char *what, int64_t parameters);

/* ---- language models: huggingface_text.c ---- */
/* Whether `model_type` is a language model that can be imported. */
bool huggingface_knows_text(const char *model_type);
/* The module as an object of a model file, and its width; NULL after an error. `model_type` NULL:
 * as the object says. `tied` is what an object without "tie_word_embeddings" means; -1: its class's
 * default. */
cJSON *huggingface_text_module(struct huggingface_config *c, const cJSON *text,
                               const char *model_type, int tied, int64_t *hidden);
/* "at least 46.7 B parameters ...", from the keys that can be read; "" if there are too few. */
const char *huggingface_lower_bound(struct arena *arena, const cJSON *text);
/* Refuses experts and attention that are not modelled. */
bool huggingface_check_text(struct huggingface_config *c, const cJSON *text);
const char *const *huggingface_text_types(void);

/* ---- vision encoders: huggingface_vision.c ---- */
struct huggingface_tower {
    int64_t hidden, layer_count;
    int64_t merge; /* of its own merger; 1: none */
    bool class_token;
    cJSON *module;
};
bool huggingface_knows_vision(const char *model_type);
/* `kept` is "vision_feature_layer" of the model around it: blocks counted from the end if negative;
 * 0: all. */
bool huggingface_vision_module(struct huggingface_config *c, const cJSON *vision,
                               const char *model_type, int64_t feature_layer,
                               struct huggingface_tower *tower);
/* An encoder that is only named ("openai/clip-vit-large-patch14-336"); false if it is unknown. */
bool huggingface_named_tower(struct huggingface_config *c, const char *name, int64_t feature_layer,
                             struct huggingface_tower *tower);
const char *const *huggingface_vision_types(void);

/* ---- diffusion transformers: huggingface_diffusion.c ---- */
/* Whether "_class_name" is one that can be imported. */
bool huggingface_knows_diffusion(const char *class_name);
/* The decoder as an object of a model file; NULL after an error. */
cJSON *huggingface_diffusion_module(struct huggingface_config *c);
/* The same of a class with joint attention: huggingface_joint.c. */
bool huggingface_knows_joint(const char *class_name);
cJSON *huggingface_joint_module(struct huggingface_config *c);

#endif
