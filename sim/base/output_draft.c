/* output_draft.c - O_TMPFILE, given a name by linkat() through /proc (open(2)), then rename(). */
#include "sim/base/output_draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "sim/base/arena.h"

static int open_nameless(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    int descriptor = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    free(folder);
    return descriptor;
}

/* Nothing stands in for a device or a pipe: it is written as it is. */
static bool open_direct(struct output_draft *draft, const char *path) {
    struct stat status;
    if (stat(path, &status) != 0 || S_ISREG(status.st_mode)) return false;
    *draft = (struct output_draft){ .direct = true,
                                    .descriptor = open(path, O_WRONLY | O_CLOEXEC),
                                    .path = strdup(path) };
    return true;
}

bool output_draft_open(struct output_draft *draft, const char *path) {
    if (open_direct(draft, path)) return draft->descriptor >= 0;
    char *target = realpath(path, NULL);
    *draft = (struct output_draft){ .path = target != NULL ? target : strdup(path) };
    size_t size = strlen(draft->path) + sizeof ".part";
    draft->draft_path = memory_alloc(size);
    snprintf(draft->draft_path, size, "%s.part", draft->path);
    draft->descriptor = open_nameless(draft->path);
    if (draft->descriptor < 0) {
        draft->descriptor =
            open(draft->draft_path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
        draft->named = draft->descriptor >= 0;
    }
    return draft->descriptor >= 0;
}

static bool give_name(struct output_draft *draft) {
    if (draft->named) return true;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", draft->descriptor);
    if (unlink(draft->draft_path) != 0 && errno != ENOENT) return false;
    draft->named = linkat(AT_FDCWD, link, AT_FDCWD, draft->draft_path, AT_SYMLINK_FOLLOW) == 0;
    return draft->named;
}

bool output_draft_close(struct output_draft *draft, bool keep) {
    bool ok = keep && (draft->direct ||
                       (give_name(draft) && rename(draft->draft_path, draft->path) == 0));
    int reason = errno;
    if (!ok && draft->named) unlink(draft->draft_path);
    if (draft->descriptor >= 0) close(draft->descriptor);
    free(draft->draft_path);
    free(draft->path);
    errno = reason;
    return ok;
}

/* ---- as a stream ---- */

FILE *output_draft_stream(struct output_draft *draft, const char *path, struct error *err) {
    const bool open = output_draft_open(draft, path);
    const int copy = open ? dup(draft->descriptor) : -1;
    draft->stream = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (draft->stream != NULL) return draft->stream;
    const int reason = errno;
    if (copy >= 0) close(copy);
    output_draft_close(draft, false);
    errno = reason;
    error_output(err, path);
    return NULL;
}

bool output_draft_end(struct output_draft *draft, bool keep, struct error *err) {
    char *path = strdup(draft->path);
    const bool lost = ferror(draft->stream) != 0;
    const bool written = fclose(draft->stream) == 0 && !lost;
    const int reason = lost ? EIO : errno;
    const bool kept = output_draft_close(draft, keep && written);
    if (keep && !written) errno = reason;
    if (keep && !kept) error_output(err, path);
    free(path);
    return kept;
}
