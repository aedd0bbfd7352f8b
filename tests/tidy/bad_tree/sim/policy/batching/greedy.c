#include "sim/policy/batching/greedy.h"

/* printf("in a comment")
   exit(1); */
static const char *text = "printf(\"in a text\")"; // printf(
static const char quote = '"'; int sprintf_like(int); /* exit( */ int last_exit(int);
void report(FILE *out) {
    fprintf(out, "to the caller's stream");
    fputs("not to ours", stdout);
    printf("%s", text);
    /* */ exit(quote);
    /* TODO: finish */
}
