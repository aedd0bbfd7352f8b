/* isf_choice.h - Qv and Qt of ISF from the statistics of a data set, as OmniBal's paper says and as
 * its published program does.
 *
 *     struct isf_choice choice;
 *     isf_choice_of(&request, parameters, &choice, err);   // of a request and isf's parameters
 *     choice.qv, choice.qt, choice.steps[i].average_batch_size ...
 *
 * paper (section 5.1): Qt is the longest sample; Qv is what Qt holds at the mean tokens of a tile.
 * code: a walk over pairs that keep the mean ratio of tokens to tiles; of those whose average batch
 * lies between the target and one more, the one with the smallest pad and dist ratios. At native
 * resolution Qv counts patches and goes in steps of 1,024.
 */
#ifndef BALLAST_SIM_POLICY_BATCHING_ISF_CHOICE_H
#define BALLAST_SIM_POLICY_BATCHING_ISF_CHOICE_H

#include "sim/policy/batching/batching.h"

enum isf_rule { ISF_GIVEN, ISF_PAPER, ISF_CODE };

enum { ISF_CHOICE_LIMIT = 256 };

struct isf_choice_step {
    int64_t qv, qt;
    double average_batch_size, pad_ratio, dist_ratio_vision, dist_ratio_language;
    bool kept; /* the average batch is in range */
};

struct isf_choice {
    int64_t qv, qt;
    double tokens_per_tile; /* native resolution: paper of a patch, code of 1,024 patches */
    struct isf_choice_step steps[ISF_CHOICE_LIMIT]; /* code: in order; paper: none */
    int64_t step_count;
};

/* How even the micro-batches are that isf makes with these limits. */
typedef bool (*isf_try)(void *context, int64_t qv, int64_t qt, struct batch_balance *balance,
                        struct error *err);

bool isf_choose(enum isf_rule rule, const struct dataset *dataset, int64_t target_batch_size,
                isf_try try, void *context, struct isf_choice *out, struct error *err);

/* The same for a request and isf's own parameters (isf.c). */
bool isf_choice_of(const struct batch_request *request, const void *parameters,
                   struct isf_choice *out, struct error *err);

#endif
