/* measured_shape.c - the shape of a measured model where its row leaves cells empty.
 *
 * In this order, each step only for cells that are still empty:
 *   1. a model of scenarios/models, or of the list public_shapes.csv there, whose name the row's
 *      model holds ("Paxml GPT5B" holds gpt-5b), unless what the row does say differs: its shape;
 *      the list's column `compared` says when and with what a line was compared, what differs;
 *      the encoder of a vision-language model of scenarios/models likewise;
 *   2. ffn_hidden: 8/3 of hidden, rounded up to 256, if gated (LLaMA's rule), else 4 hidden;
 *   3. vocabulary: 1,000 classes for an encoder called ViT or DeiT; 51,200, GPT-2's 50,257 padded
 *      as Megatron does, for models of the GPT family, else LLaMA's 32,000;
 *   4. layers: the size that the name states ("GPT-191B"), less the vocabulary's share, over a
 *      block's parameters, to the nearest multiple of pp;
 *   5. heads: hidden / head_dim, else those of the last row before it of the same source and width,
 *      else the count whose head_dim is nearest to 128 and that tp divides;
 *   6. norms of queries and keys: as the families that have them.
 *
 * A diffusion transformer's public shapes are those of diffusion_shapes.csv, its activation is
 * GELU, it has no vocabulary, and no name tells its layers. Of one that is known by its name to
 * hold weights for the text, list or row must say in how many blocks.
 */
#include "sim/study/measured/measured_row.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/base/csv.h"
#include "sim/base/folder_names.h"
#include "sim/model/model.h"
#include "sim/study/measured/measured_clause.h"
#include "sim/study/measured/measured_said.h"
#include "sim/study/measured/measured_words.h"

/* "Llama 3.1 8B" is llama3.18b: points between digits stay, since 1.3B is not 13B. */
static const char *plain_name(struct arena *arena, const char *name) {
    char *out = arena_text(arena, name);
    size_t n = 0;
    for (const char *c = name; *c != '\0'; c++) {
        const bool point = *c == '.' && n > 0 && isdigit((unsigned char)out[n - 1]) &&
                           isdigit((unsigned char)c[1]);
        const bool version = tolower((unsigned char)*c) == 'v' && isdigit((unsigned char)c[1]) &&
                             c > name && !isalnum((unsigned char)c[-1]);
        if (version) continue; /* "llava-v1.5-7b" is llava-1.5-7b */
        if (point || isalnum((unsigned char)*c)) out[n++] = (char)tolower((unsigned char)*c);
    }
    out[n] = '\0';
    return out;
}

static void fill(int64_t *cell, int64_t value) {
    if (*cell < 1) *cell = value;
}

/* The shape of a public model, as far as the row needs it. */
struct shape {
    const char *name, *ffn;
    const char *norm,
        *position; /* "layer", "rms"; "rotary", "learned", "alibi", "none"; "": not said */
    int64_t layers, hidden, ffn_hidden, heads, kv_heads, head_dim;
    int64_t vocab, text_len;      /* -1: a list without it */
    int64_t tied;                 /* whether embedding and head share a table; -1: not said */
    int64_t double_stream_blocks; /* -1: text by cross attention */
};

/* Where plain `at` begins in `model`, which plain `whole` is of: behind a letter or not. */
static bool stands_behind_letter(const char *model, const char *whole, const char *at) {
    size_t n = (size_t)(at - whole);
    const char *c = model;
    for (; *c != '\0'; c++) {
        const bool kept = tolower((unsigned char)*c) == *whole;
        if (!kept) continue;
        if (n-- == 0) break;
        whole++;
    }
    return c > model && isalpha((unsigned char)c[-1]);
}

/* "lm-7b" is not in "StableLM-7B" nor "olmo" in "Molmo"; "llama-7b" is in "OpenLLaMA-7B". */
static bool holds_name(const char *model, const char *wanted, const char *name, const char *plain) {
    enum { LONG_FAMILY = 5 };
    const size_t letters = strspn(name, "abcdefghijklmnopqrstuvwxyz");
    for (const char *at = strstr(wanted, plain); at != NULL; at = strstr(at + 1, plain))
        if (letters >= LONG_FAMILY || !stands_behind_letter(model, wanted, at)) return true;
    return false;
}

/* Of the models whose name the row's model holds: the longest name, of equal ones the first. */
static void keep_longer(struct arena *arena, const char *model, const char *name,
                        const char **best) {
    const char *plain = plain_name(arena, name);
    const size_t length = strlen(plain),
                 so_far = *best != NULL ? strlen(plain_name(arena, *best)) : 0;
    if (!holds_name(model, plain_name(arena, model), name, plain) || length < so_far ||
        (length == so_far && strcmp(name, *best) > 0))
        return;
    *best = name;
}

static bool read_shipped(const struct measured_context *context, const char *name,
                         struct shape *shape) {
    struct error ignored = { 0 };
    const struct model *model = model_load(context->arena, context->directory, name, &ignored);
    if (model == NULL || model->modules[MODULE_LANGUAGE].layer_count == 0) return false;
    const struct module *m = &model->modules[MODULE_LANGUAGE];
    static const char *const positions[] = {
        [POSITION_NONE] = "none", [POSITION_ROTARY] = "rotary", [POSITION_LEARNED] = "learned"
    };
    *shape = (struct shape){ .name = name,
                             .ffn = ffn_kind_name(m->ffn),
                             .norm = m->norm == NORM_RMS ? "rms" : "layer",
                             .position = positions[m->position],
                             .layers = m->layer_count,
                             .hidden = m->hidden,
                             .ffn_hidden = m->ffn_hidden,
                             .heads = m->heads,
                             .kv_heads = m->kv_heads,
                             .head_dim = m->head_dim,
                             .vocab = m->vocabulary,
                             .text_len = -1,
                             .tied = m->tied_embeddings,
                             .double_stream_blocks = -1 };
    return true;
}

/* "" where the list has no such column. */
static const char *text_of(const struct csv *csv, int64_t row, const char *name) {
    const int64_t column = csv_column(csv, name);
    return column >= 0 ? csv_cell(csv, row, column) : "";
}

static bool read_listed(const struct csv *csv, const char *name, struct shape *shape) {
    struct error ignored = { 0 };
    for (int64_t row = 0; row < csv->row_count; row++) {
        if (strcmp(csv_cell(csv, row, csv_column(csv, "name")), name) != 0) continue;
        *shape = (struct shape){ .name = name,
                                 .ffn = csv_cell(csv, row, csv_column(csv, "ffn")),
                                 .norm = text_of(csv, row, "norm"),
                                 .position = text_of(csv, row, "position") };
        const struct {
            const char *column;
            int64_t *value;
        } cells[] = { { "layers", &shape->layers },
                      { "hidden", &shape->hidden },
                      { "ffn_hidden", &shape->ffn_hidden },
                      { "heads", &shape->heads },
                      { "kv_heads", &shape->kv_heads },
                      { "head_dim", &shape->head_dim },
                      { "vocab", &shape->vocab },
                      { "text_len", &shape->text_len },
                      { "tied", &shape->tied },
                      { "double_stream_blocks", &shape->double_stream_blocks } };
        for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
            *cells[i].value = -1;
            const int64_t column = csv_column(csv, cells[i].column);
            if (column >= 0 && !csv_count(csv, row, column, cells[i].value, &ignored)) return false;
        }
        return true;
    }
    return false;
}

/* The model of scenarios/models that the row names; NULL: none. */
static const char *shipped_model(const struct measured_context *context,
                                 const struct measured_run *run) {
    struct arena *arena = context->arena;
    const char *best = NULL;
    int64_t count;
    const char **files =
        folder_names(arena, arena_format(arena, "%s/models", context->directory), ".json", &count);
    for (int64_t i = 0; i < count; i++)
        keep_longer(arena, run->model, files[i], &best);
    return best;
}

/* The vision module that a model's file names; NULL: none. */
static const char *module_of_file(const struct measured_context *context, const char *name) {
    struct arena *arena = context->arena;
    struct error ignored = { 0 };
    struct json *json =
        json_load(arena_format(arena, "%s/models/%s.json", context->directory, name), &ignored);
    if (json == NULL) return NULL;
    const cJSON *vision = cJSON_GetObjectItemCaseSensitive(json_root(json), "vision");
    const char *module = cJSON_GetStringValue(
        cJSON_IsObject(vision) ? cJSON_GetObjectItemCaseSensitive(vision, "module") : vision);
    module = module != NULL ? arena_text(arena, module) : NULL;
    json_destroy(json);
    return module;
}

/* "LLaVA-1.5-7B" says which encoder it has: by scenarios/models, or by its public_encoders.csv, which
 * tells how many patches become a token, too. NULL: the row does, or nothing tells. */
static const char *encoder_of_model(const struct measured_context *context,
                                    struct measured_run *run) {
    struct arena *arena = context->arena;
    struct error ignored = { 0 };
    if (strcmp(run->modality, "vision+text") != 0 || run->vision_model[0] != '\0') return NULL;
    const char *shipped = shipped_model(context, run), *longest = shipped;
    const char *path = arena_format(arena, "%s/models/public_encoders.csv", context->directory);
    const struct csv *csv = access(path, R_OK) == 0 ? csv_load(arena, path, &ignored) : NULL;
    for (int64_t row = 0; csv != NULL && row < csv->row_count; row++)
        keep_longer(arena, run->model, csv_cell(csv, row, csv_column(csv, "name")), &longest);
    if (longest == NULL || longest == shipped)
        return longest != NULL ? module_of_file(context, shipped) : NULL;
    for (int64_t row = 0; row < csv->row_count; row++) {
        if (strcmp(csv_cell(csv, row, csv_column(csv, "name")), longest) != 0) continue;
        int64_t merge = 0;
        if (run->image_merge < 1 &&
            csv_count(csv, row, csv_column(csv, "merge"), &merge, &ignored) && merge > 1)
            run->image_merge = merge;
        return csv_cell(csv, row, csv_column(csv, "module"));
    }
    return NULL;
}

/* The public model that the row names: one of scenarios/models, or a line of its
 * public_shapes.csv; of a diffusion transformer a line of its diffusion_shapes.csv. */
static bool public_shape(const struct measured_context *context, const struct measured_run *run,
                         struct shape *shape) {
    const bool diffusion = measured_is_diffusion(run);
    struct arena *arena = context->arena;
    struct error ignored = { 0 };
    const char *shipped = diffusion ? NULL : shipped_model(context, run), *longest = shipped;
    const char *path = arena_format(arena, "%s/models/%s", context->directory,
                                    diffusion ? "diffusion_shapes.csv" : "public_shapes.csv");
    const struct csv *csv = access(path, R_OK) == 0 ? csv_load(arena, path, &ignored) : NULL;
    for (int64_t row = 0; csv != NULL && row < csv->row_count; row++)
        keep_longer(arena, run->model, csv_cell(csv, row, csv_column(csv, "name")), &longest);
    if (longest == NULL) return false;
    return longest == shipped ? read_shipped(context, shipped, shape)
                              : read_listed(csv, longest, shape);
}

/* Fills blanks from the public model that the row names, unless the row says another shape. */
static const char *fill_from_model(const struct measured_context *context,
                                   struct measured_run *run) {
    struct shape shape;
    const bool diffusion = measured_is_diffusion(run);
    const bool whole =
        run->layers > 0 && run->hidden > 0 && run->ffn_hidden > 0 && run->heads > 0 &&
        run->kv_heads > 0 && run->head_dim > 0 &&
        (diffusion ? run->text_len >= 0 && !measured_lacks_streams(context->arena, run)
                   : run->vocab > 0) &&
        run->ffn[0] != '\0';
    if (whole || !public_shape(context, run, &shape)) return NULL;
    if (run->text_len < 0) run->text_len = shape.text_len; /* of its kind, whatever the widths */
    if ((run->hidden > 0 && run->hidden != shape.hidden) ||
        (run->heads > 0 && run->heads != shape.heads) ||
        (run->ffn_hidden > 0 && run->ffn_hidden != shape.ffn_hidden))
        return NULL;
    if (run->double_stream_blocks < 0 && (run->layers < 1 || run->layers == shape.layers))
        run->double_stream_blocks = shape.double_stream_blocks;
    fill(&run->layers, shape.layers);
    fill(&run->hidden, shape.hidden);
    fill(&run->ffn_hidden, shape.ffn_hidden);
    fill(&run->heads, shape.heads);
    fill(&run->kv_heads, shape.kv_heads);
    fill(&run->head_dim, shape.head_dim);
    fill(&run->vocab, shape.vocab);
    if (run->ffn[0] == '\0') run->ffn = shape.ffn;
    return shape.name;
}

/* A name that says another model than the cells do. */
static const char *contradiction_of_name(const struct measured_context *context,
                                         const struct measured_run *run) {
    struct shape shape;
    if (run->hidden < 1 || measured_is_diffusion(run) || !public_shape(context, run, &shape) ||
        (run->hidden == shape.hidden && (run->layers < 1 || run->layers == shape.layers)))
        return NULL;
    const char *own =
        run->layers < 1 ? "blocks" : arena_format(context->arena, "%ld", (long)run->layers);
    return arena_format(context->arena,
                        "model: %s has %ld blocks of %ld, not %s of %ld: as the row's cells say",
                        shape.name, (long)shape.layers, (long)shape.hidden, own, (long)run->hidden);
}

int64_t measured_public_tie(const struct measured_context *context,
                            const struct measured_run *run) {
    struct shape shape;
    const bool same = !measured_is_diffusion(run) && public_shape(context, run, &shape) &&
                      run->hidden == shape.hidden && run->vocab == shape.vocab;
    return same ? shape.tied : -1;
}

/* "GPT-191B": 191e9; 0: no size in the name. */
static double size_in_name(const char *name) {
    for (const char *c = name; *c != '\0'; c++) {
        if (!isdigit((unsigned char)*c)) continue;
        char *end;
        const double number = strtod(c, &end);
        if (strchr("BbMm", *end) != NULL && *end != '\0' && !isalnum((unsigned char)end[1]))
            return number * (tolower((unsigned char)*end) == 'b' ? 1e9 : 1e6);
        if (end > c) c = end - 1;
    }
    return 0;
}

static bool gated(const struct measured_run *run) {
    return run->ffn[0] == '\0' || strcmp(run->ffn, "swiglu") == 0;
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
    const int64_t count =
        context->runs != NULL && run->source[0] != '\0' ? context->runs->count : 0;
    for (int64_t i = 0; i < count; i++) {
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

/* "gemma-2-9b" of "google/gemma-2-9b". */
static const char *without_owner(const char *model) {
    const char *slash = strrchr(model, '/');
    return slash != NULL ? slash + 1 : model;
}

/* Whose feed-forward networks have no gate. */
static bool begins_with_gpt(const struct measured_context *context, const char *model) {
    static const char *const families[] = {
        "gpt",         "opt1",       "opt2",      "opt3",      "opt6",
        "bloom",       "mpt",        "megatron",  "turing",    "falcon7b",
        "falcon40b",   "falcon180b", "falconrw",  "starcoder", "santacoder",
        "phi1",        "phi2",       "cerebras",  "dolly",     "redpajamaincite",
        "pythia",      "codegen",    "galactica", "nanogpt",   "mosaicgpt",
        "buildnanogpt"
    };
    const char *name = plain_name(context->arena, without_owner(model));
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strncmp(name, families[i], strlen(families[i])) == 0) return true;
    return measured_text_says(model, "gpt-2") || measured_text_says(model, "gpt2") ||
           measured_text_says(model, "gpt-3") || measured_text_says(model, "gpt3");
}

/* What the public models of a family have besides (modeling files of Transformers). A model "like" one
 * of them has its shape, and its row says what else. */
struct family {
    const char *begins, *qk_norm; /* "": none */
    bool branch_norm, logit_cap;
    const char *parallel_residual; /* NULL: one branch behind the other */
};

static const struct family *family_named(const struct measured_context *context,
                                         const char *model) {
    static const struct family families[] = {
        { "qwen3", "head", false, false, NULL },
        { "gemma2", "", true, true, NULL },
        { "gemma3", "head", true, false, NULL },
        { "gemma4", "head", true, true, NULL },
        { "olmo2", "all-heads", false, false, NULL },
        { "nanochat", "head", false, false, NULL },
        { "wan2", "all-heads", false, false, NULL },
        { "flux1", "head", false, false, NULL },
        { "hunyuanvideo", "head", false, false, NULL },
        { "qwenimage", "head", false, false, NULL },
        { "gptneox", "", false, false, "two-norms" },
        { "pythia", "", false, false, "two-norms" },
        { "dolly2", "", false, false, "two-norms" },
        { "falcon40b", "", false, false, "two-norms" },
        { "falcon180b", "", false, false, "two-norms" },
        { "stablelmbasealpha", "", false, false, "two-norms" },
        { "falcon7b", "", false, false, "one-norm" },
        { "gptj", "", false, false, "one-norm" },
        { "phi1.", "", false, false, "one-norm" },
        { "phi2", "", false, false, "one-norm" },
        { "commandr", "", false, false, "one-norm" },
        { "c4aicommandr", "", false, false, "one-norm" },
        { "aya23", "", false, false, "one-norm" },
    };
    const char *name = plain_name(context->arena, without_owner(model));
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strncmp(name, families[i].begins, strlen(families[i].begins)) == 0 &&
            name[strlen(families[i].begins)] != 'b' && /* "Gemma 2B" is of the first */
            strstr(name, "like") == NULL)
            return &families[i];
    return NULL;
}

/* By its name, or by what stands in brackets behind a name of its own ("pilot (Qwen3 layout)"), not
 * by a tokenizer's. */
static const struct family *family_of(const struct measured_context *context, const char *model) {
    const struct family *family = family_named(context, model);
    const char *bracket = strchr(model, '(');
    const bool other = bracket != NULL && (strcasestr(bracket, "tokeni") != NULL ||
                                           strcasestr(bracket, "vocab") != NULL ||
                                           strcasestr(bracket, "data") != NULL);
    return family != NULL || bracket == NULL || other ? family : family_named(context, bracket + 1);
}

static void note(const char **notes, int64_t *count, const char *text) {
    if (*count < MEASURED_NOTE_LIMIT) notes[(*count)++] = text;
}

/* Norms and positions of the public model that the row's name and shape are of, where they are not
 * those that its activation is usual with. */
static void complete_by_model(const struct measured_context *context, struct measured_run *run,
                              const char **notes, int64_t *count) {
    struct shape shape;
    if (measured_is_diffusion(run) || strcmp(run->modality, "encoder") == 0 ||
        !public_shape(context, run, &shape) || run->hidden != shape.hidden ||
        run->layers != shape.layers || strcmp(run->ffn, shape.ffn) != 0)
        return;
    const bool ungated = strncmp(run->ffn, "gelu", 4) == 0;
    const char *norm = ungated ? "layer" : "rms", *position = ungated ? "learned" : "rotary";
    if (run->norm[0] == '\0' && shape.norm[0] != '\0' && strcmp(shape.norm, norm) != 0) {
        run->norm = shape.norm;
        note(notes, count, arena_format(context->arena, "norm: %s, as %s", shape.norm, shape.name));
    }
    if (run->position[0] != '\0' || shape.position[0] == '\0' ||
        strcmp(shape.position, position) == 0)
        return;
    const bool biased = strcmp(shape.position, "alibi") == 0;
    run->position = biased ? "none" : shape.position;
    note(notes, count,
         biased ? arena_format(context->arena,
                               "positions: ALiBi's, whose time is not counted, as %s", shape.name)
                : arena_format(context->arena, "positions: %s, as %s", shape.position, shape.name));
}

/* What its notes say of it, in words or by the name of an option. */
static enum polarity says_parallel_residual(const char *notes) {
    static const char *const words[][4] = {
        { "parallel", "residual", NULL }, { "parallel", "residuals", NULL },
        { "gpt", "j", "residual", NULL }, { "use", "parallel", "residual", NULL },
        { "parallel", "attn", NULL },
    };
    enum polarity found = POLARITY_UNCLEAR;
    struct clause clause;
    while (found == POLARITY_UNCLEAR && clause_next(&notes, &clause))
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
            for (int i = 0; i < clause.count && found == POLARITY_UNCLEAR; i++) {
                const int last = clause_phrase_end(&clause, i, words[w]);
                if (last >= 0) found = clause_polarity(&clause, i, last, notes);
            }
    return found;
}

/* Dropout and norms of queries and keys that no cell tells and the notes do; of which kind norms are
 * a family knows better. */
static void complete_by_notes(const struct measured_context *context, struct measured_run *run,
                              const char **notes, int64_t *count) {
    const enum measured_switch dropout = measured_says_dropout(run->notes),
                               qk_norm = measured_says_qk_norm(run->notes);
    /* of adapters "dropout 0.1" is theirs */
    const bool adapters = dropout == SWITCH_ON && measured_has_lora(run);
    if (run->dropout < 0 && dropout != SWITCH_UNSAID && !adapters) {
        run->dropout = dropout == SWITCH_ON;
        note(notes, count,
             run->dropout > 0 ? "dropout: on, as its notes say"
                              : "dropout: none, as its notes say");
    }
    if (run->qk_norm[0] != '\0' || qk_norm == SWITCH_UNSAID) return;
    const struct family *family = family_of(context, run->model);
    if (qk_norm == SWITCH_ON && family != NULL && family->qk_norm[0] != '\0') return;
    run->qk_norm = qk_norm == SWITCH_ON ? "head" : "none";
    note(notes, count,
         qk_norm == SWITCH_ON ? "norms of queries and keys of each head, as its notes say"
                              : "no norms of queries and keys, as its notes say");
}

static void complete_by_family(const struct measured_context *context, struct measured_run *run,
                               const char **notes, int64_t *count) {
    const struct family *family = family_of(context, run->model);
    const enum polarity beside = says_parallel_residual(run->notes);
    const bool known = family != NULL && family->parallel_residual != NULL;
    if (beside == POLARITY_SAID && !known && (family == NULL || !family->branch_norm)) {
        run->parallel_residual = "two-norms";
        note(notes, count,
             "attention and feed-forward network beside each other, as its notes say");
    }
    if (beside == POLARITY_DENIED && known)
        note(notes, count,
             "attention and feed-forward network one behind the other, as its notes say");
    if (family == NULL) return;
    if (run->qk_norm[0] == '\0' && family->qk_norm[0] != '\0') {
        run->qk_norm = family->qk_norm;
        note(notes, count, "norms of queries and keys, as the public models of its name");
    }
    run->branch_norm = family->branch_norm;
    run->logit_cap = family->logit_cap;
    if (run->branch_norm)
        note(notes, count,
             run->logit_cap
                 ? "norms behind each branch and capped logits, as the public models of its name"
                 : "norms behind each branch, as the public models of its name");
    if (!known || beside == POLARITY_DENIED) return;
    run->parallel_residual = family->parallel_residual;
    note(notes, count,
         "attention and feed-forward network beside each other, as the public models of its name");
}

const char *measured_shape_complete(const struct measured_context *context,
                                    struct measured_run *run, const char **notes,
                                    int64_t *note_count) {
    struct arena *arena = context->arena;
    const char *model = fill_from_model(context, run);
    if (model != NULL)
        note(notes, note_count,
             arena_format(arena, "shape of the public model %s where the row has none", model));
    const char *otherwise = contradiction_of_name(context, run);
    if (otherwise != NULL) note(notes, note_count, otherwise);
    const char *encoder = encoder_of_model(context, run);
    if (encoder != NULL) {
        run->vision_model = encoder;
        note(notes, note_count,
             arena_format(arena, "vision_model: %s, as the public model", encoder));
    }
    const bool diffusion = measured_is_diffusion(run);
    if (measured_lacks_streams(arena, run)) return "double_stream_blocks";
    if (run->ffn[0] == '\0' && diffusion) {
        run->ffn = "gelu";
        note(notes, note_count, "ffn: gelu, as usual in diffusion transformers");
    }
    if (run->ffn[0] == '\0' && strcmp(run->modality, "encoder") == 0) {
        run->ffn = "gelu";
        note(notes, note_count, "ffn: gelu, as usual in encoders");
    }
    if (run->ffn[0] == '\0' && begins_with_gpt(context, run->model)) {
        run->ffn = "gelu";
        note(notes, note_count, "ffn: gelu, as the family of its name");
    }
    if (run->hidden < 1) return "hidden";
    if (run->ffn_hidden < 1) {
        run->ffn_hidden = gated(run) ? (run->hidden * 8 / 3 + 255) / 256 * 256 : 4 * run->hidden;
        note(notes, note_count,
             arena_format(arena, "ffn_hidden %ld by the usual rule", (long)run->ffn_hidden));
    }
    if (run->vocab < 1 && strcmp(run->modality, "encoder") == 0 &&
        (measured_text_says(run->model, "vit") || measured_text_says(run->model, "deit"))) {
        run->vocab = 1000;
        note(notes, note_count, "vocabulary of 1,000, ImageNet's classes");
    }
    if (run->vocab < 1 && !diffusion) {
        run->vocab = gated(run) ? 32000 : 51200;
        note(notes, note_count,
             gated(run) ? "vocabulary of 32,000, LLaMA's"
                        : "vocabulary of 51,200, GPT-2's with padding");
    }
    if (run->layers < 1) {
        run->layers = otherwise == NULL ? layers_of_size(run) : -1; /* no model of that name */
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
    complete_by_model(context, run, notes, note_count);
    complete_by_notes(context, run, notes, note_count);
    complete_by_family(context, run, notes, note_count);
    if (run->seq_len < 1 && run->sample_len > 0 && strcmp(run->modality, "encoder") == 0) {
        run->seq_len = run->sample_len; /* images of one size are nothing packed */
        run->sample_len = -1;
        note(notes, note_count, "seq_len: that of a sample");
    }
    return run->seq_len > 0 ? NULL : "seq_len";
}
