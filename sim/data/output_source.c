/* output_source.c - the same file by device and inode. */
#include "sim/data/output_source.h"

#include <sys/stat.h>

bool output_source_allowed(const struct dataset *dataset, const char *path, struct error *err) {
    struct stat target, source;
    if (stat(path, &target) != 0) return true;
    for (int64_t i = 0; i < dataset->source_count; i++) {
        if (stat(dataset->sources[i], &source) != 0 || source.st_dev != target.st_dev ||
            source.st_ino != target.st_ino)
            continue;
        error_set(err, "cannot write %s: the data set is read from this file", path);
        return error_hint(err, "choose another name for the output");
    }
    return true;
}
