/* dataset_mixture.c - samples of other data sets, drawn by weight.
 *
 * For each sample GSL's mt19937 chooses a component with probability weight / sum of weights. A
 * component gives its samples in a random order, and in a new one each time it has given all. Each
 * component is a part (or, if it has several, its parts are), with its own status.
 */
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "sim/base/file_place.h"
#include "sim/data/dataset_description.h"

enum { COMPONENT_LIMIT = 64 };

struct component_entry {
    const char *dataset;
    double weight;
};

#define AT(member) offsetof(struct component_entry, member)
static const struct field component_fields[] = {
    { "dataset", FIELD_TEXT, AT(dataset), 0, 0, NULL, "",
      "a description beside this one, by its name, or a path", NULL },
    { "weight", FIELD_DOUBLE, AT(weight), 0, 1e12, "1", "", "share of the samples, relative",
      NULL },
};
#undef AT
const struct field_table dataset_component_fields =
    FIELD_TABLE("components", "a data set that is mixed in", component_fields);

struct component {
    struct dataset *dataset; /* owned */
    double cumulative;       /* of the weights so far, 1 at the last */
    uint32_t *order;         /* owned */
    int64_t next;
    int64_t *part_of; /* by its own part: that of the mixture; owned */
};

static void destroy(struct component *components, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        dataset_destroy(components[i].dataset);
        free(components[i].order);
        free(components[i].part_of);
    }
}

/* A description that is being read, and the one that it is a component of. */
struct dataset_mixture {
    struct stat file;
    const struct dataset_mixture *within;
};

static bool is_within(const struct dataset_mixture *mixture, const char *file) {
    struct stat status;
    if (stat(file, &status) != 0) return false;
    for (; mixture != NULL; mixture = mixture->within)
        if (mixture->file.st_dev == status.st_dev && mixture->file.st_ino == status.st_ino)
            return true;
    return false;
}

static struct dataset *load(const struct dataset_loading *l, const cJSON *node, const char *name) {
    struct dataset_options options = { 0 };
    struct dataset_mixture own = { .within = l->options != NULL ? l->options->within : NULL };
    if (l->options != NULL) options = *l->options;
    if (stat(json_name(l->json), &own.file) == 0) options.within = &own;
    options.progress = NULL;
    options.keep_images = false;
    struct arena *arena = l->builder->dataset->arena;
    const bool path = file_is_path(name);
    const char *file = path ? name : arena_format(arena, "%s/%s.json", l->directory, name);
    if (path && name[0] != '/') file = arena_format(arena, "%s/%s", l->directory, name);
    const cJSON *place = cJSON_GetObjectItemCaseSensitive(node, "dataset");
    if (is_within(options.within, file)) {
        json_error(l->json, place, l->err, "a mixture is of other data sets",
                   "\"%s\" is a data set that holds this one, or this one itself", name);
        return NULL;
    }
    if (access(file, F_OK) != 0) {
        json_error(l->json, place, l->err,
                   path ? "a path from this file's folder" : "a name beside this file",
                   "there is no %s", file);
        return NULL;
    }
    struct dataset *dataset = dataset_load_with(".", file, &options, l->err);
    if (dataset == NULL) {
        error_context(l->err, "while loading component \"%s\" of data set \"%s\"", name,
                      l->d->name);
        return NULL;
    }
    for (int64_t i = 0; i < dataset->part_count; i++) {
        if (dataset->parts[i].dummy_tiles == 0) continue;
        json_error(l->json, node, l->err, "name the data set itself as the scenario's",
                   "\"%s\" has text-only samples with a dummy tile, which a mixture cannot keep "
                   "apart",
                   name);
        dataset_destroy(dataset);
        return NULL;
    }
    return dataset;
}

static bool add_parts(struct dataset_loading *l, struct component *c) {
    struct dataset *into = l->builder->dataset;
    const struct dataset *from = c->dataset;
    c->part_of = memory_alloc(sizeof *c->part_of * (size_t)from->part_count);
    for (int64_t p = 0; p < from->part_count; p++) {
        const char *name = from->part_count == 1 ? from->name
                                                 : arena_format(into->arena, "%s/%s", from->name,
                                                                from->parts[p].name);
        int64_t before = into->part_count;
        c->part_of[p] = dataset_builder_part(l->builder, name, strlen(name));
        if (c->part_of[p] < before)
            return json_error(l->json, l->d->components, l->err, NULL,
                              "component \"%.60s\" stands there twice", from->name);
        into->parts[c->part_of[p]].status = arena_text(into->arena, from->parts[p].status);
    }
    return true;
}

/* Counted by one rule, or the sums would mean nothing. */
static bool same_tiles(struct dataset_loading *l, const cJSON *node, const struct component *first,
                       const struct component *c) {
    if (c->dataset->tile_language_tokens == first->dataset->tile_language_tokens) return true;
    return json_error(l->json, node, l->err, NULL,
                      "\"%s\" counts %lld language tokens for a tile, \"%s\" %lld",
                      c->dataset->name, (long long)c->dataset->tile_language_tokens,
                      first->dataset->name, (long long)first->dataset->tile_language_tokens);
}

static bool read_component(struct dataset_loading *l, const cJSON *node,
                           struct component *components, int64_t index) {
    struct component_entry entry;
    struct component *c = &components[index];
    struct dataset *into = l->builder->dataset;
    if (!field_table_read(&dataset_component_fields, l->json, node, &entry, into->arena, l->err))
        return false;
    c->dataset = load(l, node, entry.dataset);
    if (c->dataset == NULL || !add_parts(l, c) || !same_tiles(l, node, components, c)) return false;
    c->cumulative = entry.weight + (index > 0 ? components[index - 1].cumulative : 0);
    c->order = memory_alloc(sizeof *c->order * (size_t)c->dataset->sample_count);
    for (int64_t i = 0; i < c->dataset->sample_count; i++)
        c->order[i] = (uint32_t)i;
    c->next = c->dataset->sample_count;
    for (int64_t i = 0; i < c->dataset->note_count; i++)
        dataset_builder_note(l->builder, "%s: %s", c->dataset->name, c->dataset->notes[i]);
    for (int64_t i = 0; i < c->dataset->source_count; i++)
        dataset_builder_source(l->builder, c->dataset->sources[i]);
    into->tile_language_tokens = c->dataset->tile_language_tokens;
    into->tile_language_tokens_known =
        into->tile_language_tokens_known || c->dataset->tile_language_tokens_known;
    return true;
}

static void draw(struct dataset_loading *l, struct component *components, int64_t count) {
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
    gsl_rng_set(rng, (unsigned long)l->d->seed);
    for (int64_t i = 0; i < l->d->sample_count; i++) {
        double at = gsl_rng_uniform(rng) * components[count - 1].cumulative;
        struct component *c = components;
        while (c < components + count - 1 && at >= c->cumulative)
            c++;
        if (c->next == c->dataset->sample_count) {
            gsl_ran_shuffle(rng, c->order, (size_t)c->dataset->sample_count, sizeof *c->order);
            c->next = 0;
        }
        uint32_t sample = c->order[c->next++];
        dataset_builder_copy(l->builder, c->dataset, sample,
                             c->part_of[c->dataset->samples[sample].part]);
    }
    gsl_rng_free(rng);
}

static bool check_keys(const struct dataset_loading *l) {
    const char *const foreign[] = { "file",          "files",           "parts",
                                    "bounds",        "vision_tiles",    "text_tokens",
                                    "clip_ms",       "language_tokens", "correlation",
                                    "clip_limit_ms", "frame_sizes" };
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (dataset_key(l, foreign[i]) != NULL)
            return json_error(l->json, dataset_key(l, foreign[i]), l->err, NULL,
                              "\"%s\" has no meaning for a mixture of data sets", foreign[i]);
    if (l->d->sample_count < 0)
        return json_error(l->json, l->node, l->err, "how many samples to draw",
                          "\"sample_count\" is missing from \"dataset\"");
    const cJSON *list = l->d->components;
    int size = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (size >= 1 && size <= COMPONENT_LIMIT) return true;
    return json_error(l->json, list != NULL ? list : l->node, l->err,
                      "for example [{\"dataset\": \"obelics\", \"weight\": 2}]",
                      "a mixture needs \"components\", a list of 1 to %d data sets",
                      COMPONENT_LIMIT);
}

bool dataset_mix(struct dataset_loading *l) {
    if (!check_keys(l)) return false;
    struct component components[COMPONENT_LIMIT] = { 0 };
    int64_t count = 0;
    bool ok = true;
    for (const cJSON *node = l->d->components->child; ok && node != NULL; node = node->next)
        ok = read_component(l, node, components, count++);
    if (ok && !(components[count - 1].cumulative > 0))
        ok = json_error(l->json, l->d->components, l->err, NULL, "all weights are 0");
    if (ok) draw(l, components, count);
    /* A component that was never drawn is no part of the data. */
    for (int64_t p = 0; ok && p < l->builder->dataset->part_count; p++)
        if (l->builder->dataset->parts[p].sample_count == 0)
            ok = json_error(l->json, l->d->components, l->err, "a larger sample_count or weight",
                            "no sample of \"%s\" was drawn", l->builder->dataset->parts[p].name);
    destroy(components, count);
    return ok;
}
