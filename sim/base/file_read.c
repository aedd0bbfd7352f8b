/* file_read.c - through zlib, which gives plain files as they are. */
#include "sim/base/file_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#include "sim/base/arena.h"

/* What a pipe or a device may give: some never end. */
enum { STREAM_LIMIT_BYTES = 1 << 28 };

bool file_read(const char *path, char **text, size_t *size, struct error *err) {
    struct stat status;
    *text = NULL;
    if (stat(path, &status) != 0) {
        int code = errno;
        error_set(err, "cannot read %s: %s", path, strerror(code));
        return false;
    }
    if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode))
        return error_set(err, "cannot read %s: it is not a file", path);
    gzFile file = gzopen(path, "rb");
    if (file == NULL) return error_set(err, "cannot read %s: %s", path, strerror(errno));
    gzbuffer(file, 1 << 17);
    size_t capacity = status.st_size > 0 ? (size_t)status.st_size + 1 : 1 << 16;
    char *buffer = memory_alloc(capacity);
    size_t used = 0;
    for (;;) {
        if (used == capacity) buffer = memory_realloc(buffer, capacity *= 2);
        size_t room = capacity - used < (1u << 30) ? capacity - used : (1u << 30);
        int got = gzread(file, buffer + used, (unsigned)room);
        if (got > 0) {
            used += (size_t)got;
            if (S_ISREG(status.st_mode) || used <= STREAM_LIMIT_BYTES) continue;
            error_set(err, "cannot read %s: it is not a file, and gives more than 256 MiB", path);
            gzclose(file);
            free(buffer);
            return false;
        }
        int code = Z_OK;
        const char *reason = gzerror(file, &code);
        if (got == 0 && (code == Z_OK || code == Z_STREAM_END)) break;
        error_set(err, "cannot read %s: %s", path,
                  code == Z_BUF_ERROR    ? "the compressed file is cut short"
                  : code == Z_DATA_ERROR ? "the compressed file is damaged"
                  : code == Z_ERRNO      ? strerror(errno)
                                         : reason);
        gzclose(file);
        free(buffer);
        return false;
    }
    gzclose(file);
    *text = buffer;
    *size = used;
    return true;
}
