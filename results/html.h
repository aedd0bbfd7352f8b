/* html.h - text, tables and pictures of an HTML page.
 *
 * Whatever comes from a database or a scenario goes through html_text(): it cannot become markup.
 */
#ifndef BALLAST_RESULTS_HTML_H
#define BALLAST_RESULTS_HTML_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "sim/base/error.h"

void html_text(FILE *out, const char *text); /* NULL: nothing */
/* <td>: a text; a number with what sorts it (NaN: an empty cell, sorted last). */
void html_cell(FILE *out, const char *text);
void html_number_cell(FILE *out, double value, const char *shown);
/* A file as an image inside the page; `type` is "image/svg+xml". */
bool html_image(FILE *out, const char *path, const char *type, const char *description,
                struct error *err);

#endif
