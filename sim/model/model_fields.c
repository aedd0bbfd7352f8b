/* model_fields.c - one table row per key of a model file. */
#include "sim/model/model_fields.h"

static const char *const ffn_choices[] = {
    "gelu", "quick-gelu", "swiglu", "relu2", "gelu-new", NULL
};
static const char *const norm_choices[] = { "layer", "rms", "layer-no-bias", NULL };
static const char *const position_choices[] = { "none", "rotary", "learned", NULL };
static const char *const parallel_residual_choices[] = { "no", "one-norm", "two-norms", NULL };
static const char *const modulation_choices[] = { "shared", "block", NULL };
static const char *const qkv_bias_choices[] = { "none", "query-value", "all", NULL };
static const char *const qk_norm_choices[] = { "none", "head", "all-heads", NULL };
/* As the blocks', and then as enum norm_kind counts them. */
static const char *const qk_norm_kind_choices[] = { "as-norm", "layer", "rms", "layer-no-bias",
                                                    NULL };
static const char *const text_projection_choices[] = { "norm", "mlp", "linear", NULL };
static const char *const text_attention_choices[] = { "cross", "joint", NULL };
/* None, and then as enum norm_kind counts them. */
static const char *const input_norm_choices[] = { "none", "layer", "rms", "layer-no-bias", NULL };
static const char *const inner_choices[] = { "none", "language", "vision", NULL };

#define AT(member) offsetof(struct module_row, member)
static const struct field module_fields[] = {
    { "module", FIELD_TEXT, AT(base), 0, 0, "null", "",
      "module file that the other keys change; only in a model file", NULL },
    { "name", FIELD_TEXT, AT(module.name), 0, 0, NULL, "", "as its makers write it", NULL },
    { "names", FIELD_NODE, AT(names), 0, 0, "null", "",
      "list of other names that rows of measured runs have for it (vision)", NULL },
    { "role", FIELD_CHOICE, AT(module.role), 0, 0, NULL, "", "place in the model",
      module_role_names },
    { "layer_count", FIELD_COUNT, AT(module.layer_count), 1, 1e4, NULL, "", "transformer blocks",
      NULL },
    { "hidden", FIELD_COUNT, AT(module.hidden), 1, 1e6, NULL, "", "width of the residual stream",
      NULL },
    { "ffn_hidden", FIELD_COUNT, AT(module.ffn_hidden), 1, 1e7, NULL, "",
      "inner width of the feed-forward network", NULL },
    { "heads", FIELD_COUNT, AT(module.heads), 1, 1e5, NULL, "", "query heads", NULL },
    { "kv_heads", FIELD_COUNT, AT(module.kv_heads), 1, 1e5, "null", "",
      "key and value heads; null: as many as query heads", NULL },
    { "head_dim", FIELD_COUNT, AT(module.head_dim), 1, 1e5, "null", "",
      "width of a head; null: hidden / heads", NULL },
    { "attention_window", FIELD_COUNT, AT(module.attention_window), 0, 1e8, "0", "tokens",
      "blocks attend so many tokens back, or within so many patches of an image; 0: to all", NULL },
    { "full_attention_blocks", FIELD_COUNT, AT(module.full_attention_blocks), 0, 1e4, "0", "",
      "of the blocks, with a window: so many attend to all", NULL },
    { "ffn", FIELD_CHOICE, AT(module.ffn), 0, 0, NULL, "",
      "activation; swiglu has a third matrix, the gate", ffn_choices },
    { "norm", FIELD_CHOICE, AT(module.norm), 0, 0, NULL, "", "normalisation", norm_choices },
    { "qkv_bias", FIELD_CHOICE, AT(qkv_bias), 0, 0, "\"none\"", "",
      "which of query, key and value have a bias", qkv_bias_choices },
    { "linear_bias", FIELD_BOOL, AT(module.linear_bias), 0, 0, "false", "",
      "attention projection and feed-forward network have biases", NULL },
    { "qk_norm", FIELD_CHOICE, AT(qk_norm), 0, 0, "\"none\"", "",
      "normalisation of queries and keys: over each head or over all of them", qk_norm_choices },
    { "qk_norm_kind", FIELD_CHOICE, AT(qk_norm_kind), 0, 0, "\"as-norm\"", "",
      "which norm that is; as-norm: that of the blocks", qk_norm_kind_choices },
    { "branch_norm", FIELD_BOOL, AT(module.branch_norm), 0, 0, "false", "",
      "a norm behind each branch too, before its residual: four norms a block (Gemma 2 and 3)",
      NULL },
    { "parallel_residual", FIELD_CHOICE, AT(module.parallel_residual), 0, 0, "\"no\"", "",
      "attention and feed-forward network both read the block's input: through one norm (GPT-J, "
      "Phi, Falcon 7B) or two (GPT-NeoX, Pythia, Falcon 40B) (language)",
      parallel_residual_choices },
    { "layer_scale", FIELD_BOOL, AT(module.layer_scale), 0, 0, "false", "",
      "each branch is scaled by a learned vector", NULL },
    { "dropout", FIELD_BOOL, AT(module.dropout), 0, 0, "false", "",
      "trained with dropout: of attention weights, of both branches and of the token embedding",
      NULL },
    { "position", FIELD_CHOICE, AT(module.position), 0, 0, NULL, "", "position encoding",
      position_choices },
    { "position_count", FIELD_COUNT, AT(module.position_count), 1, 1e8, "null", "",
      "rows of a learned position table; null: the tokens of a tile", NULL },
    { "embedding_norm", FIELD_BOOL, AT(module.embedding_norm), 0, 0, "false", "",
      "a norm between embedding and first block", NULL },
    { "vocabulary", FIELD_COUNT, AT(module.vocabulary), 1, 1e8, "null", "tokens",
      "rows of embedding and head (language)", NULL },
    { "tied_embeddings", FIELD_BOOL, AT(module.tied_embeddings), 0, 0, "false", "",
      "embedding and head share one table", NULL },
    { "bidirectional", FIELD_BOOL, AT(module.bidirectional), 0, 0, "false", "",
      "all tokens attend to all, without a causal mask (language; BERT)", NULL },
    { "flash_attention", FIELD_BOOL, AT(module.flash_attention), 0, 0, "false", "",
      "its own code runs FlashAttention where a stack's encoders write their scores (vision)",
      NULL },
    { "logit_cap", FIELD_BOOL, AT(module.logit_cap), 0, 0, "false", "",
      "the head's logits pass a tanh before the loss (language; Gemma 2)", NULL },
    { "headless", FIELD_BOOL, AT(module.headless), 0, 0, "false", "",
      "no head over the vocabulary and no loss of each token: one vector a sample at most, which "
      "is "
      "not priced (language; CLIP, classifiers)",
      NULL },
    { "head_share", FIELD_DOUBLE, AT(module.head_share), 1e-4, 1, "1", "",
      "of the positions, those that are gathered before the head: masked ones (BERT), or labelled "
      "ones where no other's logits are made (language)",
      NULL },
    { "patch_size", FIELD_COUNT, AT(module.patch_size), 1, 1e4, "null", "pixels",
      "edge of a patch (vision); in latent pixels (diffusion decoder)", NULL },
    { "image_size", FIELD_COUNT, AT(module.image_size), 1, 1e5, "null", "pixels",
      "edge of a tile (vision); of a typical image where the resolution is free; width of a frame "
      "(diffusion decoder)",
      NULL },
    { "image_height", FIELD_COUNT, AT(module.image_height), 1, 1e5, "null", "pixels",
      "diffusion decoder: height of a frame; null: as image_size", NULL },
    { "channels", FIELD_COUNT, AT(module.channels), 1, 1e4, "3", "",
      "of a pixel, or of a latent pixel", NULL },
    { "temporal_patch", FIELD_COUNT, AT(module.temporal_patch), 1, 1e3, "1", "frames",
      "frames, or latent frames, in one patch", NULL },
    { "latent_pixels", FIELD_COUNT, AT(module.latent_pixels), 1, 1024, "null", "pixels",
      "diffusion decoder: edge of what becomes one latent pixel", NULL },
    { "latent_frames", FIELD_COUNT, AT(module.latent_frames), 1, 1024, "null", "frames",
      "diffusion decoder: frames that become one latent frame", NULL },
    { "frames_per_second", FIELD_COUNT, AT(module.frames_per_second), 1, 1000, "null", "",
      "diffusion decoder: at which clips are sampled", NULL },
    { "modulation", FIELD_CHOICE, AT(module.modulation), 0, 0, "\"shared\"", "",
      "diffusion decoder: the timestep's layer, shared by all blocks or one in each block",
      modulation_choices },
    { "text_hidden", FIELD_COUNT, AT(module.text_hidden), 1, 1e6, "null", "",
      "diffusion decoder without a language model: width of the encoded text; null: no cross "
      "attention",
      NULL },
    { "text_projection", FIELD_CHOICE, AT(module.text_projection), 0, 0, "\"norm\"", "",
      "diffusion decoder: what takes the text to its width: a linear layer and a norm, two linear "
      "layers with a GELU between them, or a linear layer alone",
      text_projection_choices },
    { "text_attention", FIELD_CHOICE, AT(module.text_attention), 0, 0, "\"cross\"", "",
      "diffusion decoder: cross attention to the text in each block, or video and text joined in "
      "one attention (Flux, HunyuanVideo)",
      text_attention_choices },
    { "double_stream_blocks", FIELD_COUNT, AT(module.double_stream_blocks), 0, 1e4, "null", "",
      "diffusion decoder with joint attention: the first so many blocks have weights of their own "
      "for the text, the others one set for both and attention beside the feed-forward network; "
      "null: all have their own",
      NULL },
    { "text_refiner_blocks", FIELD_COUNT, AT(module.text_refiner_blocks), 0, 8, "0", "",
      "diffusion decoder: blocks of its shape that the text passes alone at first (HunyuanVideo)",
      NULL },
    { "pooled_text_hidden", FIELD_COUNT, AT(module.pooled_text_hidden), 0, 1e6, "0", "",
      "diffusion decoder: width of one vector of the whole text, which two linear layers add to "
      "the timestep (CLIP's); 0: none",
      NULL },
    { "guidance", FIELD_BOOL, AT(module.guidance), 0, 0, "false", "",
      "diffusion decoder: the strength of guidance is embedded as the timestep is (distilled "
      "models)",
      NULL },
    { "min_pixels", FIELD_COUNT, AT(module.min_pixels), 1, 1e9, "null", "pixels",
      "vision encoder of free resolution: smallest area of an image; null: 3136, Qwen2-VL's",
      NULL },
    { "max_pixels", FIELD_COUNT, AT(module.max_pixels), 1, 1e9, "null", "pixels",
      "vision encoder of free resolution: largest area of an image; null: 12845056, Qwen2-VL's",
      NULL },
    { "patch_bias", FIELD_BOOL, AT(module.patch_bias), 0, 0, "true", "",
      "the patch convolution has a bias", NULL },
    { "class_token", FIELD_BOOL, AT(module.class_token), 0, 0, "false", "",
      "one more token per tile, dropped by the connector", NULL },
    { "register_tokens", FIELD_COUNT, AT(module.register_tokens), 0, 1e4, "0", "tokens",
      "so many more, learned and dropped likewise (DINOv2)", NULL },
    { "precision", FIELD_CHOICE, AT(module.precision), 0, 0, "\"bf16\"", "", "of its matmuls",
      precision_names },
    { "source", FIELD_TEXT, AT(module.source), 0, 0, NULL, "",
      "where the figures come from, unless \"sources\" says otherwise", NULL },
    { "sources", FIELD_NODE, AT(sources), 0, 0, "null", "",
      "{ key: source } of single figures, also of assumed ones", NULL },
    { "notes", FIELD_TEXT, AT(module.notes), 0, 0, "\"\"", "", "inconsistencies between sources",
      NULL },
};
#undef AT
const struct field_table module_table =
    FIELD_TABLE("module", "one transformer stack", module_fields);

#define AT(member) offsetof(struct connector_row, member)
static const struct field connector_fields[] = {
    { "merge", FIELD_COUNT, AT(merge), 1, 64, "2", "patches",
      "merge x merge patches become one language token", NULL },
    { "inner", FIELD_CHOICE, AT(inner), 0, 0, "\"language\"", "",
      "width between two linear layers: of the language model or of the merged patches; none: a "
      "single linear layer",
      inner_choices },
    { "norm", FIELD_BOOL, AT(norm), 0, 0, "true", "", "a norm before the linear layers", NULL },
    { "norm_kind", FIELD_CHOICE, AT(norm_kind), 0, 0, "\"layer\"", "", "which norm it is",
      norm_choices },
    { "norm_before_merge", FIELD_BOOL, AT(norm_before_merge), 0, 0, "false", "",
      "the norm runs over single patches", NULL },
    { "pool", FIELD_BOOL, AT(pool), 0, 0, "false", "",
      "the merged patches are averaged instead of set side by side", NULL },
    { "input_norm", FIELD_CHOICE, AT(input_norm), 0, 0, "\"none\"", "",
      "a norm of the encoder's output before anything else: its own last one, where it is read",
      input_norm_choices },
    { "linear_bias", FIELD_BOOL, AT(linear_bias), 0, 0, "true", "", "linear layers have biases",
      NULL },
    { "precision", FIELD_CHOICE, AT(precision), 0, 0, "\"bf16\"", "", "of its matmuls",
      precision_names },
    { "source", FIELD_TEXT, AT(source), 0, 0, NULL, "", "where the figures come from", NULL },
    { "notes", FIELD_TEXT, AT(notes), 0, 0, "\"\"", "", "inconsistencies between sources", NULL },
};
#undef AT
const struct field_table connector_table =
    FIELD_TABLE("connector", "what joins vision encoder and language model", connector_fields);

#define AT(member) offsetof(struct model_row, member)
static const struct field model_fields[] = {
    { "name", FIELD_TEXT, AT(name), 0, 0, NULL, "", "by which scenarios call it", NULL },
    { "description", FIELD_TEXT, AT(description), 0, 0, "\"\"", "", "one line", NULL },
    { "vision", FIELD_NODE, AT(vision), 0, 0, "null", "",
      "vision encoder: a module's name, or an object", NULL },
    { "connector", FIELD_NODE, AT(connector), 0, 0, "null", "",
      "joins vision encoder and language model", NULL },
    { "language", FIELD_NODE, AT(language), 0, 0, "null", "",
      "language model: a module's name, or an object", NULL },
    { "diffusion_decoder", FIELD_NODE, AT(diffusion_decoder), 0, 0, "null", "",
      "makes video from the text that the language model encodes, or by itself: a module's name, "
      "or an object",
      NULL },
    { "max_tiles", FIELD_COUNT, AT(max_tiles), 1, 100, "null", "tiles",
      "an image becomes no more of these by the model's own pre-processing", NULL },
    { "source", FIELD_TEXT, AT(source), 0, 0, NULL, "", "who combined the modules", NULL },
    { "notes", FIELD_TEXT, AT(notes), 0, 0, "\"\"", "", "inconsistencies between sources", NULL },
};
#undef AT
const struct field_table model_table = FIELD_TABLE("model", "modules and connector", model_fields);
