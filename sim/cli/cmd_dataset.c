/* cmd_dataset.c - `dataset stats`: what a data set looks like; `dataset import`: bring your own. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot.h"
#include "sim/cli/cli.h"
#include "sim/data/dataset_stats.h"

struct dataset_cli_options {
    const char *output, *plot;
    int tiling;
    int64_t max_tiles, tile_pixels, tile_language_tokens, max_language_tokens;
};

#define AT(member) offsetof(struct dataset_cli_options, member)
static const struct option options_table[] = {
    { "output", OPTION_OUTPUT, AT(output), "FILE",
      "import: the data set to write, .csv or .csv.gz (also -o)", NULL, 0, 0 },
    { "plot", OPTION_PICTURE, AT(plot), "FILE", "stats: histograms as .png, .svg or .pdf", NULL, 0,
      0 },
    { "tiling", OPTION_CHOICE, AT(tiling), "NAME",
      "as-file (default), internvl, native, anyres or anyres-unpadded", tiling_names, 0, 0 },
    { "max-tiles", OPTION_COUNT, AT(max_tiles), "N",
      "internvl: most tiles of an image (default 12)", NULL, 1, 64 },
    { "tile-pixels", OPTION_COUNT, AT(tile_pixels), "N",
      "internvl, anyres: side of a tile (default 448; a scenario takes the model's)", NULL, 1,
      4096 },
    { "tile-tokens", OPTION_COUNT, AT(tile_language_tokens), "N",
      "language tokens of a tile (default: as the data set states, or 256)", NULL, 1, 65536 },
    { "max-tokens", OPTION_COUNT, AT(max_language_tokens), "N",
      "cut longer samples to this many language tokens", NULL, 1, 1e9 },
};

static const char *const verbs[] = { "import", "stats", NULL };

static void defaults(void *options) {
    *(struct dataset_cli_options *)options = (struct dataset_cli_options){ .max_tiles = 12 };
}

static cJSON *summary_json(const struct dataset_summary *s) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "sum", (double)s->sum);
    cJSON_AddNumberToObject(o, "mean", s->mean);
    cJSON_AddNumberToObject(o, "std", s->std);
    cJSON_AddNumberToObject(o, "p50", s->p50);
    cJSON_AddNumberToObject(o, "p90", s->p90);
    cJSON_AddNumberToObject(o, "p99", s->p99);
    cJSON_AddNumberToObject(o, "max", (double)s->max);
    return o;
}

static cJSON *part_json(const struct dataset_part_stats *p, bool native) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", p->name);
    cJSON_AddStringToObject(o, "status", p->status);
    cJSON_AddNumberToObject(o, "samples", (double)p->sample_count);
    cJSON_AddItemToObject(o, "vision_tiles", summary_json(&p->vision_tiles));
    cJSON_AddItemToObject(o, "language_tokens", summary_json(&p->language_tokens));
    if (native) cJSON_AddItemToObject(o, "vision_patches", summary_json(&p->vision_patches));
    if (p->clip_count > 0) {
        cJSON_AddNumberToObject(o, "clips", (double)p->clip_count);
        cJSON_AddItemToObject(o, "clip_ms", summary_json(&p->clip_ms));
        cJSON_AddNumberToObject(o, "text_tokens_per_second", p->text_tokens_per_second);
    }
    cJSON_AddNumberToObject(o, "text_tokens_per_tile", p->text_tokens_per_tile);
    return o;
}

static void print_part(const struct dataset_part_stats *p) {
    char count[32];
    printf("  %-34s %-13s %10s  %6.3f %5.2f %4ld   %7.1f %7.1f %6.0f %6.0f %6.0f %6ld\n", p->name,
           p->status, cli_thousands(p->sample_count, count), p->vision_tiles.mean,
           p->vision_tiles.std, (long)p->vision_tiles.max, p->language_tokens.mean,
           p->language_tokens.std, p->language_tokens.p50, p->language_tokens.p90,
           p->language_tokens.p99, (long)p->language_tokens.max);
}

static void print_clips(const struct dataset_part_stats *p) {
    char count[32];
    if (p->clip_count == 0) return;
    printf("  %-34s %10s   %7.2f %6.2f %6.2f %6.2f %6.2f   %7.2f\n", p->name,
           cli_thousands(p->clip_count, count), p->clip_ms.mean / 1000, p->clip_ms.std / 1000,
           p->clip_ms.p50 / 1000, p->clip_ms.p90 / 1000, (double)p->clip_ms.max / 1000,
           p->text_tokens_per_second);
}

static void print_known(const char *label, const char *text) {
    if (text != NULL && text[0] != '\0') printf("  %s%s\n", label, text);
}

static void print_text(const struct dataset *d, const struct dataset_stats *s) {
    printf("%s [%s]\n", d->name, d->status);
    print_known("", d->description);
    print_known("from: ", d->provenance);
    print_known("licence: ", d->licence);
    for (int64_t i = 0; i < d->note_count; i++)
        printf("  note: %s\n", d->notes[i]);
    puts("\n                                                              |  image tiles      |  "
         "language tokens");
    puts("  part                               status           samples    mean   std  max      "
         "mean     std    p50    p90    p99    max");
    for (int64_t i = 0; i < s->part_count; i++)
        print_part(&s->parts[i]);
    struct dataset_part_stats whole = s->whole;
    whole.name = "all";
    print_part(&whole);
    if (whole.clip_count == 0) return;
    puts("\n                                                |  seconds of a clip                   "
         "|  tokens");
    puts("  part                                    clips      mean    std    p50    p90    max   "
         "a second");
    for (int64_t i = 0; i < s->part_count; i++)
        print_clips(&s->parts[i]);
    print_clips(&whole);
}

/* What a sample shows a model: its clip in seconds where the data set is of clips alone. */
static uint32_t shown_vision(const struct dataset *d, int64_t sample, bool clips) {
    return clips ? (d->clip_ms[sample] + 500) / 1000 : batch_sample_vision(d, (uint32_t)sample);
}

static bool of_clips_alone(const struct dataset *d) {
    for (int64_t i = 0; i < d->sample_count && d->clip_ms != NULL; i++)
        if (batch_sample_vision(d, (uint32_t)i) > 0) return false;
    return d->clip_ms != NULL;
}

static bool plot(const struct dataset *d, const char *path, struct error *err) {
    const bool clips = of_clips_alone(d);
    size_t n = (size_t)(d->sample_count > 0 ? d->sample_count : 1);
    uint32_t *vision = memory_alloc(sizeof *vision * n), *tokens = memory_alloc(sizeof *tokens * n);
    for (int64_t i = 0; i < d->sample_count; i++) {
        vision[i] = shown_vision(d, i, clips);
        tokens[i] = d->samples[i].language_tokens;
    }
    const char *title = strcmp(d->status, "real") == 0 ? d->name : NULL;
    char labelled[256];
    snprintf(labelled, sizeof labelled, "%s (%s data)", d->name, d->status);
    bool ok = plot_dataset(path, title != NULL ? title : labelled, vision,
                           clips                       ? "seconds of video"
                           : d->vision_patches != NULL ? "patches"
                                                       : "image tiles",
                           tokens, d->sample_count, err);
    free(vision);
    free(tokens);
    return ok;
}

static int stats(struct cli *cli, const struct dataset_cli_options *o, const struct dataset *d,
                 struct error *err) {
    struct dataset_stats *s = dataset_stats_create(d);
    if (cli->common.json) {
        cJSON *object = part_json(&s->whole, d->vision_patches != NULL);
        cJSON_ReplaceItemInObjectCaseSensitive(object, "name", cJSON_CreateString(d->name));
        cJSON_ReplaceItemInObjectCaseSensitive(object, "status", cJSON_CreateString(d->status));
        cJSON *parts = cJSON_AddArrayToObject(object, "parts");
        for (int64_t i = 0; i < s->part_count; i++)
            cJSON_AddItemToArray(parts, part_json(&s->parts[i], d->vision_patches != NULL));
        cJSON *notes = cJSON_AddArrayToObject(object, "notes");
        for (int64_t i = 0; i < d->note_count; i++)
            cJSON_AddItemToArray(notes, cJSON_CreateString(d->notes[i]));
        cli_print_json(object);
    } else {
        print_text(d, s);
    }
    dataset_stats_destroy(s);
    if (o->plot != NULL && !plot(d, o->plot, err)) return cli_error(err);
    return EXIT_DONE;
}

static bool ends_in(const char *text, const char *ending) {
    size_t length = strlen(text), tail = strlen(ending);
    return length > tail && strcmp(text + length - tail, ending) == 0;
}

static int import(struct cli *cli, const struct dataset_cli_options *o, const struct dataset *d,
                  struct error *err) {
    if (o->output == NULL) {
        error_set(err, "dataset import needs --output FILE");
        return cli_error(err);
    }
    /* The name says what is written, and a scenario or a list of records is not overwritten. */
    if (!ends_in(o->output, ".csv") && !ends_in(o->output, ".csv.gz")) {
        error_set(err, "--output %s: the name must end in .csv or .csv.gz", o->output);
        return cli_error(err);
    }
    const char *description = dataset_description_path(cli->arena, o->output);
    struct progress progress = cli_progress(cli, "writing", "samples");
    bool ok = error_check_output_file(err, o->output) &&
              dataset_check_description(d, o->output, err) &&
              dataset_write_csv_with(d, o->output, cli_progress_update, &progress, err);
    cli_progress_end(&progress);
    if (!ok || !dataset_write_description(d, o->output, err)) return cli_error(err);
    if (cli->common.json) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "output", o->output);
        cJSON_AddStringToObject(object, "description", description);
        cJSON_AddStringToObject(object, "status", d->status);
        cJSON_AddNumberToObject(object, "samples", (double)d->sample_count);
        cli_print_json(object);
        return EXIT_DONE;
    }
    char count[32];
    printf("%s sample%s written to %s\n", cli_thousands(d->sample_count, count),
           d->sample_count == 1 ? "" : "s", o->output);
    printf("  described in %s: status %s; name this file as the data set\n", description,
           d->status);
    for (int64_t i = 0; i < d->note_count; i++)
        printf("  note: %s\n", d->notes[i]);
    if (d->tile_language_tokens_known && o->tile_language_tokens == 0)
        printf("  note: a tile counts as %" PRId64 " language tokens; --tile-tokens N for a model "
               "that makes others\n",
               d->tile_language_tokens);
    return EXIT_DONE;
}

static int run(struct cli *cli, void *options) {
    const struct dataset_cli_options *o = options;
    struct error err = { 0 };
    const char *verb = cli->arguments.positional[0], *name = cli->arguments.positional[1];
    bool importing = strcmp(verb, "import") == 0;
    if (!importing && strcmp(verb, "stats") != 0) {
        error_set(&err, "unknown action \"%s\": dataset stats NAME, or dataset import FILE -o OUT",
                  verb);
        return cli_error(&err);
    }
    if (importing ? o->plot != NULL : o->output != NULL) {
        if (importing)
            error_set(&err, "--plot belongs to dataset stats");
        else
            error_set(&err, "--output belongs to dataset import; a picture is --plot FILE");
        return cli_error(&err);
    }
    struct tiling tiling = tiling_default();
    tiling.kind = (enum tiling_kind)o->tiling;
    tiling.max_tiles = o->max_tiles;
    if (o->tile_pixels > 0) tiling.tile_pixels = o->tile_pixels;
    if (o->tile_language_tokens > 0) tiling.tile_language_tokens = o->tile_language_tokens;
    struct progress progress = cli_progress(cli, "reading", "B");
    struct dataset_options load = {
        .tiling = &tiling,
        .max_language_tokens = o->max_language_tokens,
        .tile_language_tokens = o->tile_language_tokens,
        .keep_images = importing && tiling.kind == TILING_AS_FILE,
        .progress = cli_progress_update,
        .progress_context = &progress,
    };
    struct dataset *d = dataset_load_with(cli->scenario_options.directory, name, &load, &err);
    cli_progress_end(&progress);
    if (d == NULL) return cli_error(&err);
    int code = importing ? import(cli, o, d, &err) : stats(cli, o, d, &err);
    dataset_destroy(d);
    return code;
}

const struct command command_dataset = {
    .name = "dataset",
    .usage = "stats NAME [--plot FILE] | import FILE -o OUT.csv.gz",
    .help = "print and plot the statistics of a data set; import one",
    .more = "NAME is a file in scenarios/datasets or a path. Import reads OmniBal's token-length "
            "lists, LLaVA and\n"
            "InternVL conversations (.json, .jsonl), and plain CSV, each also gzipped. Beside the "
            "table it writes a\n"
            "description, OUT.json, that says what the samples are.\n",
    COMMAND_OPTIONS(options_table, struct dataset_cli_options),
    .min_arguments = 2,
    .max_arguments = 2,
    .words = verbs,
    .without_scenarios = true,
    .defaults = defaults,
    .run = run,
};
