/* configuration_table.h - configurations of a sweep by their hash. Private to the sweep.
 *
 *     struct configuration_table seen = { 0 };
 *     configuration_table_insert(&seen, hash, row);         // a key once
 *     int64_t *row = configuration_table_find(&seen, hash); // NULL: not there
 *     configuration_table_free(&seen);
 */
#ifndef BALLAST_SIM_STUDY_CONFIGURATION_TABLE_H
#define BALLAST_SIM_STUDY_CONFIGURATION_TABLE_H

#include <stdint.h>

enum { CONFIGURATION_DIGITS = 32 }; /* hexadecimal */

struct configuration_table {
    char (*keys)[CONFIGURATION_DIGITS + 1];
    int64_t *values, count, capacity;
};

int64_t *configuration_table_find(struct configuration_table *table, const char *key);
void configuration_table_insert(struct configuration_table *table, const char *key, int64_t value);
void configuration_table_free(struct configuration_table *table);

#endif
