/* stack_pool.h - fitted factors drawn together (partial pooling, an empirical Bayes estimate).
 *
 * A factor of n rows keeps n / (n + (ROW_WIDTH / FACTOR_WIDTH)^2) of its distance, in logarithms,
 * from the mean of its stack's factors, which is weighted alike. Few rows hold what is their own,
 * layout or cluster, and many hold what is the GPU's and the precision's. For the same reason it
 * then keeps n / (n + (ROW_WIDTH / STACK_WIDTH)^2) of its distance from what is usual there among
 * the other stacks of the fit (stack_usual_log_factor()), but for a stack that stands for one
 * place, whose factor shall hold what is that place's own. Private to stack_fit.c.
 */
#ifndef BALLAST_SIM_STUDY_MEASURED_STACK_POOL_H
#define BALLAST_SIM_STUDY_MEASURED_STACK_POOL_H

#include "sim/study/measured/stack_fit.h"

/* How far, in logarithms, a row lies from the factor of its group, and a factor from the mean of
 * its stack's: 0.052 over ten groups of two rows and more (14 degrees of freedom), and 0.059 over
 * the nine factors of the four stacks that have several (5), the rows' share taken off. */
#define STACK_POOL_ROW_WIDTH    0.05
#define STACK_POOL_FACTOR_WIDTH 0.06
/* And a factor from what is usual on its GPU among other stacks: 1.483 times the median distance
 * (a standard deviation that one stack far off does not move) was 0.108 over the sixteen factors of
 * eleven stacks, the rows' share taken off 0.10; 0.099 and 0.09 since nanotron's is known. */
#define STACK_POOL_STACK_WIDTH 0.10

/* By group, in the arena: the logarithm that it is drawn to from fitted[]. A group's stack, GPU,
 * precision and row_count are read. */
double *stack_pool(struct arena *arena, const struct stack_fit_group *groups, int64_t count,
                   const double *fitted);

#endif
