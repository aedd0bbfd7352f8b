/* text_source.c - gzread reads plain files too, so there is one path for both. */
#include "sim/data/text_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The largest piece that a caller may keep: one line of a table. */
enum { WINDOW_BYTES = 1 << 20, WINDOW_LIMIT_BYTES = 1 << 26 };

static bool ends_in(const char *text, const char *suffix) {
    size_t length = strlen(text), suffix_length = strlen(suffix);
    return length >= suffix_length && strcmp(text + length - suffix_length, suffix) == 0;
}

bool text_source_open(struct text_source *source, const char *path, dataset_progress progress,
                      void *progress_context, struct error *err) {
    struct stat status;
    memset(source, 0, sizeof *source);
    if (stat(path, &status) != 0)
        return error_set(err, "cannot read %s: %s", path, strerror(errno));
    if (S_ISDIR(status.st_mode)) return error_set(err, "cannot read %s: it is a directory", path);
    gzFile file = gzopen(path, "rb");
    if (file == NULL) return error_set(err, "cannot read %s: %s", path, strerror(errno));
    gzbuffer(file, 1 << 18);
    if (status.st_size > 0 && ends_in(path, ".gz") && gzdirect(file)) {
        gzclose(file);
        return error_set(err, "cannot read %s: it is not a gzip file", path);
    }
    source->path = path;
    source->file = file;
    source->file_bytes = S_ISREG(status.st_mode) ? (int64_t)status.st_size : 0;
    source->capacity = WINDOW_BYTES;
    source->window = memory_alloc(source->capacity + 1);
    source->progress = progress;
    source->progress_context = progress_context;
    return true;
}

static const char *read_failure(gzFile file) {
    int code = Z_OK;
    const char *reason = gzerror(file, &code);
    if (code == Z_OK || code == Z_STREAM_END) return NULL;
    if (code == Z_BUF_ERROR) return "the compressed file is cut short";
    if (code == Z_DATA_ERROR) return "the compressed file is damaged";
    return code == Z_ERRNO ? strerror(errno) : reason;
}

bool text_source_fill(struct text_source *source) {
    size_t kept = source->end - source->begin;
    if (source->begin > 0) memmove(source->window, source->window + source->begin, kept);
    source->begin = 0;
    source->end = kept;
    if (kept == source->capacity) {
        if (source->capacity >= WINDOW_LIMIT_BYTES) {
            source->failure = "a line is longer than 64 MiB: this is not a table";
            return false;
        }
        source->capacity *= 2;
        source->window = memory_realloc(source->window, source->capacity + 1);
    }
    int got = gzread(source->file, source->window + kept, (unsigned)(source->capacity - kept));
    if (got <= 0) {
        source->failure = read_failure(source->file);
        return false;
    }
    source->end += (size_t)got;
    if (source->progress != NULL) {
        int64_t done = (int64_t)gzoffset(source->file);
        source->progress(source->progress_context, done, source->file_bytes);
    }
    return true;
}

void text_source_close(struct text_source *source) {
    if (source->file != NULL) gzclose(source->file);
    free(source->window);
    memset(source, 0, sizeof *source);
}
