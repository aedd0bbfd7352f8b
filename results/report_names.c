/* report_names.c - the runs of a sweep, or of one scenario with --set, are called
 * "scenario [a 1, b 2, c 3]": what all of them share says nothing in a table. */
#include <string.h>
#include "results/report_part.h"
#include "sim/base/arena.h"

enum { PARTS_MAX = 64 };

struct name_parts {
    const char *parts[PARTS_MAX];
    int count;
};

/* False: the name has no brackets, or another scenario's name before them. */
static bool take_apart(struct arena *arena, const char *name, const char *scenario, size_t length,
                       struct name_parts *out) {
    const size_t size = strlen(name);
    out->count = 0;
    if (size < length + 2 || strncmp(name, scenario, length) != 0 || name[size - 1] != ']')
        return false;
    char *at = arena_format(arena, "%.*s", (int)(size - length - 1), name + length);
    while (at != NULL && out->count < PARTS_MAX) {
        out->parts[out->count++] = at;
        at = strstr(at, ", ");
        if (at == NULL) return true;
        *at = '\0';
        at += 2;
    }
    return false;
}

static const char *joined(struct arena *arena, const char *text, const char *part) {
    return arena_format(arena, "%s%s%s", text, text[0] != '\0' ? ", " : "", part);
}

const char *const *report_names(const struct report *r, const char **shared) {
    const int64_t count = r->run_count;
    const char **names = arena_array(r->arena, const char *, count + 1);
    for (int64_t i = 0; i < count; i++)
        names[i] = r->runs[i]->scenario_name;
    *shared = "";
    const char *bracket = count > 1 ? strstr(names[0], " [") : NULL;
    if (bracket == NULL) return names;
    const size_t length = (size_t)(bracket - names[0]) + 2;
    struct name_parts *parts = arena_array(r->arena, struct name_parts, count);
    for (int64_t i = 0; i < count; i++)
        if (!take_apart(r->arena, names[i], names[0], length, &parts[i]) ||
            parts[i].count != parts[0].count)
            return names;
    const char **shorter = arena_array(r->arena, const char *, count + 1);
    for (int64_t i = 0; i < count; i++)
        shorter[i] = "";
    for (int p = 0; p < parts[0].count; p++) {
        bool same = true;
        for (int64_t i = 1; i < count; i++)
            same = same && strcmp(parts[i].parts[p], parts[0].parts[p]) == 0;
        if (same) *shared = joined(r->arena, *shared, parts[0].parts[p]);
        for (int64_t i = 0; i < count && !same; i++)
            shorter[i] = joined(r->arena, shorter[i], parts[i].parts[p]);
    }
    return shorter[0][0] != '\0' ? shorter : names;
}
