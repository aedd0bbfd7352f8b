/* sweep_lock.c - flock() on a file of its own: SQLite's locks on the database are not disturbed. */
#include "sim/study/sweep/sweep_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

struct sweep_lock {
    char *path;
    int file;
};

static const char ending[] = "-sweep";

const char *sweep_lock_file(struct arena *arena, const char *database) {
    return arena_format(arena, "%s%s", database, ending);
}

struct sweep_lock *sweep_lock_take(const char *database, struct error *err) {
    struct sweep_lock *lock = memory_alloc(sizeof *lock);
    lock->path = memory_alloc(strlen(database) + sizeof ending);
    sprintf(lock->path, "%s%s", database, ending);
    lock->file = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock->file >= 0 && flock(lock->file, LOCK_EX | LOCK_NB) == 0) return lock;
    if (lock->file >= 0 && errno == EWOULDBLOCK) {
        error_set(err, "another sweep is writing database '%s'", database);
        error_hint(err, "wait for it, or use another --db");
        if (err != NULL) err->internal = true;
    } else {
        error_system(err, "cannot lock '%s'", lock->path);
    }
    if (lock->file >= 0) close(lock->file);
    free(lock->path);
    free(lock);
    return NULL;
}

void sweep_lock_release(struct sweep_lock *lock) {
    if (lock == NULL) return;
    unlink(lock->path); /* while it is held, so that nobody has just taken it */
    close(lock->file);
    free(lock->path);
    free(lock);
}
