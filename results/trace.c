/* trace.c - the subset of the Trace Event Format that Perfetto reads: metadata (M), complete events
 * (X), flows (s, f) and counters (C). */
#include "results/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "results/json_text.h"
#include "sim/base/arena.h"

/* ---- one event ---- */

/* Opens an event with the keys that all kinds have; the caller adds its own and closes it. */
static void begin_event(struct trace *trace, char phase, int64_t process, int64_t thread,
                        const char *name) {
    fprintf(trace->out, "%s\n{\"ph\":\"%c\",\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"name\":",
            trace->event_count++ > 0 ? "," : "", phase, process, thread);
    json_text_string(trace->out, name);
}

/* "vision backward 3.1": what, of which micro-batch and sub-microbatch. */
static void name_span(char *name, size_t size, const struct span_record *span) {
    int length = span->module != NULL ? snprintf(name, size, "%s %s", span->module, span->kind)
                                      : snprintf(name, size, "%s", span->kind);
    if (span->micro_batch < 0 || length < 0 || (size_t)length >= size) return;
    if (span->sub_batch >= 0)
        snprintf(name + length, size - (size_t)length, " %" PRId64 ".%" PRId64, span->micro_batch,
                 span->sub_batch);
    else
        snprintf(name + length, size - (size_t)length, " %" PRId64, span->micro_batch);
}

static void write_us(FILE *out, const char *key, int64_t ns) {
    fprintf(out, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void write_metadata(struct trace *trace, int64_t process, int64_t thread, const char *what,
                           const char *name, int64_t sort_index) {
    char key[64];
    snprintf(key, sizeof key, "%s_name", what);
    begin_event(trace, 'M', process, thread, key);
    fputs(",\"args\":{\"name\":", trace->out);
    json_text_string(trace->out, name);
    fputs("}}", trace->out);
    snprintf(key, sizeof key, "%s_sort_index", what);
    begin_event(trace, 'M', process, thread, key);
    fprintf(trace->out, ",\"args\":{\"sort_index\":%" PRId64 "}}", sort_index);
}

void trace_begin(struct trace *trace, FILE *out, const char *title) {
    *trace = (struct trace){ .out = out };
    fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"title\":", out);
    json_text_string(out, title);
    fputs(",\"clock\":\"simulated\"},\"traceEvents\":[", out);
}

bool trace_end(struct trace *trace, struct error *err) {
    fputs("\n]}\n", trace->out);
    if (fflush(trace->out) != 0 || ferror(trace->out))
        return error_system(err, "cannot write the trace");
    return true;
}

void trace_process(struct trace *trace, int64_t process, const char *name) {
    write_metadata(trace, process, 0, "process", name, process);
}

void trace_thread(struct trace *trace, int64_t process, int64_t thread, const char *name) {
    write_metadata(trace, process, thread, "thread", name, thread);
}

static void write_details(FILE *out, const struct span_record *span) {
    if (span->micro_batch < 0) return;
    fprintf(out, ",\"args\":{\"micro_batch\":%" PRId64, span->micro_batch);
    if (span->sub_batch >= 0) fprintf(out, ",\"sub_microbatch\":%" PRId64, span->sub_batch);
    if (span->chunk_index >= 0) fprintf(out, ",\"chunk\":%" PRId64, span->chunk_index);
    if (span->module != NULL) {
        fputs(",\"module\":", out);
        json_text_string(out, span->module);
        if (strcmp(span->kind, "send") != 0)
            fprintf(out, ",\"direction\":\"%s\"",
                    strcmp(span->kind, "forward") == 0 ? "forward" : "backward");
    }
    fputc('}', out);
}

void trace_span(struct trace *trace, int64_t process, int64_t thread,
                const struct span_record *span) {
    char name[160];
    name_span(name, sizeof name, span);
    begin_event(trace, 'X', process, thread, name);
    fputs(",\"cat\":", trace->out);
    json_text_string(trace->out, span->kind);
    write_us(trace->out, "ts", span->start_ns);
    write_us(trace->out, "dur", span->finish_ns - span->start_ns);
    write_details(trace->out, span);
    fputc('}', trace->out);
}

void trace_flow(struct trace *trace, int64_t process, int64_t thread, int64_t flow, bool end,
                int64_t time_ns) {
    begin_event(trace, end ? 'f' : 's', process, thread, "send");
    fprintf(trace->out, ",\"cat\":\"send\",\"id\":%" PRId64, flow);
    if (end) fputs(",\"bp\":\"e\"", trace->out); /* bind to the span around it, not the next one */
    write_us(trace->out, "ts", time_ns);
    fputc('}', trace->out);
}

void trace_counter(struct trace *trace, int64_t process, const char *name, const char *series,
                   int64_t time_ns, int64_t value) {
    begin_event(trace, 'C', process, 0, name);
    write_us(trace->out, "ts", time_ns);
    fputs(",\"args\":{", trace->out);
    json_text_string(trace->out, series);
    fprintf(trace->out, ":%" PRId64 "}}", value);
}

/* ---- a run ---- */

/* A thread of the trace; numbered from 1 in the order rank, stage, stream. */
struct track {
    int64_t dp_rank, stage_index;
    const char *stream;
};

static int compare_tracks(const void *a, const void *b) {
    const struct track *left = a, *right = b;
    if (left->dp_rank != right->dp_rank) return left->dp_rank < right->dp_rank ? -1 : 1;
    if (left->stage_index != right->stage_index)
        return left->stage_index < right->stage_index ? -1 : 1;
    return strcmp(left->stream, right->stream);
}

static struct track track_of(const struct span_record *span) {
    return (struct track){ span->dp_rank, span->stage_index, span->stream };
}

/* All tracks of the spans, sorted. Few: the list is kept sorted by insertion. */
static int64_t collect_tracks(struct arena *arena, const struct span_record *spans, int64_t count,
                              struct track **result) {
    struct track *tracks = NULL;
    int64_t track_count = 0, capacity = 0;
    for (int64_t i = 0; i < count; i++) {
        struct track track = track_of(&spans[i]);
        if (track_count > 0 &&
            bsearch(&track, tracks, (size_t)track_count, sizeof *tracks, compare_tracks) != NULL)
            continue;
        if (track_count == capacity) {
            capacity = capacity > 0 ? 2 * capacity : 64;
            struct track *larger = arena_array(arena, struct track, capacity);
            if (tracks != NULL) memcpy(larger, tracks, (size_t)track_count * sizeof *tracks);
            tracks = larger;
        }
        int64_t place = track_count++;
        for (; place > 0 && compare_tracks(&track, &tracks[place - 1]) < 0; place--)
            tracks[place] = tracks[place - 1];
        tracks[place] = track;
    }
    *result = tracks;
    return track_count;
}

static void name_tracks(struct trace *trace, const struct track *tracks, int64_t count) {
    char name[128];
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || tracks[i].dp_rank != tracks[i - 1].dp_rank) {
            snprintf(name, sizeof name, "DP rank %" PRId64, tracks[i].dp_rank);
            trace_process(trace, tracks[i].dp_rank, name);
        }
        snprintf(name, sizeof name, "stage %" PRId64 " %s", tracks[i].stage_index + 1,
                 tracks[i].stream);
        trace_thread(trace, tracks[i].dp_rank, i + 1, name);
    }
}

/* By flow, and within a flow by time. */
static int compare_flows(const void *a, const void *b) {
    const struct span_record *left = *(const struct span_record *const *)a;
    const struct span_record *right = *(const struct span_record *const *)b;
    if (left->flow != right->flow) return left->flow < right->flow ? -1 : 1;
    if (left->start_ns != right->start_ns) return left->start_ns < right->start_ns ? -1 : 1;
    return (left->span_index > right->span_index) - (left->span_index < right->span_index);
}

static int64_t thread_of(const struct span_record *span, const struct track *tracks,
                         int64_t track_count) {
    struct track track = track_of(span);
    const struct track *found =
        bsearch(&track, tracks, (size_t)track_count, sizeof *tracks, compare_tracks);
    return found - tracks + 1;
}

static void write_flows(struct trace *trace, struct arena *arena, const struct span_record *spans,
                        int64_t count, const struct track *tracks, int64_t track_count) {
    const struct span_record **ends = arena_array(arena, const struct span_record *, count + 1);
    int64_t end_count = 0;
    for (int64_t i = 0; i < count; i++)
        if (spans[i].flow >= 0) ends[end_count++] = &spans[i];
    qsort(ends, (size_t)end_count, sizeof *ends, compare_flows);
    for (int64_t i = 0; i + 1 < end_count; i++) {
        const struct span_record *from = ends[i], *to = ends[i + 1];
        if (from->flow != to->flow) continue;
        if (i > 0 && ends[i - 1]->flow == from->flow) continue; /* an arrow joins two spans */
        trace_flow(trace, from->dp_rank, thread_of(from, tracks, track_count), from->flow, false,
                   from->start_ns);
        trace_flow(trace, to->dp_rank, thread_of(to, tracks, track_count), to->flow, true,
                   to->start_ns);
    }
}

bool trace_write(FILE *out, const char *title, const struct span_record *spans, int64_t span_count,
                 const struct memory_point_record *memory, int64_t memory_count,
                 struct error *err) {
    struct arena *arena = arena_create();
    struct track *tracks;
    int64_t track_count = collect_tracks(arena, spans, span_count, &tracks);
    struct trace trace;
    trace_begin(&trace, out, title);
    name_tracks(&trace, tracks, track_count);
    char name[128];
    for (int64_t i = 0; i < span_count; i++)
        trace_span(&trace, spans[i].dp_rank, thread_of(&spans[i], tracks, track_count), &spans[i]);
    write_flows(&trace, arena, spans, span_count, tracks, track_count);
    for (int64_t i = 0; i < memory_count; i++) {
        snprintf(name, sizeof name, "stage %" PRId64 " memory", memory[i].stage_index + 1);
        trace_counter(&trace, memory[i].dp_rank, name, "bytes", memory[i].time_ns,
                      memory[i].memory_bytes);
    }
    arena_destroy(arena);
    return trace_end(&trace, err);
}
