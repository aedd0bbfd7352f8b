/* stack_base.c - a stack file that stands on another: what it takes of it, and where that lies. */
#include <string.h>
#include <unistd.h>
#include "costmodel/hardware.h"
#include "costmodel/stack_file.h"

enum { BASE_LEVELS = 3 }; /* bases of bases */

/* What names a stack, or was measured of it, is its own. */
static bool is_own(const char *key) {
    static const char *const own[] = {
        "name",        "description", "base",      "words",           "runs", "factors", "sources",
        "memory_rows", "one_place",   "simulated", "multimodal_band",
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(own[i], key) == 0) return true;
    return false;
}

/* What `from` has and `object` has not, but for the keys that `stated` holds or that are own. */
static void put_missing(cJSON *object, const cJSON *from, const cJSON *stated) {
    const cJSON *item;
    cJSON_ArrayForEach(item, from) {
        if (cJSON_GetObjectItemCaseSensitive(stated, item->string) != NULL) continue;
        if (object == stated && is_own(item->string)) continue;
        if (cJSON_GetObjectItemCaseSensitive(object, item->string) == NULL)
            cJSON_AddItemToObject(object, item->string, cJSON_Duplicate(item, true));
    }
}

static bool has_factors(const cJSON *root) {
    return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(root, "factors")) > 0;
}

static const char *text_of(const cJSON *root, const char *key) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, key));
}

/* A base that was calibrated itself is nearer than its own relative. "base" then says the one of
 * the bases below whose factors these are. */
static void put_base(cJSON *root, const cJSON *base, const char *place) {
    const char *low = text_of(base, "base"), *relative = text_of(base, "relative");
    if (!has_factors(root) && text_of(root, "relative") == NULL) {
        if (has_factors(base) || relative == NULL)
            cJSON_AddStringToObject(root, "relative", place);
        else if (low != NULL && strcmp(low, relative) == 0)
            place = low;
    }
    cJSON_ReplaceItemInObjectCaseSensitive(root, "base", cJSON_CreateString(place));
    /* A source is the base's where the figure is. */
    put_missing(cJSON_GetObjectItemCaseSensitive(root, "sources"),
                cJSON_GetObjectItemCaseSensitive(base, "sources"), root);
    put_missing(root, base, root);
}

static bool is_path(const char *name) {
    const char *suffix = strrchr(name, '.');
    return strchr(name, '/') != NULL || (suffix != NULL && strcmp(suffix, ".json") == 0);
}

/* A path is meant from the folder of the file that names it, else from the current one. */
static const char *place_of(struct arena *arena, const struct json *json, const char *base) {
    const char *file = json_name(json), *end = strrchr(file, '/');
    if (end == NULL || base[0] == '/' || !is_path(base)) return arena_text(arena, base);
    const char *beside = arena_format(arena, "%.*s/%s", (int)(end - file), file, base);
    return access(beside, F_OK) == 0 ? beside : arena_text(arena, base);
}

/* That nothing lies there is a mistake of the file that names it. */
static bool is_there(struct arena *arena, const char *search_directory, const struct json *json,
                     const cJSON *base, const char *place, struct error *err) {
    const char *stacks = arena_format(arena, "%s/stacks", search_directory);
    if (is_path(place))
        return access(place, F_OK) == 0 ||
               json_error(json, base, err,
                          "a path is meant from this file's folder or from the current one",
                          "no file '%s'", place);
    if (place[0] != '\0' && strcmp(place, "..") != 0 &&
        access(arena_format(arena, "%s/%s.json", stacks, place), F_OK) == 0)
        return true;
    json_error(json, base, err, NULL, "no '%s.json' in %s", place, stacks);
    hint_of_files(err, stacks, place);
    return false;
}

static struct json *open_upon(struct arena *arena, const char *search_directory, const char *name,
                              int levels, const char **bases, struct error *err) {
    struct json *json = hardware_open(arena, search_directory, "stacks", name, err);
    if (json == NULL) return NULL;
    cJSON *root = json_root(json);
    const cJSON *base = cJSON_GetObjectItemCaseSensitive(root, "base");
    if (!cJSON_IsString(base)) return json; /* stack_read() says what else is wrong */
    if (cJSON_GetObjectItemCaseSensitive(root, "sources") == NULL)
        cJSON_AddObjectToObject(root, "sources");
    const char *place = place_of(arena, json, base->valuestring);
    struct stack ignored;
    struct json *below = NULL;
    bool ok = stack_check_sources(json, cJSON_GetObjectItemCaseSensitive(root, "sources"), err) &&
              is_there(arena, search_directory, json, base, place, err);
    if (ok && levels == 0)
        ok = json_error(json, base, err, "no file may stand on itself, by way of others either",
                        "is the base of a base of a base: %d levels are the most", BASE_LEVELS);
    if (ok) {
        *bases = place;
        below = open_upon(arena, search_directory, place, levels - 1, bases + 1, err);
        ok = below != NULL && stack_read(below, arena, &ignored, err);
        if (!ok && levels == BASE_LEVELS) error_context(err, "the base of stack '%s'", name);
    }
    if (ok) put_base(root, json_root(below), place);
    json_destroy(below);
    if (ok) return json;
    json_destroy(json);
    return NULL;
}

struct json *stack_open(struct arena *arena, const char *search_directory, const char *name,
                        const char ***bases, struct error *err) {
    *bases = arena_array(arena, const char *, BASE_LEVELS + 1); /* NULL at the end */
    return open_upon(arena, search_directory, name, BASE_LEVELS, *bases, err);
}
