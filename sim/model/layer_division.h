/* layer_division.h - the sizes of one layer on one rank, after tensor, sequence and context
 * parallel division. Private to sim/model.
 *
 * What does not divide evenly is rounded up, because the fullest rank sets the pace: heads
 * (Megatron pads the 25 of InternViT to 26, 28 or 32), tokens of a sequence shard, rows of the
 * vocabulary. Key and value heads are replicated where there are fewer than ranks.
 */
#ifndef BALLAST_SIM_MODEL_LAYER_DIVISION_H
#define BALLAST_SIM_MODEL_LAYER_DIVISION_H

#include "sim/model/model.h"

/* Sines and cosines of the timestep (Peebles and Xie 2023, DiT, and all that follow it). */
enum { TIMESTEP_FREQUENCIES = 256 };

struct layer_division {
    const struct module *module;
    enum layer_kind kind;
    int64_t tp, cp;
    bool sequence_parallel; /* and tp > 1 */
    bool hidden_dropout, attention_dropout;
    bool remakes_activation; /* in the backward, which keeps its input alone */
    bool dropout_apart;      /* a branch is dropped out before the kernel that adds it */
    bool modulation_apart; /* of a diffusion block: shift, scale and gate by kernels of their own */
    bool branches_apart;   /* of a single block */
    enum determinism determinism;
    enum attention_kernel attention_kernel;
    enum stack_tensor_traffic tensor_traffic;
    bool copies_inputs; /* each column-parallel product of a half its own; and tp > 1, without SP */
    enum stack_casts casts;
    enum fp8_recipe fp8_recipe; /* never usual */
    bool fuses_adapters;        /* a compiler does */
    bool exchanges_adapters;    /* their output, with TP: by all-to-all */
    bool casts_adapter_inputs;  /* to fp32 and, under autocast, back */
    bool casts_weights;         /* in each pass */
    bool weights_come_cast;     /* see struct tensor_split */
    enum stack_linear_gradients linear_gradients;
    bool adds_in_matmul;      /* see struct tensor_split */
    bool unpads;              /* q, k and v are gathered for attention, its result is scattered */
    bool writes_softmax;      /* unfused attention casts and masks its scores by kernels apart */
    int64_t element_bytes;    /* of an activation */
    int64_t tokens;           /* rows of the layer inside a TP region */
    int64_t shard_tokens;     /* rows outside: divided by tp under sequence parallelism */
    int64_t attention_tokens; /* that core attention reads: a joint block's text beside `tokens` */
    double square_sum;        /* of attention: half of it is masked where causal */
    double score_square_sum;  /* the same for unfused attention, which computes what it masks */
    bool causal;
    int64_t heads, kv_heads;
    int64_t query_width, kv_width, qkv_width; /* columns: heads x head_dim; q, k and v */
    int64_t ffn_width, up_width;              /* up_width: twice ffn_width if gated */
    int64_t vocabulary;
    int64_t head_tokens;     /* of a head: rows of its logits */
    int64_t loss_vocabulary; /* columns of the logits that the rank's loss reads */
    /* of a head: rows that its matmuls and loss take at a time, all of them unless it is chunked */
    int64_t chunk_tokens;
    enum stack_chunked_head chunked_head;
    struct stack_chunk chunk; /* of one whose logits are made anew */
    bool odd_logits;          /* of a head: their rows do not begin on 8 bytes */
    bool odd_scores;          /* unfused attention of all to an odd number of tokens */
    bool odd_cross_scores, writes_cross_softmax; /* of cross attention: to so many of text */
    /* diffusion decoder: the text that a block attends to, in and outside of TP regions (of a
     * single block it is among `tokens`), and the columns of the modulation that this rank
     * computes */
    int64_t text_tokens, text_shard_tokens;
    bool text_stream; /* the division is of a joint block's text, layer_division_text() */
    double cross_square_sum;
    int64_t modulation_width;
    /* core attention */
    enum attention_kind attention;
    enum context_kind context; /* how keys and values travel among context_ring ranks */
    /* context_heads ranks exchange heads for tokens, and context_ring of those that then hold the
     * same heads have parts of the sequences; both are 1 where cp is or whole samples are dealt */
    int64_t context_heads, context_ring;
    int64_t attention_heads, attention_kv_heads; /* rounded up to context_heads */
    bool repeats_keys;  /* a gathered ring takes keys and values once for each query head */
    bool waits_at_once; /* and for what travels where it is called */
    double score_count; /* query x key, over all heads */
};

static inline int64_t divide_up(int64_t value, int64_t parts) {
    return (value + parts - 1) / parts;
}

/* The weights' share alone; tokens stay 0. */
struct layer_division layer_division_weights(const struct model *model, int64_t layer_index,
                                             int64_t tp);
/* The same of one rank that holds all of it. */
struct layer_division layer_division_whole(const struct module *module, enum layer_kind kind);
struct layer_division layer_division_make(const struct model *model, int64_t layer_index,
                                          const struct batch_shape *shape,
                                          const struct tensor_split *split);

/* Products that read one input: gate and up, or up alone; q, k and v, and of a single block whose
 * branches share that input those as well. */
static inline int64_t layer_division_up_products(const struct layer_division *d) {
    return d->up_width > d->ffn_width ? 2 : 1;
}
static inline int64_t layer_division_attention_products(const struct layer_division *d,
                                                        bool shared) {
    const bool both = d->kind == LAYER_SINGLE_BLOCK && shared;
    return 3 + (both ? layer_division_up_products(d) : 0);
}

/* A joint block's text as a stream of its own: as many tokens, by weights of the same shape. */
struct layer_division layer_division_text(const struct layer_division *d);

/* Vectors of `hidden` that the modulation gives a block (or one stream of a joint one). */
static inline int64_t modulation_vectors(enum layer_kind kind) {
    return kind == LAYER_SINGLE_BLOCK ? 3 : 6;
}

/* Values of one patch as the patch embedding reads them: channels, frames and pixels. */
int64_t module_patch_width(const struct module *module);
/* Width of a patch as a connector takes it from the encoder. */
int64_t connector_patch_width(const struct module *connector);
/* Patches without class tokens. */
int64_t batch_patch_count(const struct module *vision, const struct batch_shape *shape);

#endif
