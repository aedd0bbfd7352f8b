/* curves_json.c - the pieces of a curves file as JSON. */
#include "calibrate/fit/curves_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double curves_rounded(double value) {
    char text[32];
    snprintf(text, sizeof text, "%.4g", value);
    return strtod(text, NULL);
}

cJSON *curves_numbers(const double *values, int64_t count) {
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(values[i]));
    return list;
}

cJSON *curves_integers(const int64_t *values, int64_t count) {
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)values[i]));
    return list;
}

cJSON *curves_milli_rows(const double *log_ratio, int64_t row_count, int64_t row_size,
                         double shift) {
    cJSON *rows = cJSON_CreateArray();
    for (int64_t r = 0; r < row_count; r++) {
        cJSON *row = cJSON_CreateArray();
        for (int64_t i = 0; i < row_size; i++)
            cJSON_AddItemToArray(
                row, cJSON_CreateNumber(round(1000 * (log_ratio[r * row_size + i] + shift))));
        cJSON_AddItemToArray(rows, row);
    }
    return rows;
}

cJSON *curves_write(const struct field_table *table, const void *values, const cJSON *const *nodes,
                    size_t node_count) {
    cJSON *object = field_table_write(table, values);
    for (size_t i = 0; i < node_count; i++)
        cJSON_Delete((cJSON *)nodes[i]);
    return object;
}

void curves_drop_zero(cJSON *object, const char *key) {
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    if (value && value->valuedouble == 0) cJSON_DeleteItemFromObjectCaseSensitive(object, key);
}

void curves_drop_unseen(cJSON *matmul) {
    curves_drop_zero(matmul, "wave_exponent");
    curves_drop_zero(matmul, "wave_slots");
    curves_drop_zero(matmul, "cast_fraction");
}
