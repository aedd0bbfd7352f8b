/* units.h - the units that names end in. Human units become base units once, while loading. */
#ifndef BALLAST_SIM_BASE_UNITS_H
#define BALLAST_SIM_BASE_UNITS_H

#include <math.h>
#include <stdint.h>

#define BYTES_PER_MiB   1048576.0
#define BYTES_PER_GiB   1073741824.0
#define BYTES_PER_GB    1e9
#define NS_PER_S        1e9
#define NS_PER_MS       1e6
#define SECONDS_PER_DAY 86400.0

/* Costs are double seconds; the engine's clock is integer. Rounded here and nowhere else, so that
 * equal times are equal on every machine. Beyond the clock's 292 years: its end. */
static inline int64_t ns_from_seconds(double seconds)
{
    const double ns = seconds * NS_PER_S + 0.5, end = 9.2e18;
    return (int64_t)(ns < end ? ns : end);
}

/* Of one operator's price: 28 hours at most, far beyond any (job_limits.h refuses a step of them),
 * so that sums over 10,000 layers stay inside the clock. */
static inline int64_t ns_from_price(double seconds)
{
    return ns_from_seconds(seconds < 1e5 ? seconds : 1e5);
}

/* Of times over ranks and steps, which may outrun the clock of one: exact, in any order. */
__extension__ typedef __int128 ns_sum;

static inline double seconds_from_ns(int64_t ns)
{
    return (double)ns / NS_PER_S;
}

#endif
