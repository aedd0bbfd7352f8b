/* plot_style.c - colours, axes and bins that the pictures share. Colours are Okabe and Ito's
 * (2008), chosen for colour-blind eyes; neighbours also differ in lightness, for a grey print. */
#include "results/plot_style.h"

#include <math.h>
#include <string.h>
#include "sim/base/units.h"

const char *const plot_colors[PLOT_COLOR_COUNT] = {
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#B3A800"
};

void plot_set_text(struct gnuplot *g, const char *what, const char *text) {
    fprintf(g->script, "set %s ", what);
    gnuplot_text(g, text);
    fputc('\n', g->script);
}

void plot_set_style(struct gnuplot *g) {
    fputs("set border 3 lw 1\nset tics nomirror out\nset grid lc rgb '#d8d8d8' lw 1 lt 1\n"
          "set style fill solid 1.0 noborder\n",
          g->script);
}

const char *plot_fixed(char text[PLOT_NUMBER_SIZE], double value, int decimals) {
    char plain[PLOT_NUMBER_SIZE / 2];
    if (snprintf(plain, sizeof plain, "%.*f", decimals, value) >= (int)sizeof plain)
        snprintf(plain, sizeof plain, "%.4g", value); /* beyond any money or time */
    const size_t whole = strcspn(plain, ".e");
    size_t at = 0;
    for (size_t i = 0; plain[i] != '\0'; i++) {
        if (i > 0 && i < whole && plain[i - 1] != '-' && (whole - i) % 3 == 0) text[at++] = ',';
        text[at++] = plain[i];
    }
    text[at] = '\0';
    return text;
}

const char *plot_number(char text[PLOT_NUMBER_SIZE], double value) {
    const double size = fabs(value);
    const int decimals = size >= 100 || !(size > 0) ? 0 : 2 - (int)floor(log10(size));
    return plot_fixed(text, value, decimals < 9 ? decimals : 9);
}

const char *plot_cut(char *out, size_t size, const char *text, size_t longest) {
    static const char dots[] = "...";
    if (longest > size - 1) longest = size - 1;
    size_t kept = strlen(text);
    const bool whole = kept <= longest;
    if (!whole) {
        kept = longest > strlen(dots) ? longest - strlen(dots) : 0;
        while (kept > 0 && ((unsigned char)text[kept] & 0xC0) == 0x80)
            kept--; /* inside a character of UTF-8 */
    }
    memcpy(out, text, kept);
    snprintf(out + kept, size - kept, "%s", whole ? "" : dots);
    return out;
}

void plot_set_decade_tics(struct gnuplot *g, char axis, double low, double high) {
    static const int digits[] = { 1, 2, 5 };
    const char *comma = "";
    fprintf(g->script, "set %ctics (", axis);
    for (double decade = pow(10, floor(log10(low))); decade <= high; decade *= 10)
        for (int d = 0; d < 3; d++) {
            const double tic = decade * digits[d];
            if (tic < low || tic > high) continue;
            char text[PLOT_NUMBER_SIZE];
            const int decimals = decade < 0.5 ? (int)lround(-log10(decade)) : 0;
            fprintf(g->script, "%s'%s' %.9g", comma, plot_fixed(text, tic, decimals), tic);
            comma = ", ";
        }
    fputs(")\n", g->script);
}

void plot_set_number_tics(struct gnuplot *g, char axis, double low, double high) {
    const double step = plot_tic_step(high > low ? high - low : 1, 6);
    const int decimals = step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
    const char *comma = "";
    fprintf(g->script, "set %ctics (", axis);
    for (double k = ceil(low / step - 1e-9) + 0.0; k * step <= high * (1 + 1e-12); k++) {
        char text[PLOT_NUMBER_SIZE];
        fprintf(g->script, "%s'%s' %.9g", comma, plot_fixed(text, k * step, decimals), k * step);
        comma = ", ";
    }
    fputs(")\n", g->script);
}

/* Seconds for long pictures, so that an axis never shows more than four digits. */
double plot_time_scale(int64_t longest_ns, const char **unit) {
    bool seconds = longest_ns >= 5 * (int64_t)NS_PER_S;
    *unit = seconds ? "s" : "ms";
    return seconds ? NS_PER_S : NS_PER_MS;
}

bool plot_nothing(struct error *err, const char *what) {
    error_set(err, "there is nothing to draw: the run has no %s", what);
    return error_hint(err, "run the scenario again and let it store its timeline");
}

/* Bins of whole numbers when the values are counts. */
struct plot_histogram_bins plot_histogram(const double *sorted, int64_t count, bool whole) {
    /* About the square root of the count: more bins would be empty. */
    const double fitting = fmin(fmax(ceil(sqrt((double)count)), 8), PLOT_BINS);
    struct plot_histogram_bins h = { .bin_count = whole ? PLOT_BINS : (int64_t)fitting };
    double low = sorted[0], high = sorted[count - 1];
    if (whole) {
        h.width = fmax(1, ceil((high - low + 1) / PLOT_BINS));
        h.low = low - 0.5;
        h.bin_count = (int64_t)((high - low) / h.width) + 1;
    } else {
        h.width = high > low ? (high - low) / fitting : fmax(fabs(low), 1) * 0.01;
        h.low = low;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t bin = (int64_t)((sorted[i] - h.low) / h.width);
        h.counts[bin < h.bin_count ? bin : h.bin_count - 1]++;
    }
    return h;
}

int plot_compare_doubles(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double plot_quantile(const double *sorted, int64_t count, double fraction) {
    const double rank = fraction * (double)(count - 1);
    const int64_t below = (int64_t)rank, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (rank - (double)below) * (sorted[above] - sorted[below]);
}

/* A round distance between tics that gives about `wanted` of them. */
double plot_tic_step(double range, double wanted) {
    double power = pow(10, floor(log10(range / wanted)));
    double digit = range / wanted / power;
    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}
