/* model_fields.h - a model file as it is read, before what it leaves out is derived.
 *
 * Private to sim/model. The tables are public (model.h: model_table, module_table, connector_table);
 * a row is what one of them fills in. Texts and nodes are borrowed from the file.
 */
#ifndef BALLAST_SIM_MODEL_FIELDS_H
#define BALLAST_SIM_MODEL_FIELDS_H

#include "sim/model/model.h"

enum qkv_bias_choice { QKV_BIAS_NONE, QKV_BIAS_QUERY_VALUE, QKV_BIAS_ALL };
enum qk_norm_choice { QK_NORM_NONE, QK_NORM_HEAD, QK_NORM_ALL_HEADS };
enum inner_choice { INNER_NONE, INNER_LANGUAGE, INNER_VISION };

/* A module as its file gives it, before what is left out is derived. */
struct module_row {
    struct module module;
    const char *base;
    int qkv_bias, qk_norm, qk_norm_kind;
    const cJSON *sources, *names;
};

struct connector_row {
    int64_t merge;
    int inner, norm_kind;
    bool norm, norm_before_merge, linear_bias, pool;
    int input_norm;
    int precision;
    const char *source, *notes;
};

struct model_row {
    const char *name, *description, *source, *notes;
    int64_t max_tiles;
    const cJSON *vision, *connector, *language, *diffusion_decoder;
};

#endif
