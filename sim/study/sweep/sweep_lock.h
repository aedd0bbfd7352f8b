/* sweep_lock.h - one sweep at a time writes a database: two would replay the best twice.
 *
 * The lock is a file beside the database (FILE-sweep) that the system releases when a process ends,
 * however it ends; what a killed one leaves behind is taken over by the next.
 */
#ifndef BALLAST_SIM_STUDY_SWEEP_LOCK_H
#define BALLAST_SIM_STUDY_SWEEP_LOCK_H

#include "sim/base/arena.h"
#include "sim/base/error.h"

struct sweep_lock;

struct sweep_lock *sweep_lock_take(const char *database, struct error *err); /* NULL: failed */
void sweep_lock_release(struct sweep_lock *lock);
const char *sweep_lock_file(struct arena *arena, const char *database);

#endif
