/* greedy.h - subfolders belong to their folder. */
#include "sim/engine/queue.h"
#include "sim/cli/command.h"
