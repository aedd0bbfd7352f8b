/* model.h - a multimodal model as a list of layers, and a layer as a list of operators.
 *
 * A model is vision encoder, connector and language model (any may be absent), each a module with
 * its own shape, precision and trainability. Layers are numbered over the whole model in the order of
 * execution; layers with equal operators share a layer_type, so that each is priced once.
 *
 *     const struct model *m = model_load(arena, "scenarios", "internvl-6b-20b", err);
 *     struct operator_list ops = {0};
 *     layer_operators(m, type, &shape, &split, PASS_SET_FORWARD, &ops);
 *
 * Everything is in the arena and read-only after loading.
 */
#ifndef BALLAST_SIM_MODEL_MODEL_H
#define BALLAST_SIM_MODEL_MODEL_H

#include "costmodel/operator_work.h"
#include "sim/base/arena.h"
#include "sim/base/error.h"
#include "sim/base/json.h"

enum module_role { MODULE_VISION, MODULE_CONNECTOR, MODULE_LANGUAGE, MODULE_ROLE_COUNT };

enum ffn_kind { FFN_GELU, FFN_QUICK_GELU, FFN_SWIGLU, FFN_RELU2, FFN_KIND_COUNT };
enum norm_kind { NORM_LAYER, NORM_RMS, NORM_KIND_COUNT };

/* One transformer stack, or the connector. Dimensions of the whole model, before any division. */
struct module {
    enum module_role role;
    const char *name;             /* "InternViT-6B-448px" */
    bool frozen;                  /* no weight gradients, no optimizer state */
    enum precision precision;
    int64_t layer_count;
    int64_t hidden, ffn_hidden, heads, kv_heads, head_dim;
    enum ffn_kind ffn;
    enum norm_kind norm;
    bool qkv_bias, linear_bias, qk_norm, layer_scale;
    int64_t vocabulary;           /* language model; 0 otherwise */
    bool tied_embeddings;
    /* vision encoder */
    int64_t patch_size, image_size, channels;
    bool class_token;
    int64_t merge;                /* connector joins merge x merge patches into one language token */
    /* connector: widths in -> inner -> out; inner 0: a single linear layer */
    int64_t connector_in, connector_inner, connector_out;
    bool connector_norm;
    const char *source;           /* where the figures come from */
};

enum layer_kind {
    LAYER_PATCH_EMBEDDING, LAYER_VISION_BLOCK, LAYER_CONNECTOR,
    LAYER_TOKEN_EMBEDDING, LAYER_LANGUAGE_BLOCK, LAYER_HEAD /* final norm, head and loss */,
    LAYER_KIND_COUNT
};

struct layer {
    enum layer_kind kind;
    int32_t module_index;
    int32_t index_in_module;      /* among the blocks of its module; 0 for the others */
};

struct model {
    const char *name;
    struct module modules[MODULE_ROLE_COUNT]; /* present if layer_count > 0 */
    struct layer *layers;
    int64_t layer_count;
    /* Patches of one tile in the encoder (with class token if any) and its tokens in the LLM. */
    int64_t tile_vision_tokens, tile_language_tokens;
};

/* What one micro-batch (or sub-microbatch) holds, as the layers see it; whole model, all TP ranks. */
struct batch_shape {
    int64_t samples;
    int64_t vision_tiles;
    int64_t vision_tokens;        /* sequences of the encoder, class tokens included */
    double vision_square_sum;     /* sum of squared sequence lengths in the encoder */
    int64_t connector_tokens;     /* language tokens that come from vision */
    int64_t language_tokens;      /* with padding */
    double language_square_sum;   /* sum of squared lengths of packed samples (padded ones: as padded) */
    int64_t useful_language_tokens; /* without padding */
};

/* How one module is divided inside a stage. */
struct tensor_split {
    int64_t tp;
    bool sequence_parallel;       /* activations between TP regions are divided too */
    int64_t cp;
};

enum pass_set { PASS_SET_FORWARD, PASS_SET_BACKWARD };

/* What the backward pass of a layer must compute. */
struct gradient_need {
    bool input;                   /* something trainable lies below it */
    bool weight;                  /* the layer itself is trainable */
};

struct operator_list {
    struct operator_work *operators;
    int64_t count, capacity;      /* grows with realloc; operator_list_free() */
};
void operator_list_free(struct operator_list *list);

/* ---- loading ---- */
/* A model name in <search>/models/, or a path to such a file. `overrides` may be NULL: scenario keys
 * "frozen" (list of roles) are applied by the scenario. */
const struct model *model_load(struct arena *arena, const char *search_directory, const char *name,
                               struct error *err);
const char *layer_kind_name(enum layer_kind kind);
const char *module_role_name(enum module_role role);

/* ---- counting ---- */
int64_t model_layer_parameters(const struct model *model, int64_t layer_index);
int64_t module_parameters(const struct model *model, enum module_role role);
int64_t model_parameters(const struct model *model);
struct gradient_need model_gradient_need(const struct model *model, int64_t layer_index);

/* ---- operators of one layer on one TP rank, in execution order ---- */
/* need is ignored for forward. Appends to out. */
void layer_operators(const struct model *model, int64_t layer_index, const struct batch_shape *shape,
                     const struct tensor_split *split, enum pass_set set, struct gradient_need need,
                     struct operator_list *out);

/* FLOPs of forward by the model's definition (no recomputation, unsharded): for MFU. */
double model_layer_flop(const struct model *model, int64_t layer_index, const struct batch_shape *shape);

/* ---- memory of one layer on one TP rank ---- */
/* Bytes that must live from forward to backward. Without recomputation: everything saved; with full
 * recomputation: the layer's input only. */
double layer_saved_bytes(const struct model *model, int64_t layer_index,
                         const struct batch_shape *shape, const struct tensor_split *split,
                         bool recompute);
/* The largest transient buffers while the layer runs (logits of the head, gathered sequences). */
double layer_workspace_bytes(const struct model *model, int64_t layer_index,
                             const struct batch_shape *shape, const struct tensor_split *split);
/* Parameters of the layer held by one TP rank (norms are whole). */
int64_t layer_rank_parameters(const struct model *model, int64_t layer_index, int64_t tp);
/* Bytes that a cut after this layer sends, all TP ranks together. */
double layer_output_bytes(const struct model *model, int64_t layer_index,
                          const struct batch_shape *shape);

#endif
