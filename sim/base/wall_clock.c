/* wall_clock.c - POSIX's monotonic clock. */
#include "sim/base/wall_clock.h"

#include <time.h>

double wall_clock_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
