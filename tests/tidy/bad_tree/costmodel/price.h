/* price.h - looks down, which is allowed. */
#include <math.h>
#include "sim/base/clock.h"
