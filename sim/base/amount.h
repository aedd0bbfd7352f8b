/* amount.h - the unit in which people say how long a job takes and what it uses.
 *
 * Six minutes are not 0.0043 days. One unit serves all values that stand together: it is chosen by
 * the largest of them.
 *
 *     struct amount_unit unit = amount_of_days(0.0043);      // minutes, 1440 of a day
 *     printf("%.*f %s", unit.decimals, days * unit.per_day, unit.name);
 */
#ifndef BALLAST_SIM_BASE_AMOUNT_H
#define BALLAST_SIM_BASE_AMOUNT_H

struct amount_unit {
    const char *name;
    double per_day; /* of a day, or of a GPU-day */
    int decimals;
};

/* Days from a tenth of one, hours from one, minutes from one, seconds. NaN: days. */
struct amount_unit amount_of_days(double largest_days);
/* GPU-days from two, GPU-hours below. */
struct amount_unit amount_of_gpu_days(double largest_gpu_days);
/* Whole dollars from a hundred, cents below. */
int amount_money_decimals(double usd);

#endif
