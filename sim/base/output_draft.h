/* output_draft.h - a file that appears whole or not at all; one that was there stays until then.
 *
 *     struct output_draft draft;
 *     FILE *out = output_draft_stream(&draft, path, err);   // NULL: err says why
 *     bool ok = out != NULL && write(out);
 *     return output_draft_end(&draft, ok, err) && ok;
 *
 * Until it is closed the draft has no name, so that a program that is killed leaves nothing behind.
 * File systems without nameless files get a name that ends in .part, removed on failure. A link is
 * followed. Owned: the descriptor and the stream, until closed.
 */
#ifndef BALLAST_SIM_BASE_OUTPUT_DRAFT_H
#define BALLAST_SIM_BASE_OUTPUT_DRAFT_H

#include <stdio.h>
#include "sim/base/error.h"

struct output_draft {
    int descriptor;
    bool named, direct;      /* direct: into a device or a pipe, which no file replaces */
    char *path, *draft_path; /* owned until closed */
    FILE *stream;            /* of output_draft_stream */
};

/* A device or a pipe is written as it is. On false errno says why; close it nevertheless. */
bool output_draft_open(struct output_draft *draft, const char *path);
/* Keeps the file if `keep` and all went well; else errno says why. */
bool output_draft_close(struct output_draft *draft, bool keep);

/* Opened and as a stream. NULL: an error; nothing to close. */
FILE *output_draft_stream(struct output_draft *draft, const char *path, struct error *err);
/* Flushes, and keeps the file if `keep`. False: not kept, and an error unless keep was false. */
bool output_draft_end(struct output_draft *draft, bool keep, struct error *err);

#endif
