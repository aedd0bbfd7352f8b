/* dataset.c - from a name to samples: the description, then the importer of each file, the draw
 * from distributions (dataset_draw.c) or the mixture of other data sets (dataset_mixture.c).
 */
#include "sim/data/dataset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/base/output_draft.h"
#include "sim/data/dataset_csv.h"
#include "sim/data/dataset_description.h"
#include "sim/data/dataset_json.h"
#include "sim/data/json_splitter.h"
#include "sim/data/output_source.h"
#include "sim/data/text_source.h"

enum file_format { FORMAT_AUTO, FORMAT_CSV, FORMAT_JSON, FORMAT_JSONL };

static const char *const kind_names[KIND_COUNT + 1] = {
    [KIND_SAMPLES] = "samples",
    [KIND_DISTRIBUTION] = "distribution",
    [KIND_BOUNDS] = "bounds",
    [KIND_MIXTURE] = "mixture",
};
static const char *const format_names[] = { "auto", "csv", "json", "jsonl", NULL };
static const char *const status_names[] = { "real",      "reconstructed", "synthetic",
                                            "estimated", "unstated",      NULL };

/* ---- descriptions ---- */

#define AT(member) offsetof(struct dataset_description, member)
static const struct field description_fields[] = {
    { "name", FIELD_TEXT, AT(name), 0, 0, NULL, "", "the name that scenarios use", NULL },
    { "description", FIELD_TEXT, AT(description), 0, 0, "\"\"", "", "one or two sentences", NULL },
    { "kind", FIELD_CHOICE, AT(kind), 0, 0, "\"samples\"", "", "read from files, drawn, or mixed",
      kind_names },
    { "file", FIELD_TEXT, AT(file), 0, 0, "null", "",
      "samples: the data file, relative to this description", NULL },
    { "files", FIELD_NODE, AT(files), 0, 0, "null", "",
      "samples: several files in order, each { file, part, parts, overlay, format }", NULL },
    { "format", FIELD_CHOICE, AT(format), 0, 0, "\"auto\"", "",
      "of the files; auto goes by their names", format_names },
    { "status", FIELD_CHOICE, AT(status), 0, 0, "\"unstated\"", "",
      "what the samples are, unless a part says otherwise", status_names },
    { "provenance", FIELD_TEXT, AT(provenance), 0, 0, "null", "",
      "source repository, path, date; what is derived", NULL },
    { "licence", FIELD_TEXT, AT(licence), 0, 0, "null", "", "of the data", NULL },
    { "tokenizer", FIELD_TEXT, AT(tokenizer), 0, 0, "null", "", "that counted the tokens", NULL },
    { "tile_language_tokens", FIELD_COUNT, AT(tile_language_tokens), 0, 65536, "null", "",
      "language tokens that one tile was counted as; null: as many as the model makes of it",
      NULL },
    { "sample_count", FIELD_COUNT, AT(sample_count), 1, 4e9, "null", "",
      "distribution, mixture: how many to draw; samples: how many the files must hold", NULL },
    { "parts", FIELD_NODE, AT(parts), 0, 0, "null", "", "list of { name, status }, by part_id",
      NULL },
    { "seed", FIELD_COUNT, AT(seed), 0, 4294967295.0, "0", "", "distribution: of the draw", NULL },
    { "vision_tiles", FIELD_NODE, AT(vision_tiles), 0, 0, "null", "",
      "distribution of tiles (none: text only)", NULL },
    { "text_tokens", FIELD_NODE, AT(text_tokens), 0, 0, "null", "",
      "distribution of text tokens, template included", NULL },
    { "language_tokens", FIELD_NODE, AT(language_tokens), 0, 0, "null", "",
      "distribution of text and vision tokens together, instead of text_tokens", NULL },
    { "clip_ms", FIELD_NODE, AT(clip_ms), 0, 0, "null", "ms",
      "distribution of the length of a video clip (null: no video)", NULL },
    { "frame_sizes", FIELD_NODE, AT(frame_sizes), 0, 0, "null", "pixels",
      "list of { width, height, share } that the frames of clips have, drawn by their shares "
      "(null: "
      "the model's)",
      NULL },
    { "clip_limit_ms", FIELD_COUNT, AT(clip_limit_ms), 1, RECORD_MAX_CLIP_MS, "null", "ms",
      "longer video clips are cut to this", NULL },
    { "bounds", FIELD_NODE, AT(bounds), 0, 0, "null", "tiles",
      "bounds: list of [lower, upper], most and least tiles of a sample, each for "
      "samples_per_bound "
      "samples",
      NULL },
    { "samples_per_bound", FIELD_COUNT, AT(samples_per_bound), 1, 4e9, "null", "",
      "bounds: samples with the same bounds, for example the micro-batches of an iteration", NULL },
    { "components", FIELD_NODE, AT(components), 0, 0, "null", "",
      "mixture: list of { dataset, weight }", NULL },
    { "correlation", FIELD_DOUBLE, AT(correlation), -0.999, 0.999, "0", "",
      "distribution: of the normal scores of tiles (or clips) and tokens", NULL },
};
#undef AT
const struct field_table dataset_fields =
    FIELD_TABLE("dataset", "a set of samples", description_fields);

struct file_entry {
    const char *file, *part, *overlay;
    const cJSON *parts;
    int format;
};

#define AT(member) offsetof(struct file_entry, member)
static const struct field file_entry_fields[] = {
    { "file", FIELD_TEXT, AT(file), 0, 0, NULL, "", "relative to the description", NULL },
    { "part", FIELD_TEXT, AT(part), 0, 0, "null", "", "name of its samples' part", NULL },
    { "parts", FIELD_NODE, AT(parts), 0, 0, "null", "",
      "list of the parts to take from it, of those that the description lists; null: all", NULL },
    { "overlay", FIELD_TEXT, AT(overlay), 0, 0, "null", "",
      "a second file: its n-th row of a part stands in place of this file's n-th row of that part; "
      "parts that it does not hold stay",
      NULL },
    { "format", FIELD_CHOICE, AT(format), 0, 0, "\"auto\"", "", "auto goes by the name",
      format_names },
};
#undef AT
const struct field_table dataset_file_fields =
    FIELD_TABLE("files", "one data file", file_entry_fields);

struct part_entry {
    const char *name;
    int status;
};

#define AT(member) offsetof(struct part_entry, member)
static const struct field part_entry_fields[] = {
    { "name", FIELD_TEXT, AT(name), 0, 0, NULL, "", "as in the part column, or by position", NULL },
    { "status", FIELD_CHOICE, AT(status), 0, 0, NULL, "", "what its samples are", status_names },
};
#undef AT
const struct field_table dataset_part_fields = FIELD_TABLE("parts", "one part", part_entry_fields);

/* ---- files of samples ---- */

static bool ends_in(const char *text, size_t length, const char *suffix) {
    size_t n = strlen(suffix);
    return length > n && memcmp(text + length - n, suffix, n) == 0;
}

/* The name without .gz. */
static size_t bare_length(const char *path) {
    size_t length = strlen(path);
    return ends_in(path, length, ".gz") ? length - 3 : length;
}

static enum file_format format_of_path(const char *path) {
    size_t length = bare_length(path);
    if (ends_in(path, length, ".csv")) return FORMAT_CSV;
    if (ends_in(path, length, ".json")) return FORMAT_JSON;
    if (ends_in(path, length, ".jsonl") || ends_in(path, length, ".ndjson")) return FORMAT_JSONL;
    return FORMAT_AUTO;
}

static bool read_data_file(struct dataset_builder *b, const char *path, enum file_format format,
                           const char *part, const struct dataset_options *options,
                           struct error *err) {
    if (format == FORMAT_AUTO) format = format_of_path(path);
    switch (format) {
    case FORMAT_CSV:
        return dataset_csv_read(b, path, part, options, err);
    case FORMAT_JSON:
    case FORMAT_JSONL:
        return dataset_json_read(b, path, format == FORMAT_JSONL, part, options, err);
    case FORMAT_AUTO:
        break;
    }
    return error_set(err,
                     "%s: the name does not say what it is: must end in .csv, .json or .jsonl, "
                     "each also with .gz",
                     path);
}

/* ---- kind "samples" ---- */

static bool declare_parts(struct dataset_loading *l) {
    struct dataset *dataset = l->builder->dataset;
    if (l->d->parts == NULL) return true;
    if (!cJSON_IsArray(l->d->parts))
        return json_error(l->json, l->d->parts, l->err, NULL, "\"parts\" must be a list");
    const cJSON *node;
    cJSON_ArrayForEach(node, l->d->parts) {
        struct part_entry entry;
        if (!field_table_read(&dataset_part_fields, l->json, node, &entry, dataset->arena, l->err))
            return false;
        int64_t before = dataset->part_count;
        int64_t part = dataset_builder_part(l->builder, entry.name, strlen(entry.name));
        if (part < before)
            return json_error(l->json, node, l->err, NULL, "part \"%.60s\" is listed twice",
                              entry.name);
        dataset->parts[part].status = status_names[entry.status];
    }
    l->builder->declared_part_count = dataset->part_count;
    return true;
}

static int64_t declared_part(const struct dataset_loading *l, const cJSON *name) {
    for (int64_t i = 0; cJSON_IsString(name) && i < l->builder->declared_part_count; i++)
        if (strcmp(l->builder->dataset->parts[i].name, name->valuestring) == 0) return i;
    return -1;
}

/* By declared part; parts that a file names anew are not among them. */
static bool choose_parts(struct dataset_loading *l, const cJSON *list) {
    l->builder->kept_parts = NULL;
    if (list == NULL || cJSON_IsNull(list)) return true;
    if (!cJSON_IsArray(list))
        return json_error(l->json, list, l->err, NULL, "\"parts\" must be a list of names");
    bool *kept = arena_array(l->builder->dataset->arena, bool, DATASET_MAX_PARTS + 1);
    const cJSON *name;
    cJSON_ArrayForEach(name, list) {
        int64_t part = declared_part(l, name);
        if (part < 0)
            return json_error(l->json, name, l->err, "list it in \"parts\" of the description",
                              "must be the name of a part");
        kept[part] = true;
    }
    l->builder->kept_parts = kept;
    l->chose_parts = true;
    return true;
}

/* key, node: where the description names it. */
static bool read_one_file(struct dataset_loading *l, const struct file_entry *entry,
                          const char *file, const cJSON *node, const char *key) {
    struct dataset *dataset = l->builder->dataset;
    const char *path =
        file[0] == '/' ? file : arena_format(dataset->arena, "%s/%s", l->directory, file);
    const char *part = entry->part != NULL ? entry->part : l->d->name;
    enum file_format format =
        (enum file_format)(entry->format != FORMAT_AUTO ? entry->format : l->d->format);
    if (access(path, F_OK) != 0)
        return json_error(l->json, cJSON_GetObjectItemCaseSensitive(node, key), l->err,
                          "a path from this file's folder", "cannot read %s: %s", path,
                          strerror(errno));
    return read_data_file(l->builder, path, format, part, l->options, l->err);
}

/* node: of the entry. */
static bool read_listed_file(struct dataset_loading *l, const struct file_entry *entry,
                             const cJSON *node) {
    if (!choose_parts(l, entry->parts)) return false;
    if (entry->overlay == NULL) return read_one_file(l, entry, entry->file, node, "file");
    dataset_builder_overlay(l->builder);
    if (!read_one_file(l, entry, entry->overlay, node, "overlay")) return false;
    dataset_builder_under_overlay(l->builder);
    if (!read_one_file(l, entry, entry->file, node, "file")) return false;
    int64_t part = 0;
    const int64_t left = dataset_builder_overlay_end(l->builder, &part);
    return left == 0 ||
           json_error(l->json, cJSON_GetObjectItemCaseSensitive(node, "overlay"), l->err,
                      "it needs one row for each row of the parts that it holds",
                      "%lld rows of the overlay stand for none of %.60s, the first of part "
                      "\"%.60s\"",
                      (long long)left, entry->file, l->builder->dataset->parts[part].name);
}

static bool read_files(struct dataset_loading *l) {
    const struct dataset_description *d = l->d;
    if ((d->file != NULL) == (d->files != NULL))
        return json_error(l->json, l->node, l->err, NULL,
                          "a data set of samples needs either \"file\" or \"files\"");
    if (d->file != NULL) {
        struct file_entry entry = { .file = d->file };
        return read_listed_file(l, &entry, l->node);
    }
    if (!cJSON_IsArray(d->files) || d->files->child == NULL)
        return json_error(l->json, d->files, l->err, NULL, "\"files\" must be a list of files");
    const cJSON *node;
    cJSON_ArrayForEach(node, d->files) {
        struct file_entry entry;
        if (!field_table_read(&dataset_file_fields, l->json, node, &entry,
                              l->builder->dataset->arena, l->err) ||
            !read_listed_file(l, &entry, node))
            return false;
    }
    return true;
}

/* Keys of the other kinds. */
static bool refuse_other_keys(const struct dataset_loading *l) {
    static const struct {
        const char *key, *kind;
    } keys[] = {
        { "seed", "distribution" },        { "vision_tiles", "distribution" },
        { "text_tokens", "distribution" }, { "language_tokens", "distribution" },
        { "clip_ms", "distribution" },     { "frame_sizes", "distribution" },
        { "correlation", "distribution" }, { "bounds", "bounds" },
        { "samples_per_bound", "bounds" }, { "components", "mixture" },
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const cJSON *node = dataset_key(l, keys[i].key);
        if (node == NULL) continue;
        char hint[96];
        snprintf(hint, sizeof hint, "set \"kind\" to \"%s\" to %s samples", keys[i].kind,
                 strcmp(keys[i].kind, "mixture") == 0 ? "mix" : "draw");
        return json_error(l->json, node, l->err, hint,
                          "\"%s\" has no meaning for a data set of samples", keys[i].key);
    }
    return true;
}

/* Parts that no file was asked for leave the list. */
static void drop_unchosen_parts(struct dataset *d) {
    int32_t *renumbered = memory_alloc(sizeof *renumbered * (size_t)(d->part_count + 1));
    int64_t count = 0;
    for (int64_t i = 0; i < d->part_count; i++) {
        renumbered[i] = (int32_t)count;
        if (d->parts[i].sample_count > 0) d->parts[count++] = d->parts[i];
    }
    d->part_count = count;
    for (int64_t i = 0; i < d->sample_count; i++)
        d->samples[i].part = (uint16_t)renumbered[d->samples[i].part];
    free(renumbered);
}

static bool load_samples(struct dataset_loading *l) {
    struct dataset *dataset = l->builder->dataset;
    if (!refuse_other_keys(l) || !declare_parts(l) || !read_files(l)) return false;
    if (l->chose_parts) drop_unchosen_parts(dataset);
    if (l->d->sample_count < 0 || l->d->sample_count == dataset->sample_count) return true;
    return json_error(l->json, dataset_key(l, "sample_count"), l->err,
                      "the data file is not the one that the description was written for",
                      "the files hold %lld sample%s", (long long)dataset->sample_count,
                      dataset->sample_count == 1 ? "" : "s");
}

/* ---- a whole description ---- */

static void take_texts(struct dataset *dataset, const struct dataset_description *d) {
    dataset->name = d->name;
    dataset->description = d->description;
    dataset->provenance = d->provenance != NULL ? d->provenance : "";
    dataset->licence = d->licence != NULL ? d->licence : "";
    dataset->tokenizer = d->tokenizer;
}

/* One word for parts that may differ: theirs if it is one and the same. */
static const char *mixed_status(const struct dataset *dataset) {
    const char *word = dataset->parts[0].status;
    for (int64_t i = 1; i < dataset->part_count; i++)
        if (strcmp(dataset->parts[i].status, word) != 0) return "reconstructed";
    return word;
}

/* The description's status holds for parts that have none of their own; one reconstructed part
 * makes the whole reconstructed. */
static void settle_statuses(struct dataset_loading *l) {
    struct dataset *dataset = l->builder->dataset;
    /* What is drawn is synthetic, unless it stands for a data set that exists. */
    const char *own = status_names[l->d->status];
    const bool drawn = l->d->kind == KIND_DISTRIBUTION || l->d->kind == KIND_BOUNDS;
    if (drawn && strcmp(own, "reconstructed") != 0) own = "synthetic";
    if (l->d->kind == KIND_MIXTURE) own = mixed_status(dataset);
    bool firm = strcmp(own, "real") == 0 || strcmp(own, "unstated") == 0;
    if (l->builder->estimated_samples > 0 && firm) own = "estimated";
    dataset->status = own;
    for (int64_t i = 0; i < dataset->part_count; i++) {
        struct dataset_part *part = &dataset->parts[i];
        if (part->status == NULL) part->status = own;
        if (strcmp(part->status, "reconstructed") == 0) dataset->status = "reconstructed";
    }
}

struct dataset *dataset_from_json(const struct json *json, const cJSON *description,
                                  const char *directory, const struct dataset_options *options,
                                  struct error *err) {
    struct dataset_builder *builder = dataset_builder_create(options, err);
    if (builder == NULL) return NULL;
    struct dataset_description d;
    struct dataset_loading l = { &d, json, description, directory, options, builder, err, false };
    bool ok =
        field_table_read(&dataset_fields, json, description, &d, builder->dataset->arena, err);
    if (ok) {
        take_texts(builder->dataset, &d);
        if (d.tile_language_tokens >= 0)
            dataset_builder_tile_tokens(builder, d.tile_language_tokens);
        if (d.clip_limit_ms > 0) builder->clip_limit_ms = d.clip_limit_ms;
        dataset_builder_source(builder, json_name(json));
        ok = d.kind == KIND_SAMPLES   ? load_samples(&l)
             : d.kind == KIND_MIXTURE ? dataset_mix(&l)
                                      : dataset_draw(&l);
    }
    if (!ok) {
        dataset_builder_destroy(builder);
        return NULL;
    }
    settle_statuses(&l);
    return dataset_builder_finish(builder);
}

/* ---- names and paths ---- */

static struct dataset *load_description(const char *path, const struct dataset_options *options,
                                        struct error *err) {
    struct json *json = json_load(path, err);
    if (json == NULL) return NULL;
    if (cJSON_HasObjectItem(json_root(json), "model") &&
        cJSON_HasObjectItem(json_root(json), "cluster")) {
        error_set(err, "%s is a scenario, not a data set", path);
        error_hint(err, "name the file or the set of its \"dataset\"");
        json_destroy(json);
        return NULL;
    }
    const char *slash = strrchr(path, '/');
    struct arena *arena = arena_create();
    const char *directory =
        slash == NULL ? "." : arena_format(arena, "%.*s", (int)(slash - path), path);
    struct dataset *d = dataset_from_json(json, json_root(json), directory, options, err);
    arena_destroy(arena);
    json_destroy(json);
    return d;
}

struct first_elements {
    int64_t count;
    bool record; /* the first one is a sample, not a description of samples */
};

static bool look_at_element(void *context, const char *text, size_t length, long line, long column,
                            struct error *err) {
    (void)line, (void)column, (void)err;
    static const char *const record_keys[] = { "conversations", "messages", "token_num",
                                               "llm_tokens", "vit_num" };
    struct first_elements *first = context;
    if (first->count++ > 0) return true;
    cJSON *node = cJSON_ParseWithLength(text, length);
    for (size_t i = 0; i < sizeof record_keys / sizeof record_keys[0]; i++)
        first->record =
            first->record || cJSON_GetObjectItemCaseSensitive(node, record_keys[i]) != NULL;
    cJSON_Delete(node);
    return true;
}

/* A description is one object. A .json file of records is a list, or objects one after the other,
 * or one object with what only a record has. */
static bool holds_description(const char *path) {
    struct text_source source;
    if (!text_source_open(&source, path, NULL, NULL, NULL)) return false;
    struct json_splitter splitter;
    struct first_elements first = { 0 };
    json_splitter_init(&splitter, path, JSON_SPLITTER_AUTO, look_at_element, &first);
    bool text = true, any = false;
    while (text && first.count < 2 && splitter.mode != JSON_SPLITTER_LIST &&
           text_source_fill(&source)) {
        if (!any && source.end >= 3 && memcmp(source.window, "\xEF\xBB\xBF", 3) == 0)
            source.begin += 3;
        any = true;
        text = json_splitter_feed(&splitter, source.window + source.begin,
                                  source.end - source.begin, NULL);
        source.begin = source.end;
    }
    bool description =
        any && text && splitter.mode == JSON_SPLITTER_LINES && first.count < 2 && !first.record;
    json_splitter_free(&splitter);
    text_source_close(&source);
    return description;
}

static struct dataset *load_data_file(const char *path, const struct dataset_options *options,
                                      struct error *err) {
    struct dataset_builder *builder = dataset_builder_create(options, err);
    if (builder == NULL) return NULL;
    struct dataset *d = builder->dataset;
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    d->name = arena_format(d->arena, "%.*s", (int)strcspn(name, "."), name);
    d->description = "";
    d->provenance = arena_text(d->arena, path);
    d->licence = "";
    if (!read_data_file(builder, path, FORMAT_AUTO, d->name, options, err)) {
        dataset_builder_destroy(builder);
        return NULL;
    }
    return dataset_builder_finish(builder);
}

static struct dataset *load_path(const char *path, const struct dataset_options *options,
                                 struct error *err) {
    return format_of_path(path) == FORMAT_JSON && holds_description(path)
               ? load_description(path, options, err)
               : load_data_file(path, options, err);
}

static void unknown_name(const char *directory, const char *name, struct error *err) {
    error_set(err, "no data set \"%s\" in %s", name, directory);
    hint_of_files(err, directory, name);
}

struct dataset *dataset_load_with(const char *search_directory, const char *name,
                                  const struct dataset_options *options, struct error *err) {
    if (strchr(name, '/') != NULL || format_of_path(name) != FORMAT_AUTO)
        return load_path(name, options, err);
    struct arena *arena = arena_create();
    const char *directory = arena_format(arena, "%s/datasets", search_directory);
    const char *path = arena_format(arena, "%s/%s.json", directory, name);
    struct dataset *d = NULL;
    if (access(path, F_OK) == 0)
        d = load_description(path, options, err);
    else
        unknown_name(directory, name, err);
    arena_destroy(arena);
    return d;
}

struct dataset *dataset_load(const char *search_directory, const char *name,
                             const struct tiling *tiling, struct error *err) {
    struct dataset_options options = { .tiling = tiling };
    return dataset_load_with(search_directory, name, &options, err);
}

/* ---- writing a description ---- */

const char *dataset_description_path(struct arena *arena, const char *csv_path) {
    size_t length = bare_length(csv_path);
    if (ends_in(csv_path, length, ".csv")) length -= 4;
    return arena_format(arena, "%.*s.json", (int)length, csv_path);
}

static bool may_replace(const struct dataset *d, const char *path, struct error *err) {
    if (!output_source_allowed(d, path, err)) return false;
    if (access(path, F_OK) != 0 || holds_description(path)) return true;
    error_set(err, "cannot write the description %s: the file exists and is something else", path);
    return error_hint(err, "choose another name for the output");
}

bool dataset_check_description(const struct dataset *dataset, const char *csv_path,
                               struct error *err) {
    struct arena *arena = arena_create();
    bool ok = may_replace(dataset, dataset_description_path(arena, csv_path), err);
    arena_destroy(arena);
    return ok;
}

static void add_known(cJSON *object, const char *key, const char *text) {
    if (text != NULL && text[0] != '\0') cJSON_AddStringToObject(object, key, text);
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static cJSON *description_of(const struct dataset *d, const char *csv_path) {
    cJSON *object = cJSON_CreateObject();
    const char *file = file_name(csv_path);
    char *name = strndup(file, strcspn(file, "."));
    cJSON_AddStringToObject(object, "name", name);
    free(name);
    add_known(object, "description", d->description);
    cJSON_AddStringToObject(object, "kind", "samples");
    cJSON_AddStringToObject(object, "file", file);
    cJSON_AddStringToObject(object, "status", d->status);
    struct arena *arena = arena_create();
    /* The description first, when there is one: it names the rest. */
    const char *from = d->source_count > 0 ? d->sources[0] : d->name;
    cJSON_AddStringToObject(object, "provenance", arena_format(arena, "imported from %s", from));
    arena_destroy(arena);
    add_known(object, "licence", d->licence);
    add_known(object, "tokenizer", d->tokenizer);
    if (d->tile_language_tokens_known)
        cJSON_AddNumberToObject(object, "tile_language_tokens", (double)d->tile_language_tokens);
    cJSON_AddNumberToObject(object, "sample_count", (double)d->sample_count);
    cJSON *parts = cJSON_AddArrayToObject(object, "parts");
    for (int64_t i = 0; i < d->part_count; i++) {
        cJSON *part = cJSON_CreateObject();
        cJSON_AddStringToObject(part, "name", d->parts[i].name);
        cJSON_AddStringToObject(part, "status", d->parts[i].status);
        cJSON_AddItemToArray(parts, part);
    }
    return object;
}

bool dataset_write_description(const struct dataset *dataset, const char *csv_path,
                               struct error *err) {
    struct arena *arena = arena_create();
    const char *path = dataset_description_path(arena, csv_path);
    bool ok = may_replace(dataset, path, err);
    if (ok) {
        cJSON *object = description_of(dataset, csv_path);
        char *text = cJSON_Print(object);
        struct output_draft draft;
        ok = output_draft_open(&draft, path) &&
             dprintf(draft.descriptor, "%s\n", text) == (int)strlen(text) + 1;
        ok = output_draft_close(&draft, ok);
        if (!ok) error_output(err, path);
        cJSON_free(text);
        cJSON_Delete(object);
    }
    arena_destroy(arena);
    return ok;
}
