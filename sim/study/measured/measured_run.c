/* measured_run.c - one table row per column of the format. */
#include "sim/study/measured/measured_run.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "sim/base/field.h"
#include "sim/study/measured/measured_clause.h"
#include "sim/study/measured/measured_said.h"
#include "sim/study/measured/measured_words.h"

/* COLUMN_LABEL stays as it is; COLUMN_WORD and COLUMN_WORDS have fixed words (measured_words.h). */
enum column_type {
    COLUMN_LABEL,
    COLUMN_TEXT,
    COLUMN_WORD,
    COLUMN_WORDS,
    COLUMN_COUNT,
    COLUMN_NUMBER
};

#define AT(member) offsetof(struct measured_run, member)
static const struct column {
    const char *name;
    enum column_type type;
    size_t offset;
    double least, most; /* of a count, a whole number; a number must be above 0 */
} columns[] = {
    { "row_id", COLUMN_LABEL, AT(row_id), 0, 0 },
    { "source", COLUMN_LABEL, AT(source), 0, 0 },
    { "model", COLUMN_LABEL, AT(model), 0, 0 },
    { "modality", COLUMN_WORD, AT(modality), 0, 0 },
    { "layers", COLUMN_COUNT, AT(layers), 1, 1e4 },
    { "hidden", COLUMN_COUNT, AT(hidden), 1, 1e7 },
    { "ffn_hidden", COLUMN_COUNT, AT(ffn_hidden), 1, 1e7 },
    { "ffn", COLUMN_WORD, AT(ffn), 0, 0 },
    { "norm", COLUMN_WORD, AT(norm), 0, 0 },
    { "position", COLUMN_WORD, AT(position), 0, 0 },
    { "qk_norm", COLUMN_TEXT, AT(qk_norm), 0, 0 },
    { "heads", COLUMN_COUNT, AT(heads), 1, 1e7 },
    { "kv_heads", COLUMN_COUNT, AT(kv_heads), 1, 1e7 },
    { "head_dim", COLUMN_COUNT, AT(head_dim), 1, 1e7 },
    { "vocab", COLUMN_COUNT, AT(vocab), 1, 1e7 },
    { "head", COLUMN_WORD, AT(head), 0, 0 },
    { "head_share", COLUMN_NUMBER, AT(head_share), 0, 1e6 },
    { "moe", COLUMN_WORD, AT(moe), 0, 0 },
    { "seq_len", COLUMN_COUNT, AT(seq_len), 1, 1e8 },
    { "seq_len", COLUMN_TEXT, AT(seq_len_text), 0, 0 }, /* "2048 max": the longest sample */
    { "sample_len", COLUMN_COUNT, AT(sample_len), 1, 1e9 },
    { "text_len", COLUMN_COUNT, AT(text_len), 0, 1e6 },
    { "double_stream_blocks", COLUMN_COUNT, AT(double_stream_blocks), 0, 1e4 },
    { "hardware", COLUMN_TEXT, AT(hardware), 0, 0 },
    { "gpus_per_node", COLUMN_COUNT, AT(gpus_per_node), 1, 1e7 },
    { "gpu_count", COLUMN_COUNT, AT(gpu_count), 1, 1e7 },
    { "nic_Gbit_per_s_per_gpu", COLUMN_NUMBER, AT(nic_Gbit_per_s_per_gpu), 0, 1e6 },
    { "nics_per_node", COLUMN_COUNT, AT(nics_per_node), 1, 1024 },
    { "tp", COLUMN_COUNT, AT(tp), 1, 1e6 },
    { "sp", COLUMN_COUNT, AT(sp), 0, 1 },
    { "cp", COLUMN_COUNT, AT(cp), 0, 1e6 },
    { "pp", COLUMN_COUNT, AT(pp), 1, 1e4 },
    { "vpp", COLUMN_COUNT, AT(vpp), 0, 1000 },
    { "schedule", COLUMN_WORD, AT(schedule), 0, 0 },
    { "ep", COLUMN_COUNT, AT(ep), 0, 1e6 },
    { "dp", COLUMN_COUNT, AT(dp), 1, 1e7 },
    { "zero_stage", COLUMN_COUNT, AT(zero_stage), 0, 3 },
    { "zero_stage", COLUMN_TEXT, AT(zero_stage_text), 0, 0 }, /* "3 (CPU offload)" */
    { "zero_group", COLUMN_COUNT, AT(zero_group), 0, 1e7 },
    { "micro_batch", COLUMN_COUNT, AT(micro_batch), 1, 1e5 },
    { "grad_accum", COLUMN_COUNT, AT(grad_accum), 1, 1e6 },
    { "global_batch", COLUMN_COUNT, AT(global_batch), 1, 1e6 },
    { "precision", COLUMN_WORD, AT(precision), 0, 0 },
    { "fp8_recipe", COLUMN_WORD, AT(fp8_recipe), 0, 0 },
    { "precision_aware_optimizer", COLUMN_COUNT, AT(precision_aware_optimizer), 0, 1 },
    { "exp_avg_dtype", COLUMN_WORD, AT(exp_avg_dtype), 0, 0 },
    { "exp_avg_sq_dtype", COLUMN_WORD, AT(exp_avg_sq_dtype), 0, 0 },
    { "main_grads_dtype", COLUMN_WORD, AT(main_grads_dtype), 0, 0 },
    { "reduce_dtype", COLUMN_WORD, AT(reduce_dtype), 0, 0 },
    { "gradient_sync", COLUMN_WORD, AT(gradient_sync), 0, 0 },
    { "adamw_kernels", COLUMN_WORD, AT(adamw_kernels), 0, 0 },
    { "optimizer", COLUMN_WORD, AT(optimizer), 0, 0 },
    { "recompute", COLUMN_WORD, AT(recompute), 0, 0 },
    { "offload_blocks", COLUMN_COUNT, AT(offload_blocks), 0, 10000 },
    { "attention", COLUMN_WORD, AT(attention), 0, 0 },
    { "dropout", COLUMN_COUNT, AT(dropout), 0, 2 },
    { "deterministic", COLUMN_TEXT, AT(deterministic), 0, 0 },
    { "overlap", COLUMN_WORDS, AT(overlap), 0, 0 },
    { "vision_model", COLUMN_TEXT, AT(vision_model), 0, 0 },
    { "images_per_sample", COLUMN_COUNT, AT(images_per_sample), 0, 1e6 },
    { "image_wh", COLUMN_TEXT, AT(image_wh), 0, 0 },
    { "image_merge", COLUMN_COUNT, AT(image_merge), 1, 64 },
    { "frozen", COLUMN_WORDS, AT(frozen), 0, 0 },
    { "lora_rank", COLUMN_COUNT, AT(lora_rank), 0, 65536 },
    { "lora_targets", COLUMN_TEXT, AT(lora_targets), 0, 0 },
    { "stack", COLUMN_TEXT, AT(stack), 0, 0 },
    { "outcome", COLUMN_WORD, AT(outcome), 0, 0 },
    { "iter_time_s", COLUMN_NUMBER, AT(iter_time_s), 1e-6, 3e7 },
    { "iter_time_derived", COLUMN_COUNT, AT(iter_time_derived), 0, 1 },
    { "peak_mem_GiB", COLUMN_NUMBER, AT(peak_mem_GiB), 1e-3, 1e6 },
    { "peak_mem_kind", COLUMN_WORD, AT(peak_mem_kind), 0, 0 },
    { "notes", COLUMN_LABEL, AT(notes), 0, 0 },
};
enum { COLUMN_COUNT_ALL = sizeof columns / sizeof columns[0] };

/* 8, "8.0" and "1,024"; strtod would read "0x10" and "inf" too, which no table means. */
static bool parse_number(struct arena *arena, const char *text, double *value) {
    char *plain = arena_text(arena, text);
    size_t n = 0;
    for (const char *c = text; *c != '\0'; c++) {
        const bool thousands = *c == ',' && c > text && isdigit((unsigned char)c[-1]) &&
                               strspn(c + 1, "0123456789") == 3;
        if (!thousands) plain[n++] = *c;
    }
    plain[n] = '\0';
    char *end;
    const double number = strtod(plain, &end);
    if (end == plain || *end != '\0' || plain[strspn(plain, "+-.0123456789eE")] != '\0' ||
        !isfinite(number))
        return false;
    *value = number;
    return true;
}

/* What a row's cell was read as, where that was more than reading it. */
static void tell_reading(struct arena *arena, struct measured_run *run, const char *text) {
    int64_t count = 0;
    while (run->readings[count] != NULL)
        count++;
    if (count == MEASURED_READING_LIMIT) return;
    const char **longer = arena_array(arena, const char *, count + 2);
    memcpy(longer, run->readings, sizeof *longer * (size_t)count);
    longer[count] = text;
    longer[count + 1] = NULL;
    run->readings = longer;
}

static bool is_one_of(const char *text, size_t length, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strlen(words[i]) == length && strncasecmp(words[i], text, length) == 0) return true;
    return false;
}

/* "H100", "A100-80GB", "L40S": one to three letters and two to four digits; not "x8", nor a server
 * ("DGX-H100", "p5.48xlarge"), which has several. */
static bool is_card(const char *text, size_t length) {
    size_t letters = 0, digits = 0;
    while (letters < length && isalpha((unsigned char)text[letters]))
        letters++;
    digits = strspn(text + letters, "0123456789");
    return letters >= 1 && letters <= 3 && digits >= 2 && digits <= 4 &&
           letters + digits <= length && strcspn(text, ".*_") >= length;
}

/* At a factor: "x", "*" or the sign of multiplication. */
static bool is_factor(const char *text) {
    return strchr("xX*", *text) != NULL || strncmp(text, "\xc3\x97", 2) == 0;
}

/* What stands behind a count and changes nothing of it: not "2 nodes", "16 per GPU", "4096 x 2".
 * Brackets explain ("16 (2 x 8)", "16 (2 nodes)"), unless they begin with a factor or hold a unit
 * that no number stands before. A micro-batch is of a GPU. */
static bool is_remark(const char *name, const char *text) {
    static const char *const plain[] = { "max",    "maximum", "mean",      "average", "avg",
                                         "padded", "packed",  "truncated", "total",   "tokens",
                                         "token",  "samples", "sequences", "gpus",    "gpu",
                                         "cards",  "layers",  "blocks",    "heads",   "steps" };
    static const char *const units[] = { "per",     "each", "node",  "nodes",   "server",
                                         "servers", "host", "hosts", "machine", "machines",
                                         "k",       "ki",   "m",     "thousand" };
    static const char *const own[] = { "per", "gpu", "device", "rank", "each" };
    enum {
        PLAIN = sizeof plain / sizeof plain[0],
        UNITS = sizeof units / sizeof units[0],
        OWN = sizeof own / sizeof own[0]
    };
    const bool of_gpu = strcmp(name, "micro_batch") == 0, of_gpus = strcmp(name, "gpu_count") == 0;
    bool inside = false, first = false, numbered = false;
    for (; *text != '\0'; text++) {
        if (*text == '(' || *text == ')') {
            first = inside = *text == '(';
            numbered = false;
        }
        const char *const apart = inside ? " (),-_/" : " (),";
        if (strchr(apart, *text) != NULL) continue;
        const size_t length = strcspn(text, apart);
        const bool ours = of_gpu && is_one_of(text, length, own, OWN);
        numbered = numbered || isdigit((unsigned char)*text);
        const bool known =
            ours ||
            (inside ? !(first && is_factor(text)) &&
                          (numbered || !is_one_of(text, length, units, UNITS))
                    : is_one_of(text, length, plain, PLAIN) || (of_gpus && is_card(text, length)));
        if (!known) return false;
        first = false;
        text += length - 1;
    }
    return true;
}

/* "ZeRO stage 2 (DeepSpeed)", as notes say it. */
static bool stage_said(const char *name, const char *text, int64_t *value) {
    const bool number = text[strspn(text, "0123456789.")] == '\0';
    if (strcmp(name, "zero_stage") != 0 || number) return false;
    const int64_t stage = measured_says_zero_stage(text);
    if (stage < 0) return false;
    *value = stage;
    return true;
}

/* "r=16" and "rank 16" are 16. */
static const char *behind_rank(const char *text) {
    const size_t word =
        strncasecmp(text, "rank", 4) == 0 ? 4 : tolower((unsigned char)*text) == 'r';
    const char *number = text + word + strspn(text + word, " =:");
    return word > 0 && isdigit((unsigned char)*number) ? number : text;
}

/* "2048 max" is a length with a remark: the number is what the run was padded or cut to. */
static bool read_count(struct arena *arena, const char *name, const char *text, int64_t *value,
                       struct measured_run *run) {
    double number = -1;
    if (text[0] == '\0') return true;
    if (measured_count_word(arena, name, text, value) || stage_said(name, text, value)) {
        if (strcmp(name, "zero_stage") == 0)
            tell_reading(
                arena, run,
                arena_format(arena, "zero_stage: \"%.40s\" is read as %ld", text, (long)*value));
        return true;
    }
    if (strcmp(name, "lora_rank") == 0) text = behind_rank(text);
    const size_t digits = strspn(text, "0123456789");
    const bool remark = digits > 0 && text[digits] == ' ';
    if (remark && !is_remark(name, text + digits)) return false;
    /* A batch counts samples. */
    if (remark && strstr(name, "batch") != NULL && strcasestr(text, "token") != NULL) return false;
    const bool parsed = parse_number(
        arena, remark ? arena_format(arena, "%.*s", (int)digits, text) : text, &number);
    if (parsed && number > 0 && number < 1 && strcmp(name, "dropout") == 0) {
        *value = 1; /* a probability, as models' configurations have it */
        tell_reading(arena, run, arena_format(arena, "dropout: \"%.40s\" is read as 1", text));
        return true;
    }
    if (!parsed || number != floor(number) || fabs(number) > 9e15) return false;
    *value = (int64_t)number;
    if (remark && strcmp(name, "seq_len") != 0)
        tell_reading(arena, run,
                     arena_format(arena, "%s: \"%.40s\" is read as %ld", name, text, (long)*value));
    return true;
}

/* Sets the cell to the format's word for it; a cell that is no spelling of any stays. */
static void read_word(struct arena *arena, const struct column *column, const char **cell,
                      struct measured_run *run) {
    if ((*cell)[0] == '\0') return;
    const char *word = column->type == COLUMN_WORDS ? measured_word_list(arena, column->name, *cell)
                                                    : measured_word(arena, column->name, *cell);
    if (word == NULL) return;
    if (strcmp(measured_plain(arena, *cell), word) != 0 && word[0] != '\0')
        tell_reading(arena, run,
                     arena_format(arena, "%s: \"%.40s\" is read as %s", column->name, *cell, word));
    *cell = word;
}

/* "mxfp8" as a precision says both. */
static void read_recipe_of_precision(struct arena *arena, const char *cell,
                                     struct measured_run *run) {
    const char *recipe = measured_word(arena, "fp8_recipe", measured_cell(arena, cell));
    if (recipe == NULL) return;
    if (run->fp8_recipe[0] == '\0') {
        run->fp8_recipe = recipe;
        tell_reading(arena, run,
                     arena_format(arena, "fp8_recipe: %s, as its precision says", recipe));
    } else if (strcmp(run->fp8_recipe, recipe) != 0)
        tell_reading(arena, run,
                     arena_format(arena, "precision: \"%.40s\" says %s, fp8_recipe %s holds", cell,
                                  recipe, run->fp8_recipe));
}

/* Lightning's "bf16-true" and "pure bf16" say that weights are bf16, too. */
static void read_weights_of_precision(struct arena *arena, const char *cell,
                                      struct measured_run *run) {
    static const char *const names[] = { "bf16-true", "bf16-pure", "pure-bf16", "full-bf16" };
    const char *plain = measured_plain(arena, measured_cell(arena, cell));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(plain, names[i]) == 0)
            run->notes =
                arena_format(arena, "%s%spure bf16", run->notes, run->notes[0] != '\0' ? "; " : "");
}

/* "class-to-image" as a modality says that there is no text. */
static void read_text_of_modality(struct arena *arena, const char *cell, struct measured_run *run) {
    static const char *const names[] = { "class-to-image", "c2i" };
    const char *plain = measured_plain(arena, measured_cell(arena, cell));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (run->text_len < 0 && strcmp(plain, names[i]) == 0) run->text_len = 0;
}

enum { MISTAKES_TOLD = 6 };
/* "line 3, tp: expected ..., got x; pp: expected ..., got y". */
static void add_mistake(struct arena *arena, struct measured_run *run, const char *mistake) {
    const char *behind_line = mistake != NULL ? strstr(mistake, ", ") : NULL;
    if (mistake == NULL || run->mistake_count++ >= MISTAKES_TOLD) return;
    run->mistake = run->mistake == NULL || behind_line == NULL
                       ? mistake
                       : arena_format(arena, "%s; %s", run->mistake, behind_line + 2);
}

static const char *mistake_at(struct arena *arena, const struct csv *csv, int64_t row,
                              int64_t column, const char *expected) {
    return arena_format(arena, "line %ld, %s: expected %s, got %.40s", csv->lines[row],
                        csv->header[column], expected, csv_cell(csv, row, column));
}

/* Words, signs and sizes that no run has are one kind of mistake, told in one way. The limits also
 * keep products of counts (tp pp cp; grad_accum micro_batch dp) below 2^63. */
static const char *count_mistake(struct arena *arena, const struct csv *csv, int64_t row,
                                 int64_t place, const struct column *column) {
    const char *cell = csv_cell(csv, row, place);
    const bool more = isdigit((unsigned char)cell[0]) && strchr(cell, ' ') != NULL;
    return mistake_at(arena, csv, row, place,
                      arena_format(arena, "a whole number from %.0f to %.0f%s", column->least,
                                   column->most, more ? " without unit or factor" : ""));
}

static const char *number_mistake(struct arena *arena, const struct csv *csv, int64_t row,
                                  int64_t place, const struct column *column) {
    return mistake_at(
        arena, csv, row, place,
        column->least > 0
            ? arena_format(arena, "a number from %g to %g", column->least, column->most)
            : arena_format(arena, "a number above 0, at most %g", column->most));
}

/* A number that no run has; NaN, none at all, is not. */
static bool is_far(const struct column *column, double value) {
    return value <= 0 || value < column->least || value > column->most;
}

static bool in_range(const struct column *column, int64_t value) {
    return (double)value >= column->least && (double)value <= column->most;
}

enum { MOST_PIXELS = 100000 }; /* a side: tiles of an image stay countable */

/* "336x336", "336*336", "336×336" and "336" are one; NULL: no size. */
static const char *pixels_of(struct arena *arena, const char *text) {
    long width, height;
    int end = -1;
    if (sscanf(text, "%ld%*[xX*\xc3\x97 ]%ld%n", &width, &height, &end) != 2 || end < 0) {
        if (sscanf(text, "%ld%n", &width, &end) != 1) return NULL;
        height = width;
    }
    if (text[end] != '\0' || width < 1 || height < 1 || width > MOST_PIXELS || height > MOST_PIXELS)
        return NULL;
    return arena_format(arena, "%ldx%ld", width, height);
}

/* A list of words that has others in it, and a size of images that is none. */
static const char *text_mistake(struct arena *arena, const struct csv *csv, int64_t row,
                                int64_t place, struct measured_run *run,
                                const struct column *column) {
    if (column->offset == AT(image_wh) && run->image_wh[0] != '\0' &&
        strcmp(run->image_wh, "anyres") != 0) {
        const char *pixels = pixels_of(arena, run->image_wh);
        if (pixels == NULL) return mistake_at(arena, csv, row, place, "pixels as 336x336");
        run->image_wh = pixels;
    }
    if (column->type != COLUMN_WORDS ||
        measured_word_list(arena, column->name, *(char **)((char *)run + column->offset)) != NULL)
        return NULL;
    return mistake_at(arena, csv, row, place,
                      column->offset == AT(frozen)
                          ? "vision, connector or language, with semicolons between, or none"
                          : "gradients, parameters or tensor, with semicolons between, or none");
}

/* Of a run that did not get to a step, 0 says that nothing was measured; a time says that it
 * did. */
static void check_outcome(struct arena *arena, struct measured_run *run) {
    if (strcmp(run->outcome, "oom") != 0) return;
    if (run->iter_time_s == 0) run->iter_time_s = NAN;
    if (run->peak_mem_GiB == 0) run->peak_mem_GiB = NAN;
    if (run->iter_time_s > 0)
        add_mistake(
            arena, run,
            arena_format(
                arena,
                "line %ld, outcome: \"oom\" beside an iter_time_s of %g: which of the two is it?",
                (long)run->line, run->iter_time_s));
}

/* A mean that is longer than what it is a part of. */
static void check_lengths(struct arena *arena, struct measured_run *run) {
    if (run->seq_len > 0 && run->sample_len > run->seq_len)
        add_mistake(
            arena, run,
            arena_format(arena,
                         "line %ld, sample_len: %ld is longer than the sequence of %ld that it is "
                         "packed into",
                         (long)run->line, (long)run->sample_len, (long)run->seq_len));
}

/* "OOM" where a time or a size stands says the outcome, if its own column (before them in the
 * table) does not. */
static bool read_as_outcome(struct arena *arena, const struct column *column, const char *text,
                            struct measured_run *run) {
    const char *word = measured_word(arena, "outcome", text);
    if (word == NULL || strcmp(word, "oom") != 0 ||
        (run->outcome[0] != '\0' && strcmp(run->outcome, word) != 0))
        return false;
    run->outcome = word;
    tell_reading(arena, run,
                 arena_format(arena, "%s: \"%.40s\" is read as outcome oom", column->name, text));
    return true;
}

/* "850 ms", "12.4 s" and "~61.5 GB", which memory is counted in as GiB. */
static bool read_with_unit(struct arena *arena, const struct column *column, const char *text,
                           double *value, struct measured_run *run) {
    static const struct {
        size_t offset;
        const char *unit;
        double of;
    } units[] = {
        { AT(iter_time_s), "s", 1 },
        { AT(iter_time_s), "sec", 1 },
        { AT(iter_time_s), "seconds", 1 },
        { AT(iter_time_s), "s/it", 1 },
        { AT(iter_time_s), "s/step", 1 },
        { AT(iter_time_s), "s/iter", 1 },
        { AT(iter_time_s), "ms", 1e-3 },
        { AT(iter_time_s), "min", 60 },
        { AT(peak_mem_GiB), "GiB", 1 },
        { AT(peak_mem_GiB), "GB", 1 },
        { AT(peak_mem_GiB), "G", 1 },
        { AT(peak_mem_GiB), "MiB", 1.0 / 1024 },
        { AT(peak_mem_GiB), "MB", 1.0 / 1024 },
        { AT(peak_mem_GiB), "", 1 },
    };
    const char *number = text + (text[0] == '~');
    const size_t digits = strspn(number, "0123456789.,");
    const char *unit = number + digits + strspn(number + digits, " ");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (units[i].offset != column->offset || strcasecmp(unit, units[i].unit) != 0 ||
            !parse_number(arena, arena_format(arena, "%.*s", (int)digits, number), value))
            continue;
        *value *= units[i].of;
        tell_reading(
            arena, run,
            arena_format(arena, "%s: \"%.40s\" is read as %g", column->name, text, *value));
        return true;
    }
    return false;
}

/* "max 2048", "up to 2048" and "<= 2048" are "2048 max". */
static const char *limit_behind(struct arena *arena, const char *text) {
    static const char *const words[] = { "max", "maximum", "up to", "at most", "<=", "<" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t length = strlen(words[i]);
        if (strncasecmp(text, words[i], length) != 0) continue;
        const char *number = text + length + strspn(text + length, " :=");
        if (isdigit((unsigned char)*number)) return arena_format(arena, "%s max", number);
    }
    return text;
}

/* "128k" and "128 K tokens" are 131,072; other cells with a k stay what they are, a mistake. */
static const char *plain_length(struct arena *arena, const struct column *column, const char *text,
                                struct measured_run *run) {
    const size_t digits = strspn(text, "0123456789");
    const bool length = column->offset == AT(seq_len) || column->offset == AT(sample_len);
    const char *unit = text + digits + strspn(text + digits, " ");
    if (!length || digits == 0 || digits > 5 || tolower((unsigned char)*unit) != 'k' ||
        (unit[1] != '\0' && (unit[1] != ' ' || !is_remark(column->name, unit + 1))))
        return text;
    const char *tokens = arena_format(arena, "%ld", 1024 * atol(text));
    tell_reading(arena, run,
                 arena_format(arena, "%s: \"%.20s\" is read as %s", column->name, text, tokens));
    return tokens;
}

static void read_cell(struct arena *arena, const struct csv *csv, int64_t row, int64_t place,
                      const struct column *column, struct measured_run *run) {
    void *at = (char *)run + column->offset;
    const char *text = csv_cell(csv, row, place);
    const char *mistake = NULL;
    if (column->type != COLUMN_LABEL) text = measured_cell(arena, text);
    if (column->offset == AT(seq_len) || column->offset == AT(seq_len_text))
        text = limit_behind(arena, text);
    int64_t meant;
    const bool pythons = column->offset == AT(zero_stage) && strcmp(text, "None") == 0;
    if (column->type >= COLUMN_COUNT && strcasecmp(text, "none") == 0 &&
        (pythons || !measured_count_word(arena, column->name, text, &meant)))
        text = "";
    switch (column->type) {
    case COLUMN_LABEL:
    case COLUMN_TEXT:
        *(const char **)at = text;
        break;
    case COLUMN_WORD:
    case COLUMN_WORDS:
        *(const char **)at = text;
        read_word(arena, column, at, run);
        break;
    case COLUMN_COUNT:
        *(int64_t *)at = -1;
        text = plain_length(arena, column, text, run);
        if (read_count(arena, column->name, text, at, run) &&
            (text[0] == '\0' || in_range(column, *(int64_t *)at)))
            break;
        if (column->offset != AT(iter_time_derived)) {
            mistake = count_mistake(arena, csv, row, place, column);
            break;
        }
        *(int64_t *)at = -1; /* a remark, which no figure depends on: it does not cost the row */
        tell_reading(
            arena, run,
            arena_format(arena, "%s: got \"%.40s\"; one of 0, 1: not read", column->name, text));
        break;
    case COLUMN_NUMBER:
        *(double *)at = NAN;
        if (text[0] == '\0' || parse_number(arena, text, at) ||
            read_as_outcome(arena, column, text, run) ||
            read_with_unit(arena, column, text, at, run))
            break;
        if (column->offset != AT(peak_mem_GiB)) {
            mistake = number_mistake(arena, csv, row, place, column);
            break;
        }
        tell_reading(
            arena, run, /* the time is worth the row */
            arena_format(arena, "peak_mem_GiB: \"%.40s\" is no number of GiB: not scored", text));
        break;
    }
    add_mistake(arena, run, mistake);
}

static void read_row(struct arena *arena, const struct csv *csv, int64_t row, const int64_t *places,
                     struct measured_run *run) {
    static const char *no_readings[] = { NULL };
    run->line = csv->lines[row];
    run->readings = no_readings;
    for (int i = 0; i < COLUMN_COUNT_ALL; i++)
        read_cell(arena, csv, row, places[i], &columns[i], run);
    char *said = arena_text(arena, run->notes);
    clause_blank_unstated(said);
    run->notes_cell = run->notes;
    run->notes = said;
    if (run->row_id[0] == '\0') run->row_id = arena_format(arena, "line %ld", (long)run->line);
    for (int i = 0; i < COLUMN_COUNT_ALL; i++) {
        if (columns[i].offset == AT(precision)) {
            read_recipe_of_precision(arena, csv_cell(csv, row, places[i]), run);
            read_weights_of_precision(arena, csv_cell(csv, row, places[i]), run);
        }
        if (columns[i].offset == AT(modality))
            read_text_of_modality(arena, csv_cell(csv, row, places[i]), run);
    }
    check_outcome(arena, run);
    check_lengths(arena, run);
    for (int i = 0; i < COLUMN_COUNT_ALL; i++) {
        const void *at = (const char *)run + columns[i].offset;
        if (columns[i].type < COLUMN_COUNT)
            add_mistake(arena, run, text_mistake(arena, csv, row, places[i], run, &columns[i]));
        else if (columns[i].type == COLUMN_NUMBER && is_far(&columns[i], *(const double *)at))
            add_mistake(arena, run, number_mistake(arena, csv, row, places[i], &columns[i]));
    }
}

static bool known_column(const char *name) {
    for (int i = 0; i < COLUMN_COUNT_ALL; i++)
        if (strcmp(columns[i].name, name) == 0) return true;
    return false;
}

/* The column whose value stands at the scenario's place; NULL: none does. */
static const char *column_of(struct arena *arena, const char *pointer, size_t length) {
    static const char *const others[][2] = { { "layer_count", "layers" },
                                             { "vocabulary", "vocab" } };
    static const char samples[] = "/samples"; /* below its batch */
    static const char targets[] = "/model/lora/targets/", rank[] = "/model/lora/rank";
    if (strncmp(pointer, targets, sizeof targets - 1) == 0) return "lora_targets";
    if (strncmp(pointer, rank, sizeof rank - 1) == 0) return "lora_rank";
    const size_t tail = sizeof samples - 1;
    if (length > tail && strncmp(pointer + length - tail, samples, tail) == 0) length -= tail;
    if (strncmp(pointer, "/model/name", length) == 0 && length == strlen("/model/name"))
        return "model";
    size_t start = length;
    while (start > 0 && pointer[start - 1] != '/')
        start--;
    const char *name = arena_format(arena, "%.*s", (int)(length - start), pointer + start);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(name, others[i][0]) == 0) return others[i][1];
    return known_column(name) ? name : NULL;
}

const char *measured_run_complaint(struct arena *arena, const struct measured_run *run,
                                   const char *error_text) {
    static const char mark[] = "error: ", hint_mark[] = "\n  hint: ";
    const char *start = strstr(error_text, mark), *hint = strstr(error_text, hint_mark);
    const char *why = start != NULL ? start + sizeof mark - 1 : error_text;
    const size_t length = why[0] == '/' ? strcspn(why, ":") : 0;
    const char *column = column_of(arena, why, length);
    if (column != NULL) why += length + (why[length] == ':') + (why[length + 1] == ' ');
    hint = hint != NULL ? hint + sizeof hint_mark - 1 : "";
    return arena_format(arena, "line %ld%s%s: %.*s%s%.*s", (long)run->line,
                        column != NULL ? ", " : "", column != NULL ? column : "",
                        (int)strcspn(why, "\n"), why, hint[0] != '\0' ? "; " : "",
                        (int)strcspn(hint, "\n"), hint);
}

bool measured_run_overlaps(const struct measured_run *run, const char *kind, bool otherwise) {
    return run->overlap[0] != '\0' ? strstr(run->overlap, kind) != NULL : otherwise;
}

/* A row that stands twice would count twice. */
static void mark_repeated(struct arena *arena, const struct measured_runs *runs) {
    for (int64_t i = 0; i < runs->count; i++)
        for (int64_t k = 0; k < i && runs->rows[i].mistake == NULL; k++)
            if (strcmp(runs->rows[i].row_id, runs->rows[k].row_id) == 0)
                runs->rows[i].mistake = arena_format(
                    arena, "line %ld, row_id: \"%.60s\" is line %ld's already",
                    (long)runs->rows[i].line, runs->rows[i].row_id, (long)runs->rows[k].line);
}

enum { HEADER_LIMIT = 1000 }; /* each name that is not known is compared with all that are */

static const char *column_name(const void *names, size_t index) {
    (void)names;
    return columns[index].name;
}

/* The column that a header means by a name of its own; NULL: none that is not there anyway. */
static const char *meant_column(struct arena *arena, const struct csv *csv, const char *name) {
    const char *meant = measured_column_meant(arena, name);
    if (meant == NULL) meant = nearest_name(name, COLUMN_COUNT_ALL, column_name, NULL);
    return meant != NULL && csv_column(csv, meant) < 0 ? meant : NULL;
}

static const char *unknown_column(struct arena *arena, const struct csv *csv, const char *name) {
    const char *near = meant_column(arena, csv, name);
    const char *more = near != NULL ? arena_format(arena, "; did you mean \"%s\"?", near)
                       : measured_column_of_video(name)
                           ? "; a sample's frames go into images_per_sample, their size into "
                             "image_wh"
                           : "";
    return arena_format(arena, "%s:1: note: the column \"%.60s\" is not known and was ignored%s",
                        csv->path, name, more);
}

static bool missing_column(struct arena *arena, const struct csv *csv, const char *name,
                           struct error *err) {
    const char *unit = strcmp(name, "iter_time_s") == 0 ? ", in seconds of an optimizer step" : "";
    error_at(err, csv->path, 1, 0,
             "the column \"%s\" is missing: this is not a file of measured runs", name);
    for (int64_t i = 0; i < csv->column_count; i++) {
        const char *meant =
            known_column(csv->header[i]) ? NULL : meant_column(arena, csv, csv->header[i]);
        if (meant != NULL && strcmp(meant, name) == 0)
            return error_hint(err, "is \"%.60s\" meant for it%s?", csv->header[i], unit);
    }
    return error_hint(err,
                      "%srow_id, hardware, gpu_count and iter_time_s must be there; "
                      "docs/VALIDATION.md has all columns",
                      unit[0] != '\0' ? "it holds seconds of an optimizer step; " : "");
}

bool measured_runs_read(struct arena *arena, const char *path, struct measured_runs *runs,
                        struct error *err) {
    const struct csv *csv = csv_load(arena, path, err);
    if (csv == NULL) return false;
    if (csv->column_count > HEADER_LIMIT)
        return error_at(err, csv->path, 1, 0,
                        "%ld columns are more than the %d that a file of measured runs may have",
                        (long)csv->column_count, HEADER_LIMIT);
    *runs = (struct measured_runs){ .path = csv->path, .count = csv->row_count };
    int64_t places[COLUMN_COUNT_ALL];
    for (int i = 0; i < COLUMN_COUNT_ALL; i++)
        places[i] = csv_column(csv, columns[i].name);
    static const char *const needed[] = { "row_id", "hardware", "gpu_count", "iter_time_s" };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (csv_column(csv, needed[i]) < 0) return missing_column(arena, csv, needed[i], err);
    if (csv->row_count == 0)
        return error_at(err, csv->path, 1, 0, "there is a header and no row below it");
    runs->notes = arena_array(arena, const char *, csv->column_count + 1);
    int64_t note_count = 0;
    for (int64_t i = 0; i < csv->column_count; i++)
        if (!known_column(csv->header[i]))
            runs->notes[note_count++] = unknown_column(arena, csv, csv->header[i]);
    runs->rows = arena_array(arena, struct measured_run, csv->row_count);
    for (int64_t row = 0; row < csv->row_count; row++)
        read_row(arena, csv, row, places, &runs->rows[row]);
    mark_repeated(arena, runs);
    return true;
}

static int compare_cells(const struct column *column, const struct measured_run *a,
                         const struct measured_run *b) {
    const void *left = (const char *)a + column->offset, *right = (const char *)b + column->offset;
    if (column->type == COLUMN_COUNT) {
        const int64_t x = *(const int64_t *)left, y = *(const int64_t *)right;
        return (x > y) - (x < y);
    }
    if (column->type == COLUMN_NUMBER) {
        const double x = *(const double *)left, y = *(const double *)right;
        return isnan(x) || isnan(y) ? (isnan(x) != 0) - (isnan(y) != 0) : (x > y) - (x < y);
    }
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

int measured_run_compare(const struct measured_run *a, const struct measured_run *b,
                         const char *const *except) {
    int order = 0;
    for (int i = 0; order == 0 && i < COLUMN_COUNT_ALL; i++)
        if (!clause_is_one_of(columns[i].name, except)) order = compare_cells(&columns[i], a, b);
    return order;
}
