/* cost_model_parts.h - what a cost model holds. Of no use outside cost_model.c and
 * cost_model_load.c. */
#ifndef BALLAST_COSTMODEL_COST_MODEL_PARTS_H
#define BALLAST_COSTMODEL_COST_MODEL_PARTS_H

#include "costmodel/collective_price.h"
#include "costmodel/cost_model.h"
#include "costmodel/efficiency.h"
#include "costmodel/hardware.h"
#include "costmodel/rules.h"
#include "costmodel/stack.h"
#include "costmodel/step_band.h"

enum { COST_MODEL_FILES_MAX = 4 };

struct cost_model {
    struct gpu gpu;
    struct collective_rates rates;
    struct efficiency efficiency;
    const char *profile_id;
    double streaming_fraction[OPERATOR_KIND_COUNT][PASS_COUNT];
    struct stack_use stack;
    bool writes_text;        /* the model that is priced */
    double encoder_factor;   /* of the stack's; 1: it writes text, or nothing is stated */
    double slowest_gpu_time; /* of a stack's kernels that compute, over the median GPU's */
    struct rule_list rules;
    const struct step_bands *bands; /* NULL: none */
    struct cost_model_file files[COST_MODEL_FILES_MAX];
    int64_t file_count;
};

#endif
