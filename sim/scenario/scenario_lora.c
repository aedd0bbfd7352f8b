/* scenario_lora.c - section `lora` of a model: adapters beside the linear layers of its blocks. */
#include <stddef.h>
#include <string.h>

#include "sim/scenario/scenario_reader.h"

struct lora_fields {
    int64_t rank;
    const cJSON *targets;
};

#define AT(member) offsetof(struct lora_fields, member)
static const struct field lora_rows[] = {
    { "rank", FIELD_COUNT, AT(rank), 1, 65536, "8", "", "columns between the two matrices", NULL },
    { "targets", FIELD_NODE, AT(targets), 0, 0, "null", "",
      "linear layers with an adapter, as PEFT or Megatron call them: list of \"q_proj\", "
      "\"k_proj\", \"v_proj\", \"o_proj\", \"gate_proj\", \"up_proj\", \"down_proj\", "
      "\"linear_qkv\", \"linear_proj\", \"linear_fc1\", \"linear_fc2\"; of a diffusion decoder, in "
      "self and cross attention, also as Diffusers or Wan call them: \"to_q\" or \"q\", \"to_k\", "
      "\"to_v\", \"to_out.0\" or \"o\", \"ffn.net.0.proj\" or \"ffn.0\", \"ffn.net.2\" or "
      "\"ffn.2\"; where its attention joins video and text, of both streams, also "
      "\"ff.net.0.proj\" "
      "or \"proj_mlp\" and \"ff.net.2\" or \"proj_out\"; "
      "or \"all-linear\": every one with _proj that the blocks have; default [\"linear_qkv\"]",
      NULL },
};
#undef AT
const struct field_table scenario_lora_table = FIELD_TABLE(
    "lora", "low-rank adapters (Hu et al. 2021) beside frozen linear layers", lora_rows);

static const struct {
    const char *name;
    enum adapter_target target;
} names[] = {
    { "q_proj", ADAPTER_Q },
    { "k_proj", ADAPTER_K },
    { "v_proj", ADAPTER_V },
    { "o_proj", ADAPTER_PROJ },
    { "gate_proj", ADAPTER_GATE },
    { "up_proj", ADAPTER_UP },
    { "down_proj", ADAPTER_DOWN },
    { "linear_qkv", ADAPTER_QKV },
    { "linear_proj", ADAPTER_PROJ },
    { "linear_fc1", ADAPTER_GATE_UP },
    { "linear_fc2", ADAPTER_DOWN },
    { "to_q", ADAPTER_Q },
    { "to_k", ADAPTER_K },
    { "to_v", ADAPTER_V },
    { "to_out.0", ADAPTER_PROJ },
    { "ffn.net.0.proj", ADAPTER_UP },
    { "ffn.net.2", ADAPTER_DOWN },
    { "ff.net.0.proj", ADAPTER_UP },
    { "ff.net.2", ADAPTER_DOWN },
    { "proj_mlp", ADAPTER_UP },
    { "proj_out", ADAPTER_DOWN },
    { "q", ADAPTER_Q },
    { "k", ADAPTER_K },
    { "v", ADAPTER_V },
    { "o", ADAPTER_PROJ },
    { "ffn.0", ADAPTER_UP },
    { "ffn.2", ADAPTER_DOWN },
};

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

static bool read_target(struct reader *r, const cJSON *item, const struct module *adapted,
                        unsigned *targets) {
    const char *const hint =
        "for example [\"q_proj\", \"v_proj\"], [\"linear_qkv\"] or \"all-linear\"";
    if (!cJSON_IsString(item))
        return json_error(r->s->json, item, r->err, hint, "must be the name of a linear layer");
    size_t i = 0;
    while (i < sizeof names / sizeof names[0] && strcmp(names[i].name, item->valuestring) != 0)
        i++;
    if (strcmp(item->valuestring, all_linear) == 0)
        return json_error(r->s->json, item, r->err, NULL,
                          "\"%s\" stands alone: it is every linear layer of the blocks",
                          all_linear);
    if (i == sizeof names / sizeof names[0])
        return json_error(r->s->json, item, r->err, hint, "unknown linear layer \"%s\"",
                          item->valuestring);
    if (names[i].target == ADAPTER_GATE && adapted->ffn != FFN_SWIGLU)
        return json_error(r->s->json, item, r->err, NULL, "the blocks of %s have no gate",
                          adapted->name);
    if ((*targets & (1u << names[i].target)) != 0)
        return json_error(r->s->json, item, r->err, NULL, "\"%s\" is named twice",
                          item->valuestring);
    *targets |= 1u << names[i].target;
    for (size_t k = 0; k < sizeof joint / sizeof joint[0]; k++)
        if ((*targets & joint[k].whole) != 0 && (*targets & joint[k].parts) != 0)
            return json_error(r->s->json, item, r->err, "name the matrix or its parts",
                              "%s: with \"%s\" these weights would have two adapters",
                              joint[k].what, item->valuestring);
    return true;
}

static const char *target_list(struct arena *arena, unsigned bits) {
    const char *list = "";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const unsigned bit = 1u << names[i].target;
        if ((bits & bit) == 0) continue;
        list = arena_format(arena, "%s%s%s", list, list[0] != '\0' ? ", " : "", names[i].name);
        bits &= ~bit; /* o_proj is linear_proj too */
    }
    return list;
}

static void tell(struct reader *r, const struct model *model, const struct module *adapted) {
    int64_t trained = 0;
    for (int64_t i = 0; i < model->layer_count; i++)
        trained += layer_rank_adapter_parameters(model, i, 1);
    scenario_assume(r, arena_format(r->s->arena,
                                    "lora: %.1f M parameters of rank %ld beside %s of %s, which is "
                                    "frozen; kernels of their own, no dropout",
                                    (double)trained / 1e6, (long)adapted->adapter_rank,
                                    target_list(r->s->arena, adapted->adapter_targets),
                                    adapted->name));
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
    unsigned bits = targets == NULL ? 1u << ADAPTER_QKV : all ? all_linear_targets(adapted) : 0;
    if (targets != NULL && !all && (!cJSON_IsArray(targets) || targets->child == NULL))
        return json_error(s->json, targets, r->err,
                          "for example [\"linear_qkv\"] or \"all-linear\"",
                          "must be a list of linear layers");
    cJSON_ArrayForEach(item, targets) {
        if (!all && !read_target(r, item, adapted, &bits)) return false;
    }
    adapted->frozen = true;
    adapted->adapter_rank = f.rank;
    adapted->adapter_targets = bits;
    tell(r, model, adapted);
    return true;
}
