/* output_draft.c - O_TMPFILE, given a name by linkat() through /proc (open(2)), then rename(). */
#include "sim/data/output_draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool output_draft_allowed(const struct dataset *dataset, const char *path, struct error *err) {
    struct stat target, source;
    if (stat(path, &target) != 0) return true;
    for (int64_t i = 0; i < dataset->source_count; i++) {
        if (stat(dataset->sources[i], &source) != 0 || source.st_dev != target.st_dev ||
            source.st_ino != target.st_ino)
            continue;
        error_set(err, "cannot write %s: the data set is read from this file", path);
        return error_hint(err, "choose another name for the output");
    }
    return true;
}

static int open_nameless(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    int descriptor = open(folder, O_TMPFILE | O_WRONLY, 0666);
    free(folder);
    return descriptor;
}

bool output_draft_open(struct output_draft *draft, const char *path) {
    size_t size = strlen(path) + sizeof ".part";
    *draft = (struct output_draft){ .path = path, .draft_path = memory_alloc(size) };
    snprintf(draft->draft_path, size, "%s.part", path);
    draft->descriptor = open_nameless(path);
    if (draft->descriptor < 0) {
        draft->descriptor = open(draft->draft_path, O_CREAT | O_TRUNC | O_WRONLY, 0666);
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
    bool ok = keep && give_name(draft) && rename(draft->draft_path, draft->path) == 0;
    int reason = errno;
    if (!ok && draft->named) unlink(draft->draft_path);
    if (draft->descriptor >= 0) close(draft->descriptor);
    free(draft->draft_path);
    errno = reason;
    return ok;
}
