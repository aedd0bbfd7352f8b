/* plot.h - pictures, drawn by gnuplot run as a program.
 *
 * The format follows from the file's extension: .png, .svg or .pdf. A picture appears whole or not
 * at all. Colours are told apart by colour-blind eyes and in a grey print; units are on the axes
 * and the scenario in the title. gnuplot must be on PATH (Debian package gnuplot-nox).
 *
 *     plot_timeline("timeline.png", "internvl-6b-20b baseline", spans, span_count, 0, 0,
 *                   PLOT_COLOR_AUTO, err);
 */
#ifndef BALLAST_RESULTS_PLOT_H
#define BALLAST_RESULTS_PLOT_H

#include <stdbool.h>
#include <stdint.h>
#include "results/plot_choice.h"
#include "results/record.h"
#include "sim/base/error.h"

/* What the colour of a pass tells: its direction alone, or module and direction. By itself: modules
 * where stages hold chunks of several, each chunk of one alone. */
enum plot_color { PLOT_COLOR_AUTO, PLOT_COLOR_PASS, PLOT_COLOR_MODULE };

/* The pipeline of one iteration on one data-parallel rank: a row per stage, its compute stream as
 * bars and its other streams as a strip below. Spans of other ranks are passed over; so are those
 * that start at until_ns or later, unless it is 0. */
bool plot_timeline(const char *path, const char *scenario, const struct span_record *spans,
                   int64_t count, int64_t dp_rank, int64_t until_ns, enum plot_color color,
                   struct error *err);

/* Of a long step the beginning: the end of the passes of the first 10 micro-batches where the rank
 * has more than 24, otherwise 0. */
int64_t plot_timeline_default_until_ns(const struct span_record *spans, int64_t count,
                                       int64_t dp_rank);

/* How a sweep advanced: least money so far (GPU-days without a price) after each round, and how
 * many configurations were raced, pruned and rejected. */
bool plot_sweep_rounds(const char *path, const char *sweep, const struct sweep_round_record *rounds,
                       int64_t count, struct error *err);

/* Memory of each stage over the same iteration, a strip a stage, with the capacity of the GPU.
 * Points of one stage are in order of time. */
bool plot_memory(const char *path, const char *scenario, const struct memory_point_record *points,
                 int64_t count, int64_t dp_rank, int64_t capacity_bytes, struct error *err);

/* Step times: in order with their running mean, and how they are spread. */
bool plot_steps(const char *path, const char *scenario, const struct iteration_record *iterations,
                int64_t count, struct error *err);

/* How the schedule search got ahead, a line a method: over schedules tried and over wall time.
 * Points of a method stand together, in order. */
bool plot_search(const char *path, const char *scenario,
                 const struct search_progress_record *points, int64_t count, struct error *err);

/* Where the time of a mean step goes, one stacked bar a run. Parts are named as `ballast run`
 * prints them and stacked in the order given; NaN and 0 leave a part out. */
struct plot_breakdown {
    const char *const *runs;
    int64_t run_count;
    const char *const *parts;
    int64_t part_count;
    const double *part_ms;     /* [run * part_count + part] */
    const bool *out_of_memory; /* by run, marked in the picture; NULL: all fit */
};
bool plot_breakdown(const char *path, const char *title, const struct plot_breakdown *breakdown,
                    struct error *err);

/* The parts of a step as `ballast run` names them, in the order of the picture. */
enum { PLOT_PARTS = 15 };
struct plot_part {
    const char *name;
    size_t offset; /* of its milliseconds in struct run_record */
};
extern const struct plot_part plot_parts[PLOT_PARTS];
double plot_part_ms(const struct run_record *run, int part); /* NaN: unknown */
/* The breakdown of stored runs. */
bool plot_runs_breakdown(const char *path, const char *title, const struct run_record *const *runs,
                         int64_t count, struct error *err);

/* Time against money of finished runs (GPU-days unless all have a price), those that nothing beats
 * in both joined by a line, numbered and listed with their error bands; what runs out of memory is
 * crossed out, what was only raced is told from what was replayed. Limits are drawn; NULL: none. */
bool plot_pareto(const char *path, const char *title, const struct plot_choice *points,
                 int64_t count, const struct plot_limits *limits, struct error *err);

/* Time and cost of the whole training over the number of GPUs: of each number the fastest finished
 * run that fits. A curve for each job and kind of GPU that has two such numbers, six at most: the
 * picture says how many more there are. */
bool plot_scaling(const char *path, const char *title, const struct plot_choice *points,
                  int64_t count, struct error *err);

/* The best value for each pair of values of two fields. */
enum { PLOT_HEATMAP_LIMIT = 40 };
struct plot_cell {
    double value;   /* NaN: there are points, and none fits in memory */
    int64_t points; /* priced configurations */
    int64_t pruned; /* those that a bound left out; neither: no configuration is valid there */
    int64_t steps;  /* that the value rests on */
    bool replayed;  /* as far as the scenario asks; otherwise raced on a step or two */
};
struct plot_heatmap {
    const char *title, *x_label, *y_label, *unit; /* unit: of the values */
    const char **x_names, **y_names;              /* PLOT_HEATMAP_LIMIT each */
    int64_t x_count, y_count;
    struct plot_cell *cells; /* [y * PLOT_HEATMAP_LIMIT + x] */
};
bool plot_heatmap(const char *path, const struct plot_heatmap *map, struct error *err);

/* Signed errors of predictions with their bands, by hardware. */
bool plot_residuals(const char *path, const char *title, const struct validation_record *rows,
                    int64_t count, struct error *err);

/* How the samples of a data set are spread. vision_unit names what vision_counts counts ("image
 * tiles", "patches"). */
bool plot_dataset(const char *path, const char *dataset, const uint32_t *vision_counts,
                  const char *vision_unit, const uint32_t *language_tokens, int64_t count,
                  struct error *err);
/* Dist ratios and the mean group of a packing policy by the number of its passes. */
struct plot_pass {
    int64_t pass_count;
    double dist_ratio_vision, dist_ratio_language, average_batch_size;
};
bool plot_convergence(const char *path, const char *title, const struct plot_pass *passes,
                      int64_t count, struct error *err);

#endif
