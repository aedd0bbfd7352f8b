/* run_inputs.c - files by SHA-256, samples by FNV-1a over their figures. */
#include "sim/study/run_inputs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "results/sha256.h"
#include "sim/base/file_place.h"

static uint64_t mix(uint64_t hash, const void *bytes, size_t size) {
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

const char *run_inputs_data(struct arena *arena, const struct dataset *d) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < d->sample_count; i++) {
        int64_t figures[] = { d->samples[i].language_tokens, d->samples[i].vision_tiles,
                              d->vision_patches != NULL ? d->vision_patches[i] : 0,
                              d->clip_ms != NULL ? d->clip_ms[i] : 0 };
        hash = mix(hash, figures, sizeof figures);
        if (d->frame_sizes != NULL)
            hash = mix(hash, &d->frame_sizes[i], sizeof d->frame_sizes[i]);
    }
    return arena_format(arena, "%ld samples %016llx", (long)d->sample_count,
                        (unsigned long long)hash);
}

/* ---- files ---- */

static bool hash_file(const char *path, char text[2 * SHA256_BYTES + 1]) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    struct sha256 hash;
    uint8_t result[SHA256_BYTES];
    char part[65536];
    size_t size;
    sha256_begin(&hash);
    while ((size = fread(part, 1, sizeof part, file)) > 0)
        sha256_add(&hash, part, size);
    const bool whole = !ferror(file);
    fclose(file);
    sha256_end(&hash, result);
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", result[i]);
    return whole;
}

static cJSON *add(cJSON *list, const char *kind, const char *name) {
    cJSON *one = cJSON_CreateObject();
    cJSON_AddStringToObject(one, "kind", kind);
    cJSON_AddStringToObject(one, "name", name);
    cJSON_AddItemToArray(list, one);
    return one;
}

/* Files of the scenarios folder go by their path in it, others by their whole path. */
static void add_file(cJSON *list, const char *kind, const char *folder, const char *path) {
    char hash[2 * SHA256_BYTES + 1], whole_folder[PATH_MAX], whole_path[PATH_MAX];
    if (realpath(folder, whole_folder) == NULL || realpath(path, whole_path) == NULL) return;
    const size_t length = strlen(whole_folder);
    const bool inside = strncmp(whole_path, whole_folder, length) == 0 && whole_path[length] == '/';
    cJSON *one = add(list, kind, inside ? whole_path + length + 1 : whole_path);
    if (hash_file(path, hash))
        cJSON_AddStringToObject(one, "sha256", hash);
    else
        cJSON_AddNullToObject(one, "sha256");
}

/* A path, or a name in a folder of the scenarios; some names have no file. */
static void add_named(cJSON *list, const char *kind, const char *name, const char *scenarios,
                      const char *folder, struct arena *arena) {
    if (name == NULL) return;
    add_file(list, kind, scenarios,
             file_is_path(name) ? name : arena_format(arena, "%s/%s/%s.json", scenarios, folder, name));
}

const char *run_inputs_text(const struct execution *e, const struct provenance *provenance,
                            struct arena *arena) {
    const struct scenario *s = e->scenario;
    cJSON *list = cJSON_CreateArray();
    if (s->path != NULL) add_file(list, "scenario", s->directory, s->path);
    for (int64_t i = 0; i < s->model->file_count; i++)
        add_file(list, "model", s->directory, s->model->files[i]);
    cJSON_AddStringToObject(add(list, "data set", s->dataset_fields.name), "content",
                            run_inputs_data(arena, e->job->dataset));
    add_named(list, "cluster", s->files.cluster, s->directory, "clusters", arena);
    int64_t count;
    const struct cost_model_file *files = cost_model_files(s->cost_model, &count);
    for (int64_t i = 0; i < count; i++)
        add_file(list, files[i].kind, s->directory, files[i].path);
    add_named(list, "stack", s->files.stack, s->directory, "stacks", arena);
    for (int64_t i = 0; s->stack != NULL && s->stack->bases != NULL && s->stack->bases[i] != NULL;
         i++)
        add_named(list, "stack", s->stack->bases[i], s->directory, "stacks", arena);
    if (s->stack != NULL && s->stack->borrows) /* factors of another */
        add_named(list, "stack", s->stack->relative, s->directory, "stacks", arena);
    for (int64_t i = 0; provenance->plugins != NULL && provenance->plugins[i] != NULL; i++)
        add_file(list, "plug-in", s->directory, provenance->plugins[i]);
    for (int64_t i = 0; provenance->overrides != NULL && provenance->overrides[i] != NULL; i++) {
        const char *text = provenance->overrides[i];
        const size_t length = strcspn(text, "=");
        cJSON *one = add(list, "set", arena_format(arena, "%.*s", (int)length, text));
        cJSON_AddStringToObject(one, "value", text[length] == '=' ? text + length + 1 : "");
    }
    for (int64_t i = 0; provenance->removals != NULL && provenance->removals[i] != NULL; i++)
        add(list, "unset", provenance->removals[i]);
    char *text = cJSON_PrintUnformatted(list);
    const char *kept = arena_text(arena, text);
    cJSON_free(text);
    cJSON_Delete(list);
    return kept;
}
