/* measured_parts.c - parts of the names of GPUs and encoders. */
#include "sim/study/measured/measured_parts.h"

#include <ctype.h>
#include <string.h>
#include "sim/study/measured/measured_words.h"

/* One spelling for each part: "80GB" is 80g, "SXM5" is sxm, "large" is l, "336px" is 336. */
static const char *part_word(struct arena *arena, const char *part) {
    static const char *const same[][2] = {
        { "sxm2", "sxm" }, { "sxm3", "sxm" },   { "sxm4", "sxm" },   { "sxm5", "sxm" },
        { "sxm6", "sxm" }, { "large", "l" },    { "huge", "h" },     { "base", "b" },
        { "giant", "g" },  { "patch14", "14" }, { "patch16", "16" }, { "patch32", "32" },
        { "l14", "l" },    { "vitl", "l" }
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (strcmp(part, same[i][0]) == 0) return same[i][1];
    const size_t digits = strspn(part, "0123456789");
    if (digits > 0 && (strcmp(part + digits, "gb") == 0 || strcmp(part + digits, "gib") == 0))
        return arena_format(arena, "%.*sg", (int)digits, part);
    if (digits > 0 && strcmp(part + digits, "px") == 0)
        return arena_format(arena, "%.*s", (int)digits, part);
    return part;
}

struct measured_parts measured_parts_of(struct arena *arena, const char *name) {
    struct measured_parts parts = { .count = 0 };
    const char *plain = measured_plain(arena, name);
    while (*plain != '\0' && parts.count < MEASURED_PART_LIMIT) {
        size_t length = 0;
        while (isalnum((unsigned char)plain[length]))
            length++;
        if (length > 0)
            parts.text[parts.count++] =
                part_word(arena, arena_format(arena, "%.*s", (int)length, plain));
        plain += length + (plain[length] != '\0');
    }
    return parts;
}

bool measured_parts_have(const struct measured_parts *parts, const char *text) {
    for (int64_t i = 0; i < parts->count; i++)
        if (strcmp(parts->text[i], text) == 0) return true;
    return false;
}

int64_t measured_parts_shared(const struct measured_parts *a, const struct measured_parts *b) {
    int64_t count = 0;
    for (int64_t i = 0; i < a->count; i++)
        count += measured_parts_have(b, a->text[i]);
    return count;
}
