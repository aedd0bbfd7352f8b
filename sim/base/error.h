/* error.h - how a user's mistake travels up to the command line.
 *
 * A function that can fail on user input returns false (or NULL) and fills a struct error. Only
 * sim/cli prints it and chooses the exit code. A mistake of ours is not an error: ballast_bug()
 * stops the program with the place in our source.
 *
 *     if (!thing_load(path, &thing, err))
 *         return error_context(err, "while loading thing '%s'", path);
 */
#ifndef BALLAST_SIM_BASE_ERROR_H
#define BALLAST_SIM_BASE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

struct error {
    bool located;     /* text begins with "file:line:column: error: " */
    bool internal;    /* the machine's fault (disk, memory), not the input's: exit 1 instead of 2 */
    const char *rule; /* of a scenario: the rule between fields that it breaks; NULL: none */
    char text
        [4096]; /* one sentence, possibly followed by context and hint lines; no newline at end */
};

/* All return false, so that `return error_set(...)` reads well. err may be NULL. */
bool error_set(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool error_system(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As error_set, for a place in a text file. line and column count from 1; column 0 leaves it
 * out. */
bool error_at(struct error *err, const char *file, long line, long column, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* "cannot write PATH: " and errno's reason. It is the input's fault where it lies in the name: no
 * such folder, a folder instead of a file; the machine's where rights are missing or a disk is
 * full. */
bool error_output(struct error *err, const char *path);
/* The same for a folder that could not be made. */
bool error_output_folder(struct error *err, const char *path);
/* To be asked before the work whose result goes there; false, as error_output, where a folder has
 * this name, none is there to hold it, or it may not be written; or the name is too long, or a link
 * in a circle or to nothing. What only the attempt tells (a full disk, a file system that takes no
 * files) is left to it. */
bool error_check_output(struct error *err, const char *path);
/* Also where it is a device or a pipe, which what renames a finished file into place would
 * replace. */
bool error_check_output_file(struct error *err, const char *path);
/* Whether it is none of the files that it would be made from; `read`: "the model is read". */
bool error_check_output_apart(struct error *err, const char *path, const char *read,
                              const char *const *sources, int64_t source_count);
/* As error_check_output(), for a folder that is there, or is to be made inside one that is. */
bool error_check_output_folder(struct error *err, const char *path);
bool error_context(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool error_hint(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Stops with "BUG file:line: ...". For states that only our own code can cause. */
#define ballast_bug(...) ballast_bug_at(__FILE__, __LINE__, __VA_ARGS__)
_Noreturn void ballast_bug_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An assertion that stays on in release builds. */
#define ballast_check(condition)                                                                   \
    ((condition) ? (void)0 : ballast_bug_at(__FILE__, __LINE__, "%s", #condition))

#endif
