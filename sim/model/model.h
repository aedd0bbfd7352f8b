/* model.h - a multimodal model as a list of layers, and a layer as a list of operators.
 *
 * A model is vision encoder, connector, language model and diffusion decoder (any may be absent),
 * each a module with its own shape, precision and trainability. Layers are numbered over the whole
 * model in the order of execution:
 *
 *     patch embedding, vision blocks, connector, token embedding, language blocks, head
 *
 * or, where a diffusion decoder follows and the language model encodes its text, instead of the
 * head
 *
 *     text projection, latent embedding, diffusion blocks, diffusion head
 *
 * Without a language model the text comes encoded, or there is none and no text projection. Blocks
 * that attend to video and text at once are joint blocks, then single blocks (layer_block.c).
 *
 * Layers of one kind are equal: they emit the same operators for the same batch, split and gradient
 * need, so each kind is priced once.
 *
 *     const struct model *m = model_load(arena, "scenarios", "internvl-6b-20b", err);
 *     struct batch_shape shape = model_batch_shape(m, 1, 9, 4096, 4096.0 * 4096.0);
 *     struct operator_list ops = {0};
 *     layer_operators(m, layer, &shape, &split, PASS_SET_FORWARD, need, &ops);
 *     operator_list_free(&ops);
 *
 * Everything is in the arena and read-only after loading.
 */
#ifndef BALLAST_SIM_MODEL_MODEL_H
#define BALLAST_SIM_MODEL_MODEL_H

#include "costmodel/operator_work.h"
#include "costmodel/stack.h"
#include "sim/base/arena.h"
#include "sim/base/error.h"
#include "sim/base/field.h"
#include "sim/base/json.h"

enum module_role {
    MODULE_VISION,
    MODULE_CONNECTOR,
    MODULE_LANGUAGE,
    MODULE_DIFFUSION_DECODER,
    MODULE_ROLE_COUNT
};

/* FFN_GELU_NEW: the model's own code writes the tanh of GELU out, where FFN_GELU calls the library.
 */
enum ffn_kind { FFN_GELU, FFN_QUICK_GELU, FFN_SWIGLU, FFN_RELU2, FFN_GELU_NEW, FFN_KIND_COUNT };
/* What makes shift, scale and gate of a diffusion block from the timestep: one layer for all blocks
 * and a table in each (adaLN-single), or a layer in each (DiT's adaLN-Zero). */
enum modulation_kind { MODULATION_SHARED, MODULATION_BLOCK, MODULATION_KIND_COUNT };
/* What takes encoded text to a diffusion decoder's width: a linear layer and a norm (Movie Gen), or
 * two linear layers with a GELU between them (PixArt-alpha, Wan 2.1), or a linear layer alone
 * (Flux). */
enum text_projection_kind { TEXT_PROJECTION_NORM, TEXT_PROJECTION_MLP, TEXT_PROJECTION_LINEAR };
/* How a diffusion decoder's blocks attend to the text: by cross attention, or to video and text
 * joined (Stable Diffusion 3, Flux, HunyuanVideo). */
enum text_attention { TEXT_ATTENTION_CROSS, TEXT_ATTENTION_JOINT };
enum norm_kind { NORM_LAYER, NORM_RMS, NORM_LAYER_NO_BIAS, NORM_KIND_COUNT };
/* Attention and feed-forward network of a block, one behind the other or both of its input, whose
 * results are added to it (Wang and Komatsuzaki 2021, GPT-J; Black et al. 2022, GPT-NeoX-20B, arXiv
 * 2204.06745, section 2.1): of one norm (GPT-J, Phi, Falcon 7B, Command R) or of one each (GPT-NeoX,
 * Pythia, Falcon 40B). */
enum parallel_residual {
    PARALLEL_RESIDUAL_NO,
    PARALLEL_RESIDUAL_ONE_NORM,
    PARALLEL_RESIDUAL_TWO_NORMS,
    PARALLEL_RESIDUAL_COUNT
};
enum position_kind { POSITION_NONE, POSITION_ROTARY, POSITION_LEARNED, POSITION_KIND_COUNT };

/* Linear layers that an adapter stands beside; q, k and v or their one matrix, gate and up
 * likewise. */
enum adapter_target {
    ADAPTER_Q,
    ADAPTER_K,
    ADAPTER_V,
    ADAPTER_QKV,
    ADAPTER_PROJ,
    ADAPTER_GATE,
    ADAPTER_UP,
    ADAPTER_GATE_UP,
    ADAPTER_DOWN,
    ADAPTER_TARGET_COUNT
};
/* Which of the layers of that name: of joint blocks those of the video and those of the text, and
 * those of single blocks; of all other blocks the first. */
enum adapter_stream { ADAPTER_MAIN, ADAPTER_TEXT, ADAPTER_SINGLE, ADAPTER_STREAM_COUNT };

/* What adapters are stored in: as the stack has it, or whatever it has. */
enum adapter_weights { ADAPTER_WEIGHTS_USUAL, ADAPTER_WEIGHTS_BF16, ADAPTER_WEIGHTS_FP32 };

/* One transformer stack, or the connector. Dimensions of the whole model, before any division. */
struct module {
    enum module_role role;
    const char *name;     /* "InternViT-6B-448px" */
    bool frozen;          /* no weight gradients, no optimizer state */
    int64_t adapter_rank; /* of low-rank adapters in all blocks of a frozen module; 0: none */
    unsigned adapter_targets[ADAPTER_STREAM_COUNT]; /* 1 << enum adapter_target */
    enum adapter_weights adapter_weights;
    bool adapter_dropout; /* of what A reads */
    /* Adapted: the frozen weights are fp32, each is cast for its forward product, and the cast is
     * kept for the backward (torch.autocast). */
    bool fp32_base;
    enum precision precision;
    int64_t layer_count; /* transformer blocks; 1 for the connector; 0: absent */
    /* Of language models and vision encoders: all blocks but these attend within a window, of so
     * many tokens back, or of so many patches beside each other. 0: all attend to everything. */
    int64_t attention_window, full_attention_blocks;
    int64_t hidden, ffn_hidden, heads, kv_heads, head_dim;
    enum ffn_kind ffn;
    enum norm_kind norm;
    bool qkv_bias, linear_bias, qk_norm, layer_scale;
    bool branch_norm; /* a norm behind each branch too, before its residual (Gemma 2 and 3) */
    enum parallel_residual parallel_residual; /* language model */
    bool logit_cap; /* the head's logits pass a tanh before the loss (Gemma 2) */
    /* Language model: no head over the vocabulary and no loss of each token, but one vector a sample
     * at most (CLIP, a classifier), which is nothing beside the blocks. */
    bool headless;
    /* Of the language model's positions, those that the head and the loss see: a masked language
     * model's, or the labelled ones where no other's logits are made. */
    double head_share;
    bool key_bias; /* with qkv_bias: the key has one too (EVA gives it to query and value) */
    /* Trained with dropout: in naive attention, after both halves of a block and after the token
     * embedding. Masks take one byte a value. */
    bool dropout;
    bool qk_norm_per_head; /* over head_dim; otherwise over all heads, which TP ranks must reduce */
    enum norm_kind qk_norm_kind;
    enum position_kind position;
    int64_t position_count; /* rows of a learned position table */
    bool embedding_norm;    /* a norm between the embedding and the first block (CLIP) */
    int64_t vocabulary;     /* language model; 0 otherwise */
    bool tied_embeddings;
    bool flash_attention; /* vision encoder: by its own code, where a stack has unfused_encoder */
    bool bidirectional; /* language model: all tokens attend to all (BERT, an encoder by itself) */
    /* vision encoder; of a diffusion decoder patch_size, temporal_patch and channels are those of
     * the latent video, image_size is the width of a frame in pixels, and image_height its height */
    int64_t patch_size, image_size, image_height, channels;
    int64_t temporal_patch; /* frames in one patch */
    /* area to which the images of an encoder of free resolution are resized; -1: not stated */
    int64_t min_pixels, max_pixels;
    bool patch_bias;
    bool class_token;
    int64_t register_tokens; /* a tile's, besides: learned, and dropped by the connector too */
    int64_t merge;           /* connector joins merge x merge patches into one language token */
    /* connector: widths in -> inner -> out; inner 0: a single linear layer */
    int64_t connector_in, connector_inner, connector_out;
    bool connector_norm;
    bool connector_norm_before_merge; /* over the width of one patch (Qwen2-VL), not of merge^2 */
    bool connector_pool; /* patches are averaged instead of set side by side (Gemma 3) */
    /* A norm of the encoder's output, before anything else: the encoder's own last one, run and
     * counted with the connector. */
    bool connector_input_norm;
    enum norm_kind connector_input_norm_kind;
    /* diffusion decoder: blocks modulated by the timestep, with cross attention to the text */
    int64_t latent_pixels,
        latent_frames; /* pixels of an edge and frames that one latent stands for */
    int64_t frames_per_second;
    enum modulation_kind modulation;
    /* Of the language model that encodes the text, or of states that come encoded; 0: blocks
     * without text. */
    int64_t text_hidden;
    enum text_attention text_attention;
    /* With joint attention: the first so many of the blocks have weights of their own for the
     * text, the others one set for both. */
    int64_t double_stream_blocks;
    /* Blocks that the text passes before it meets the video (HunyuanVideo's token refiner). */
    int64_t text_refiner_blocks;
    /* Of one vector a sample beside the text's states (CLIP's), which two linear layers add to the
     * timestep's; 0: none. Guidance adds a number by two more, as the timestep itself. */
    int64_t pooled_text_hidden;
    bool guidance;
    bool text_encoded; /* its last norm was run with it */
    enum norm_kind text_norm;
    enum text_projection_kind text_projection;
    const char *source; /* where the figures come from */
    const char *notes;  /* inconsistencies between sources, assumptions; may be "" */
};

enum layer_kind {
    LAYER_PATCH_EMBEDDING,
    LAYER_VISION_BLOCK,
    LAYER_CONNECTOR,
    LAYER_TOKEN_EMBEDDING,
    LAYER_LANGUAGE_BLOCK,
    LAYER_HEAD /* final norm, head and loss */,
    LAYER_TEXT_PROJECTION /* final norm of the text encoder, enum text_projection_kind */,
    LAYER_LATENT_EMBEDDING /* patches of the noised latent; modulation from the timestep */,
    LAYER_DIFFUSION_BLOCK,
    LAYER_JOINT_BLOCK /* video and text in one attention, by weights of their own */,
    LAYER_SINGLE_BLOCK /* in one sequence, attention beside the feed-forward network */,
    LAYER_DIFFUSION_HEAD /* final norm, linear to latent patches, loss */,
    LAYER_KIND_COUNT
};

/* Which tokens of a micro-batch a layer runs over. */
enum token_axis { TOKENS_VISION, TOKENS_LANGUAGE, TOKENS_VIDEO, TOKEN_AXIS_COUNT };

struct layer {
    enum layer_kind kind;
    int32_t module_index;    /* the role of its module */
    int32_t index_in_module; /* among the blocks of its module; 0 for the others */
};

struct model {
    const char *name;
    const char *description;
    const char *source, *notes; /* of the combination; notes may be "" */
    const char *
        *files; /* that it was read from: its own (none if a scenario defines it), its modules' */
    int64_t file_count;
    struct module modules[MODULE_ROLE_COUNT]; /* by role; present if layer_count > 0 */
    struct layer *layers;
    int64_t layer_count;
    /* Patches of one tile in the encoder (with class token if any) and its tokens in the LLM. */
    int64_t tile_vision_tokens, tile_language_tokens;
    /* Every input after the first layer has a gradient, also where nothing before it is trained:
     * what Transformers' enable_input_require_grads() does, and pipeline engines that ask a
     * gradient of all that they receive. */
    bool input_gradients;
    int64_t max_tiles; /* that one image becomes by the model's own pre-processing; 0: not stated */
};

/* What one micro-batch (or sub-microbatch) holds, as the layers see it; whole model, all TP ranks.
 */
struct batch_shape {
    int64_t samples;
    int64_t vision_tiles;
    int64_t vision_tokens;      /* sequences of the encoder, class tokens included */
    double vision_square_sum;   /* sum of squared sequence lengths in the encoder */
    int64_t connector_tokens;   /* language tokens that come from vision */
    int64_t language_tokens;    /* with padding */
    double language_square_sum; /* sum of squared lengths of packed samples (padded: as padded) */
    int64_t useful_language_tokens; /* without padding */
    /* diffusion decoder; never padded */
    int64_t video_clips;
    int64_t video_tokens;
    double video_square_sum; /* sum of squared clip lengths */
    /* sum over clips of the pairs of query and key that its text of t tokens adds to the v^2 of its
     * v tokens: v t of cross attention, 2 v t + t^2 where both attend to both */
    double cross_square_sum;
};

/* Core attention: one fused kernel whose scores never reach HBM, or a batched matmul, a softmax and
 * a batched matmul over scores that do (Megatron-LM before FlashAttention). */
enum attention_kind { ATTENTION_FLASH, ATTENTION_NAIVE, ATTENTION_KIND_COUNT };
/* How the ranks of a context-parallel group bring queries and keys together: all keys and values
 * gathered before attention, passed around a ring while attention runs, heads exchanged for
 * tokens (Ulysses), or gathered and attended to block by block, as a ring does, while the gradients
 * of keys and values travel around it (PyTorch). Without effect where cp is 1 and in the encoder. */
enum context_kind {
    CONTEXT_ALL_GATHER,
    CONTEXT_RING,
    CONTEXT_ALL_TO_ALL,
    CONTEXT_GATHERED_RING,
    CONTEXT_KIND_COUNT
};

/* After both halves of a block and after the token embedding; or of attention's weights. */
enum dropout { DROPOUT_OF_MODEL, DROPOUT_OFF, DROPOUT_ON };

/* Kernels that give the same bits each time; besides, every new tensor is filled before its kernel
 * writes it (torch.use_deterministic_algorithms, unless its fill_uninitialized_memory is off). */
enum determinism { DETERMINISM_NONE, DETERMINISM_KERNELS, DETERMINISM_FILLED };

/* How one module is divided inside a stage, and how its attention runs. Zero is the usual choice
 * for every member but the degrees. */
struct tensor_split {
    int64_t tp;
    bool sequence_parallel; /* activations between TP regions are divided too */
    int64_t cp;
    int64_t context_heads; /* see struct layout, cp_heads; all-to-all: without effect */
    enum attention_kind attention;
    /* as the stack runs one, but for encoders with kernels of their own */
    struct stack_block block;
    enum context_kind context;
    /* Sequences are cut into cp runs of tokens instead of 2 cp dealt from both ends: under a causal
     * mask the last rank then does almost twice the mean work. Without effect on all-to-all. */
    bool context_unbalanced;
    enum fp8_recipe fp8_recipe; /* of matmuls in fp8 */
    bool weights_come_cast;     /* and a block's weights were gathered as such */
    bool adds_in_matmul; /* weight gradients are added to what is kept in the matmul itself */
    /* as block.unpads has it of this data: the language model's fused attention reads samples without
     * their padding */
    bool unpads_samples;
    enum dropout hidden_dropout, attention_dropout; /* of the language model */
    enum determinism determinism;
    enum attention_kernel attention_kernel; /* of fused attention */
};

/* Ranks among which keys and values travel: cp, over those that exchange heads for tokens. */
int64_t tensor_split_ring(const struct tensor_split *split);

/* Core attention of a kind of block. */
enum attention_kind tensor_split_attention(const struct tensor_split *split, enum layer_kind kind);

/* What a transformer block drops in forward and computes again in backward: nothing, everything but
 * its input, or its core attention only (with flash attention there is nothing to drop). */
enum recompute_kind {
    RECOMPUTE_NONE = 0,
    RECOMPUTE_FULL = 1,
    RECOMPUTE_SELECTIVE = 2,
    RECOMPUTE_KIND_COUNT
};

enum pass_set { PASS_SET_FORWARD, PASS_SET_BACKWARD };

/* What the backward pass of a layer must compute. */
struct gradient_need {
    bool input;  /* something trainable lies below it */
    bool weight; /* the layer itself is trainable */
};

struct operator_list {
    struct operator_work *operators;
    int64_t count, capacity; /* grows with realloc; operator_list_free() */
};
void operator_list_push(struct operator_list *list, struct operator_work work);
void operator_list_free(struct operator_list *list);

/* ---- loading ---- */
/* A model name in <search>/models/, or a path to such a file (it has a '/' or ends in ".json").
 * Modules are names in <search>/models/modules/, paths relative to the model file, or inline. */
const struct model *model_load(struct arena *arena, const char *search_directory, const char *name,
                               struct error *err);
/* The model defined by an object inside another document, with the keys of a model file. Paths of
 * modules are relative to that document; messages point into it. The document may be destroyed
 * afterwards. */
const struct model *model_from_json(struct arena *arena, const char *search_directory,
                                    const struct json *json, const cJSON *node, struct error *err);
/* The same model in which exactly the named roles (module_role_name()) are frozen;
 * NULL and an error for an unknown role or one that the model does not have. */
const struct model *model_with_frozen(struct arena *arena, const struct model *model,
                                      const char *const *role_names, int64_t role_count,
                                      struct error *err);
/* The same model with every module in one precision. */
const struct model *model_with_precision(struct arena *arena, const struct model *model,
                                         enum precision precision);
/* The keys of a model file, of a module and of a connector, for help and documentation. */
extern const struct field_table model_table, module_table, connector_table;

const char *layer_kind_name(enum layer_kind kind);
const char *module_role_name(enum module_role role);
/* Their names, for messages; NULL ends them. */
extern const char *const module_role_names[MODULE_ROLE_COUNT + 1];
#define MODULE_ROLE_LIST "vision, connector, language, diffusion_decoder"
enum token_axis layer_kind_axis(enum layer_kind kind);
bool layer_kind_is_block(enum layer_kind kind); /* a transformer block */
/* A block of a diffusion decoder; one whose attention is over video and text joined. */
bool layer_kind_diffuses(enum layer_kind kind);
bool layer_kind_joins_text(enum layer_kind kind);
const char *ffn_kind_name(enum ffn_kind kind);
const char *attention_kind_name(enum attention_kind kind);
const char *context_kind_name(enum context_kind kind);
const char *recompute_kind_name(enum recompute_kind kind);

/* ---- shape of a batch ---- */
/* Tiles of the model's own size, each a sequence of its own in the encoder. */
/* Squared lengths as attention of the mean block counts them, less where blocks have windows: of
 * causal sequences twice the pairs that see each other, of images the pairs. */
/* Tokens of a tile that are no patches: class token and registers. */
static inline int64_t module_extra_tokens(const struct module *vision) {
    return (vision->class_token ? 1 : 0) + vision->register_tokens;
}
double module_sequence_square(const struct module *module, double length);
double module_image_squares(const struct module *module, double patches, double square_sum);
struct batch_shape model_batch_shape(const struct model *model, int64_t samples,
                                     int64_t vision_tiles, int64_t language_tokens,
                                     double language_square_sum);

/* Tokens and sum of squared lengths on an axis. */
int64_t batch_shape_tokens(const struct batch_shape *shape, enum token_axis axis);
double batch_shape_squares(const struct batch_shape *shape, enum token_axis axis);
/* Whole frames of a clip at the diffusion decoder's rate, at least one; 0 for a clip of 0 ms. */
int64_t model_clip_frames(const struct model *model, int64_t clip_ms);
/* Tokens of the diffusion decoder for a clip: its whole frames at the decoder's rate, compressed by
 * latent_frames in time (rounded up) and by latent_pixels along each side, in patches. At least one
 * frame; 0 for a clip of 0 ms. Frames of another size than the decoder's: sides cut down to whole
 * patches, at least one; a width of 0 is the decoder's own. */
int64_t model_clip_tokens(const struct model *model, int64_t clip_ms);
int64_t model_sized_clip_tokens(const struct model *model, int64_t clip_ms, int64_t width,
                                int64_t height);
/* What a clip adds to cross_square_sum. */
double model_clip_text_pairs(const struct model *model, double clip_tokens, double text_tokens);

/* ---- counting ---- */
/* Exact, biases, norms, class token and position table included. A tied head counts with the token
 * embedding. */
int64_t model_layer_parameters(const struct model *model, int64_t layer_index);
/* Of adapters, on one TP rank; 0 where the layer has none. Not among the layer's own. */
int64_t layer_rank_adapter_parameters(const struct model *model, int64_t layer_index, int64_t tp);
/* What the optimizer updates of the layer: its own parameters, its adapters' or none. */
int64_t model_layer_trained_parameters(const struct model *model, int64_t layer_index);
int64_t module_parameters(const struct model *model, enum module_role role);
int64_t model_parameters(const struct model *model);
/* Whether any module's matmuls run in it. */
bool model_computes_in(const struct model *model, enum precision precision);
bool model_computes_in_single(const struct model *model); /* fp32 or TF32 */
/* No encoder of images, no diffusion decoder, and no encoder by itself. */
bool model_is_text_decoder(const struct model *model);
/* Adapters stand beside frozen weights in fp32 (struct module, fp32_base). */
bool model_has_fp32_base(const struct model *model);
/* Its language model's tokens see those before them alone. */
bool model_attends_causally(const struct model *model);
/* A decoder of text with a loss of each token, whatever stands before it: no encoder alone, no pair
 * of them, no diffusion. */
bool model_writes_text(const struct model *model);
/* Layers count from 0. A layer needs its input gradient if any layer before it is trainable or has
 * adapters, or it has some: the first adapted block's, which nothing reads, is counted as the
 * others' (PEFT's checkpointed blocks compute it). */
struct gradient_need model_gradient_need(const struct model *model, int64_t layer_index);

/* Whether the head's logits have rows that do not begin on 8 bytes, for want of padding. */
bool model_logits_are_odd(const struct model *model, const struct tensor_split *split);

/* ---- operators of one layer on one TP rank, in execution order ---- */
/* need is ignored for forward. Appends to out. A batch without tokens for the layer (no images)
 * gives no operators, and neither does a backward pass that needs no gradient.
 *
 * Collectives carry the pass that says what they may hide behind: in Megatron-LM the gather of
 * the saved input (PASS_WEIGHT_GRADIENT) runs beside the input-gradient matmul that follows it,
 * and the reduction of the input gradient (PASS_INPUT_GRADIENT) beside the weight-gradient
 * matmul that follows. The exchange of ring attention (operator_runs_beside_attention()) may
 * hide behind the core attention that follows it. Others are exposed. */
void layer_operators(const struct model *model, int64_t layer_index,
                     const struct batch_shape *shape, const struct tensor_split *split,
                     enum pass_set set, struct gradient_need need, struct operator_list *out);

/* The core attention alone, as it stands in the list of layer_operators(): consecutive operators
 * there, one with flash attention, and the only ones that depend on more than the token counts. No
 * exchange between ranks is among them. A diffusion block has that of its cross attention too, in
 * the order of the pass. Nothing for layers other than transformer blocks. */
void layer_attention_operators(const struct model *model, int64_t layer_index,
                               const struct batch_shape *shape, const struct tensor_split *split,
                               enum pass_set set, struct gradient_need need,
                               struct operator_list *out);
/* One of these: its FLOP or bytes follow from square_sum. */
bool operator_is_core_attention(const struct operator_work *work);
/* The key-value exchange of ring attention, all steps of a pass in one message. The rank has its
 * own block from the start, so that 1 / cp of the attention that follows has nothing beside it. A
 * gather of keys and values has that 1 / cp beside it alone. */
bool operator_runs_beside_attention(const struct operator_work *work);

/* What backward runs again before it, in execution order: the forward list, part of it as the style
 * of the split says, the core attention or nothing. Nothing either for a layer that cannot
 * recompute or has no backward. */
void layer_recompute_operators(const struct model *model, int64_t layer_index,
                               const struct batch_shape *shape, const struct tensor_split *split,
                               enum recompute_kind kind, struct gradient_need need,
                               struct operator_list *out);

/* Model FLOPs of forward, unsharded and without recomputation, for MFU: 2 per multiply-add of the
 * matmuls (patch embedding, connector and head included) and 4 x square_sum x heads x head_dim of
 * attention, half of it where causal. */
double model_layer_flop(const struct model *model, int64_t layer_index,
                        const struct batch_shape *shape);
/* Model FLOPs of forward and backward: a matmul once more for each gradient that is needed,
 * attention twice more (the 2.5 of a fused kernel includes recomputation, which MFU leaves out). */
double model_layer_training_flop(const struct model *model, int64_t layer_index,
                                 const struct batch_shape *shape);

/* ---- memory of one layer on one TP rank ---- */
/* A tensor that lives from forward to backward. */
struct saved_tensor {
    const char *name; /* static text */
    double bytes;
    bool core_attention; /* dropped by selective recomputation */
};
enum { LAYER_SAVED_TENSOR_LIMIT = 96 };
/* Fills at most LAYER_SAVED_TENSOR_LIMIT tensors kept without recomputation; returns how many. A
 * layer that runs no backward keeps none, a frozen one only what its input gradient asks for. */
int64_t layer_saved_tensors(const struct model *model, int64_t layer_index,
                            const struct batch_shape *shape, const struct tensor_split *split,
                            struct saved_tensor *tensors);
/* Bytes that must live from forward to backward. Without recomputation: everything saved; with full
 * recomputation: the layer's input only; selective: all but what core attention keeps. Only
 * transformer blocks recompute: for other layers the kind changes nothing. */
double layer_saved_bytes(const struct model *model, int64_t layer_index,
                         const struct batch_shape *shape, const struct tensor_split *split,
                         enum recompute_kind kind);
bool layer_can_recompute(const struct model *model, int64_t layer_index);
/* Rows of a head's logits on one rank, and those that its matmuls and loss take at a time: all of
 * them unless it is chunked. */
struct head_rows {
    int64_t all, chunk;
};
struct head_rows layer_head_rows(const struct model *model, int64_t layer_index,
                                 const struct batch_shape *shape, const struct tensor_split *split);
/* The largest transient buffers while the layer runs (logits of the head, gathered sequences), over
 * what layer_saved_bytes() counts. A block that recomputes holds what it dropped once more: the
 * saved bytes without recomputation less those with it. */
double layer_workspace_bytes(const struct model *model, int64_t layer_index,
                             const struct batch_shape *shape, const struct tensor_split *split);
/* Parameters of the layer held by one TP rank (norms, patch embedding and connector are whole). A
 * tied head holds a copy of the table, as it must when first and last stage differ. */
int64_t layer_rank_parameters(const struct model *model, int64_t layer_index, int64_t tp);
/* Of these, the table of a tied head, which is no copy where the token embedding is on the same
 * rank; 0 of other layers. */
int64_t layer_rank_tied_parameters(const struct model *model, int64_t layer_index, int64_t tp);
/* Bytes that a cut after this layer sends, all TP ranks together; 0 after a head. Diffusion blocks
 * hand on the text states beside the video. */
double layer_output_bytes(const struct model *model, int64_t layer_index,
                          const struct batch_shape *shape);

#endif
