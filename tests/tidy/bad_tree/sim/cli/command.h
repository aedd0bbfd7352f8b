/* command.h - prints, as it may. */
#include <stdio.h>
#include "calibrate/fit/slope.h"
static inline void hello(void) { printf("hello\n"); }
