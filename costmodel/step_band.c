/* step_band.c - reads bands.json and looks a band up. */
#include "costmodel/step_band.h"

#include <math.h>
#include <string.h>
#include "costmodel/stack.h"

struct bands_fields {
    const char *description;
    double calibrated_inside, calibrated_outside, relative_inside, relative_outside, memory;
    double multimodal_low, multimodal_median, multimodal_high, encoder_low, encoder_median,
        encoder_high;
    double unknown, lost_least, unknown_stack_factor, uncalibrated_stack_factor, encoder_factor;
    double calibrated_pair, relative_pair;
    const cJSON *calibrated_on, *stacks;
};

#define WIDTH(name, member, help)                                                                  \
    { name, FIELD_DOUBLE, AT(member), 0.001, 10, NULL, "", help, NULL }
#define RATIO(name, member, help)                                                                  \
    { name, FIELD_DOUBLE, AT(member), 0.001, 1000, "null", "", help, NULL }
#define AT(member) offsetof(struct bands_fields, member)
static const struct field bands_rows[] = {
    { "description", FIELD_TEXT, AT(description), 0, 0, NULL, "", "in words", NULL },
    WIDTH("calibrated_inside", calibrated_inside,
          "stacks calibrated on the GPU, steps inside the measured range"),
    WIDTH("calibrated_outside", calibrated_outside, "the same, more than a tenth outside"),
    WIDTH("relative_inside", relative_inside, "stacks that take another's factors, or none"),
    WIDTH("relative_outside", relative_outside, "the same, more than a tenth outside"),
    RATIO("multimodal_low", multimodal_low,
          "models that write text behind encoders of images: a tenth of their runs took no more "
          "than this over the prediction"),
    RATIO("multimodal_median", multimodal_median, "half of them"),
    RATIO("multimodal_high", multimodal_high, "nine in ten"),
    RATIO("encoder_low", encoder_low,
          "the same of encoders alone, of pairs of them and of diffusion"),
    RATIO("encoder_median", encoder_median, "half of them"),
    RATIO("encoder_high", encoder_high, "nine in ten"),
    { "unknown", FIELD_DOUBLE, AT(unknown), 0.001, 10, "null", "",
      "measured runs whose stack is not known", NULL },
    { "lost_least", FIELD_DOUBLE, AT(lost_least), 0, 1, NULL, "",
      "the least 1 - HFU of the measured runs; what these widths are taken of is never less",
      NULL },
    { "unknown_stack_factor", FIELD_DOUBLE, AT(unknown_stack_factor), 0.1, 10, "1", "",
      "what these take over the prediction of the stack that stands in", NULL },
    { "uncalibrated_stack_factor", FIELD_DOUBLE, AT(uncalibrated_stack_factor), 0.1, 10, "1", "",
      "what kernels of a stack without factors of its own take over what it borrows", NULL },
    { "encoder_factor", FIELD_DOUBLE, AT(encoder_factor), 0.1, 10, "null", "",
      "what kernels of encoders alone, of pairs of them and of diffusion take over theirs", NULL },
    { "memory", FIELD_DOUBLE, AT(memory), 0.001, 10, "null", "", "peak memory, of all stacks",
      NULL },
    { "calibrated_pair", FIELD_DOUBLE, AT(calibrated_pair), 0.001, 10, "null", "",
      "ln of two runs' times against each other, of a calibrated stack", NULL },
    { "relative_pair", FIELD_DOUBLE, AT(relative_pair), 0.001, 10, "null", "",
      "the same of a stack that takes another's factors, or none", NULL },
    { "calibrated_on", FIELD_NODE, AT(calibrated_on), 0, 0, "null", "",
      "rows that the shipped factors were fitted on", NULL },
    { "stacks", FIELD_NODE, AT(stacks), 0, 0, "null", "",
      "calibrated stacks with rows of their own", NULL },
};
#undef AT
const struct field_table step_bands_table =
    FIELD_TABLE("bands", "80 % bands, half-width over 1 - HFU", bands_rows);

struct band_fields {
    const char *stack, *gpu;
    double inside, outside;
    int64_t rows;
    const cJSON *sources;
};

#define AT(member) offsetof(struct band_fields, member)
static const struct field band_rows[] = {
    { "stack", FIELD_TEXT, AT(stack), 0, 0, NULL, "", "its name", NULL },
    { "gpu", FIELD_TEXT, AT(gpu), 0, 0, NULL, "", "what the names of its hardware begin with",
      NULL },
    WIDTH("inside", inside, "steps inside the measured range"),
    WIDTH("outside", outside, "more than a tenth outside"),
    { "rows", FIELD_COUNT, AT(rows), 1, 1e6, NULL, "", "held-back rows of it", NULL },
    { "sources", FIELD_NODE, AT(sources), 0, 0, "null", "", "where these rows come from", NULL },
};
#undef AT
const struct field_table step_band_table = FIELD_TABLE("band", "of one stack and GPU", band_rows);

static const char **texts(struct arena *arena, const cJSON *array) {
    const char **list = arena_array(arena, const char *, cJSON_GetArraySize(array) + 1);
    int64_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, array) if (cJSON_IsString(item)) list[count++] =
        arena_text(arena, item->valuestring);
    return list;
}

bool step_band_lists(const char *const *list, const char *text) {
    for (; *list != NULL; list++)
        if (strcmp(*list, text) == 0) return true;
    return false;
}

/* Bands had one width for all models of images once. */
static bool refuse_old(const struct json *json, struct error *err) {
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(json_root(json), "multimodal");
    return node == NULL ||
           json_error(json, node, err,
                      "make the file again: ballast calibrate bands ROWS... -o FILE",
                      "bands of an earlier version, which had one width for both sides");
}

static bool check_ratios(const struct json *json, const char *low_key, struct step_ratios r,
                         struct error *err) {
    const int stated = !isnan(r.low) + !isnan(r.median) + !isnan(r.high);
    if (stated == 0 || (stated == 3 && r.low <= r.median && r.median <= r.high)) return true;
    const cJSON *root = json_root(json), *node = cJSON_GetObjectItemCaseSensitive(root, low_key);
    return json_error(json, node != NULL ? node : root, err, NULL,
                      "\"%s\" stands with _median and _high, each no less than the one before",
                      low_key);
}

bool step_bands_read(struct arena *arena, const struct json *json, struct step_bands *out,
                     struct error *err) {
    struct bands_fields f;
    if (!refuse_old(json, err)) return false;
    if (!field_table_read(&step_bands_table, json, json_root(json), &f, arena, err)) return false;
    *out = (struct step_bands){
        .calibrated = { f.calibrated_outside, f.calibrated_inside },
        .relative = { f.relative_outside, f.relative_inside },
        .images = { { f.encoder_low, f.encoder_median, f.encoder_high },
                    { f.multimodal_low, f.multimodal_median, f.multimodal_high } },
        .unknown = f.unknown,
        .lost_least = f.lost_least,
        .unknown_stack_factor = f.unknown_stack_factor,
        .uncalibrated_stack_factor = f.uncalibrated_stack_factor,
        .encoder_factor = f.encoder_factor,
        .memory = f.memory,
        .pair = { f.relative_pair, f.calibrated_pair },
        .calibrated_on = texts(arena, f.calibrated_on),
        .stacks = arena_array(arena, struct step_band, cJSON_GetArraySize(f.stacks) + 1),
    };
    if (!check_ratios(json, "encoder_low", out->images[false], err) ||
        !check_ratios(json, "multimodal_low", out->images[true], err))
        return false;
    const cJSON *item;
    cJSON_ArrayForEach(item, f.stacks) {
        struct band_fields b;
        if (!field_table_read(&step_band_table, json, item, &b, arena, err)) return false;
        out->stacks[out->stack_count++] = (struct step_band){
            b.stack, b.gpu, { b.outside, b.inside }, b.rows, texts(arena, b.sources)
        };
    }
    return true;
}

const struct step_band *step_band_of(const struct step_bands *bands, const char *stack,
                                     const char *gpu) {
    for (int64_t i = 0; i < bands->stack_count; i++) {
        const struct step_band *b = &bands->stacks[i];
        if (strcmp(b->stack, stack) == 0 && stack_gpu_is(gpu, b->gpu)) return b;
    }
    return NULL;
}

static double width_of(const struct step_bands *bands, const char *stack, const char *gpu,
                       bool calibrated, bool home, bool inside) {
    if (stack == NULL || !calibrated) return bands->relative[inside];
    const struct step_band *own = step_band_of(bands, stack, gpu);
    if (own != NULL && home) return own->width[inside];
    if (own != NULL)
        return sqrt(own->width[inside] * fmax(own->width[inside], bands->relative[inside]));
    /* Its rows were all fitted on, or there are none on this GPU: nobody has seen it err. */
    return fmax(bands->calibrated[inside], bands->relative[inside]);
}

double step_band_fraction(const struct step_bands *bands, const char *stack, const char *gpu,
                          bool calibrated, bool home, bool inside, double lost_fraction) {
    return width_of(bands, stack, gpu, calibrated, home, inside) *
           fmax(lost_fraction, bands->lost_least);
}

struct band step_ratios_band(struct step_ratios ratios) {
    return (struct band){ 1 - ratios.low, ratios.high - 1 };
}

struct step_ratios step_band_of_images(const struct step_bands *bands, bool writes_text,
                                       double encoder_factor) {
    const struct step_ratios took = bands->images[writes_text];
    if (writes_text || isnan(bands->encoder_factor)) return took;
    const double more = bands->encoder_factor / encoder_factor;
    return (struct step_ratios){ more * took.low, more * took.median, more * took.high };
}

double step_band_of_unknown(const struct step_bands *bands, double lost_fraction) {
    return bands->unknown * fmax(lost_fraction, bands->lost_least);
}
