/* extremes.h - the greater and the lesser of two numbers. fmax() and fmin() are calls of the library
 * on x86, because of NaN: a tenth of an operator's price. Here b is no NaN; an a that is one gives
 * b. */
#ifndef BALLAST_SIM_BASE_EXTREMES_H
#define BALLAST_SIM_BASE_EXTREMES_H

static inline double greater_of(double a, double b) {
    return a > b ? a : b;
}

static inline double lesser_of(double a, double b) {
    return a < b ? a : b;
}

#endif
