/* action_check.h - judges a file of actions without the simulator that made it.
 *
 * Reads nothing but the file (see action_plan.h for its form) and checks that every pass stands
 * there once, that no rank runs two at a time, that no pass starts before its inputs have arrived,
 * that memory never exceeds the stated capacity, that every message has one sender and one receiver
 * and is waited for; then executes the lists and compares the makespan.
 *
 *     struct action_check *check = action_check_file(arena, path, err);   // NULL: not such a file
 *     check->fault_count == 0
 */
#ifndef BALLAST_SIM_STUDY_ACTION_CHECK_H
#define BALLAST_SIM_STUDY_ACTION_CHECK_H

#include <stdint.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"

enum { ACTION_FAULT_LIMIT = 20 };

struct action_check {
    const char *scenario;
    int64_t rank_count, micro_batch_count, pass_count, message_count;
    int64_t makespan_ns;          /* as the file says */
    int64_t executed_ns;          /* of the lists, executed; INT64_MAX: they wait for ever */
    int64_t lower_bound_ns;       /* as the file says; 0: it does not */
    double *peak_bytes, *capacity_bytes; /* by rank */
    /* Of one micro-batch the most basic fault is told (a pass that is missing before a message that
     * is); what else is wrong with it mostly follows from that and is counted. */
    int64_t fault_count, follow_count;
    const char *faults[ACTION_FAULT_LIMIT]; /* the first of fault_count, a sentence each */
};

struct action_check *action_check_file(struct arena *arena, const char *path, struct error *err);

#endif
