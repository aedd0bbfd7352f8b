/* outer_operators.h - what a step runs outside of its layers, with the prices that step_model.c
 * uses.
 *
 * Sums of gradients, sends between stages, reductions and gathers of data-parallel ranks, the
 * optimizer, and copies of activations to the host. step_model.c prices them through one function,
 * which writes this list when asked, so that the list cannot differ from what a step takes.
 *
 *     struct outer_list list = { 0 };
 *     step_outer_operators(model, &job->typical, arena, &list);
 *     list.operators[i].price.seconds x list.operators[i].calls      // of a rank on that stage
 *     outer_list_free(&list);
 */
#ifndef BALLAST_SIM_STEP_OUTER_OPERATORS_H
#define BALLAST_SIM_STEP_OUTER_OPERATORS_H

#include "sim/step/step.h"

enum outer_purpose {
    OUTER_ACCUMULATION, /* a micro-batch's gradients are added to those of the step */
    OUTER_HOST_COPY,    /* kept activations to host memory and back */
    OUTER_SEND,         /* between stages */
    OUTER_REDUCTION,    /* of gradients; ZeRO-3: and gathers of parameters beside the passes */
    OUTER_UPDATE,       /* optimizer, and ZeRO-1 and 2 gathers of parameters */
    OUTER_PURPOSE_COUNT
};
const char *outer_purpose_name(enum outer_purpose purpose); /* "data-parallel communication" */

struct outer_operator {
    enum outer_purpose purpose;
    struct operator_work work;
    struct communicator group;
    struct price price;
    int64_t stage;
    double calls; /* of one rank in a step */
};

struct outer_list {
    struct outer_operator *operators;
    int64_t count, capacity; /* grows; outer_list_free() */
};

/* Equal operators of one stage are one entry. */
void outer_list_add(struct outer_list *list, const struct outer_operator *one);
void outer_list_free(struct outer_list *list);

/* All of the model's, at a micro-batch like `typical`. Texts live in the cost model or `arena`. */
void step_outer_operators(const struct step_model *model, const struct batch_shape *typical,
                          struct arena *arena, struct outer_list *list);

#endif
