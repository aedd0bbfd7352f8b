/* scenario_lora.c - section `lora` of a model: adapters beside the linear layers of its blocks. */
#include <stddef.h>
#include <string.h>

#include "sim/scenario/scenario_reader.h"

enum { BASE_BF16, BASE_FP32 };
static const char *const base_names[] = { "bf16", "fp32", NULL };
static const char *const adapter_names[] = {
    [ADAPTER_WEIGHTS_USUAL] = "as-stack",
    [ADAPTER_WEIGHTS_BF16] = "bf16",
    [ADAPTER_WEIGHTS_FP32] = "fp32",
    NULL,
};

struct lora_fields {
    int64_t rank;
    int weights, adapter_weights;
    double dropout;
    const cJSON *targets;
};

#define AT(member) offsetof(struct lora_fields, member)
static const struct field lora_rows[] = {
    { "rank", FIELD_COUNT, AT(rank), 1, 65536, "8", "", "columns between the two matrices", NULL },
    { "weights", FIELD_CHOICE, AT(weights), 0, 0, "\"bf16\"", "",
      "what the frozen weights are stored in; fp32, as a trainer loads them that is not told "
      "otherwise: autocast casts them in each forward pass and keeps the copies for the backward; "
      "not where they are sharded (FSDP, ZeRO-3), which casts what it gathers, nor with pp",
      base_names },
    { "adapter_weights", FIELD_CHOICE, AT(adapter_weights), 0, 0, "\"as-stack\"", "",
      "fp32 beside 16-bit layers, PEFT's default: each adapter casts its input to fp32, and "
      "autocast casts it back; what the few weights themselves take is as the precision has it",
      adapter_names },
    { "dropout", FIELD_DOUBLE, AT(dropout), 0, 1, "0", "",
      "probability with which an adapter's input is dropped out", NULL },
    { "targets", FIELD_NODE, AT(targets), 0, 0, "null", "",
      "linear layers with an adapter, as PEFT or Megatron call them: list of \"q_proj\", "
      "\"k_proj\", \"v_proj\", \"o_proj\", \"gate_proj\", \"up_proj\", \"down_proj\", "
      "\"linear_qkv\", \"linear_proj\", \"linear_fc1\", \"linear_fc2\"; of a diffusion decoder, in "
      "self and cross attention, also as Diffusers or Wan call them: \"to_q\" or \"q\", \"to_k\", "
      "\"to_v\", \"to_out.0\" or \"o\", \"ffn.net.0.proj\" or \"ffn.0\", \"ffn.net.2\" or "
      "\"ffn.2\"; where its attention joins video and text as Diffusers: \"to_q\" and so on of the "
      "video and of single blocks, \"to_out.0\", \"ff.net.0.proj\", \"ff.net.2\" of the video, "
      "\"add_q_proj\", \"add_k_proj\", \"add_v_proj\", \"to_add_out\", "
      "\"ff_context.net.0.proj\", \"ff_context.net.2\" of the text, \"proj_mlp\", \"proj_out\" "
      "of single blocks, with \"attn.\" before a name or without; "
      "or \"all-linear\": every one with _proj that the blocks have; default [\"linear_qkv\"]",
      NULL },
};
#undef AT
const struct field_table scenario_lora_table = FIELD_TABLE(
    "lora", "low-rank adapters (Hu et al. 2021) beside frozen linear layers", lora_rows);

/* Streams in which a name has a layer: Diffusers has names of their own for a joint block's text
 * and for single blocks (FluxTransformer2DModel, HunyuanVideoTransformer3DModel). */
enum {
    MAIN = 1 << ADAPTER_MAIN,
    TEXT = 1 << ADAPTER_TEXT,
    SINGLE = 1 << ADAPTER_SINGLE,
    ALL = MAIN | TEXT | SINGLE
};

static const struct target_name {
    const char *name;
    enum adapter_target target;
    unsigned streams;
} names[] = {
    { "q_proj", ADAPTER_Q, ALL },
    { "k_proj", ADAPTER_K, ALL },
    { "v_proj", ADAPTER_V, ALL },
    { "o_proj", ADAPTER_PROJ, ALL },
    { "gate_proj", ADAPTER_GATE, ALL },
    { "up_proj", ADAPTER_UP, ALL },
    { "down_proj", ADAPTER_DOWN, ALL },
    { "linear_qkv", ADAPTER_QKV, ALL },
    { "linear_proj", ADAPTER_PROJ, ALL },
    { "linear_fc1", ADAPTER_GATE_UP, ALL },
    { "linear_fc2", ADAPTER_DOWN, ALL },
    { "to_q", ADAPTER_Q, MAIN | SINGLE },
    { "to_k", ADAPTER_K, MAIN | SINGLE },
    { "to_v", ADAPTER_V, MAIN | SINGLE },
    { "to_out.0", ADAPTER_PROJ, MAIN },
    { "ffn.net.0.proj", ADAPTER_UP, MAIN },
    { "ffn.net.2", ADAPTER_DOWN, MAIN },
    { "ff.net.0.proj", ADAPTER_UP, MAIN },
    { "ff.net.2", ADAPTER_DOWN, MAIN },
    { "add_q_proj", ADAPTER_Q, TEXT },
    { "add_k_proj", ADAPTER_K, TEXT },
    { "add_v_proj", ADAPTER_V, TEXT },
    { "to_add_out", ADAPTER_PROJ, TEXT },
    { "ff_context.net.0.proj", ADAPTER_UP, TEXT },
    { "ff_context.net.2", ADAPTER_DOWN, TEXT },
    { "proj_mlp", ADAPTER_UP, SINGLE },
    { "proj_out", ADAPTER_DOWN, SINGLE },
    { "q", ADAPTER_Q, ALL },
    { "k", ADAPTER_K, ALL },
    { "v", ADAPTER_V, ALL },
    { "o", ADAPTER_PROJ, ALL },
    { "ffn.0", ADAPTER_UP, ALL },
    { "ffn.2", ADAPTER_DOWN, ALL },
};
enum { NAME_COUNT = sizeof names / sizeof names[0] };

/* Megatron's one matrix and what Transformers has apart. */
static const struct {
    unsigned whole, parts;
    const char *what;
} joint[] = {
    { 1u << ADAPTER_QKV, 1u << ADAPTER_Q | 1u << ADAPTER_K | 1u << ADAPTER_V,
      "linear_qkv is q_proj, k_proj and v_proj" },
    { 1u << ADAPTER_GATE_UP, 1u << ADAPTER_GATE | 1u << ADAPTER_UP,
      "linear_fc1 is gate_proj and up_proj" },
};

/* PEFT: every linear layer but the head (tuners/tuners_utils.py, _maybe_include_all_linear_layers);
 * of the adapted module alone. */
static const char all_linear[] = "all-linear";
static unsigned all_linear_targets(const struct module *adapted) {
    return 1u << ADAPTER_Q | 1u << ADAPTER_K | 1u << ADAPTER_V | 1u << ADAPTER_PROJ |
           (adapted->ffn == FFN_SWIGLU ? 1u << ADAPTER_GATE : 0) | 1u << ADAPTER_UP |
           1u << ADAPTER_DOWN;
}

/* As the whole, or as the list's one item. */
static bool is_all_linear(const cJSON *targets) {
    if (cJSON_IsArray(targets) && cJSON_GetArraySize(targets) == 1) targets = targets->child;
    return cJSON_IsString(targets) && strcmp(targets->valuestring, all_linear) == 0;
}

/* Streams that the module has. */
static unsigned streams_of(const struct module *adapted) {
    if (adapted->text_attention != TEXT_ATTENTION_JOINT) return MAIN;
    return (adapted->double_stream_blocks > 0 ? MAIN | TEXT : 0) |
           (adapted->double_stream_blocks < adapted->layer_count ? SINGLE : 0);
}

/* "attn.to_q" is to_q. */
static const struct target_name *target_named(const char *name) {
    static const char attention[] = "attn.";
    if (strncmp(name, attention, strlen(attention)) == 0) name += strlen(attention);
    for (size_t i = 0; i < NAME_COUNT; i++)
        if (strcmp(names[i].name, name) == 0) return &names[i];
    return NULL;
}

static const char *hint_of(const struct module *adapted) {
    if (adapted->role != MODULE_DIFFUSION_DECODER)
        return "for example [\"q_proj\", \"v_proj\"], [\"linear_qkv\"] or \"all-linear\"";
    return adapted->text_attention == TEXT_ATTENTION_JOINT
               ? "\"to_q\", \"to_k\", \"to_v\", \"to_out.0\", \"ff.net.0.proj\", "
                 "\"ff.net.2\"; of the text \"add_q_proj\", \"add_k_proj\", \"add_v_proj\", "
                 "\"to_add_out\", \"ff_context.net.0.proj\", \"ff_context.net.2\"; of single "
                 "blocks \"proj_mlp\", \"proj_out\"; or \"all-linear\""
               : "\"to_q\", \"to_k\", \"to_v\", \"to_out.0\", \"ffn.net.0.proj\", "
                 "\"ffn.net.2\" or \"all-linear\"";
}

static bool read_target(struct reader *r, const cJSON *item, const struct module *adapted,
                        unsigned targets[ADAPTER_STREAM_COUNT]) {
    const char *const hint = hint_of(adapted);
    if (!cJSON_IsString(item))
        return json_error(r->s->json, item, r->err, hint, "must be the name of a linear layer");
    const struct target_name *name = target_named(item->valuestring);
    if (strcmp(item->valuestring, all_linear) == 0)
        return json_error(r->s->json, item, r->err, NULL,
                          "\"%s\" stands alone: it is every linear layer of the blocks",
                          all_linear);
    if (name == NULL)
        return json_error(r->s->json, item, r->err, hint, "unknown linear layer \"%.60s\"",
                          item->valuestring);
    if (name->target == ADAPTER_GATE && adapted->ffn != FFN_SWIGLU)
        return json_error(r->s->json, item, r->err, NULL, "the blocks of %s have no gate",
                          adapted->name);
    const unsigned streams = name->streams & streams_of(adapted);
    if (streams == 0)
        return json_error(r->s->json, item, r->err, hint, "the blocks of %s have no \"%s\"",
                          adapted->name, name->name);
    for (int stream = 0; stream < ADAPTER_STREAM_COUNT; stream++) {
        if ((streams & (1u << stream)) == 0) continue;
        if ((targets[stream] & (1u << name->target)) != 0)
            return json_error(r->s->json, item, r->err, NULL, "\"%s\" is named twice",
                              item->valuestring);
        targets[stream] |= 1u << name->target;
        for (size_t k = 0; k < sizeof joint / sizeof joint[0]; k++)
            if ((targets[stream] & joint[k].whole) != 0 && (targets[stream] & joint[k].parts) != 0)
                return json_error(r->s->json, item, r->err, "name the matrix or its parts",
                                  "%s: with \"%s\" these weights would have two adapters",
                                  joint[k].what, item->valuestring);
    }
    return true;
}

/* The first name of each layer, of all streams of a stream at once where it has one. */
static const char *target_list(struct arena *arena, const struct module *adapted) {
    unsigned left[ADAPTER_STREAM_COUNT];
    memcpy(left, adapted->adapter_targets, sizeof left);
    const unsigned had = streams_of(adapted);
    const bool is_joint = adapted->text_attention == TEXT_ATTENTION_JOINT;
    const char *list = "";
    for (size_t i = 0; i < NAME_COUNT; i++) {
        const unsigned streams = names[i].streams & had, bit = 1u << names[i].target;
        bool all = streams != 0;
        for (int stream = 0; stream < ADAPTER_STREAM_COUNT; stream++)
            all = all && ((streams & (1u << stream)) == 0 || (left[stream] & bit) != 0);
        if (!all || (is_joint && strncmp(names[i].name, "ffn.", 4) == 0)) continue;
        list = arena_format(arena, "%s%s%s", list, list[0] != '\0' ? ", " : "", names[i].name);
        for (int stream = 0; stream < ADAPTER_STREAM_COUNT; stream++)
            if ((streams & (1u << stream)) != 0) left[stream] &= ~bit;
    }
    return list;
}

static void tell(struct reader *r, const struct model *model, const struct module *adapted) {
    int64_t trained = 0;
    for (int64_t i = 0; i < model->layer_count; i++)
        trained += layer_rank_adapter_parameters(model, i, 1);
    scenario_assume(r, arena_format(r->s->arena,
                                    "lora: %.1f M parameters of rank %ld beside %s of %s, which is "
                                    "frozen%s; kernels of their own%s",
                                    (double)trained / 1e6, (long)adapted->adapter_rank,
                                    target_list(r->s->arena, adapted), adapted->name,
                                    adapted->fp32_base ? " in fp32 under autocast" : "",
                                    adapted->adapter_dropout ? ", dropout" : ", no dropout"));
    const struct module *decoder = &model->modules[MODULE_DIFFUSION_DECODER];
    if (decoder->layer_count > 0 && decoder != adapted && !decoder->frozen)
        scenario_assume(r, "lora is of the language model: the diffusion decoder is trained whole");
}

/* What is sharded is cast as it is gathered, and trainers under autocast have no pipelines: the
 * copies of each micro-batch in flight are not counted. */
bool rule_lora(struct reader *r) {
    const struct scenario *s = r->s;
    const struct layout *layout = &s->layout;
    const bool shards =
        layout->zero_group > 1 && backend_always_hides(s->backend, layout->zero_stage);
    r->rule = "lora-weights";
    if (!model_has_fp32_base(s->model) || (!shards && layout->pp == 1)) return true;
    const cJSON *weights = scenario_member(scenario_present(s->model_fields.lora), "weights");
    const char *key = shards ? "zero_stage" : "pp";
    return json_error(s->json, SUSPECT(r, scenario_member(r->top.layout, key), weights), r->err,
                      shards ? "set layout.zero_stage to 0 or 1, or leave model.lora.weights out: "
                               "what is sharded is cast as it is gathered"
                             : "set layout.pp to 1, or leave model.lora.weights out",
                      "frozen weights in fp32 under autocast (model.lora.weights) do not go with "
                      "%s %ld",
                      key, (long)(shards ? layout->zero_stage : layout->pp));
}

bool scenario_apply_lora(struct reader *r, struct model *model) {
    struct scenario *s = r->s;
    const cJSON *section = scenario_present(s->model_fields.lora), *item;
    if (section == NULL) return true;
    struct module *adapted = &model->modules[MODULE_LANGUAGE];
    if (adapted->layer_count == 0) adapted = &model->modules[MODULE_DIFFUSION_DECODER];
    if (adapted->layer_count == 0)
        return json_error(s->json, section, r->err, NULL,
                          "model \"%s\" has no language module or diffusion decoder to adapt",
                          model->name);
    struct lora_fields f;
    if (!field_table_read(&scenario_lora_table, s->json, section, &f, s->arena, r->err))
        return false;
    const cJSON *targets = scenario_present(f.targets);
    const bool all = is_all_linear(targets);
    const unsigned whole = targets == NULL ? 1u << ADAPTER_QKV
                           : all           ? all_linear_targets(adapted)
                                           : 0;
    unsigned bits[ADAPTER_STREAM_COUNT];
    for (int stream = 0; stream < ADAPTER_STREAM_COUNT; stream++)
        bits[stream] = (streams_of(adapted) & (1u << stream)) != 0 ? whole : 0;
    if (targets != NULL && !all && (!cJSON_IsArray(targets) || targets->child == NULL))
        return json_error(s->json, targets, r->err, hint_of(adapted),
                          "must be a list of linear layers");
    cJSON_ArrayForEach(item, targets) {
        if (!all && !read_target(r, item, adapted, bits)) return false;
    }
    adapted->frozen = true;
    adapted->fp32_base = f.weights == BASE_FP32;
    adapted->adapter_rank = f.rank;
    adapted->adapter_weights = (enum adapter_weights)f.adapter_weights;
    adapted->adapter_dropout = f.dropout > 0;
    memcpy(adapted->adapter_targets, bits, sizeof bits);
    tell(r, model, adapted);
    return true;
}
