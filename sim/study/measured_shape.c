/* measured_shape.c - the shape of a measured model where its row leaves cells empty.
 *
 * In this order, each step only for cells that are still empty:
 *   1. a model of scenarios/models whose name the row's model holds ("Paxml GPT5B" holds gpt-5b):
 *      its public shape;
 *   2. ffn_hidden: 8/3 of hidden, rounded up to 256, if gated (LLaMA's rule), else 4 hidden;
 *   3. layers: the size that the name states ("GPT-191B"), less the vocabulary's share, over a
 *      block's parameters, to the nearest multiple of pp;
 *   4. heads: hidden / head_dim, else those of the last row before it of the same source and width,
 *      else the count whose head_dim is nearest to 128 and that tp divides;
 *   5. vocabulary: 51,200, GPT-2's 50,257 padded as Megatron does, for models of the GPT family;
 *   6. norms of queries and keys: as the families that have them.
 */
#include "sim/study/measured_scenario.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/model/model.h"

static const char *letters_and_digits(struct arena *arena, const char *name) {
    char *out = arena_text(arena, name);
    size_t n = 0;
    for (const char *c = name; *c != '\0'; c++)
        if (isalnum((unsigned char)*c)) out[n++] = (char)tolower((unsigned char)*c);
    out[n] = '\0';
    return out;
}

/* The shipped model with the longest name that the row's model holds; of equal ones the first by
 * name. NULL: none. */
static const char *shipped_model(const struct measured_context *context, const char *model) {
    const char *wanted = letters_and_digits(context->arena, model), *best = NULL;
    size_t best_length = 0;
    DIR *directory = opendir(arena_format(context->arena, "%s/models", context->directory));
    struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        const size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".json") != 0) continue;
        const char *name = arena_format(context->arena, "%.*s", (int)(length - 5), entry->d_name);
        const char *plain = letters_and_digits(context->arena, name);
        const size_t plain_length = strlen(plain);
        if (strstr(wanted, plain) == NULL || plain_length < best_length ||
            (plain_length == best_length && strcmp(name, best) > 0))
            continue;
        best = name;
        best_length = plain_length;
    }
    if (directory != NULL) closedir(directory);
    return best;
}

static void fill(int64_t *cell, int64_t value) {
    if (*cell < 1) *cell = value;
}

static bool fill_from_model(const struct measured_context *context, struct measured_run *run,
                            const char *name) {
    struct error ignored = { 0 };
    const struct model *model = model_load(context->arena, context->directory, name, &ignored);
    if (model == NULL || model->modules[MODULE_LANGUAGE].layer_count == 0) return false;
    const struct module *m = &model->modules[MODULE_LANGUAGE];
    fill(&run->layers, m->layer_count);
    fill(&run->hidden, m->hidden);
    fill(&run->ffn_hidden, m->ffn_hidden);
    fill(&run->heads, m->heads);
    fill(&run->kv_heads, m->kv_heads);
    fill(&run->head_dim, m->head_dim);
    fill(&run->vocab, m->vocabulary);
    if (run->ffn[0] == '\0') run->ffn = ffn_kind_name(m->ffn);
    return true;
}

/* "GPT-191B": 191e9; 0: no size in the name. */
static double size_in_name(const char *name) {
    for (const char *c = name; *c != '\0'; c++) {
        if (!isdigit((unsigned char)*c)) continue;
        char *end;
        const double number = strtod(c, &end);
        if ((*end == 'B' || *end == 'b') && !isalnum((unsigned char)end[1])) return number * 1e9;
        if (end > c) c = end - 1;
    }
    return 0;
}

static bool gated(const struct measured_run *run) {
    return strncmp(run->ffn, "gelu", 4) != 0 && strcmp(run->ffn, "relu2") != 0;
}

static int64_t layers_of_size(const struct measured_run *run) {
    const double size = size_in_name(run->model);
    if (size <= 0 || run->vocab < 1) return -1;
    const double h = (double)run->hidden, f = (double)run->ffn_hidden;
    const double block = 4 * h * h + (gated(run) ? 3 : 2) * h * f;
    const int64_t pp = run->pp > 0 ? run->pp : 1;
    const double stages = (size - h * (double)run->vocab) / block / (double)pp;
    return stages > 0.5 && stages * (double)pp < 1e7 ? llround(stages) * pp : -1;
}

/* The last row before it of the same source and width whose heads are known; NULL: none. */
static const struct measured_run *sibling_of(const struct measured_context *context,
                                             const struct measured_run *run) {
    const struct measured_run *found = NULL;
    for (int64_t i = 0; context->runs != NULL && i < context->runs->count; i++) {
        const struct measured_run *other = &context->runs->rows[i];
        if (strcmp(other->row_id, run->row_id) == 0) break;
        if (strcmp(other->source, run->source) == 0 && other->hidden == run->hidden &&
            other->heads > 0)
            found = other;
    }
    return found;
}

static int64_t heads_of_width(const struct measured_run *run) {
    if (run->head_dim > 0) return run->hidden / run->head_dim;
    const int64_t tp = run->tp > 0 ? run->tp : 1;
    int64_t best = -1;
    for (int64_t heads = tp; heads <= run->hidden / 32; heads += tp)
        if (run->hidden % heads == 0 &&
            (best < 0 || llabs(run->hidden / heads - 128) < llabs(run->hidden / best - 128)))
            best = heads;
    return best;
}

/* Public families whose models normalise queries and keys (modeling files of Transformers). A model
 * "like" one of them has its shape, and its row says what else. */
static const char *family_qk_norm(const struct measured_context *context, const char *model) {
    static const struct {
        const char *begins, *qk_norm;
    } families[] = {
        { "qwen3", "head" },
        { "gemma3", "head" },
        { "olmo2", "all-heads" },
    };
    const char *name = letters_and_digits(context->arena, model);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strncmp(name, families[i].begins, strlen(families[i].begins)) == 0 &&
            strstr(name, "like") == NULL)
            return families[i].qk_norm;
    return "";
}

static void note(const char **notes, int64_t *count, const char *text) {
    if (*count < MEASURED_NOTE_LIMIT) notes[(*count)++] = text;
}

const char *measured_shape_complete(const struct measured_context *context,
                                    struct measured_run *run, const char **notes,
                                    int64_t *note_count) {
    struct arena *arena = context->arena;
    if (run->layers < 1 || run->hidden < 1 || run->heads < 1 || run->vocab < 1) {
        const char *name = shipped_model(context, run->model);
        if (name != NULL && fill_from_model(context, run, name))
            note(notes, note_count,
                 arena_format(arena, "shape of the public model %s where the row has none", name));
    }
    if (run->hidden < 1) return "hidden";
    if (run->ffn_hidden < 1) {
        run->ffn_hidden = gated(run) ? (run->hidden * 8 / 3 + 255) / 256 * 256 : 4 * run->hidden;
        note(notes, note_count,
             arena_format(arena, "ffn_hidden %ld by the usual rule", (long)run->ffn_hidden));
    }
    if (run->layers < 1) {
        run->layers = layers_of_size(run);
        if (run->layers < 1) return "layers";
        note(
            notes, note_count,
            arena_format(arena, "%ld layers from the size in the model's name", (long)run->layers));
    }
    if (run->heads < 1) {
        const struct measured_run *sibling = sibling_of(context, run);
        run->heads = sibling != NULL ? sibling->heads : heads_of_width(run);
        if (run->heads < 1) return "heads";
        note(notes, note_count,
             sibling != NULL
                 ? arena_format(arena, "%ld heads, as %s", (long)run->heads, sibling->row_id)
                 : arena_format(arena, "%ld heads, for a head size near 128", (long)run->heads));
    }
    if (run->vocab < 1) {
        if (gated(run)) return "vocab";
        run->vocab = 51200;
        note(notes, note_count, "vocabulary of 51,200, GPT-2's with padding");
    }
    if (run->qk_norm[0] == '\0') {
        run->qk_norm = family_qk_norm(context, run->model);
        if (run->qk_norm[0] != '\0')
            note(notes, note_count, "norms of queries and keys, as the public models of its name");
    }
    return run->seq_len > 0 ? NULL : "seq_len";
}
