/* efficiency_file.c - the curves files: their field tables, and reading them into arrays.
 *
 * Human units become base units here, and all sizes their logarithms, so that pricing
 * (efficiency.c) neither converts nor compares text.
 */
#include "costmodel/efficiency.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define AT(type, member) offsetof(struct type, member)
#define US_PER_S         1e6

const char *const efficiency_collective_names[] = { "all-reduce", "all-gather", "reduce-scatter",
                                                    "all-to-all", "send",       NULL };
static_assert(sizeof efficiency_collective_names / sizeof efficiency_collective_names[0] ==
                  OPERATOR_SEND - OPERATOR_ALL_REDUCE + 2,
              "a name per collective");

const char *const efficiency_pass_names[] = { "forward", "input gradient", "weight gradient",
                                              NULL };
static_assert(PASS_FORWARD == 0 && PASS_WEIGHT_GRADIENT == 2, "names stand in the enum's order");

/* What a training curve and a variant's curve have in common. */
#define M(member) AT(matmul_fields, member)
#define MATMUL_FORM_ROWS                                                                                \
    { "source", FIELD_TEXT, M(source), 0, 0, NULL, "", "measurements behind the curve", NULL },         \
        { "launch_us", FIELD_DOUBLE, M(launch_us), 0, 1000, NULL, "us", "start and drain", NULL },      \
        { "efficiency", FIELD_DOUBLE, M(efficiency), 0.01, 1, NULL, "", "of peak, endless k", NULL },   \
        { "k_half", FIELD_DOUBLE, M(k_half), 0, 1e5, NULL, "", "depth that halves it", NULL },          \
        { "memory_fraction",                                                                            \
          FIELD_DOUBLE,                                                                                 \
          M(memory_fraction),                                                                           \
          0.01,                                                                                         \
          2,                                                                                            \
          NULL,                                                                                         \
          "",                                                                                           \
          "of HBM bandwidth; above 1 where operands stay in L2",                                        \
          NULL },                                                                                       \
        { "power_slope",                                                                                \
          FIELD_DOUBLE,                                                                                 \
          M(power_slope),                                                                               \
          0,                                                                                            \
          1,                                                                                            \
          "0",                                                                                          \
          "",                                                                                           \
          "loss for each e-fold of duration beyond the onset",                                          \
          NULL },                                                                                       \
        { "power_onset_us",                                                                             \
          FIELD_DOUBLE,                                                                                 \
          M(power_onset_us),                                                                            \
          1,                                                                                            \
          1e6,                                                                                          \
          "1000",                                                                                       \
          "us",                                                                                         \
          "duration from which the power limit is felt",                                                \
          NULL },                                                                                       \
        { "power_floor", FIELD_DOUBLE, M(power_floor), 0.1, 1, "1", "", "least that is left", NULL },   \
        { "wave_exponent",                                                                              \
          FIELD_DOUBLE,                                                                                 \
          M(wave_exponent),                                                                             \
          0,                                                                                            \
          2,                                                                                            \
          "0",                                                                                          \
          "",                                                                                           \
          "of the share that whole waves of tiles take more; 0: no waves",                              \
          NULL },                                                                                       \
        { "wave_slots", FIELD_DOUBLE, M(wave_slots), 0, 1e5, "0", "", "tiles that run at once", NULL }, \
    {                                                                                                   \
        "cast_fraction", FIELD_DOUBLE, M(cast_fraction), 0, 10, "0", "",                                \
            "of HBM bandwidth, of a quantisation of the operand timed with the matmul; 0: none",        \
            NULL                                                                                        \
    }
#define MATMUL_TABLE_ROWS                                                                           \
    {                                                                                               \
        "band_fraction", FIELD_DOUBLE, M(band_fraction), 0, 10, NULL, "", "80 % of residuals", NULL \
    },                                                                                              \
        { "outside_band_fraction",                                                                  \
          FIELD_DOUBLE,                                                                             \
          M(outside_band_fraction),                                                                 \
          0,                                                                                        \
          10,                                                                                       \
          NULL,                                                                                     \
          "",                                                                                       \
          "the same beyond the measured shapes",                                                    \
          NULL },                                                                                   \
        { "m", FIELD_NODE, M(m), 0, 0, "null", "", "table axis", NULL },                            \
        { "n", FIELD_NODE, M(n), 0, 0, "null", "", "table axis", NULL },                            \
        { "k", FIELD_NODE, M(k), 0, 0, "null", "", "table axis", NULL }, {                          \
        "log_ratio_milli", FIELD_NODE, M(log_ratio_milli), 0, 0, "null", "",                        \
            "1000 ln(measured / closed form): a list of m, each a list over n then k", NULL         \
    }
static const struct field matmul_rows[] = {
    MATMUL_FORM_ROWS,
    { "settled_efficiency", FIELD_DOUBLE, M(settled_efficiency), 0.01, 1, NULL, "",
      "ceiling in a training step", NULL },
    { "settled_k_half", FIELD_DOUBLE, M(settled_k_half), 0, 1e5, NULL, "", "its depth", NULL },
    { "fp8_settled_efficiency", FIELD_DOUBLE, M(fp8_settled_efficiency), 0.01, 1, "0.72", "",
      "of the fp8 peak: cuBLASLt after 10,000 warm-ups on H100 and H200 at 700 W, 0.51, 0.615, "
      "0.652, 0.696 and 0.698 at cubes of 2048 to 32768 (Azure/AI-benchmarking-guide)",
      NULL },
    { "fp4_settled_efficiency", FIELD_DOUBLE, M(fp4_settled_efficiency), 0.01, 1, "0.72", "",
      "of the fp4 peak", NULL },
    { "fp8_settled_k_half", FIELD_DOUBLE, M(fp8_settled_k_half), 0, 1e5, "700", "",
      "depth of both: a tile's pipeline fills as slowly as in bf16 and works twice as fast", NULL },
    { "settled_source", FIELD_TEXT, M(settled_source), 0, 0, NULL, "", "its evidence", NULL },
    { "weight_gradient_factor", FIELD_DOUBLE, M(weight_gradient_factor), 0.1, 1.5, NULL, "",
      "efficiency of that layout over the forward one", NULL },
    { "fp8_efficiency", FIELD_DOUBLE, M(fp8_efficiency), 0.01, 1, NULL, "", "of fp8 peak", NULL },
    { "fp4_efficiency", FIELD_DOUBLE, M(fp4_efficiency), 0, 1, "0", "",
      "of fp4 peak; 0 where there is none", NULL },
    { "rowwise_time", FIELD_DOUBLE, M(rowwise_time), 1, 4, "1.05", "",
      "of an fp8 matmul with a scale for each row and column, over one scale a tensor: most shapes "
      "between 1 and 1.11 on H100 (pytorch/pytorch issue 147971)",
      NULL },
    { "blockwise_time", FIELD_DOUBLE, M(blockwise_time), 1, 4, "1.22", "",
      "the same with scales for blocks of 128 values in software: 22.88 ms a layer on H200 with "
      "casts, 20.29 with one scale a tensor, 16.79 of it matmuls (NVIDIA/TransformerEngine, "
      "docs/examples/gemm_profiling); Blackwell runs them as mxfp8",
      NULL },
    { "mxfp8_time", FIELD_DOUBLE, M(mxfp8_time), 1, 4, "1.051", "",
      "the same with MXFP8's scale for every 32 values: 7.161 over 6.812 ms a layer on B300, "
      "operands cast before (the same page)",
      NULL },
    MATMUL_TABLE_ROWS,
};
static const struct field variant_matmul_rows[] = {
    { "precision", FIELD_CHOICE, M(precision), 0, 0, NULL, "", "of the operands", precision_names },
    { "pass", FIELD_CHOICE, M(pass), 0, 0, NULL, "", "whose layout was measured",
      efficiency_pass_names },
    MATMUL_FORM_ROWS,
    MATMUL_TABLE_ROWS,
};
#undef M
const struct field_table efficiency_matmul_table =
    FIELD_TABLE("matmul", "matrix multiplication", matmul_rows);
const struct field_table efficiency_variant_matmul_table =
    FIELD_TABLE("variant matmul", "matrix multiplication of one framework", variant_matmul_rows);

static const struct field variant_rows[] = {
    { "name", FIELD_TEXT, AT(variant_fields, name), 0, 0, NULL, "", "the framework", NULL },
    { "matmul", FIELD_NODE, AT(variant_fields, matmul), 0, 0, "null", "",
      "one curve for each precision and pass", NULL },
    { "attention", FIELD_NODE, AT(variant_fields, attention), 0, 0, "null", "",
      "as the training curves' attention", NULL },
    { "collectives", FIELD_NODE, AT(variant_fields, collectives), 0, 0, "null", "",
      "tables of one version of NCCL", NULL },
};
const struct field_table efficiency_variant_table =
    FIELD_TABLE("variant", "kernels of one framework", variant_rows);

#define A(member) AT(attention_fields, member)
static const struct field attention_rows[] = {
    { "backward_factor", FIELD_DOUBLE, A(backward_factor), 0.1, 2, NULL, "",
      "backward over forward efficiency, endless sequences", NULL },
    { "backward_length_half", FIELD_DOUBLE, A(backward_length_half), 0, 1e5, NULL, "",
      "length that halves that factor", NULL },
    { "backward_rows_half", FIELD_DOUBLE, A(backward_rows_half), 0, 1e7, "0", "",
      "queries x heads of a launch that halve it", NULL },
    { "backward_power_slope", FIELD_DOUBLE, A(backward_power_slope), 0, 1, "0", "",
      "loss for each e-fold of duration beyond 1 ms", NULL },
    { "backward_wide_time", FIELD_DOUBLE, A(backward_wide_time), 1, 4, "1.28", "",
      "backward of heads of 256 over what their forward and the factor say, less for those from "
      "128 on: cuDNN on GB200 and GB300 1.28, on H200 1.45, FlashAttention-2 on A100 PCIe 1.27 "
      "(NVIDIA/cudnn-frontend, results of 28 September 2026)",
      NULL },
    { "backward_band_fraction", FIELD_DOUBLE, A(backward_band_fraction), 0, 10, NULL, "",
      "80 % of backward residuals", NULL },
    { "backward_source", FIELD_TEXT, A(backward_source), 0, 0, NULL, "", "its evidence", NULL },
    { "curves", FIELD_NODE, A(curves), 0, 0, NULL, "", "one for each head size and mask", NULL },
};
#undef A
const struct field_table efficiency_attention_table =
    FIELD_TABLE("attention", "fused attention", attention_rows);

#define C(member) AT(attention_curve_fields, member)
static const struct field attention_curve_rows[] = {
    { "source", FIELD_TEXT, C(source), 0, 0, NULL, "", "measurements behind the curve", NULL },
    { "head_dim", FIELD_COUNT, C(head_dim), 8, 1024, NULL, "", "head size", NULL },
    { "causal", FIELD_BOOL, C(causal), 0, 0, NULL, "", "mask", NULL },
    { "efficiency", FIELD_DOUBLE, C(efficiency), 0.01, 1, NULL, "", "of peak, endless length",
      NULL },
    { "length_half", FIELD_DOUBLE, C(length_half), 0, 1e5, NULL, "", "length that halves it",
      NULL },
    { "launch_us", FIELD_DOUBLE, C(launch_us), 0, 1000, NULL, "us", "start and drain", NULL },
    { "rows_half", FIELD_DOUBLE, C(rows_half), 0, 1e7, "0", "",
      "queries x heads of a launch that halve it", NULL },
    { "power_slope", FIELD_DOUBLE, C(power_slope), 0, 1, "0", "",
      "loss for each e-fold of duration beyond 1 ms", NULL },
    { "tile_rows", FIELD_DOUBLE, C(tile_rows), 0, 4096, "0", "", "queries of one tile; 0: no waves",
      NULL },
    { "tile_slots", FIELD_DOUBLE, C(tile_slots), 1, 1e5, "1", "", "tiles that run at once", NULL },
    { "band_fraction", FIELD_DOUBLE, C(band_fraction), 0, 10, NULL, "", "80 % of residuals", NULL },
    { "length", FIELD_NODE, C(length), 0, 0, "null", "", "table axis", NULL },
    { "query_heads", FIELD_NODE, C(query_heads), 0, 0, "null", "",
      "table axis: samples x query heads", NULL },
    { "group", FIELD_NODE, C(group), 0, 0, "null", "", "table axis: query heads of one key head",
      NULL },
    { "log_ratio_milli", FIELD_NODE, C(log_ratio_milli), 0, 0, "null", "",
      "1000 ln(measured / closed form): a list of length, each over query_heads then group", NULL },
};
#undef C
const struct field_table efficiency_attention_curve_table =
    FIELD_TABLE("attention curve", "one head size and mask", attention_curve_rows);

#define S(member) AT(streaming_fields, member)
static const struct field streaming_rows[] = {
    { "source", FIELD_TEXT, S(source), 0, 0, NULL, "", "measurements behind the figures", NULL },
    { "launch_us", FIELD_DOUBLE, S(launch_us), 0, 1000, NULL, "us", "kernel to kernel, one stream",
      NULL },
    { "graph_launch_us", FIELD_DOUBLE, S(graph_launch_us), 0, 1000, NULL, "us",
      "kernel to kernel, CUDA graph", NULL },
    { "norm_forward", FIELD_DOUBLE, S(norm_forward), 0.01, 1, NULL, "", "of HBM bandwidth", NULL },
    { "norm_backward", FIELD_DOUBLE, S(norm_backward), 0.01, 1, NULL, "", "of HBM bandwidth",
      NULL },
    { "elementwise", FIELD_DOUBLE, S(elementwise), 0.01, 1, NULL, "", "of HBM bandwidth", NULL },
    { "embedding", FIELD_DOUBLE, S(embedding), 0.01, 1, NULL, "", "of HBM bandwidth", NULL },
    { "loss", FIELD_DOUBLE, S(loss), 0.01, 1, NULL, "", "of HBM bandwidth", NULL },
    { "optimizer", FIELD_DOUBLE, S(optimizer), 0.01, 1, NULL, "", "of HBM bandwidth", NULL },
    { "band_fraction", FIELD_DOUBLE, S(band_fraction), 0, 10, NULL, "", "80 % of residuals", NULL },
};
#undef S
const struct field_table efficiency_streaming_table =
    FIELD_TABLE("streaming", "memory-bound kernels", streaming_rows);

#define L(member) AT(collective_fields, member)
static const struct field collective_rows[] = {
    { "op", FIELD_CHOICE, L(op), 0, 0, NULL, "", "the collective", efficiency_collective_names },
    { "rank_count", FIELD_COUNT, L(rank_count), 2, 1024, NULL, "", "GPUs, all in one node", NULL },
    { "source", FIELD_TEXT, L(source), 0, 0, NULL, "", "measurements behind the table", NULL },
    { "plateau_GB_per_s", FIELD_DOUBLE, L(plateau_GB_per_s), 0.1, 1e5, NULL, "GB/s",
      "bus bandwidth of buffers beyond the table", NULL },
    { "band_fraction", FIELD_DOUBLE, L(band_fraction), 0, 10, NULL, "", "80 % of residuals", NULL },
    { "own_links", FIELD_BOOL, L(own_links), 0, 0, "false", "",
      "measured over the links of the GPU that names the file: never scaled to others", NULL },
    { "bytes", FIELD_NODE, L(bytes), 0, 0, NULL, "", "buffer sizes, ascending", NULL },
    { "time_us", FIELD_NODE, L(time_us), 0, 0, NULL, "", "their times", NULL },
};
#undef L
const struct field_table efficiency_collective_table =
    FIELD_TABLE("collective", "one collective among the GPUs of one node", collective_rows);

struct file_fields {
    const char *gpu, *relative, *note;
    bool derived;
    const cJSON *matmul, *attention, *streaming, *collectives, *variants;
};

static const struct field file_rows[] = {
    { "gpu", FIELD_TEXT, AT(file_fields, gpu), 0, 0, NULL, "", "the GPU these curves are of",
      NULL },
    { "relative", FIELD_TEXT, AT(file_fields, relative), 0, 0, "\"\"", "",
      "the shipped GPU whose curves stand where this one was not measured", NULL },
    { "note", FIELD_TEXT, AT(file_fields, note), 0, 0, "\"\"", "", "how the file came to be",
      NULL },
    { "derived", FIELD_BOOL, AT(file_fields, derived), 0, 0, "false", "",
      "its matmuls are another GPU's by a rule: none was measured on it", NULL },
    { "matmul", FIELD_NODE, AT(file_fields, matmul), 0, 0, NULL, "", "matmul curve", NULL },
    { "attention", FIELD_NODE, AT(file_fields, attention), 0, 0, NULL, "", "attention", NULL },
    { "streaming", FIELD_NODE, AT(file_fields, streaming), 0, 0, NULL, "", "memory bound", NULL },
    { "collectives", FIELD_NODE, AT(file_fields, collectives), 0, 0, NULL, "", "one node", NULL },
    { "variants", FIELD_NODE, AT(file_fields, variants), 0, 0, "null", "",
      "kernels of named frameworks", NULL },
};
static const struct field_table file_table = FIELD_TABLE("curves", "one GPU's curves", file_rows);

/* ---- reading ----------------------------------------------------------------------------------
 */

/* An ascending list of positive numbers; `count_max` of them at most. */
static bool read_sizes(const struct json *json, const cJSON *list, int64_t count_max, double *sizes,
                       int64_t *count, struct error *err) {
    if (!cJSON_IsArray(list)) return json_error(json, list, err, NULL, "must be a list of numbers");
    *count = 0;
    double last = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        if (*count == count_max)
            return json_error(json, list, err, NULL, "has more than %lld numbers",
                              (long long)count_max);
        if (!cJSON_IsNumber(item) || item->valuedouble <= last)
            return json_error(json, item, err, NULL, "must be a number above the one before");
        last = sizes[(*count)++] = item->valuedouble;
    }
    return *count > 0 || json_error(json, list, err, NULL, "must not be empty");
}

static bool read_axis(const struct json *json, const cJSON *list, struct log_axis *axis,
                      struct error *err) {
    if (!read_sizes(json, list, EFFICIENCY_AXIS_MAX, axis->log2_at, &axis->count, err))
        return false;
    for (int64_t i = 0; i < axis->count; i++)
        axis->log2_at[i] = log2(axis->log2_at[i]);
    return true;
}

/* `rows` is a list over the first axis of lists over all the others. */
static bool read_correction(const struct json *json, const cJSON *rows, struct arena *arena,
                            struct correction_table *table, struct error *err) {
    int64_t row_size = 1;
    for (int64_t a = 1; a < table->axis_count; a++)
        row_size *= table->axes[a].count;
    const int64_t row_count = table->axes[0].count;
    if (cJSON_GetArraySize(rows) != row_count)
        return json_error(json, rows, err, NULL,
                          "must have %lld rows, one for each size of the "
                          "first axis, got %d",
                          (long long)row_count, cJSON_GetArraySize(rows));
    float *out = arena_array(arena, float, row_count *row_size);
    table->log_ratio = out;
    const cJSON *row, *item;
    cJSON_ArrayForEach(row, rows) {
        if (cJSON_GetArraySize(row) != row_size)
            return json_error(json, row, err, NULL, "must have %lld numbers, got %d",
                              (long long)row_size, cJSON_GetArraySize(row));
        cJSON_ArrayForEach(item, row) {
            if (!cJSON_IsNumber(item) || fabs(item->valuedouble) > 5000)
                return json_error(json, item, err, NULL, "must be a number from -5000 to 5000");
            *out++ = (float)(item->valuedouble / 1000);
        }
    }
    return true;
}

/* The part that matmul_fields of both tables share. */
static bool read_matmul_form(const struct json *json, const cJSON *node,
                             const struct matmul_fields *f, struct arena *arena,
                             struct matmul_curve *out, struct error *err) {
    out->launch_s = f->launch_us / US_PER_S;
    out->efficiency = f->efficiency;
    out->k_half = f->k_half;
    out->memory_fraction = f->memory_fraction;
    out->power_slope = f->power_slope;
    out->power_onset_s = f->power_onset_us / US_PER_S;
    out->power_floor = f->power_floor;
    out->wave_exponent = f->wave_exponent;
    out->wave_slots = f->wave_slots;
    out->cast_fraction = f->cast_fraction;
    out->band_fraction = f->band_fraction;
    out->outside_band_fraction = f->outside_band_fraction;
    out->source = f->source;
    if (f->wave_exponent > 0 && !(f->wave_slots > 0))
        return json_error(json, node, err, "the GPU's multiprocessors, such as 132 of H100",
                          "\"wave_exponent\" needs \"wave_slots\" above 0");
    if (!f->log_ratio_milli || cJSON_IsNull(f->log_ratio_milli)) return true;
    out->correction.axis_count = 3;
    return read_axis(json, f->m, &out->correction.axes[0], err) &&
           read_axis(json, f->n, &out->correction.axes[1], err) &&
           read_axis(json, f->k, &out->correction.axes[2], err) &&
           read_correction(json, f->log_ratio_milli, arena, &out->correction, err);
}

static bool read_matmul(const struct json *json, const cJSON *node, struct arena *arena,
                        struct matmul_curve *out, struct error *err) {
    struct matmul_fields f;
    if (!field_table_read(&efficiency_matmul_table, json, node, &f, arena, err)) return false;
    *out = (struct matmul_curve){
        .settled_efficiency = f.settled_efficiency,
        .settled_k_half = f.settled_k_half,
        .fp8_settled_efficiency = f.fp8_settled_efficiency,
        .fp4_settled_efficiency = f.fp4_settled_efficiency,
        .fp8_settled_k_half = f.fp8_settled_k_half,
        .rowwise_time = f.rowwise_time,
        .blockwise_time = f.blockwise_time,
        .mxfp8_time = f.mxfp8_time,
        .weight_gradient_factor = f.weight_gradient_factor,
        .fp8_efficiency = f.fp8_efficiency,
        .fp4_efficiency = f.fp4_efficiency,
        .settled_source = f.settled_source,
    };
    return read_matmul_form(json, node, &f, arena, out, err);
}

static bool read_attention_curve(const struct json *json, const cJSON *node, struct arena *arena,
                                 struct attention_curve *out, struct error *err) {
    struct attention_curve_fields f;
    if (!field_table_read(&efficiency_attention_curve_table, json, node, &f, arena, err))
        return false;
    *out = (struct attention_curve){
        .head_dim = f.head_dim,
        .causal = f.causal,
        .efficiency = f.efficiency,
        .length_half = f.length_half,
        .launch_s = f.launch_us / US_PER_S,
        .rows_half = f.rows_half,
        .power_slope = f.power_slope,
        .tile_rows = f.tile_rows,
        .tile_slots = f.tile_slots,
        .band_fraction = f.band_fraction,
        .source = f.source,
    };
    if (!f.log_ratio_milli || cJSON_IsNull(f.log_ratio_milli)) return true;
    out->correction.axis_count = 3;
    return read_axis(json, f.length, &out->correction.axes[0], err) &&
           read_axis(json, f.query_heads, &out->correction.axes[1], err) &&
           read_axis(json, f.group, &out->correction.axes[2], err) &&
           read_correction(json, f.log_ratio_milli, arena, &out->correction, err);
}

static bool read_attention(const struct json *json, const cJSON *node, struct arena *arena,
                           struct attention_curves *out, struct error *err) {
    struct attention_fields f;
    if (!field_table_read(&efficiency_attention_table, json, node, &f, arena, err)) return false;
    *out = (struct attention_curves){
        .backward_factor = f.backward_factor,
        .backward_length_half = f.backward_length_half,
        .backward_rows_half = f.backward_rows_half,
        .backward_power_slope = f.backward_power_slope,
        .backward_band_fraction = f.backward_band_fraction,
        .backward_wide_time = f.backward_wide_time,
        .count = cJSON_GetArraySize(f.curves),
    };
    struct attention_curve *curves = arena_array(arena, struct attention_curve, out->count);
    out->curves = curves;
    int64_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, f.curves) {
        struct attention_curve *c = &curves[i];
        if (!read_attention_curve(json, item, arena, c, err)) return false;
        if (i > 0 && (c[-1].causal > c->causal ||
                      (c[-1].causal == c->causal && c[-1].head_dim >= c->head_dim)))
            return json_error(json, item, err, NULL,
                              "curves must be sorted: causal false first, then by head_dim");
        if (!out->has[c->causal]) out->first[c->causal] = i;
        out->has[c->causal] = true;
        out->last[c->causal] = i++;
    }
    return true;
}

static bool read_streaming(const struct json *json, const cJSON *node, struct arena *arena,
                           struct streaming_curve *out, struct error *err) {
    struct streaming_fields f;
    if (!field_table_read(&efficiency_streaming_table, json, node, &f, arena, err)) return false;
    *out = (struct streaming_curve){
        .launch_s = f.launch_us / US_PER_S,
        .graph_launch_s = f.graph_launch_us / US_PER_S,
        .norm_forward = f.norm_forward,
        .norm_backward = f.norm_backward,
        .elementwise = f.elementwise,
        .embedding = f.embedding,
        .loss = f.loss,
        .optimizer = f.optimizer,
        .band_fraction = f.band_fraction,
        .source = f.source,
    };
    return true;
}

static bool read_collective(const struct json *json, const cJSON *node, struct arena *arena,
                            struct collective_table *out, struct error *err) {
    struct collective_fields f;
    if (!field_table_read(&efficiency_collective_table, json, node, &f, arena, err)) return false;
    *out = (struct collective_table){
        .op = OPERATOR_ALL_REDUCE + f.op,
        .rank_count = f.rank_count,
        .plateau_bytes_per_s = f.plateau_GB_per_s * 1e9,
        .band_fraction = f.band_fraction,
        .own_links = f.own_links,
        .source = f.source,
    };
    int64_t time_count;
    if (!read_sizes(json, f.bytes, COLLECTIVE_SIZE_MAX, out->log2_bytes, &out->count, err))
        return false;
    for (int64_t i = 0; i < out->count; i++)
        out->log2_bytes[i] = log2(out->log2_bytes[i]);
    /* Ascending times: a larger buffer is never faster. */
    if (!read_sizes(json, f.time_us, COLLECTIVE_SIZE_MAX, out->log_s, &time_count, err))
        return false;
    if (time_count != out->count)
        return json_error(json, f.time_us, err, NULL,
                          "must have %lld numbers as bytes has, got "
                          "%lld",
                          (long long)out->count, (long long)time_count);
    out->latency_s = out->log_s[0] / US_PER_S;
    for (int64_t i = 0; i < out->count; i++)
        out->log_s[i] = log(out->log_s[i] / US_PER_S);
    return true;
}

static bool read_collectives(const struct json *json, const cJSON *list, struct arena *arena,
                             struct collective_curves *out, struct error *err) {
    out->count = cJSON_GetArraySize(list);
    struct collective_table *tables = arena_array(arena, struct collective_table, out->count);
    out->tables = tables;
    int64_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        struct collective_table *t = &tables[i];
        if (!read_collective(json, item, arena, t, err)) return false;
        if (i > 0 && (t[-1].op > t->op || (t[-1].op == t->op && t[-1].rank_count >= t->rank_count)))
            return json_error(json, item, err, NULL,
                              "collectives must be sorted by op, then by rank_count");
        if (!out->has[t->op]) out->first[t->op] = i;
        out->has[t->op] = true;
        out->last[t->op] = i++;
    }
    return true;
}

static bool read_all_collectives(const struct json *json, const cJSON *list, struct arena *arena,
                                 struct collective_curves *out, struct error *err) {
    if (!read_collectives(json, list, arena, out, err)) return false;
    for (int op = OPERATOR_ALL_REDUCE; op <= OPERATOR_SEND; op++)
        if (!out->has[op])
            return json_error(json, list, err, NULL, "has no table for %s",
                              operator_kind_name((enum operator_kind)op));
    return true;
}

/* Fills the row of a precision: a pass without its own curve takes the forward one. */
static bool place_variant_curve(const struct json *json, const cJSON *node,
                                const struct matmul_curve *curve, enum operator_pass pass,
                                struct framework_variant *out, struct error *err) {
    const struct matmul_curve **row = out->matmul[curve->precision];
    if (pass != PASS_FORWARD && !row[PASS_FORWARD])
        return json_error(json, node, err, NULL, "needs the forward curve before it");
    if (pass != PASS_FORWARD)
        row[pass] = curve;
    else
        for (int p = 0; p < PASS_COUNT; p++)
            row[p] = curve;
    return true;
}

static bool read_variant_matmuls(const struct json *json, const cJSON *list,
                                 const struct matmul_curve *training, struct arena *arena,
                                 struct framework_variant *out, struct error *err) {
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        struct matmul_fields f;
        struct matmul_curve *curve = arena_new(arena, struct matmul_curve);
        if (!field_table_read(&efficiency_variant_matmul_table, json, item, &f, arena, err) ||
            !read_matmul_form(json, item, &f, arena, curve, err))
            return false;
        curve->precision = (enum precision)f.precision;
        curve->fp8_efficiency = curve->fp4_efficiency = curve->efficiency;
        curve->rowwise_time = training->rowwise_time;
        curve->blockwise_time = training->blockwise_time;
        curve->mxfp8_time = training->mxfp8_time;
        curve->weight_gradient_factor =
            f.pass == PASS_WEIGHT_GRADIENT ? 1 : training->weight_gradient_factor;
        if (!place_variant_curve(json, item, curve, (enum operator_pass)f.pass, out, err))
            return false;
    }
    /* The two 16-bit formats run at one speed. */
    memcpy(out->matmul[PRECISION_FP16], out->matmul[PRECISION_BF16],
           sizeof out->matmul[PRECISION_FP16]);
    return true;
}

static bool read_variants(const struct json *json, const cJSON *list, struct arena *arena,
                          struct efficiency *out, struct error *err) {
    out->variant_count = cJSON_GetArraySize(list);
    struct framework_variant *variant =
        arena_array(arena, struct framework_variant, out->variant_count + 1);
    out->variants = variant;
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        struct variant_fields f;
        if (!field_table_read(&efficiency_variant_table, json, item, &f, arena, err) ||
            !read_variant_matmuls(json, f.matmul, &out->matmul, arena, variant, err))
            return false;
        if (f.attention && !cJSON_IsNull(f.attention) &&
            !read_attention(json, f.attention, arena, &variant->attention, err))
            return false;
        if (f.collectives && !cJSON_IsNull(f.collectives) &&
            !read_collectives(json, f.collectives, arena, &variant->collectives, err))
            return false;
        variant++->name = f.name;
    }
    return true;
}

bool efficiency_read(const struct json *json, struct arena *arena, struct efficiency *out,
                     struct error *err) {
    struct file_fields f;
    memset(out, 0, sizeof *out);
    if (!field_table_read(&file_table, json, json_root(json), &f, arena, err)) return false;
    out->gpu = f.gpu;
    out->relative = f.relative;
    out->note = f.note;
    out->derived = f.derived;
    if (!read_matmul(json, f.matmul, arena, &out->matmul, err) ||
        !read_attention(json, f.attention, arena, &out->attention, err) ||
        !read_streaming(json, f.streaming, arena, &out->streaming, err) ||
        !read_all_collectives(json, f.collectives, arena, &out->collectives, err) ||
        !read_variants(json, f.variants, arena, out, err))
        return false;
    if (!out->attention.has[false] || !out->attention.has[true])
        return json_error(json, f.attention, err, NULL,
                          "needs a curve with and one without causal");
    return true;
}
