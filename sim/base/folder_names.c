/* folder_names.c - one pass over the folder, then a sort: file systems list in no order. */
#include "sim/base/folder_names.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **folder_names(struct arena *arena, const char *path, const char *suffix,
                          int64_t *count) {
    int64_t capacity = 64;
    const size_t tail = strlen(suffix);
    *count = 0;
    DIR *folder = opendir(path);
    if (folder == NULL) return NULL;
    const char **names = arena_array(arena, const char *, capacity);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.' || length <= tail ||
            strcmp(entry->d_name + length - tail, suffix) != 0)
            continue;
        if (*count + 1 == capacity) {
            const char **grown = arena_array(arena, const char *, 2 * capacity);
            memcpy(grown, names, sizeof *grown * (size_t)capacity);
            capacity *= 2;
            names = grown;
        }
        names[(*count)++] = arena_format(arena, "%.*s", (int)(length - tail), entry->d_name);
    }
    closedir(folder);
    names[*count] = NULL;
    qsort(names, (size_t)*count, sizeof *names, by_name);
    return names;
}
