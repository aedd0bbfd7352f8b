/* test_clock.c - a good test. */
#include "sim/base/clock.h"
