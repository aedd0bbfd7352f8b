/* gnuplot.c - the child process. The script and its complaints lie in memory files: no pipe can
 * fill up, and no signal can come from one that broke. */
#include "results/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FONT_PIXELS = 17 };

static const char *extension(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot != NULL && strchr(dot, '/') == NULL ? dot : "";
}

static bool write_terminal(FILE *script, const char *path, double width, double height) {
    const char *kind = extension(path);
    if (strcmp(kind, ".png") == 0)
        fprintf(script, "set terminal pngcairo noenhanced size %g,%g font 'DejaVu Sans,%g'\n",
                width, height, FONT_PIXELS * 0.75); /* a point is 3/4 of such a pixel */
    else if (strcmp(kind, ".svg") == 0)
        fprintf(script,
                "set terminal svg noenhanced size %g,%g font 'DejaVu Sans,%d' background 'white'\n",
                width, height, FONT_PIXELS);
    else if (strcmp(kind, ".pdf") == 0)
        fprintf(script, "set terminal pdfcairo noenhanced size %gin,%gin font 'DejaVu Sans,%g'\n",
                width / 96, height / 96, FONT_PIXELS * 0.75);
    else
        return false;
    return true;
}

bool gnuplot_begin(struct gnuplot *gnuplot, const char *path, double width, double height,
                   struct error *err) {
    int file = memfd_create("script", MFD_CLOEXEC);
    FILE *script = file >= 0 ? fdopen(file, "w+") : NULL;
    if (script == NULL) return error_system(err, "cannot make a script for gnuplot");
    if (!write_terminal(script, path, width, height)) {
        fclose(script);
        return error_set(err, "'%s': the name of a picture ends in .png, .svg or .pdf", path);
    }
    *gnuplot = (struct gnuplot){ .script = script, .path = path };
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

static bool wait_for(pid_t child, int complaints, struct error *err) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return error_system(err, "cannot wait for gnuplot");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    char said[1024] = "";
    ssize_t size = pread(complaints, said, sizeof said - 1, 0);
    said[size > 0 ? size : 0] = '\0';
    error_set(err, "gnuplot failed");
    if (err != NULL) err->internal = true;
    return error_context(err, "it said: %s", said);
}

static bool run(int script, int picture, struct error *err) {
    int complaints = memfd_create("complaints", MFD_CLOEXEC);
    if (complaints < 0) return error_system(err, "cannot start gnuplot");
    pid_t child;
    int code = spawn(script, picture, complaints, &child);
    bool done;
    if (code == 0) {
        done = wait_for(child, complaints, err);
    } else {
        errno = code;
        done = error_system(err, "cannot start gnuplot");
        if (code == ENOENT)
            error_hint(err, "pictures need gnuplot on PATH (Debian package gnuplot-nox)");
    }
    close(complaints);
    return done;
}

bool gnuplot_end(struct gnuplot *gnuplot, struct error *err) {
    char unfinished[4096];
    snprintf(unfinished, sizeof unfinished, "%s.unfinished", gnuplot->path);
    int picture = open(unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool done = picture >= 0 || error_system(err, "cannot write '%s'", gnuplot->path);
    if (done && (fflush(gnuplot->script) != 0 || lseek(fileno(gnuplot->script), 0, SEEK_SET) != 0))
        done = error_system(err, "cannot hand the script to gnuplot");
    done = done && run(fileno(gnuplot->script), picture, err);
    if (picture >= 0 && close(picture) != 0 && done)
        done = error_system(err, "cannot write '%s'", gnuplot->path);
    if (done && rename(unfinished, gnuplot->path) != 0)
        done = error_system(err, "cannot write '%s'", gnuplot->path);
    if (!done && picture >= 0) unlink(unfinished);
    fclose(gnuplot->script);
    return done;
}
