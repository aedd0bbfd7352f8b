/* guarded_process.h - work that may never come back, or crash, in a process of its own.
 *
 * The child is a copy of the caller (fork) with the calling thread alone; it tells what it has
 * found so far, and what it told last is there however it ends. At the limit it is killed, not
 * asked. It ends with its parent too, and nothing that it writes to its memory is seen outside.
 *
 *     struct found found = { 0 };
 *     enum guarded_end end = guarded_process_run(search, &context, 5.0, &found, sizeof found);
 *     ... in search(): guarded_process_tell(guard, &better);
 *
 * Where no process can be made (GUARDED_NOT_STARTED), nothing has run.
 */
#ifndef BALLAST_SIM_BASE_GUARDED_PROCESS_H
#define BALLAST_SIM_BASE_GUARDED_PROCESS_H

#include <stddef.h>

/* So small that the pipe between the two takes it in one piece. */
enum { GUARDED_REPORT_BYTES = 496 };

enum guarded_end {
    GUARDED_DONE,    /* the work returned */
    GUARDED_KILLED,  /* it ran into the limit */
    GUARDED_CRASHED, /* a signal or exit() of its own ended it */
    GUARDED_NOT_STARTED,
};

struct guarded_process;
typedef void (*guarded_work)(void *context, struct guarded_process *guard);

/* report: report_bytes (at most GUARDED_REPORT_BYTES) that receive what the work told last;
 * unchanged where it told nothing. Needs no thread-safety of the work: the child has one thread. */
enum guarded_end guarded_process_run(guarded_work work, void *context, double seconds, void *report,
                                     size_t report_bytes);

/* In the child: a copy of report_bytes for the caller. */
void guarded_process_tell(struct guarded_process *guard, const void *report);

#endif
