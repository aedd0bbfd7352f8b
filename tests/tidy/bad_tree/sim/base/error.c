/* error.c - the one place besides the command line that may print. */
#include <stdio.h>
#include <stdlib.h>

void die(void) {
    fprintf(stderr, "allowed\n");
    exit(1);
}
