/* guarded_process.c - fork, a pipe for what the child tells, and a kill at the limit.
 *
 * The end of the pipe is not waited for: a child that another thread forks in between holds a copy
 * of its writing end. Each message carries whether it is the last one instead, and waitid() tells
 * of a crash.
 */
#include "sim/base/guarded_process.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "sim/base/wall_clock.h"

/* How often a silent child is looked after. */
enum { LOOK_MS = 50 };

enum { LEAST_PIPE_BYTES = 512 }; /* POSIX: at least so much is written in one piece */

struct message {
    bool last;
    char report[GUARDED_REPORT_BYTES];
};
static_assert(sizeof(struct message) <= LEAST_PIPE_BYTES, "a message is written in one piece");

struct guarded_process {
    int to_parent;
    struct message message;
    size_t report_bytes;
};

static void send_message(struct guarded_process *guard) {
    /* One piece or, if the parent is gone, none: PR_SET_PDEATHSIG ends this process then. */
    while (write(guard->to_parent, &guard->message, sizeof guard->message) < 0 && errno == EINTR)
        continue;
}

void guarded_process_tell(struct guarded_process *guard, const void *report) {
    memcpy(guard->message.report, report, guard->report_bytes);
    send_message(guard);
}

/* By a signal: no atexit(), no second flush of the parent's buffers, no leak check of its
 * memory. */
static _Noreturn void vanish(void) {
    for (;;) raise(SIGKILL);
}

static _Noreturn void live_as_child(guarded_work work, void *context, struct guarded_process *guard,
                                    pid_t parent) {
    static const int own[] = { SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPIPE };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        struct sigaction old;
        sigaction(own[i], NULL, &old);
        if (old.sa_handler != SIG_IGN) signal(own[i], SIG_DFL); /* as under nohup */
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) vanish(); /* it died before the line above */
    work(context, guard);
    guard->message.last = true;
    send_message(guard);
    vanish();
}

static bool can_read(int from_child, int wait_ms) {
    struct pollfd wanted = { .fd = from_child, .events = POLLIN };
    return poll(&wanted, 1, wait_ms) > 0 && (wanted.revents & POLLIN) != 0;
}

/* One message, which is there. True: the last one. */
static bool hear(int from_child, void *report, size_t report_bytes) {
    struct message message;
    if (read(from_child, &message, sizeof message) != (ssize_t)sizeof message) return false;
    if (!message.last) memcpy(report, message.report, report_bytes);
    return message.last;
}

/* Leaves it to be waited for, so that no other process gets its number; only where the caller
 * ignores SIGCHLD does the system clear it away (ECHILD). how: WNOHANG or 0. */
static bool has_ended(pid_t child, int how) {
    siginfo_t ended = { 0 };
    while (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT | how) < 0) {
        if (errno == EINTR) continue;
        return true;
    }
    return ended.si_pid == child;
}

/* Until the last message, the child's end or the limit; then all that is still in the pipe. */
static enum guarded_end listen_to(pid_t child, int from_child, double until_s, void *report,
                                  size_t report_bytes) {
    enum guarded_end end = GUARDED_CRASHED;
    while (!has_ended(child, WNOHANG)) {
        double left_s = until_s - wall_clock_s();
        if (left_s <= 0) {
            end = GUARDED_KILLED;
            kill(child, SIGKILL);
            has_ended(child, 0);
            break;
        }
        int wait_ms = (int)fmin(LOOK_MS, ceil(left_s * 1000));
        if (can_read(from_child, wait_ms) && hear(from_child, report, report_bytes))
            return GUARDED_DONE;
    }
    while (can_read(from_child, 0))
        if (hear(from_child, report, report_bytes)) return GUARDED_DONE;
    return end;
}

enum guarded_end guarded_process_run(guarded_work work, void *context, double seconds, void *report,
                                     size_t report_bytes) {
    assert(report_bytes <= GUARDED_REPORT_BYTES);
    int ends[2];
    if (pipe(ends) != 0) return GUARDED_NOT_STARTED;
    double until_s = wall_clock_s() + seconds;
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        close(ends[0]);
        struct guarded_process guard = { .to_parent = ends[1], .report_bytes = report_bytes };
        live_as_child(work, context, &guard, parent);
    }
    close(ends[1]);
    enum guarded_end end = GUARDED_NOT_STARTED;
    if (child > 0) {
        end = listen_to(child, ends[0], until_s, report, report_bytes);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    close(ends[0]);
    return end;
}
