/* error.c - formatting of errors; the sentence comes first, context and hints follow on new lines.
 */
#include "sim/base/error.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void append(struct error *err, const char *prefix, const char *format, va_list args) {
    if (err == NULL) return;
    size_t used = strlen(err->text);
    size_t room = sizeof err->text - used;
    int written = snprintf(err->text + used, room, "%s", prefix);
    if (written < 0 || (size_t)written >= room) return;
    vsnprintf(err->text + used + (size_t)written, room - (size_t)written, format, args);
}

bool error_set(struct error *err, const char *format, ...) {
    if (err == NULL) return false;
    err->located = false;
    err->internal = false;
    err->rule = NULL;
    err->text[0] = '\0';
    va_list args;
    va_start(args, format);
    append(err, "", format, args);
    va_end(args);
    return false;
}

bool error_system(struct error *err, const char *format, ...) {
    int saved = errno;
    if (err == NULL) return false;
    err->located = false;
    err->internal = true;
    err->text[0] = '\0';
    va_list args;
    va_start(args, format);
    append(err, "", format, args);
    va_end(args);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, ": %s", strerror(saved));
    return false;
}

/* Reasons that lie in the name that was given, not in the state of the machine. */
static bool is_of_the_name(int code) {
    return code == EEXIST || code == EISDIR || code == ELOOP || code == ENAMETOOLONG ||
           code == ENOENT || code == ENOTDIR;
}

bool error_output(struct error *err, const char *path) {
    const int code = errno;
    const char *slash = strrchr(path, '/');
    if ((code == ENOENT || code == ENOTDIR) && slash != NULL && slash != path)
        return error_set(err, "cannot write %s: there is no folder '%.*s'", path,
                         (int)(slash - path), path);
    if (code == EISDIR) {
        error_set(err, "cannot write %s: it is a folder", path);
        return error_hint(err, "name a file in it");
    }
    errno = code;
    error_system(err, "cannot write %s", path);
    if (err != NULL) err->internal = !is_of_the_name(code);
    return false;
}

bool error_output_folder(struct error *err, const char *path) {
    const int code = errno;
    if (code == EEXIST || code == ENOTDIR)
        return error_set(err, "cannot make the folder %s: a file has this name", path);
    error_system(err, "cannot make the folder %s", path);
    if (err != NULL) err->internal = !is_of_the_name(code);
    return false;
}

bool error_check_output(struct error *err, const char *path) {
    struct stat status;
    const char *slash = strrchr(path, '/');
    int code = 0;
    if (stat(path, &status) == 0) {
        if (S_ISDIR(status.st_mode)) code = EISDIR;
    } else if (slash != NULL && slash != path) {
        char folder[PATH_MAX];
        if (slash - path >= (long)sizeof folder) {
            code = ENAMETOOLONG;
        } else {
            snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
            if (stat(folder, &status) != 0) code = errno;
            else if (!S_ISDIR(status.st_mode)) code = ENOTDIR;
        }
    }
    if (code == 0) return true;
    errno = code;
    return error_output(err, path);
}

bool error_at(struct error *err, const char *file, long line, long column, const char *format,
              ...) {
    if (err == NULL) return false;
    err->located = true;
    err->internal = false;
    if (column > 0)
        snprintf(err->text, sizeof err->text, "%s:%ld:%ld: error: ", file, line, column);
    else
        snprintf(err->text, sizeof err->text, "%s:%ld: error: ", file, line);
    va_list args;
    va_start(args, format);
    append(err, "", format, args);
    va_end(args);
    return false;
}

bool error_context(struct error *err, const char *format, ...) {
    va_list args;
    va_start(args, format);
    append(err, "\n  ", format, args);
    va_end(args);
    return false;
}

bool error_hint(struct error *err, const char *format, ...) {
    va_list args;
    va_start(args, format);
    append(err, "\n  hint: ", format, args);
    va_end(args);
    return false;
}

void ballast_bug_at(const char *file, int line, const char *format, ...) {
    fprintf(stderr, "BUG %s:%d: ", file, line);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}
