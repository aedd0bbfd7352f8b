/* stop_watch.c - a thread in sigwait(): unlike a handler it may wait for a transaction's end and
 * call SQLite. */
#include "sim/cli/stop_watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int stopping[] = { SIGINT, SIGTERM, SIGHUP };
enum { STOPPING_COUNT = sizeof stopping / sizeof stopping[0] };

static void say(const char *text) {
    if (text == NULL) return;
    const ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

/* Whether the file stays. */
static bool leave_in_order(struct store *store) {
    if (store == NULL) return false;
    char *path = strdup(store_db(store)->path);
    store_stop(store);
    const bool stays = access(path, F_OK) == 0;
    free(path);
    return stays;
}

/* Not instrumented: ASan takes what a cancelled thread leaves on its stack for an underflow. */
__attribute__((no_sanitize("address"))) static void *wait_for_signal(void *context) {
    struct stop_watch *watch = context;
    int number = 0, before;
    if (sigwait(&watch->signals, &number) != 0) return NULL;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    /* A second one is kept back too: `timeout` sends two, and there is little to wait for. */
    const bool kept = leave_in_order(watch->store);
    if (atomic_load(&watch->lock_held)) unlink(watch->lock_file);
    say(kept ? watch->kept : watch->nothing_kept);
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &watch->signals, NULL);
    raise(number);
    return NULL;
}

void stop_watch_hold(struct stop_watch *watch) {
    sigemptyset(&watch->signals);
    for (int i = 0; i < STOPPING_COUNT; i++) {
        struct sigaction now;
        if (sigaction(stopping[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&watch->signals, stopping[i]);
    }
    pthread_sigmask(SIG_BLOCK, &watch->signals, &watch->mask_before);
    watch->held = true;
}

bool stop_watch_open(struct stop_watch *watch, const char *path, struct error *err) {
    if (!watch->held) stop_watch_hold(watch);
    if (path != NULL && (watch->store = store_open(path, DB_WRITE, err)) == NULL) {
        stop_watch_end(watch);
        return false;
    }
    watch->begun = pthread_create(&watch->thread, NULL, wait_for_signal, watch) == 0;
    /* Without the thread a signal ends the process as it stands. */
    if (!watch->begun) pthread_sigmask(SIG_SETMASK, &watch->mask_before, NULL);
    return true;
}

void stop_watch_end(struct stop_watch *watch) {
    if (!watch->held) return;
    if (watch->begun) {
        pthread_cancel(watch->thread);
        pthread_join(watch->thread, NULL);
    }
    store_close(watch->store);
    pthread_sigmask(SIG_SETMASK, &watch->mask_before, NULL);
    *watch = (struct stop_watch){ 0 };
}
