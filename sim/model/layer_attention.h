/* layer_attention.h - the core attention of a transformer block and the exchange of keys and values
 * between context-parallel ranks, as operators. Private to sim/model.
 */
#ifndef BALLAST_SIM_MODEL_LAYER_ATTENTION_H
#define BALLAST_SIM_MODEL_LAYER_ATTENTION_H

#include "sim/model/layer_division.h"

/* What gathers the samples of a padded micro-batch around core attention, where the stack does. */
void attention_unpad(const struct layer_division *d, enum operator_pass pass,
                     enum precision activation, struct operator_list *out);
/* pass is PASS_FORWARD or PASS_BACKWARD; activation is the precision of queries, keys and
 * values. */
void core_attention(const struct layer_division *d, enum operator_pass pass,
                    enum precision activation, struct operator_list *out);
/* That of video tokens to their text, in a diffusion block; keys and values do not travel. */
void core_cross_attention(const struct layer_division *d, enum operator_pass pass,
                          enum precision activation, struct operator_list *out);
/* Heads of keys and values as attention takes them: of a gathered ring's as many as of queries, where
 * the stack copies them. */
int64_t attention_key_heads(const struct layer_division *d);
/* What travels before and after the core attention of that pass. */
void context_exchange_before(const struct layer_division *d, enum operator_pass pass,
                             struct operator_list *out);
void context_exchange_after(const struct layer_division *d, enum operator_pass pass,
                            enum precision activation, struct operator_list *out);

#endif
