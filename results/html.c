/* html.c - escaping and base64 (RFC 4648, section 4). */
#include "results/html.h"

#include <math.h>
#include <stdlib.h>
#include "results/json_text.h"
#include "sim/base/file_read.h"
#include "sim/base/json.h"

void html_text(FILE *out, const char *text) {
    for (; text != NULL && *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            /* HTML has no control characters but these (HTML, 13.2.3.5). */
            fputc((unsigned char)*text < 32 && *text != '\n' && *text != '\t' ? '?' : *text, out);
        }
    }
}

void html_cell(FILE *out, const char *text) {
    fputs("<td>", out);
    html_text(out, text);
    fputs("</td>", out);
}

void html_number_cell(FILE *out, double value, const char *shown) {
    fputs("<td class=\"n\" data-v=\"", out);
    if (isfinite(value)) json_text_double(out, value);
    fputs("\">", out);
    if (isfinite(value)) html_text(out, shown);
    fputs("</td>", out);
}

static void base64(FILE *out, const unsigned char *bytes, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const uint32_t three = (uint32_t)bytes[i] << 16 |
                               (uint32_t)(left > 1 ? bytes[i + 1] : 0) << 8 |
                               (uint32_t)(left > 2 ? bytes[i + 2] : 0);
        fputc(digits[three >> 18], out);
        fputc(digits[three >> 12 & 63], out);
        fputc(left > 1 ? digits[three >> 6 & 63] : '=', out);
        fputc(left > 2 ? digits[three & 63] : '=', out);
    }
}

bool html_image(FILE *out, const char *path, const char *type, const char *description,
                struct error *err) {
    char *bytes;
    size_t size;
    if (!file_read(path, &bytes, &size, err)) return false;
    fprintf(out, "<img src=\"data:%s;base64,", type);
    base64(out, (const unsigned char *)bytes, size);
    fputs("\" alt=\"", out);
    html_text(out, description);
    fputs("\">", out);
    free(bytes);
    return true;
}
