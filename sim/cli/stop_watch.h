/* stop_watch.h - leaves a database in order when its command is stopped by hand.
 *
 * SIGINT, SIGTERM and SIGHUP are kept back while a store is opened, and then taken by a thread that
 * waits for them: it folds the store's log in, removes a file in which nothing was stored, and ends
 * the process by the signal, at the latest after some two seconds. Signals that the process was
 * started to ignore (nohup) stay ignored.
 *
 *     struct stop_watch watch = { 0 };
 *     if (!stop_watch_open(&watch, path, err)) return false;
 *     ... watch.store ...
 *     stop_watch_end(&watch);                       // closes the store
 */
#ifndef BALLAST_SIM_CLI_STOP_WATCH_H
#define BALLAST_SIM_CLI_STOP_WATCH_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include "results/store.h"

struct stop_watch {
    struct store *store;
    /* Given before it is opened, where wanted, and borrowed until the end. */
    const char *kept, *nothing_kept; /* said on stderr where the file stays, and where it goes */
    const char *lock_file;           /* goes too while `lock_held` */
    atomic_bool lock_held;
    /* its own */
    sigset_t signals, mask_before;
    pthread_t thread;
    bool held, begun;
};

/* Keeps the signals back, before there are other threads; stop_watch_open() does so at the
 * latest. */
void stop_watch_hold(struct stop_watch *watch);
/* path NULL: there is no store, and a signal is only answered. False: not opened, and over. */
bool stop_watch_open(struct stop_watch *watch, const char *path, struct error *err);
/* Does nothing to a watch that is zeroed or over. */
void stop_watch_end(struct stop_watch *watch);

#endif
