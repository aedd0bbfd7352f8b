/* ballast.h - the public C interface: simulate from another program, add policies of one's own.
 *
 * Self-contained C99 and C++; nothing else of Ballast's sources is promised to stay. Within one
 * value of BALLAST_API_VERSION structures only grow at their end, and each begins with its size, so
 * that a program built with an older header runs with a newer library.
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

#define BALLAST_API_VERSION 2
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

/* `scenarios` is the folder of models/, datasets/, hardware/ and clusters/. NULL:
 * $BALLAST_SCENARIOS, else the installed one, beside the library. Never NULL; a folder that is
 * missing shows as an error of the first run. */
BALLAST_API struct ballast *ballast_open(const char *scenarios);
BALLAST_API void ballast_close(struct ballast *ballast); /* NULL is allowed */

enum ballast_verdict { BALLAST_FITS, BALLAST_TIGHT, BALLAST_OUT_OF_MEMORY };

/* The answer about one scenario. Times of a step are of the slowest rank; shares add up to the mean
 * step. */
struct ballast_answer {
    size_t size; /* set by the caller: sizeof(struct ballast_answer) */
    double step_time_mean_ms, step_time_p50_ms, step_time_p95_ms, step_time_p99_ms;
    double band_fraction; /* step time to x (1 + this); from: band_below_fraction */
    double total_days;    /* of the whole training run */
    double gpu_days;
    double money_usd; /* NaN without a price */
    double mfu_fraction, hfu_fraction;
    double memory_peak_bytes, memory_capacity_bytes; /* of the fullest GPU */
    int32_t verdict;                                 /* enum ballast_verdict */
    int32_t verdict_stage_index;                     /* of the fullest GPU */
    int64_t iteration_count;                         /* replayed */
    int64_t gpu_count;
    /* where a mean step goes, beside launch_wait_ms */
    double compute_ms, padding_ms, recompute_ms, communication_ms, bubble_ms, imbalance_ms,
        update_ms;
    /* Likely peak of the whole training, each epoch shuffled anew, which the verdict goes by. NaN:
     * not known, and the verdict is that of memory_peak_bytes. */
    double memory_training_bytes;
    double launch_wait_ms;      /* of a mean step: waiting for the host's launches */
    double band_below_fraction; /* step time from x (1 - this) */
};

/* Simulate a scenario file, or a scenario as text. `overrides` are "path=value" as of --set, NULL
 * at the end, or NULL. 1: done, `answer` is filled; 0: ballast_error() says why. */
BALLAST_API int ballast_run_file(struct ballast *ballast, const char *path,
                                 const char *const *overrides, struct ballast_answer *answer);
BALLAST_API int ballast_run_text(struct ballast *ballast, const char *scenario,
                                 const char *const *overrides, struct ballast_answer *answer);
/* All that `ballast run --json` prints about the last run, as JSON text; until the next call. NULL
 * if nothing was run. */
BALLAST_API const char *ballast_answer_json(struct ballast *ballast);
/* Why the last call failed: one sentence with file, line and key, and perhaps a hint. */
BALLAST_API const char *ballast_error(const struct ballast *ballast);

/* ---- plug-ins ----
 *
 * A plug-in is a shared library that exports ballast_plugin(). It includes this header, links
 * nothing of Ballast, and adds policies beside the built-in ones:
 *
 *     cc -shared -fPIC -I PREFIX/include my_policies.c -o my_policies.so
 *     ballast run study.json --plugin my_policies.so --set policy.partition=bottleneck
 *
 * docs/PLUGIN.md is the tutorial, docs/examples/plugin_example.c a plug-in of each kind.
 *
 * What a policy returns is checked: every sample at most once, every block on one part, every pass
 * once and no stage waiting for another for ever. A policy must be deterministic; randomness comes
 * from `seed`. Numbers, arrays and texts that it is handed live during the call only. It reports a
 * mistake with fail() and returns 0; it returns 1 when it is done.
 */

/* A number that the scenario may set: {"name": "my-policy", "window": 64}. */
struct ballast_parameter {
    const char *name, *help;
    double fallback, min, max;
};

/* Hands samples to data-parallel ranks, as micro-batches. */
struct ballast_batches {
    size_t size;
    void *host;
    int64_t sample_count;
    const uint32_t *vision;          /* by sample: tiles, or patches where resolution is native */
    const uint32_t *language_tokens; /* by sample, those of its images included */
    int64_t rank_count;
    int64_t micro_batch_samples; /* wanted; 1 if the policy decides itself */
    uint32_t seed;
    int64_t epoch;
    /* The next micro-batch of a rank. All ranks must get the same number in the end; what is over
     * is dropped. 0: the policy may stop, the mistake is reported. */
    int (*give)(struct ballast_batches *batches, int64_t rank, const uint32_t *samples,
                int64_t count);
    void (*fail)(struct ballast_batches *batches, const char *sentence);
};

struct ballast_batching {
    const char *name, *help;
    int packs; /* decides the size of a micro-batch; its samples are concatenated, not padded */
    const struct ballast_parameter *parameters;
    size_t parameter_count;
    int (*plan)(struct ballast_batches *batches, const double *parameters);
};

/* Cuts the model into parts, one or several for each pipeline stage. */
struct ballast_blocks {
    size_t size;
    void *host;
    int64_t
        block_count;    /* transformer blocks; embeddings, connector and head go with a neighbour */
    int64_t part_count; /* stages x chunks; part p stands on stage p % stages */
    int64_t stage_count;
    /* by block, for a mean micro-batch, with the layers that go with it */
    const double *forward_seconds, *backward_seconds;
    const double *parameters;       /* of the model, before tensor parallelism */
    const unsigned char *is_vision; /* 1: of the vision encoder */
    double capacity_bytes;          /* of a GPU; compare with stage_bytes() */
    /* Simulated seconds of an iteration, and bytes of a stage's GPU at its peak, if the parts held
     * these numbers of blocks. Below 0: these numbers are no partition. */
    double (*simulate)(struct ballast_blocks *blocks, const int64_t *blocks_of_part);
    double (*stage_bytes)(struct ballast_blocks *blocks, const int64_t *blocks_of_part,
                          int64_t stage);
    void (*fail)(struct ballast_blocks *blocks, const char *sentence);
};

struct ballast_partition {
    const char *name, *help;
    const struct ballast_parameter *parameters;
    size_t parameter_count;
    /* Fills part_count numbers of at least 1 that add up to block_count. */
    int (*plan)(struct ballast_blocks *blocks, const double *parameters, int64_t *blocks_of_part);
};

/* Orders the passes of a stage. */
struct ballast_place {
    int64_t stage, stage_count, chunk_count, micro_batch_count;
};

struct ballast_pass {
    int32_t micro_batch;
    int16_t chunk; /* chunk c of stage s is part c x stage_count + s of the model */
    int8_t backward;
};

struct ballast_schedule {
    const char *name, *help;
    int interleaves; /* knows more than one chunk a stage */
    /* Fills 2 x micro_batch_count x chunk_count passes, each once. Called for several places, by
     * several threads, often: it depends on `place` alone. */
    void (*order)(const struct ballast_place *place, struct ballast_pass *passes);
};

/* Decides several things at once: names the policies that fill the other slots, and orders the
 * passes of each iteration anew, knowing its micro-batches. */
struct ballast_micro_batch {
    int64_t samples, vision_tokens, language_tokens, video_tokens;
};

/* One micro-batch on one part. Recomputation is part of the backward; sends are 0 where nothing is
 * sent. The activation is kept from the forward to the backward, the workspace during either. */
struct ballast_iteration_pass {
    double forward_seconds, backward_seconds, send_forward_seconds, send_backward_seconds;
    double activation_bytes, workspace_bytes;
};

struct ballast_iteration { /* of one data-parallel rank */
    size_t size;
    void *host;
    int64_t stage_count, chunk_count, micro_batch_count;
    const struct ballast_micro_batch *micro_batches;
    /* pass p x micro_batch_count + m: micro-batch m on part p, which is chunk p / stage_count of
     * stage p % stage_count */
    const struct ballast_iteration_pass *passes;
    const double *activation_capacity_bytes; /* by stage: for activations and workspace */
    /* Simulated seconds of this iteration in an order; below 0: it is none. */
    double (*simulate)(struct ballast_iteration *iteration, const struct ballast_pass *order);
    void (*fail)(struct ballast_iteration *iteration, const char *sentence);
};

struct ballast_joint {
    const char *name, *help;
    const struct ballast_parameter *parameters;
    size_t parameter_count;
    /* Names of the policies of the other slots, unless the scenario names its own; NULL: the
     * default. Those of the same plug-in may be named. */
    const char *batching, *partition, *recompute, *schedule;
    /* Reorders the passes: stage after stage, 2 x micro_batch_count x chunk_count each; `order`
     * holds those of the schedule policy. Called by several threads at once. NULL: that order
     * stays. */
    int (*plan_iteration)(struct ballast_iteration *iteration, const double *parameters,
                          struct ballast_pass *order);
};

struct ballast_plugin {
    int api_version; /* BALLAST_API_VERSION of the header that it was built with */
    const struct ballast_batching *batching;
    size_t batching_count;
    const struct ballast_partition *partitions;
    size_t partition_count;
    const struct ballast_schedule *schedules;
    size_t schedule_count;
    /* since version 2 */
    const struct ballast_joint *joints;
    size_t joint_count;
};

/* What a plug-in exports; Ballast itself does not. */
BALLAST_API const struct ballast_plugin *ballast_plugin(void);

/* Loads a plug-in into this process, for good; before the first run. 1: done; 0:
 * ballast_error(). */
BALLAST_API int ballast_load_plugin(struct ballast *ballast, const char *path);

#ifdef __cplusplus
}
#endif
#endif
