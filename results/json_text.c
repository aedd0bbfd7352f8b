/* json_text.c - strings and numbers as RFC 8259 has them. */
#include "results/json_text.h"

#include <math.h>
#include <stdlib.h>

void json_text_string(FILE *out, const char *text) {
    if (text == NULL) {
        fputs("null", out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

void json_text_double(FILE *out, double value) {
    if (!isfinite(value)) {
        fputs("null", out);
        return;
    }
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fputs(text, out);
}
