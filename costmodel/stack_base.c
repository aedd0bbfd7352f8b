/* stack_base.c - a stack file that stands on another: what it takes of it, and where that lies. */
#include <string.h>
#include <unistd.h>
#include "costmodel/hardware.h"
#include "costmodel/stack_file.h"
#include "sim/base/file_place.h"

enum { BASE_LEVELS = 8 }; /* bases of bases; a shipped one stands on three */

/* What names a stack, or was measured of it, is its own. */
static bool is_own(const char *key) {
    static const char *const own[] = {
        "name",      "description", "base",      "words",     "projects",
        "runs",      "refines",     "told_by",   "factors",   "sources",
        "time_rows", "memory_rows", "one_place", "simulated", "multimodal_band",
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

/* A path is meant from the folder of the file that names it, else from the current one. */
static const char *place_of(struct arena *arena, const struct json *json, const char *base) {
    const char *beside = file_beside(arena, json_name(json), base);
    return beside != NULL ? beside : arena_text(arena, base);
}

/* That nothing lies there is a mistake of the file that names it. */
static bool is_there(struct arena *arena, const char *search_directory, const struct json *json,
                     const cJSON *base, const char *place, struct error *err) {
    const char *stacks = arena_format(arena, "%s/stacks", search_directory);
    if (file_is_path(place))
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

struct stack_file {
    const char *place; /* name or path */
    struct json *json; /* with what its bases state */
    struct stack stack;
    int base_count;
    struct stack_file *next;
};

static struct stack_file *read_upon(struct stack_files *files, const char *name, int levels,
                                    struct error *err);

/* Of what the file's document states as its base, up to `levels` below it. */
static struct stack_file *read_base(struct stack_files *files, const struct stack_file *file,
                                    const cJSON *base, const char *place, int levels,
                                    struct error *err) {
    const struct json *json = file->json;
    if (!stack_check_sources(json, cJSON_GetObjectItemCaseSensitive(json_root(json), "sources"),
                             err) ||
        !is_there(files->arena, files->directory, json, base, place, err))
        return NULL;
    struct stack_file *below = NULL;
    if (levels > 0)
        below = read_upon(files, place, levels - 1, err);
    else
        json_error(json, base, err, "no file may stand on itself, by way of others either",
                   "stands below %d others, which are the most", BASE_LEVELS);
    if (below == NULL && levels == BASE_LEVELS)
        error_context(err, "the base of stack '%s'", file->place);
    return below;
}

static bool put_all_bases(struct stack_files *files, struct stack_file *file, int levels,
                          struct error *err) {
    cJSON *root = json_root(file->json);
    const char **bases = arena_array(files->arena, const char *, BASE_LEVELS + 1); /* NULL ends */
    const cJSON *base = cJSON_GetObjectItemCaseSensitive(root, "base");
    if (cJSON_IsString(base)) { /* stack_read() says what else is wrong */
        if (cJSON_GetObjectItemCaseSensitive(root, "sources") == NULL)
            cJSON_AddObjectToObject(root, "sources");
        const char *place = place_of(files->arena, file->json, base->valuestring);
        const struct stack_file *below = read_base(files, file, base, place, levels, err);
        if (below == NULL) return false;
        put_base(root, json_root(below->json), place);
        bases[0] = place;
        for (int i = 0; i < below->base_count; i++)
            bases[i + 1] = below->stack.bases[i];
        file->base_count = below->base_count + 1;
    }
    if (!stack_read(file->json, files->arena, &file->stack, err)) return false;
    file->stack.bases = bases;
    return true;
}

/* Of more bases than `levels` it is read again, which says where the first too many stands. */
static struct stack_file *read_upon(struct stack_files *files, const char *name, int levels,
                                    struct error *err) {
    for (struct stack_file *file = files->first; file != NULL; file = file->next)
        if (strcmp(file->place, name) == 0 && file->base_count <= levels) return file;
    struct json *json = hardware_open(files->arena, files->directory, "stacks", name, err);
    if (json == NULL) return NULL;
    struct stack_file *file = arena_new(files->arena, struct stack_file);
    *file = (struct stack_file){ .place = arena_text(files->arena, name), .json = json };
    if (!put_all_bases(files, file, levels, err)) {
        json_destroy(json);
        return NULL;
    }
    file->next = files->first;
    files->first = file;
    return file;
}

const struct stack *stack_files_read(struct stack_files *files, const char *name,
                                     struct error *err) {
    const struct stack_file *file = read_upon(files, name, BASE_LEVELS, err);
    return file != NULL ? &file->stack : NULL;
}

void stack_files_close(struct stack_files *files) {
    for (; files->first != NULL; files->first = files->first->next)
        json_destroy(files->first->json);
}
