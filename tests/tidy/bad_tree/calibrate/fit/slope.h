/* slope.h - sees base and costmodel only. */
#include "costmodel/price.h"
#include "sim/engine/queue.h"
