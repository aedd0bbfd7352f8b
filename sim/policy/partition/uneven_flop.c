/* uneven_flop.c - stages of about equal FLOP.
 *
 * guide: the whole encoder stays on the first stage, whose share of the decoder shrinks by what the
 * encoder computes (uneven_guide.h). model: exact min-max over the model's own FLOP, which knows
 * gated networks, grouped queries, the head and what is frozen; cuts fall anywhere.
 * Both at the job's mean micro-batch.
 */
#include "sim/policy/partition/partition.h"
#include "sim/policy/partition/uneven_guide.h"

enum flop_count { COUNT_GUIDE, COUNT_MODEL };

struct uneven_flop_parameters {
    int count;
};

static const char *const count_names[] = { "guide", "model", NULL };
static const struct field uneven_flop_fields[] = {
    { "count", FIELD_CHOICE, offsetof(struct uneven_flop_parameters, count), 0, 0, "\"guide\"", "",
      "guide: encoder on the first stage and the formulas of the Uneven pp guide; model: min-max "
      "of the model's own FLOP",
      count_names },
};
static const struct field_table uneven_flop_table =
    FIELD_TABLE("uneven-flop", "stages of about equal FLOP", uneven_flop_fields);

static int64_t count_vision(const struct model *model) {
    int64_t count = 0;
    while (count < partition_block_count(model) && partition_is_vision(model, count))
        count++;
    return count;
}

static bool plan_guide(const struct planner_oracle *oracle, struct job_plan *plan, int64_t *blocks,
                       struct error *err) {
    const struct model *model = oracle->model;
    const struct module *v = &model->modules[MODULE_VISION], *c = &model->modules[MODULE_CONNECTOR],
                        *l = &model->modules[MODULE_LANGUAGE];
    const struct batch_shape *shape = &oracle->typical;
    if (model->modules[MODULE_DIFFUSION_DECODER].layer_count > 0)
        return error_set(err,
                         "the guide's formulas end with a language model: use count \"model\"");
    int64_t vision = count_vision(model), parts = plan->part_count;
    int64_t language = partition_block_count(model) - vision;
    if (language < parts - (vision > 0))
        return error_set(
            err, "uneven-flop needs a language block for each stage: %ld blocks, %ld stages",
            (long)language, (long)parts);
    struct uneven_guide_model guide = {
        .vision_layers = vision,
        .vision_hidden = v->hidden,
        .vision_ffn = v->ffn_hidden,
        .patch = v->patch_size,
        .channels = v->channels,
        .adaptor_in = c->connector_in,
        .adaptor_out = c->connector_out,
        .language_layers = language,
        .language_hidden = l->hidden,
        .language_ffn = l->ffn_hidden,
    };
    struct uneven_guide_batch batch = {
        .vision_tokens = (double)shape->vision_tokens,
        .vision_squares = shape->vision_square_sum,
        .adaptor_tokens = (double)shape->connector_tokens,
        .language_tokens = (double)shape->language_tokens,
        .language_squares = shape->language_square_sum,
    };
    struct uneven_guide_flop flop = uneven_guide_flop(&guide, &batch);
    int64_t first = language, middle = 0, last = 0;
    if (parts > 1) uneven_guide_split(&flop, language, parts, &first, &middle, &last);
    for (int64_t part = 0; part < parts; part++)
        blocks[part] = part == 0 ? vision + first : part + 1 < parts ? middle : last;
    return true;
}

static bool uneven_flop_plan(const struct planner_oracle *oracle, const void *parameters,
                             struct job_plan *plan, struct error *err) {
    const struct uneven_flop_parameters *p = parameters;
    const struct model *model = oracle->model;
    int64_t *blocks = arena_array(oracle->arena, int64_t, plan->part_count);
    if (p->count == COUNT_GUIDE) {
        if (!plan_guide(oracle, plan, blocks, err)) return false;
    } else {
        int64_t block_count = partition_block_count(model);
        double *weights = arena_array(oracle->arena, double, block_count);
        for (int64_t block = 0; block < block_count; block++)
            for (int64_t i = partition_stage_start(model, block);
                 i < partition_stage_start(model, block + 1); i++)
                weights[block] += model_layer_training_flop(model, i, &oracle->typical);
        partition_min_max(oracle->arena, weights, block_count, plan->part_count, blocks);
    }
    partition_apply(model, blocks, plan);
    return true;
}

const struct planner partition_uneven_flop = {
    .name = "uneven-flop",
    .help = "stages of about equal FLOP, as the Uneven pp guide counts them or as the model does",
    .slot = PLANNER_PARTITION,
    .parameters = &uneven_flop_table,
    .parameters_size = sizeof(struct uneven_flop_parameters),
    .plan_job = uneven_flop_plan,
};
