/* output_source.c - the sources are the data set's own. */
#include "sim/data/output_source.h"

bool output_source_allowed(const struct dataset *dataset, const char *path, struct error *err) {
    return error_check_output_apart(err, path, "the data set is read", dataset->sources,
                                    dataset->source_count);
}
