/* text_source.h - a text file, plain or gzipped, read in blocks through one growing window.
 *
 *     struct text_source s;
 *     if (!text_source_open(&s, path, NULL, NULL, err)) return false;
 *     while (text_source_fill(&s)) {
 *         ... use s.window + s.begin .. s.window + s.end, then advance s.begin
 *     }
 *     if (s.failure != NULL) return error_at(err, s.path, line, 0, "%s", s.failure);
 *     text_source_close(&s);
 *
 * Bytes that the caller leaves between begin and end are kept and moved to the front.
 */
#ifndef BALLAST_SIM_DATA_TEXT_SOURCE_H
#define BALLAST_SIM_DATA_TEXT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>
#include "sim/data/dataset.h"

struct text_source {
    const char *path; /* borrowed */
    gzFile file;
    char *window;
    size_t begin, end, capacity; /* one byte more than capacity is allocated, for a sentinel */
    int64_t file_bytes;          /* on disk; 0: not known */
    const char *failure;         /* why the last fill failed; NULL: it did not */
    dataset_progress progress;
    void *progress_context;
};

bool text_source_open(struct text_source *source, const char *path, dataset_progress progress,
                      void *progress_context, struct error *err);
/* Appends bytes to the window. False at the end of the file, or with `failure` set. */
bool text_source_fill(struct text_source *source);
void text_source_close(struct text_source *source);

#endif
