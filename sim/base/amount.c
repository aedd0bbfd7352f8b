/* amount.c - thresholds, nothing else. */
#include "sim/base/amount.h"

struct amount_unit amount_of_days(double largest_days) {
    if (largest_days < 1.0 / (24 * 60)) return (struct amount_unit){ "seconds", 86400, 1 };
    if (largest_days < 1.0 / 24) return (struct amount_unit){ "minutes", 24 * 60, 1 };
    if (largest_days < 0.1) return (struct amount_unit){ "hours", 24, 2 };
    return (struct amount_unit){ "days", 1, 3 };
}

struct amount_unit amount_of_gpu_days(double largest_gpu_days) {
    if (largest_gpu_days < 2) return (struct amount_unit){ "GPU-hours", 24, 2 };
    return (struct amount_unit){ "GPU-days", 1, 2 };
}

int amount_money_decimals(double usd) {
    return usd < 100 ? 2 : 0;
}
