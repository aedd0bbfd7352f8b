/* clock.h - base must not look up. */
#include "costmodel/price.h"
