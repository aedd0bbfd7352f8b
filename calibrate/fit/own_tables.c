/* own_tables.c - splits the tables of a folder into the user's rows and the others. */
#include "calibrate/fit/own_tables.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include "calibrate/fit/gpu_name.h"
#include "calibrate/fit/plan.h"

/* "S1:h100", "S24:file": begins with a key of calibrate/measured/README.md; "S3://bucket" does
 * not. */
bool own_tables_has_key(const char *source) {
    if (source[0] != 'S') return false;
    const size_t digits = strspn(source + 1, "0123456789");
    const char *rest = source + 1 + digits;
    return digits > 0 && rest[0] == ':' && rest[1] != '/' && rest[1] != ' ' && rest[1] != '\0';
}

static bool holds(const char *const *texts, int64_t count, const char *wanted) {
    for (int64_t i = 0; i < count; i++)
        if (strcmp(texts[i], wanted) == 0) return true;
    return false;
}

static const char *measured_name(const char *profile, const char *relative) {
    for (int i = 0; i < GPU_NAME_COUNT; i++)
        if (strcmp(gpu_name_table[i].profile, profile) == 0) return gpu_name_table[i].measured;
    return relative;
}

static const char *date_of(struct arena *arena, const char *path) {
    struct stat status;
    struct tm day;
    char text[16] = "an unknown day";
    if (stat(path, &status) == 0 && gmtime_r(&status.st_mtime, &day) != NULL)
        strftime(text, sizeof text, "%Y-%m-%d", &day);
    return arena_text(arena, text);
}

/* Which GPUs the own rows of a table are of. */
struct census {
    struct arena *arena;
    enum { GPU_MAX = 16 } limit;
    const char *gpus[GPU_MAX];
    int64_t counts[GPU_MAX];
    int gpu_count;
};

static void count_gpu(struct census *census, const char *cell) {
    const char *gpu = cell[0] != '\0' ? cell : "no GPU";
    int i = 0;
    while (i < census->gpu_count && strcmp(census->gpus[i], gpu) != 0)
        i++;
    if (i == GPU_MAX) return;
    if (i == census->gpu_count) census->gpus[census->gpu_count++] = gpu;
    census->counts[i]++;
}

static const char *census_text(const struct census *census) {
    const char *text = census->gpu_count == 0 ? "no row" : "";
    for (int i = 0; i < census->gpu_count; i++)
        text = arena_format(census->arena, "%s%s%s (%lld row%s)", text, i > 0 ? ", " : "",
                            census->gpus[i], (long long)census->counts[i],
                            census->counts[i] == 1 ? "" : "s");
    return text;
}

/* By any name that is known of it. Two profiles may be of one GPU, whose rows are of either. */
static bool is_gpu(const struct own_tables *own, const char *name) {
    if (strcmp(name, own->gpu) == 0 || strcmp(name, own->profile) == 0) return true;
    if (own->alias != NULL) return strcmp(gpu_name_short(name), gpu_name_short(own->alias)) == 0;
    const char *of_name = calibrate_profile_of(name), *of_measured = calibrate_profile_of(own->gpu);
    return of_name != NULL && of_measured != NULL && strcmp(of_name, of_measured) == 0;
}

/* Reads the folder's table `name` and, where it has no row with a key, the shipped one; parts them
 * into out->rows.name and out->others.name. */
#define READ_TABLE(name, format)                                                                   \
    static bool read_##name(struct arena *arena, const char *measured_dir,                         \
                            const char *shipped_dir, struct own_tables *out, struct error *err) {  \
        struct name##_rows all, shipped = { 0 };                                                   \
        struct census census = { .arena = arena };                                                 \
        const char *path = calibrate_table(arena, measured_dir, shipped_dir, #name);               \
        if (!name##_rows_read(arena, path, &all, err)) return false;                               \
        const char *standard =                                                                     \
            shipped_dir != NULL ? calibrate_table(arena, shipped_dir, NULL, #name) : path;         \
        const bool foreign = strcmp(path, standard) != 0;                                          \
        if (foreign && !name##_rows_read(arena, standard, &shipped, err)) return false;            \
        struct name##_rows *own = &out->rows.name, *others = &out->others.name;                    \
        own->rows = arena_array(arena, struct name##_row, all.count + 1);                          \
        others->rows = arena_array(arena, struct name##_row, all.count + 1);                       \
        const char **sources = arena_array(arena, const char *, shipped.count + 1);                \
        int64_t source_count = 0;                                                                  \
        for (int64_t i = 0; i < shipped.count; i++)                                                \
            if (i == 0 || strcmp(shipped.rows[i].source, shipped.rows[i - 1].source) != 0)         \
                sources[source_count++] = shipped.rows[i].source;                                  \
        for (int64_t i = 0; i < all.count; i++) {                                                  \
            if (own_tables_has_key(all.rows[i].source) &&                                          \
                (!foreign || holds(sources, source_count, all.rows[i].source))) {                  \
                others->rows[others->count++] = all.rows[i];                                       \
                continue;                                                                          \
            }                                                                                      \
            count_gpu(&census, all.rows[i].gpu);                                                   \
            if (!is_gpu(out, all.rows[i].gpu)) continue;                                           \
            own->rows[own->count] = all.rows[i];                                                   \
            own->rows[own->count++].gpu = out->gpu;                                                \
        }                                                                                          \
        out->files[format] =                                                                       \
            (struct own_file){ .gpus = census_text(&census), .row_count = own->count };            \
        /* No shipped table is empty. */                                                           \
        if (census.gpu_count > 0 || all.count == 0) {                                              \
            out->files[format].path = path;                                                        \
            out->files[format].date = date_of(arena, path);                                        \
        }                                                                                          \
        if (others->count == 0 && foreign) *others = shipped;                                      \
        return true;                                                                               \
    }
READ_TABLE(gemm, MEASUREMENT_GEMM)
READ_TABLE(attention, MEASUREMENT_ATTENTION)
READ_TABLE(nccl, MEASUREMENT_NCCL)
READ_TABLE(membw, MEASUREMENT_MEMBW)

static bool foreign_error(struct arena *arena, const struct own_tables *own, const char *asked,
                          struct error *err) {
    const char *held = "", *other = NULL;
    for (int f = 0; f < MEASUREMENT_FORMAT_COUNT; f++) {
        const struct own_file *file = &own->files[f];
        if (file->path == NULL) continue;
        held = arena_format(arena, "%s%s%s holds %s", held, held[0] != '\0' ? ", " : "", file->path,
                            file->gpus);
        const char *end = strstr(file->gpus, " (");
        if (other != NULL || end == NULL) continue;
        other =
            calibrate_profile_of(arena_format(arena, "%.*s", (int)(end - file->gpus), file->gpus));
    }
    error_set(err, "no row is of %s, the GPU of --gpu %s: %s", own->gpu, asked, held);
    if (other != NULL && strcmp(other, own->profile) != 0)
        return error_hint(err, "those are of --gpu %s", other);
    return error_hint(
        err,
        "the column `gpu` of your rows must say %s or %s; for a GPU that has no profile see "
        "docs/HOWTO-CALIBRATE.md",
        own->gpu, own->alias != NULL ? own->alias : own->profile);
}

bool own_tables_read(struct arena *arena, const char *measured_dir, const char *shipped_dir,
                     const struct calibrate_gpu *gpu, const char *relative, struct own_tables *out,
                     struct error *err) {
    *out = gpu->name != NULL ? (struct own_tables){ .profile = gpu->name,
                                                    .gpu = gpu->name,
                                                    .alias = gpu->description }
                             : (struct own_tables){ .profile = gpu->profile,
                                                    .gpu = measured_name(gpu->profile, relative) };
    if (!read_gemm(arena, measured_dir, shipped_dir, out, err) ||
        !read_attention(arena, measured_dir, shipped_dir, out, err) ||
        !read_nccl(arena, measured_dir, shipped_dir, out, err) ||
        !read_membw(arena, measured_dir, shipped_dir, out, err))
        return false;
    bool foreign = false;
    for (int f = 0; f < MEASUREMENT_FORMAT_COUNT; f++) {
        out->any = out->any || out->files[f].row_count > 0;
        foreign = foreign || out->files[f].path != NULL;
    }
    return out->any || !foreign ||
           foreign_error(arena, out, gpu->hardware != NULL ? gpu->hardware : gpu->profile, err);
}

const char *own_tables_source(struct arena *arena, const struct own_tables *own,
                              enum measurement_format table, int64_t count, const char *what) {
    return arena_format(arena, "%lld row%s of %s%s%s%s in %s of %s", (long long)count,
                        count == 1 ? "" : "s", own->gpu, what[0] != '\0' ? " (" : "", what,
                        what[0] != '\0' ? ")" : "", own->files[table].path, own->files[table].date);
}
