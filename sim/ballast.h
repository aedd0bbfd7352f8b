/* ballast.h - the public C interface: simulate from another program.
 *
 * Self-contained C99 and C++; nothing else of Ballast's sources is promised to stay. Within one value
 * of BALLAST_API_VERSION structures only grow at their end, and each begins with its size, so that a
 * program built with an older header runs with a newer library.
 *
 *     struct ballast *b = ballast_open(NULL);
 *     struct ballast_answer answer = { .size = sizeof answer };
 *     if (ballast_run_file(b, "study.json", NULL, &answer))
 *         printf("%.1f s a step, %.0f USD\n", answer.step_time_mean_ms / 1e3, answer.money_usd);
 *     else
 *         fprintf(stderr, "%s\n", ballast_error(b));
 *     ballast_close(b);
 *
 * Guarantees: same scenario, seed and library version: the same answer, whatever the number of
 * threads. No call prints, exits or changes the locale. One `struct ballast` serves one thread at a
 * time; several of them may be used at once.
 * Compile with `pkg-config --cflags --libs ballast`. The library links the GNU Scientific Library:
 * programs that are distributed with it are under GPL-3.0-or-later.
 */
#ifndef BALLAST_H
#define BALLAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BALLAST_API_VERSION 1
#if defined(__GNUC__)
#define BALLAST_API __attribute__((visibility("default")))
#else
#define BALLAST_API
#endif

/* What the library was built as: BALLAST_API_VERSION, and "0.1.0". */
BALLAST_API int ballast_api_version(void);
BALLAST_API const char *ballast_version(void);

/* ---- simulation ---- */

struct ballast;

/* `scenarios` is the folder of models/, datasets/, hardware/ and clusters/. NULL: $BALLAST_SCENARIOS,
 * else the installed one. Never NULL; a folder that is missing shows as an error of the first run. */
BALLAST_API struct ballast *ballast_open(const char *scenarios);
BALLAST_API void ballast_close(struct ballast *ballast); /* NULL is allowed */

enum ballast_verdict { BALLAST_FITS, BALLAST_TIGHT, BALLAST_OUT_OF_MEMORY };

/* The answer about one scenario. Times of a step are of the slowest rank; shares add up to the mean
 * step. */
struct ballast_answer {
    size_t size; /* set by the caller: sizeof(struct ballast_answer) */
    double step_time_mean_ms, step_time_p50_ms, step_time_p95_ms, step_time_p99_ms;
    double band_fraction; /* step time x (1 +- this) */
    double total_days;    /* of the whole training run */
    double gpu_days;
    double money_usd; /* NaN without a price */
    double mfu_fraction, hfu_fraction;
    double memory_peak_bytes, memory_capacity_bytes; /* of the fullest GPU */
    int32_t verdict;                                 /* enum ballast_verdict */
    int32_t verdict_stage_index;                     /* of the fullest GPU */
    int64_t iteration_count;                         /* replayed */
    int64_t gpu_count;
    /* where a mean step goes */
    double compute_ms, padding_ms, recompute_ms, communication_ms, bubble_ms, imbalance_ms,
        update_ms;
};

/* Simulate a scenario file, or a scenario as text. `overrides` are "path=value" as of --set, NULL at
 * the end, or NULL. 1: done, `answer` is filled; 0: ballast_error() says why. */
BALLAST_API int ballast_run_file(struct ballast *ballast, const char *path,
                                 const char *const *overrides, struct ballast_answer *answer);
BALLAST_API int ballast_run_text(struct ballast *ballast, const char *scenario,
                                 const char *const *overrides, struct ballast_answer *answer);
/* All that `ballast run --json` prints about the last run, as JSON text; until the next call. NULL
 * if nothing was run. */
BALLAST_API const char *ballast_answer_json(struct ballast *ballast);
/* Why the last call failed: one sentence with file, line and key, and perhaps a hint. */
BALLAST_API const char *ballast_error(const struct ballast *ballast);

#ifdef __cplusplus
}
#endif
#endif
