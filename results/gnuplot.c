/* gnuplot.c - the child process. Script, picture and complaints lie in memory files: no pipe can
 * fill up, and no signal can come from one that broke. gnuplot ends with 0 even when its output
 * could not be written, so the picture is looked at, and written to its file here, where each
 * failure has its reason. */
#include "results/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define FONT_POINTS (GNUPLOT_FONT_PIXELS * 0.75) /* a point is 3/4 of such a pixel */

static const char *extension(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot != NULL && strchr(dot, '/') == NULL ? dot : "";
}

static void write_terminal(FILE *script, const char *path, double width, double height) {
    const char *kind = extension(path);
    if (strcmp(kind, ".png") == 0)
        fprintf(script, "set terminal pngcairo noenhanced size %g,%g font 'DejaVu Sans,%g'\n",
                width, height, FONT_POINTS);
    else if (strcmp(kind, ".svg") == 0)
        fprintf(script,
                "set terminal svg noenhanced size %g,%g font 'DejaVu Sans,%d' background 'white'\n",
                width, height, GNUPLOT_FONT_PIXELS);
    else
        fprintf(script,
                "set terminal pdfcairo noenhanced fontscale 0.82 size %gin,%gin font 'DejaVu "
                "Sans,%g'\n",
                width / 96, height / 96, FONT_POINTS);
}

bool gnuplot_check(const char *path, struct error *err) {
    static const char *const kinds[] = { ".png", ".svg", ".pdf" };
    if (!error_check_output_file(err, path)) return false;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        if (strcmp(extension(path), kinds[k]) == 0) return true;
    return error_set(err, "'%s': the name of a picture ends in .png, .svg or .pdf", path);
}

bool gnuplot_begin(struct gnuplot *gnuplot, const char *path, double width, double height,
                   struct error *err) {
    if (!gnuplot_check(path, err)) return false;
    int file = memfd_create("script", MFD_CLOEXEC);
    FILE *script = file >= 0 ? fdopen(file, "w+") : NULL;
    if (script == NULL) return error_system(err, "cannot make a script for gnuplot");
    write_terminal(script, path, width, height);
    const bool pixels = strcmp(extension(path), ".svg") == 0;
    *gnuplot = (struct gnuplot){ script, path, pixels ? 1 : 0.75 };
    return true;
}

/* Characters of `doubled` are written twice. */
static void write_quoted(FILE *script, const char *text, const char *doubled) {
    fputc('\'', script);
    for (; *text != '\0'; text++) {
        if (strchr(doubled, *text) != NULL) fputc(*text, script);
        fputc((unsigned char)*text < 0x20 ? ' ' : *text, script);
    }
    fputc('\'', script);
}

void gnuplot_text(struct gnuplot *gnuplot, const char *text) {
    write_quoted(gnuplot->script, text, "'");
}

void gnuplot_tic_text(struct gnuplot *gnuplot, const char *text) {
    write_quoted(gnuplot->script, text, "'%");
}

/* ---- the child ---- */

/* Its environment, with numbers as in C: a user's locale would change decimal points. */
static int spawn(int script, int picture, int complaints, pid_t *child) {
    char *const arguments[] = { "gnuplot", "--default-settings", "-", NULL };
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    char **environment = malloc((count + 2) * sizeof *environment);
    if (environment == NULL) return ENOMEM;
    size_t kept = 0;
    environment[kept++] = "LC_ALL=C.UTF-8";
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "LC_ALL=", 7) != 0) environment[kept++] = environ[i];
    environment[kept] = NULL;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, script, 0);
    posix_spawn_file_actions_adddup2(&actions, picture, 1);
    posix_spawn_file_actions_adddup2(&actions, complaints, 2);
    int code = posix_spawnp(child, "gnuplot", &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    return code;
}

/* What gnuplot wrote to stderr, as context. Always returns false. */
static bool add_complaints(int complaints, struct error *err) {
    char said[1024] = "";
    ssize_t size = pread(complaints, said, sizeof said - 1, 0);
    while (size > 0 && said[size - 1] == '\n')
        size--;
    said[size > 0 ? size : 0] = '\0';
    return size > 0 ? error_context(err, "it said: %s", said) : false;
}

static bool failed(int complaints, const char *how, struct error *err) {
    error_set(err, "gnuplot failed: %s", how);
    if (err != NULL) err->internal = true;
    return add_complaints(complaints, err);
}

static bool wait_for(pid_t child, int complaints, struct error *err) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return error_system(err, "cannot wait for gnuplot");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    return failed(
        complaints,
        WIFSIGNALED(status) ? "it was stopped by a signal" : "it could not draw the script", err);
}

/* A whole picture ends in its format's own last word, possibly followed by blanks. */
static bool is_whole(int picture, const char *path) {
    static const struct {
        const char *extension, *last;
        size_t size, after; /* of the last word; of what follows it */
    } ends[] = { { ".png", "IEND", 4, 4 /* a checksum */ },
                 { ".svg", "</svg>", 6, 0 },
                 { ".pdf", "%%EOF", 5, 0 } };
    char tail[32];
    off_t end = lseek(picture, 0, SEEK_END);
    if (end < (off_t)sizeof tail || pread(picture, tail, sizeof tail, end - (off_t)sizeof tail) < 0)
        return false;
    size_t k = 0;
    while (strcmp(ends[k].extension, extension(path)) != 0)
        k++;
    size_t size = sizeof tail;
    while (ends[k].after == 0 && size > ends[k].size && strchr("\r\n ", tail[size - 1]) != NULL)
        size--;
    return memcmp(tail + size - ends[k].after - ends[k].size, ends[k].last, ends[k].size) == 0;
}

static bool run(int script, int picture, const char *path, struct error *err) {
    int complaints = memfd_create("complaints", MFD_CLOEXEC);
    if (complaints < 0) return error_system(err, "cannot start gnuplot");
    pid_t child;
    int code = spawn(script, picture, complaints, &child);
    bool done;
    if (code == 0) {
        done = wait_for(child, complaints, err) &&
               (is_whole(picture, path) || failed(complaints, "its picture is cut short", err));
    } else {
        errno = code;
        done = error_system(err, "cannot start gnuplot");
        if (code == ENOENT)
            error_hint(err, "pictures need gnuplot on PATH (Debian package gnuplot-nox)");
    }
    close(complaints);
    return done;
}

static bool copy(int from, int to) {
    char block[65536];
    ssize_t size;
    for (off_t at = 0; (size = pread(from, block, sizeof block, at)) > 0; at += size)
        for (ssize_t done = 0; done < size;) {
            ssize_t wrote = write(to, block + done, (size_t)(size - done));
            if (wrote < 0) return false;
            done += wrote;
        }
    return size == 0;
}

/* Beside the target, so that the rename stays within one file system. */
static bool write_picture(int picture, const char *path, struct error *err) {
    char unfinished[4096];
    int length = snprintf(unfinished, sizeof unfinished, "%s.unfinished", path);
    int file = -1;
    if (length >= (int)sizeof unfinished)
        errno = ENAMETOOLONG;
    else
        file = open(unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) return error_output(err, path);
    /* Some file systems find out that they are full only when they write back. */
    bool done = (copy(picture, file) && fsync(file) == 0) || error_output(err, path);
    if (close(file) != 0 && done) done = error_output(err, path);
    if (done && rename(unfinished, path) != 0) done = error_output(err, path);
    if (!done) unlink(unfinished);
    return done;
}

bool gnuplot_end(struct gnuplot *gnuplot, struct error *err) {
    int picture = memfd_create("picture", MFD_CLOEXEC), script = fileno(gnuplot->script);
    bool done = picture >= 0 || error_system(err, "cannot start gnuplot");
    if (done && (fflush(gnuplot->script) != 0 || lseek(script, 0, SEEK_SET) != 0))
        done = error_system(err, "cannot hand the script to gnuplot");
    done = done && run(script, picture, gnuplot->path, err) &&
           write_picture(picture, gnuplot->path, err);
    if (picture >= 0) close(picture);
    fclose(gnuplot->script);
    return done;
}
