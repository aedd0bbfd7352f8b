/* measured_parts.h - a name cut into parts at what is no letter or digit, each in one spelling:
 * "NVIDIA H100 80GB HBM3" is nvidia, h100, 80g, hbm3. Of no use outside measured_*.c.
 */
#ifndef BALLAST_SIM_STUDY_MEASURED_PARTS_H
#define BALLAST_SIM_STUDY_MEASURED_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/base/arena.h"

enum { MEASURED_PART_LIMIT = 16 };
struct measured_parts {
    const char *text[MEASURED_PART_LIMIT]; /* in the arena; those beyond the limit are dropped */
    int64_t count;
};

struct measured_parts measured_parts_of(struct arena *arena, const char *name);
bool measured_parts_have(const struct measured_parts *parts, const char *text);
/* How many parts of `a` are parts of `b`. */
int64_t measured_parts_shared(const struct measured_parts *a, const struct measured_parts *b);

#endif
