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
#include <unistd.h>

/* A word that nobody reads to its end would leave no room for the reason behind it. */
enum { WORD_LIMIT = 300, FORMATTED_LIMIT = 16384 };

static void shorten_words(char *text) {
    char *out = text;
    for (const char *at = text; *at != '\0';) {
        const size_t word = strcspn(at, " \n");
        size_t kept = word;
        if (word > WORD_LIMIT)
            for (kept = WORD_LIMIT; ((unsigned char)at[kept] & 0xC0) == 0x80;)
                kept--; /* inside a character of UTF-8 */
        memmove(out, at, kept);
        out += kept;
        at += word;
        if (kept < word) {
            memcpy(out, "...", 3);
            out += 3;
        }
        if (*at != '\0') *out++ = *at++;
    }
    *out = '\0';
}

static void append(struct error *err, const char *prefix, const char *format, va_list args) {
    if (err == NULL) return;
    char formatted[FORMATTED_LIMIT];
    vsnprintf(formatted, sizeof formatted, format, args);
    shorten_words(formatted);
    const size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, "%s%s", prefix, formatted);
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

/* What holds `path`: "." for a bare name. False: that name is too long. */
static bool folder_of(const char *path, char folder[PATH_MAX]) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    while (length > 0 && path[length - 1] != '/')
        length--;
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length >= PATH_MAX) return false;
    snprintf(folder, PATH_MAX, "%.*s", length > 0 ? (int)length : 1, length > 0 ? path : ".");
    return true;
}

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool is_link_to_nothing(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0 && S_ISLNK(status.st_mode) && stat(path, &status) != 0 &&
           errno == ENOENT;
}

/* `what`: "cannot write", "cannot make the folder". False: errno has no better words for it. */
static bool explain_name(struct error *err, const char *what, const char *path, int code) {
    char folder[PATH_MAX];
    if (code != ENOENT && code != ENOTDIR) return false;
    if (folder_of(path, folder) && !is_folder(folder)) {
        error_set(err, "%s %s: there is no folder '%s'", what, path, folder);
        return true;
    }
    if (is_link_to_nothing(path)) {
        error_set(err, "%s %s: it is a link to nothing", what, path);
        return true;
    }
    return false;
}

bool error_output(struct error *err, const char *path) {
    const int code = errno;
    if (explain_name(err, "cannot write", path, code)) return false;
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
    if (explain_name(err, "cannot make the folder", path, code)) return false;
    if (code == EEXIST || code == ENOTDIR)
        return error_set(err, "cannot make the folder %s: a file has this name", path);
    errno = code;
    error_system(err, "cannot make the folder %s", path);
    if (err != NULL) err->internal = !is_of_the_name(code);
    return false;
}

/* 0, or why nothing can be put beside `path`. */
static int folder_code(const char *path) {
    char folder[PATH_MAX];
    struct stat status;
    if (!folder_of(path, folder)) return ENAMETOOLONG;
    if (stat(folder, &status) != 0) return errno;
    if (!S_ISDIR(status.st_mode)) return ENOTDIR;
    return access(folder, W_OK | X_OK) == 0 ? 0 : errno;
}

/* Elsewhere "-" is the standard output; a file of that name is nobody's wish. */
static bool is_dash(struct error *err, const char *path) {
    if (strcmp(path, "-") != 0) return false;
    error_set(err, "cannot write -: it is no name of a file");
    error_hint(err, "leave the option out where stdout is its default, or name the file ./-");
    return true;
}

bool error_check_output(struct error *err, const char *path) {
    struct stat status;
    int code;
    if (is_dash(err, path)) return false;
    if (stat(path, &status) == 0) {
        /* Some write the file itself, some put another in its place: either right will do. */
        if (S_ISDIR(status.st_mode))
            code = EISDIR;
        else
            code = access(path, W_OK) == 0 ? 0 : folder_code(path);
    } else {
        code = errno != ENOENT || is_link_to_nothing(path) ? errno : folder_code(path);
    }
    if (code == 0) return true;
    errno = code;
    return error_output(err, path);
}

bool error_check_output_file(struct error *err, const char *path) {
    struct stat status;
    if (!error_check_output(err, path)) return false;
    if (stat(path, &status) != 0 || S_ISREG(status.st_mode)) return true;
    return error_set(err, "cannot write %s: it is not a file", path);
}

/* By device and inode: a file has many names. */
bool error_check_output_apart(struct error *err, const char *path, const char *read,
                              const char *const *sources, int64_t source_count) {
    struct stat target, source;
    if (stat(path, &target) != 0 || !S_ISREG(target.st_mode)) return true;
    for (int64_t i = 0; i < source_count; i++) {
        if (stat(sources[i], &source) != 0 || source.st_dev != target.st_dev ||
            source.st_ino != target.st_ino)
            continue;
        error_set(err, "cannot write %s: %s from this file", path, read);
        return error_hint(err, "choose another name for the output");
    }
    return true;
}

bool error_check_output_folder(struct error *err, const char *path) {
    struct stat status;
    int code;
    if (is_dash(err, path)) return false;
    if (stat(path, &status) == 0) {
        if (!S_ISDIR(status.st_mode))
            code = EEXIST;
        else if (access(path, W_OK | X_OK) == 0)
            return true;
        else
            return error_system(err, "cannot write in the folder %s", path);
    } else {
        code = errno != ENOENT || is_link_to_nothing(path) ? errno : folder_code(path);
    }
    if (code == 0) return true;
    errno = code;
    return error_output_folder(err, path);
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
