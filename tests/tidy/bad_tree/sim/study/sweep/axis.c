/* axis.c - fixture of test_tidy.sh */

#include "sim/cli/command.h"
#include "sim/study/measured/row.h"
