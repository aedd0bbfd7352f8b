/* file_place.c - see file_place.h. */
#include "sim/base/file_place.h"

#include <ctype.h>
#include <string.h>
#include <sys/stat.h>

bool file_is_path(const char *name) {
    const char *dot = strrchr(name, '.');
    if (strchr(name, '/') != NULL) return true;
    return dot != NULL && dot > name && isalpha((unsigned char)dot[1]);
}

bool file_is_there(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

const char *file_beside(struct arena *arena, const char *from, const char *name) {
    const char *end = from != NULL ? strrchr(from, '/') : NULL;
    if (end == NULL || name == NULL || name[0] == '/' || !file_is_path(name)) return NULL;
    const char *path = arena_format(arena, "%.*s/%s", (int)(end - from), from, name);
    return file_is_there(path) ? path : NULL;
}
