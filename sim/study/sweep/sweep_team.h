/* sweep_team.h - the processes that run one sweep together, under mpirun. Private to the sweep.
 *
 * Every member makes the same calls in the same order. Without MPI (option BALLAST_MPI of the
 * build) or outside mpirun a team has one member and each call is free. Waiting members sleep, so
 * that more of them than cores do no harm. Only member 0 opens the database and speaks.
 *
 *     struct sweep_team *team = sweep_team_join();            // NULL stands for a team of one too
 *     if (!sweep_team_agree(team, ok, err)) ...               // all or none go on
 *     bytes = sweep_team_gather(team, mine, size, &total);    // of all, in order of members
 *     sweep_team_leave(team);
 */
#ifndef BALLAST_SIM_STUDY_SWEEP_TEAM_H
#define BALLAST_SIM_STUDY_SWEEP_TEAM_H

#include <stddef.h>
#include "sim/base/error.h"

struct sweep_team;

struct sweep_team *sweep_team_join(void);
void sweep_team_leave(struct sweep_team *team);
int sweep_team_member(const struct sweep_team *team);
int sweep_team_count(const struct sweep_team *team);
/* True where all members are well; otherwise err is that of the first who is not, everywhere. */
bool sweep_team_agree(struct sweep_team *team, bool ok, struct error *err);
/* The bytes of all members one after another; the caller frees them. */
char *sweep_team_gather(struct sweep_team *team, const void *bytes, size_t size, size_t *total);
/* Member 0's bytes; the caller frees them. */
char *sweep_team_broadcast(struct sweep_team *team, const void *bytes, size_t size, size_t *total);

#endif
