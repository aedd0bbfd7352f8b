/* json_text.h - writes JSON text into a stream, piece by piece, for outputs too large for a tree.
 *
 *     fputs("{\"name\":", out); json_text_string(out, name); ...
 */
#ifndef BALLAST_RESULTS_JSON_TEXT_H
#define BALLAST_RESULTS_JSON_TEXT_H

#include <stdio.h>

/* With quotes and escapes; NULL writes null. */
void json_text_string(FILE *out, const char *text);
/* The shortest decimal that reads back as the same double; null if it is not finite. */
void json_text_double(FILE *out, double value);

#endif
