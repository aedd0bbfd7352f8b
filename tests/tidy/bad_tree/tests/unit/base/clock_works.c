/* clock_works.c - not called test_. */
#include "sim/model/layer.h"
