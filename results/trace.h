/* trace.h - a timeline as Chrome trace events in JSON, which Perfetto and chrome://tracing open.
 *
 * A data-parallel rank is a process, a stream of a stage is a thread. The writer streams: memory
 * does not grow with the number of events. Events may come in any order. Times are simulated
 * nanoseconds from the start of the iteration, written as microseconds with three decimals.
 *
 *     struct trace t;
 *     trace_begin(&t, out, "baseline, iteration 0");
 *     trace_process(&t, 0, "DP rank 0");
 *     trace_thread(&t, 0, 1, "stage 0 compute");
 *     trace_span(&t, 0, 1, &span);
 *     if (!trace_end(&t, err)) ...                  // false: the file could not be written
 */
#ifndef BALLAST_RESULTS_TRACE_H
#define BALLAST_RESULTS_TRACE_H

#include <stdint.h>
#include <stdio.h>
#include "results/record.h"
#include "sim/base/error.h"

struct trace {
    FILE *out; /* borrowed */
    int64_t event_count;
};

void trace_begin(struct trace *trace, FILE *out, const char *title);
bool trace_end(struct trace *trace, struct error *err);

/* Names; processes and threads are shown in order of their numbers. */
void trace_process(struct trace *trace, int64_t process, const char *name);
void trace_thread(struct trace *trace, int64_t process, int64_t thread, const char *name);
/* Named "vision backward 3.1": module, direction, micro-batch and sub-microbatch, as far as the
 * span has them; they are also in its details, with the chunk. Its kind is the category. */
void trace_span(struct trace *trace, int64_t process, int64_t thread,
                const struct span_record *span);
/* One end of an arrow, in the span that covers time_ns on that thread; both ends have one number.
 */
void trace_flow(struct trace *trace, int64_t process, int64_t thread, int64_t flow, bool end,
                int64_t time_ns);
void trace_counter(struct trace *trace, int64_t process, const char *name, const char *series,
                   int64_t time_ns, int64_t value);

/* The whole trace of one run from its stored rows. Spans that share a flow number are joined by an
 * arrow from the one that starts first. memory may be NULL. */
bool trace_write(FILE *out, const char *title, const struct span_record *spans, int64_t span_count,
                 const struct memory_point_record *memory, int64_t memory_count, struct error *err);

#endif
