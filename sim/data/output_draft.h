/* output_draft.h - a file that appears whole or not at all, and never in place of its own source.
 *
 *     struct output_draft draft;
 *     if (!output_draft_allowed(dataset, path, err)) return false;
 *     bool ok = output_draft_open(&draft, path);
 *     ... write to draft.descriptor, or to a dup() of it
 *     ok = output_draft_close(&draft, ok);     // true: the file is there; errno says why not
 *
 * Until it is closed the draft has no name, so that a program that is killed leaves nothing behind.
 * File systems without nameless files get a name that ends in .part, removed on failure. Inside
 * sim/data only.
 */
#ifndef BALLAST_SIM_DATA_OUTPUT_DRAFT_H
#define BALLAST_SIM_DATA_OUTPUT_DRAFT_H

#include "sim/data/dataset.h"

struct output_draft {
    int descriptor;
    bool named;
    const char *path; /* borrowed */
    char *draft_path; /* owned until closed */
};

/* False: the data set was read from this very file, by this or another name. */
bool output_draft_allowed(const struct dataset *dataset, const char *path, struct error *err);
/* On false errno says why; close it nevertheless. */
bool output_draft_open(struct output_draft *draft, const char *path);
/* Keeps the file if `keep` and all went well. */
bool output_draft_close(struct output_draft *draft, bool keep);

#endif
