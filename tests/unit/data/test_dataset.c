/* test_dataset.c - tests. */
#include <dirent.h>
#include <math.h>
#include "tests/unit/data/fixture.h"
#include "sim/data/dataset_stats.h"

/* ---- shipped data sets ---- */

static void every_shipped_set_loads(void **state) {
    (void)state;
    DIR *dir = opendir(SCENARIOS "/datasets");
    assert_non_null(dir);
    int count = 0;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        char *dot = strstr(e->d_name, ".json");
        if (dot == NULL) continue;
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(dot - e->d_name), e->d_name);
        struct dataset *d = load_or_fail(name, NULL);
        bool drawn = strcmp(d->status, "synthetic") == 0;
        /* The one thing that may be said of a shipped set: long clips are cut. */
        bool cut = true;
        for (int64_t i = 0; i < d->note_count; i++)
            cut = cut && strstr(d->notes[i], " clips are cut to 16 s") != NULL;
        if (strcmp(d->name, name) != 0 || d->description[0] == '\0' || !cut ||
            (!drawn && (d->provenance[0] == '\0' || d->licence[0] == '\0')))
            fail_msg("%s: name %s, %lld notes", name, d->name, (long long)d->note_count);
        for (int64_t i = 0; i < d->part_count; i++)
            if (d->parts[i].sample_count == 0)
                fail_msg("%s: part %s is empty", name, d->parts[i].name);
        dataset_destroy(d);
        count++;
    }
    closedir(dir);
    assert_true(count >= 8);
}

/* The tile counts in the files follow from their image sizes by the rule of at most 4 tiles. */
static void tiling_reproduces_the_files(void **state) {
    (void)state;
    const char *const names[] = { "internvl-1.2m", "mathvista-testmini", "coco-captions",
                                  "refcoco",       "llava-665k",         "internvl-1.2m-vg500" };
    struct tiling t = tiling_default();
    t.kind = TILING_INTERNVL;
    t.max_tiles = 4;
    struct dataset_options options = { .tiling = &t };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct dataset *file = load_or_fail(names[i], NULL);
        struct dataset *tiled = load_or_fail(names[i], &options);
        assert_int_equal(file->sample_count, tiled->sample_count);
        for (int64_t k = 0; k < file->sample_count; k++)
            if (memcmp(&file->samples[k], &tiled->samples[k], sizeof file->samples[k]) != 0)
                fail_msg("%s, sample %lld: %u tiles in the file, %u by the rule", names[i],
                         (long long)k, (unsigned)file->samples[k].vision_tiles,
                         (unsigned)tiled->samples[k].vision_tiles);
        dataset_destroy(file);
        dataset_destroy(tiled);
    }
}

/* The real parts hold the same samples in both files, whatever the order of the parts. */
static void mixture_holds_the_real_records(void **state) {
    (void)state;
    struct dataset *real = load_or_fail("omnibal-real", NULL);
    struct dataset *mixture = load_or_fail("internvl-1.2m", NULL);
    for (int64_t p = 0; p < real->part_count; p++) {
        int64_t i = 0, k = 0, matched = 0;
        while (strcmp(real->parts[real->samples[i].part].name, real->parts[p].name) != 0)
            i++;
        for (; k < mixture->sample_count; k++) {
            const struct sample *s = &mixture->samples[k];
            if (strcmp(mixture->parts[s->part].name, real->parts[p].name) != 0) continue;
            const struct sample *want = &real->samples[i + matched++];
            if (s->language_tokens != want->language_tokens ||
                s->vision_tiles != want->vision_tiles)
                fail_msg("%s, record %lld", real->parts[p].name, (long long)matched);
        }
        assert_int_equal(matched, real->parts[p].sample_count);
    }
    dataset_destroy(real);
    dataset_destroy(mixture);
}

/* ---- names ---- */

static void unknown_names(void **state) {
    (void)state;
    struct error err = { 0 };
    assert_null(dataset_load(SCENARIOS, "omnibal-rael", NULL, &err));
    const char *want = "no data set \"omnibal-rael\" in " SCENARIOS "/datasets\n"
                       "  hint: did you mean 'omnibal-real'?";
    assert_string_equal(err.text, want);
    assert_null(dataset_load(SCENARIOS, "zzzz", NULL, &err));
    if (strstr(err.text, "hint: there are: captioned-images, clips-129, ") == NULL) fail_msg("got %s", err.text);
    assert_null(dataset_load("/nonexistent", "x", NULL, &err));
    assert_string_equal(err.text, "no data set \"x\" in /nonexistent/datasets");
    assert_null(dataset_load(SCENARIOS, "./README.md", NULL, &err));
    assert_string_equal(err.text,
                        "./README.md: the name does not say what it is: must end in .csv, "
                        ".json or .jsonl, each also with .gz");
    assert_null(dataset_load(SCENARIOS, SCENARIOS "/datasets/none.json", NULL, &err));
    assert_string_equal(err.text,
                        "cannot read " SCENARIOS "/datasets/none.json: No such file or directory");
    assert_null(dataset_load(SCENARIOS, SCENARIOS "/datasets/", NULL, &err));
}

static void no_sizes_no_tiling(void **state) {
    (void)state;
    struct tiling t = tiling_default();
    struct error err = { 0 };
    t.kind = TILING_INTERNVL;
    assert_null(dataset_load(SCENARIOS, "omnibal-real", &t, &err));
    assert_string_equal(
        err.text,
        SCENARIOS "/datasets/omnibal-real.csv.gz:2:1: error: the tiling needs the size of every "
                  "image, and this record has none\n  hint: give width and height with each "
                  "image, or keep the file's own tile counts (tiling \"as-file\")");
    /* Text needs no sizes. */
    struct dataset *d = dataset_load(SCENARIOS, "sharegpt-8k", &t, &err);
    assert_non_null(d);
    assert_int_equal(d->samples[0].vision_tiles, 1);
    assert_int_equal(d->samples[0].language_tokens, 992);
    dataset_destroy(d);
    t.max_tiles = 0;
    assert_null(dataset_load(SCENARIOS, "refcoco", &t, &err));
    assert_string_equal(err.text, "tiling: 1 to 0 tiles: must be 1 <= min <= max <= 100");
}

/* ---- descriptions ---- */

static void several_files(void **state) {
    (void)state;
    write_text(scratch_path("one.csv"), "vision_tiles,language_tokens\n1,300\n");
    write_text(scratch_path("two.data"), "[[5,1400],[3,800]]");
    const char *path = scratch_path("both.json");
    write_text(path,
               "{ \"name\": \"both\", \"status\": \"real\", \"sample_count\": 3, \"files\": [\n"
               "  { \"file\": \"one.csv\", \"part\": \"first\" },\n"
               "  { \"file\": \"two.data\", \"format\": \"json\", \"part\": \"second\" } ],\n"
               "  \"parts\": [ { \"name\": \"second\", \"status\": \"reconstructed\" } ] }");
    struct dataset *d = load_or_fail(path, NULL);
    assert_string_equal(d->name, "both");
    assert_string_equal(d->status, "reconstructed");
    assert_int_equal(d->sample_count, 3);
    assert_int_equal(d->part_count, 2);
    assert_string_equal(d->parts[0].name, "second");
    assert_int_equal(d->parts[0].sample_count, 2);
    assert_string_equal(d->parts[1].status, "real");
    assert_int_equal(d->samples[0].language_tokens, 300);
    assert_int_equal(d->samples[2].language_tokens, 800);
    dataset_destroy(d);
}

static void chosen_parts(void **state) {
    (void)state;
    write_text(scratch_path("parts.csv"),
               "part_id,vision_tiles,language_tokens\n0,1,300\n1,1,400\n2,1,500\n1,1,600\n");
    const char *path = scratch_path("some.json");
    static const char *const text =
        "{ \"name\": \"some\", \"status\": \"real\",\n"
        "  \"files\": [ { \"file\": \"parts.csv\", \"parts\": [\"b\", \"%s\"] } ],\n"
        "  \"parts\": [ { \"name\": \"a\", \"status\": \"reconstructed\" },\n"
        "    { \"name\": \"b\", \"status\": \"real\" }, { \"name\": \"c\", \"status\": \"real\" } "
        "] }";
    char description[512];
    snprintf(description, sizeof description, text, "c");
    write_text(path, description);
    struct dataset *d = load_or_fail(path, NULL);
    assert_int_equal(d->sample_count, 3);
    assert_int_equal(d->part_count, 2);
    assert_string_equal(d->parts[0].name, "b");
    assert_int_equal(d->parts[0].sample_count, 2);
    assert_int_equal(d->samples[0].language_tokens, 400);
    assert_int_equal(d->samples[1].part, 1);
    assert_string_equal(d->status, "real"); /* the reconstructed part is left out */
    dataset_destroy(d);

    snprintf(description, sizeof description, text, "z");
    write_text(path, description);
    struct error err = { 0 };
    assert_null(dataset_load(SCENARIOS, path, NULL, &err));
    assert_non_null(strstr(err.text, "some.json:2:52: error: /files/0/parts/1: must be the name of "
                                     "a part"));
}

/* internvl-1.2m-vg500 is internvl-1.2m but for the pictures of two parts. */
static void smaller_pictures(void **state) {
    (void)state;
    struct dataset_options options = { .keep_images = true };
    struct dataset *first = load_or_fail("internvl-1.2m", &options);
    struct dataset *second = load_or_fail("internvl-1.2m-vg500", &options);
    assert_int_equal(first->sample_count, second->sample_count);
    int64_t pictures = 0, large = 0;
    for (int64_t i = 0; i < first->sample_count; i++) {
        const char *part = first->parts[first->samples[i].part].name;
        assert_int_equal(first->samples[i].part, second->samples[i].part);
        if (strcmp(part, "sharegpt4v_mix665k/gqa") != 0 &&
            strcmp(part, "sharegpt4v_mix665k/vg") != 0) {
            assert_memory_equal(&first->samples[i], &second->samples[i], sizeof first->samples[i]);
            continue;
        }
        assert_int_equal(second->image_starts[i + 1] - second->image_starts[i], 1);
        const struct image_size *size = &second->images[second->image_starts[i]];
        const int64_t side = size->width > size->height ? size->width : size->height;
        assert_true(side == 500 || side == 800);
        pictures++;
        large += side == 800;
    }
    assert_int_equal(pictures, 158557);
    assert_true(fabs((double)large / (double)pictures - 0.082) < 0.002);
    dataset_destroy(first);
    dataset_destroy(second);
}

static void overlays(void **state) {
    (void)state;
    write_text(scratch_path("under.csv"), "part_id,width,height,vision_tiles,text_tokens\n"
                                          "0,400,300,1,10\n1,800,600,5,20\n0,400,300,1,30\n"
                                          "1,800,600,5,40\n2,0,0,0,50\n");
    char over[512];
    snprintf(over, sizeof over, "%s", scratch_path("over.csv"));
    const char *path = scratch_path("overlaid.json");
    static const char *const text =
        "{ \"name\": \"overlaid\", \"status\": \"synthetic\",\n"
        "  \"files\": [ { \"file\": \"under.csv\", \"overlay\": \"over.csv\"%s } ],\n"
        "  \"parts\": [ { \"name\": \"a\", \"status\": \"synthetic\" },\n"
        "    { \"name\": \"b\", \"status\": \"synthetic\" },\n"
        "    { \"name\": \"c\", \"status\": \"synthetic\" } ] }";
    static const char *const header = "part_id,width,height,vision_tiles,text_tokens\n";
    static const struct {
        const char *rows, *parts, *error; /* error NULL: it loads */
        uint32_t tokens[5];
        int64_t count, images;
    } cases[] = {
        /* The n-th row of part b for the n-th of part b; the others stay where they are. */
        { "1,500,375,1,20\n1,600,500,2,41\n", "", NULL, { 266, 276, 286, 553, 50 }, 5, 4 },
        { "1,500,375,1,20\n1,600,500,2,41\n", ", \"parts\": [\"b\"]", NULL, { 276, 553 }, 2, 2 },
        { "1,500,375,1,20\n",
          "",
          "under.csv:5:1: error: the overlay has no more rows of part \"b\"",
          { 0 },
          0,
          0 },
        { "1,500,375,1,20\n1,600,500,2,41\n1,1,1,1,1\n2,0,0,0,51\n2,0,0,0,52\n",
          "",
          "2:48: error: /files/0/overlay: 2 rows of the overlay stand for none of under.csv, the "
          "first "
          "of part \"b\"",
          { 0 },
          0,
          0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char description[1024], rows[256];
        snprintf(description, sizeof description, text, cases[i].parts);
        snprintf(rows, sizeof rows, "%s%s", header, cases[i].rows);
        write_text(path, description);
        write_text(over, rows);
        struct dataset_options options = { .keep_images = true };
        struct error err = { 0 };
        struct dataset *d = dataset_load_with(SCENARIOS, path, &options, &err);
        if (cases[i].error != NULL) {
            assert_null(d);
            if (strstr(err.text, cases[i].error) == NULL) fail_msg("case %zu: %s", i, err.text);
            continue;
        }
        if (d == NULL) fail_msg("case %zu: %s", i, err.text);
        assert_int_equal(d->sample_count, cases[i].count);
        for (int64_t k = 0; k < d->sample_count; k++)
            assert_int_equal(d->samples[k].language_tokens, cases[i].tokens[k]);
        assert_int_equal(d->image_starts[d->sample_count], cases[i].images);
        dataset_destroy(d);
    }
}

/* One record alone is data; one description alone is not. */
static void one_object(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *status;
    } cases[] = {
        { "a conversation",
          "{ \"id\": 1, \"conversations\": [ { \"from\": \"human\", \"value\": \"Hello\" } ] }",
          "estimated" },
        { "messages, after a byte order mark",
          "\xEF\xBB\xBF{ \"messages\": [ { \"role\": \"user\", \"content\": \"Hello\" } ] }",
          "estimated" },
        { "counts", "{ \"vit_num\": 0, \"token_num\": 7 }", "unstated" },
        { "a description", "{ \"name\": \"d\", \"file\": \"row.csv\" }", "unstated" },
        { "a description with its status",
          "{ \"name\": \"d\", \"file\": \"row.csv\", \"status\": \"real\" }", "real" },
    };
    write_text(scratch_path("row.csv"), "language_tokens\n7\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = scratch_path("object.json");
        write_text(path, cases[i].text);
        struct dataset *d = load_or_fail(path, NULL);
        if (d->sample_count != 1 || strcmp(d->status, cases[i].status) != 0)
            fail_msg("%s: %lld samples, %s", cases[i].name, (long long)d->sample_count, d->status);
        dataset_destroy(d);
    }
}

/* What was estimated does not become real by being imported. */
static void written_descriptions(void **state) {
    (void)state;
    char source[512], csv[512], json[512];
    snprintf(source, sizeof source, "%s", scratch_path("talk.jsonl"));
    snprintf(csv, sizeof csv, "%s", scratch_path("imported.csv.gz"));
    snprintf(json, sizeof json, "%s", scratch_path("imported.json"));
    write_text(source, "{ \"image\": \"a.png\", \"conversations\": [ { \"value\": \"Hi\" } ] }\n"
                       "{ \"conversations\": [ { \"value\": \"Hello\" } ], \"part\": \"b\" }\n");
    struct dataset_options options = { .tile_language_tokens = 576, .keep_images = true };
    struct dataset *before = load_or_fail(source, &options);
    struct error err = { 0 };
    if (!dataset_write_csv(before, csv, &err) || !dataset_check_description(before, csv, &err) ||
        !dataset_write_description(before, csv, &err))
        fail_msg("%s", err.text);
    struct dataset *after = load_or_fail(json, NULL);
    assert_string_equal(after->name, "imported");
    assert_string_equal(after->status, "estimated");
    assert_string_equal(after->parts[1].name, "b");
    assert_string_equal(after->parts[1].status, "estimated");
    assert_non_null(strstr(after->provenance, "imported from "));
    assert_non_null(strstr(after->provenance, "talk.jsonl"));
    assert_int_equal(after->tile_language_tokens, 576);
    assert_true(after->tile_language_tokens_known);
    assert_int_equal(after->sample_count, 2);
    assert_memory_equal(after->samples, before->samples, 2 * sizeof *after->samples);
    /* Written again it replaces a description, but never its own source or a list of records. */
    assert_true(dataset_write_description(before, csv, &err));
    assert_false(dataset_write_description(after, csv, &err));
    assert_non_null(strstr(err.text, "the data set is read from this file"));
    write_text(json, "[[1,300]]");
    assert_false(dataset_check_description(before, csv, &err));
    assert_non_null(strstr(err.text, "the file exists and is something else"));
    assert_false(dataset_write_description(before, csv, &err));
    dataset_destroy(after);
    after = load_or_fail(json, NULL);
    assert_int_equal(after->samples[0].language_tokens, 300);
    dataset_destroy(after);
    dataset_destroy(before);
    /* Tokens that were counted elsewhere say nothing of a tile. */
    write_text(source, "{ \"vit_num\": 1, \"token_num\": 300 }\n");
    before = load_or_fail(source, NULL);
    assert_false(before->tile_language_tokens_known);
    dataset_destroy(before);
}

static void broken_descriptions(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *want; /* want begins the message */
    } cases[] = {
        { "unknown key", "{\"name\": \"x\", \"fiel\": \"a.csv\"}",
          "%s:1:15: error: /fiel: unknown key \"fiel\" in \"dataset\"" },
        { "no file", "{\"name\": \"x\"}",
          "%s:1:1: error: /: a data set of samples needs either \"file\" or \"files\"" },
        { "absent file", "{\"name\": \"x\", \"file\": \"/absent.csv\"}",
          "%s:1:23: error: /file: cannot read /absent.csv: No such file or directory" },
        { "wrong count", "{\"name\": \"x\", \"file\": \"one.csv\",\n \"sample_count\": 7}",
          "%s:2:18: error: /sample_count: the files hold 1 sample" },
        { "a draw's key", "{\"name\": \"x\", \"file\": \"one.csv\", \"seed\": 7}",
          "%s:1:42: error: /seed: \"seed\" has no meaning for a data set of samples" },
        { "part twice",
          "{\"name\": \"x\", \"file\": \"one.csv\", \"parts\": "
          "[{\"name\":\"a\",\"status\":\"real\"},"
          "{\"name\":\"a\",\"status\":\"real\"}]}",
          "%s:1:73: error: /parts/1: part \"a\" is listed twice" },
        { "part_id beyond the list",
          "{\"name\": \"x\", \"file\": \"ids.csv\", \"parts\": "
          "[{\"name\":\"a\",\"status\":\"real\"}]}",
          NULL },
        { "no count", "{\"name\": \"x\", \"kind\": \"distribution\", \"text_tokens\": 5}",
          "%s:1:1: error: /: \"sample_count\" is missing from \"dataset\"" },
        { "no tokens", "{\"name\": \"x\", \"kind\": \"distribution\", \"sample_count\": 5}",
          "%s:1:1: error: /: a data set that is drawn needs either \"text_tokens\" or" },
        { "file of a draw",
          "{\"name\": \"x\", \"kind\": \"distribution\", \"file\": \"a.csv\", \"sample_count\": 5}",
          "%s:1:47: error: /file: \"file\" has no meaning for a data set that is drawn" },
    };
    write_text(scratch_path("one.csv"), "vision_tiles,language_tokens\n1,300\n");
    char ids[512];
    snprintf(ids, sizeof ids, "%s", scratch_path("ids.csv"));
    write_text(ids, "part_id,language_tokens\n0,1\n1,2\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = scratch_path("broken.json");
        write_text(path, cases[i].text);
        struct error err = { 0 };
        if (dataset_load(SCENARIOS, path, NULL, &err) != NULL)
            fail_msg("%s: loaded", cases[i].name);
        char want[1024];
        if (cases[i].want == NULL)
            snprintf(want, sizeof want,
                     "%s:3:1: error: part_id 1 has no name: the description lists 1 parts", ids);
        else if (strncmp(cases[i].want, "%s", 2) == 0)
            snprintf(want, sizeof want, "%s%s", path, cases[i].want + 2);
        else
            snprintf(want, sizeof want, "%s", cases[i].want);
        if (strncmp(err.text, want, strlen(want)) != 0)
            fail_msg("%s:\n got  %s\n want %s", cases[i].name, err.text, want);
    }
}

/* ---- draws ---- */

static struct dataset *draw(const char *text, const struct dataset_options *options) {
    struct error err = { 0 };
    struct json *json = json_parse("draw.json", text, strlen(text), &err);
    assert_non_null(json);
    struct dataset *d = dataset_from_json(json, json_root(json), ".", options, &err);
    json_destroy(json);
    if (d == NULL) fail_msg("%s: %s", text, err.text);
    return d;
}

static uint64_t digest(const struct dataset *d) {
    uint64_t hash = 1469598103934665603u;
    for (int64_t i = 0; i < d->sample_count; i++)
        hash = (hash ^ (d->samples[i].language_tokens +
                        (uint64_t)d->samples[i].vision_tiles * 4294967296u)) *
               1099511628211u;
    return hash;
}

#define DRAW(seed, correlation)                                                                    \
    "{\"name\":\"x\",\"kind\":\"distribution\",\"sample_count\":40000,\"seed\":" #seed             \
    ",\"correlation\":" #correlation ","                                                           \
    "\"vision_tiles\":{\"distribution\":\"gamma\",\"mean\":6.4,\"std\":5.724,\"max\":48},"         \
    "\"text_tokens\":{\"distribution\":\"lognormal\",\"mean\":200,\"std\":100}}"

static void draws_repeat(void **state) {
    (void)state;
    struct dataset *a = draw(DRAW(7, 0), NULL), *b = draw(DRAW(7, 0), NULL);
    struct dataset *c = draw(DRAW(8, 0), NULL);
    assert_true(digest(a) == digest(b));
    assert_true(digest(a) != digest(c));
    assert_string_equal(a->status, "synthetic");
    assert_string_equal(a->parts[0].name, "x");
    dataset_destroy(a);
    dataset_destroy(b);
    dataset_destroy(c);
}

static void draws_have_the_moments(void **state) {
    (void)state;
    struct dataset *d = draw(DRAW(7, 0), NULL);
    struct dataset_stats *s = dataset_stats_create(d);
    /* Four standard errors of 40,000 samples; clamping at 48 is far in the tail. */
    assert_true(fabs(s->whole.vision_tiles.mean - 6.4) < 4 * 5.73 / 200);
    assert_true(fabs(s->whole.vision_tiles.std - 5.73) < 0.2);
    double text = (double)s->whole.language_tokens.sum / 40000 - 256 * s->whole.vision_tiles.mean;
    assert_true(fabs(text - 200) < 4 * 100.0 / 200);
    dataset_stats_destroy(s);
    dataset_destroy(d);
}

/* ---- the data sets of DIP ---- */

/* What their sources publish, within four standard errors of the draw (or as printed). */
static void published_means_come_out(void **state) {
    (void)state;
    static const struct {
        const char *name, *what;
        double want, tolerance;
    } cases[] = {
        { "obelics", "tiles", 353.0 / 141, 0.03 },
        { "obelics", "text", 115e3 / 141, 9 },
        { "obelics", "max tiles", 30, 0 },
        { "laion-2b", "text", 16.4, 0.25 },
        { "laion-2b", "tiles", 1, 0 },
        { "internvid", "text", 17.52 * 1.33 + 1, 0.2 },
        { "mmtrail-2m", "seconds", 9.53, 0.01 },
        { "mmtrail-2m", "text", 33.87, 0.01 },
        { "sharegpt4video", "text", 350.75, 2.2 },
        { "dip-sequences", "tiles", 6.4, 0.2 },
        { "dip-clips", "median seconds", 3, 0.02 },
        { "dip-clips", "tokens a second", 15, 0.1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dataset_options options = { .tile_language_tokens = 169 };
        struct dataset *d = load_or_fail(cases[i].name, &options);
        struct dataset_stats *s = dataset_stats_create(d);
        const char *what = cases[i].what;
        double tiles = s->whole.vision_tiles.mean;
        double got = strcmp(what, "tiles") == 0     ? tiles
                     : strcmp(what, "text") == 0    ? s->whole.language_tokens.mean - 169 * tiles
                     : strcmp(what, "seconds") == 0 ? s->whole.clip_ms.mean / 1000
                     : strcmp(what, "median seconds") == 0  ? s->whole.clip_ms.p50 / 1000
                     : strcmp(what, "tokens a second") == 0 ? s->whole.text_tokens_per_second
                                                            : (double)s->whole.vision_tiles.max;
        if (!(fabs(got - cases[i].want) <= cases[i].tolerance))
            fail_msg("%s: %s are %g, want %g", cases[i].name, what, got, cases[i].want);
        dataset_stats_destroy(s);
        dataset_destroy(d);
    }
}

/* Figure 8b: each iteration within its bounds, the fifth at the 22 that DIP prints, none at the
 * end. */
static void bounds_hold_in_each_iteration(void **state) {
    (void)state;
    struct dataset *d = load_or_fail("dip-image-bounds", NULL);
    assert_int_equal(d->sample_count, 40 * 64);
    double mean[40] = { 0 };
    for (int64_t i = 0; i < d->sample_count; i++) {
        int64_t iteration = i / 64 % 20;
        double lower = iteration < 5 ? 4.0 * (double)iteration : 16 * (19 - (double)iteration) / 15;
        double upper = iteration < 5 ? 32 : 32 * (19 - (double)iteration) / 15;
        assert_in_range(d->samples[i].vision_tiles, (unsigned)(lower + 0.5),
                        (unsigned)(upper + 0.5));
        assert_int_equal(d->samples[i].language_tokens, 8192);
        mean[i / 64] += d->samples[i].vision_tiles / 64.0;
    }
    /* 64 draws with a standard deviation of 4.4: four standard errors are 2.2 */
    assert_true(fabs(mean[4] - 21.7) < 2.2 && fabs(mean[24] - 21.7) < 2.2);
    assert_true(mean[19] == 0 && mean[39] == 0);
    assert_true(mean[0] < mean[4] && mean[4] > mean[10] && mean[10] > mean[18]);
    dataset_destroy(d);
}

#define BOUNDS(list, tiles)                                                                        \
    "{\"name\":\"x\",\"kind\":\"bounds\",\"samples_per_bound\":3000,\"seed\":3,\"bounds\":" list   \
    ",\"vision_tiles\":" tiles ",\"text_tokens\":10}"

/* The draw within bounds is the distribution under a condition, not its ends piled up. */
static void bounds_condition_the_distribution(void **state) {
    (void)state;
    struct dataset *d = draw(BOUNDS("[[2,4],[0,0],[9,12]]",
                                    "{\"distribution\":\"histogram\",\"values\":[1,2,3,4,5],"
                                    "\"weights\":[10,1,2,1,20]}"),
                             NULL);
    int64_t count[8] = { 0 };
    for (int64_t i = 0; i < 3000; i++)
        count[d->samples[i].vision_tiles]++;
    assert_int_equal(count[2] + count[3] + count[4], 3000);
    assert_true(llabs(count[3] - 1500) < 110 && llabs(count[2] - 750) < 95);
    for (int64_t i = 3000; i < 9000; i++) /* nothing within: the nearest bound */
        assert_int_equal(d->samples[i].vision_tiles, i < 6000 ? 0 : 9);
    dataset_destroy(d);
}

static void mixtures_keep_their_parts(void **state) {
    (void)state;
    struct dataset *d = load_or_fail("dip-images", NULL);
    assert_string_equal(d->status, "reconstructed");
    static const struct {
        const char *name, *status;
        double share;
    } parts[] = { { "obelics", "reconstructed", 1.0 / 3 },
                  { "laion-2b", "reconstructed", 1.0 / 3 },
                  { "scienceqa/test", "real", 1.0 / 6 },
                  { "scienceqa/val", "real", 1.0 / 6 } };
    assert_int_equal(d->part_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(d->parts[i].name, parts[i].name);
        assert_string_equal(d->parts[i].status, parts[i].status);
        double share = (double)d->parts[i].sample_count / (double)d->sample_count;
        assert_true(fabs(share - parts[i].share) < 0.01);
    }
    dataset_destroy(d);
    /* A component is gone through as a whole before it repeats: 4 real clips in 8 draws, each
     * twice. */
    char folder[512], path[640], text[900];
    snprintf(folder, sizeof folder, "%s", scratch_path("four.csv"));
    write_text(folder, "clip_ms,text_tokens\n1000,1\n2000,2\n3000,3\n,4\n");
    snprintf(path, sizeof path, "%s", scratch_path("mix.json"));
    snprintf(text, sizeof text,
             "{\"name\":\"mix\",\"kind\":\"mixture\",\"sample_count\":8,\"components\":"
             "[{\"dataset\":\"%s\",\"weight\":2}]}",
             folder);
    write_text(path, text);
    d = load_or_fail(path, NULL);
    int64_t seen[5] = { 0 };
    for (int64_t i = 0; i < 8; i++) {
        uint32_t tokens = d->samples[i].language_tokens;
        seen[tokens]++;
        assert_int_equal(d->clip_ms[i], tokens == 4 ? 0 : 1000 * tokens);
        if (i == 3) assert_true(seen[1] == 1 && seen[2] == 1 && seen[3] == 1 && seen[4] == 1);
    }
    assert_true(seen[1] == 2 && seen[4] == 2);
    assert_string_equal(d->status, "unstated");
    dataset_destroy(d);
}

static void kinds_say_what_is_wrong(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        { BOUNDS("[]", "1"), "\"bounds\" must be a list of [lower, upper]" },
        { BOUNDS("[[1,2],[5,4]]", "1"),
          "/bounds/1: must be [lower, upper] with 0 <= lower <= upper" },
        { BOUNDS("[[0.2,0.8]]", "1"), "/bounds/0: no whole number lies within the bounds" },
        { "{\"name\":\"x\",\"kind\":\"bounds\",\"samples_per_bound\":2,\"bounds\":[[0,48],[8,49]],"
          "\"vision_tiles\":1,\"language_tokens\":8192,\"tile_language_tokens\":169}",
          "/bounds/1: 49 tiles of 169 language tokens are more than the 8192 of a sample" },
        { "{\"name\":\"x\",\"kind\":\"bounds\",\"bounds\":[[0,1]],\"text_tokens\":1}",
          "\"samples_per_bound\" is missing from \"dataset\"" },
        { "{\"name\":\"x\",\"kind\":\"mixture\",\"sample_count\":9}",
          "a mixture needs \"components\", a list of 1 to 64 data sets" },
        { "{\"name\":\"x\",\"kind\":\"mixture\",\"sample_count\":9,\"text_tokens\":1,"
          "\"components\":[{\"dataset\":\"obelics\"}]}",
          "/text_tokens: \"text_tokens\" has no meaning for a mixture of data sets" },
        { "{\"name\":\"x\",\"kind\":\"mixture\",\"sample_count\":9,"
          "\"components\":[{\"dataset\":\"nowhere\"}]}",
          "error: /components/0/dataset: there is no " },
        { "{\"name\":\"x\",\"kind\":\"samples\",\"file\":\"a.csv\",\"components\":[]}",
          "\"components\" has no meaning for a data set of samples\n"
          "     1 | {\"name\":\"x\",\"kind\":\"samples\",\"file\":\"a.csv\",\"components\":[]}" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        struct json *json = json_parse("x.json", cases[i].text, strlen(cases[i].text), &err);
        assert_non_null(json);
        struct dataset *d =
            dataset_from_json(json, json_root(json), SCENARIOS "/datasets", NULL, &err);
        if (d != NULL || strstr(err.text, cases[i].want) == NULL)
            fail_msg("case %zu: got %s\nwant %s", i, err.text, cases[i].want);
        json_destroy(json);
    }
}

/* Three wide frames for a high one, by a stream of their own: all else is drawn as without. */
static void draws_frame_sizes(void **state) {
    (void)state;
#define CLIPS                                                                                      \
    "{\"name\":\"x\",\"kind\":\"distribution\",\"sample_count\":40000,"                               \
    "\"seed\":7,\"clip_ms\":{\"distribution\":\"lognormal\",\"mean\":3400,\"std\":1812},"                       \
    "\"text_tokens\":{\"distribution\":\"constant\",\"value\":5}"
    struct dataset *plain = draw(CLIPS "}", NULL);
    struct dataset *sized = draw(CLIPS ",\"frame_sizes\":["
                                       "{\"width\":1280,\"height\":720,\"share\":3},"
                                       "{\"width\":720,\"height\":1280,\"share\":1}]}",
                                 NULL);
#undef CLIPS
    assert_null(plain->frame_sizes);
    assert_memory_equal(plain->clip_ms, sized->clip_ms, 40000 * sizeof *plain->clip_ms);
    int64_t wide = 0;
    for (int64_t i = 0; i < 40000; i++) {
        const struct image_size *s = &sized->frame_sizes[i];
        assert_true((s->width == 1280 && s->height == 720) ||
                    (s->width == 720 && s->height == 1280));
        wide += s->width == 1280;
    }
    assert_in_range(wide, 30000 - 350, 30000 + 350); /* four standard deviations */
    dataset_destroy(plain);
    dataset_destroy(sized);
}

/* Clips are drawn after the other columns of a sample, are cut, and carry the correlation. */
static void draws_clips(void **state) {
    (void)state;
    struct dataset *d =
        draw("{\"name\":\"x\",\"kind\":\"distribution\",\"sample_count\":40000,\"seed\":7,"
             "\"correlation\":0.999,\"clip_limit_ms\":8000,"
             "\"clip_ms\":{\"distribution\":\"lognormal\",\"mean\":3400,\"std\":1812},"
             "\"text_tokens\":{\"distribution\":\"lognormal\",\"mean\":51,\"std\":27.2}}",
             NULL);
    double sum = 0, ratio_error = 0;
    int64_t cut = 0;
    for (int64_t i = 0; i < d->sample_count; i++) {
        assert_in_range(d->clip_ms[i], 1, 8000);
        assert_int_equal(d->samples[i].vision_tiles, 0);
        cut += d->clip_ms[i] == 8000;
        sum += d->clip_ms[i];
        if (d->clip_ms[i] < 8000)
            ratio_error += fabs(15e-3 * d->clip_ms[i] / d->samples[i].language_tokens - 1);
    }
    /* P(lognormal > 8 s) with median 3 s and sigma 0.5 */
    double tail = 0.5 * erfc(log(8.0 / 3.0) / 0.5 / sqrt(2));
    assert_true(fabs((double)cut / 40000 - tail) < 4 * sqrt(tail / 40000));
    assert_true(sum / 40000 > 3250 && sum / 40000 < 3400);
    assert_true(ratio_error / 40000 < 0.05);
    /* Some are 8 s without a cut. */
    assert_int_equal(d->note_count, 1);
    assert_in_range(strtol(d->notes[0], NULL, 10), cut - 10, cut);
    assert_non_null(strstr(d->notes[0], " clips are cut to 8 s"));
    dataset_destroy(d);
}

/* Correlation moves the tokens and leaves the tiles, sample by sample. */
static void draws_correlate(void **state) {
    (void)state;
    struct dataset *free_draw = draw(DRAW(7, 0), NULL), *tied = draw(DRAW(7, 0.8), NULL);
    double sums[2][5] = { { 0 } };
    for (int64_t i = 0; i < 40000; i++) {
        assert_int_equal(free_draw->samples[i].vision_tiles, tied->samples[i].vision_tiles);
        for (int k = 0; k < 2; k++) {
            const struct sample *s = &(k == 0 ? free_draw : tied)->samples[i];
            double x = s->vision_tiles, y = s->language_tokens - 256.0 * x;
            sums[k][0] += x;
            sums[k][1] += y;
            sums[k][2] += x * x;
            sums[k][3] += y * y;
            sums[k][4] += x * y;
        }
    }
    double r[2];
    for (int k = 0; k < 2; k++) {
        double n = 40000, *t = sums[k];
        r[k] = (n * t[4] - t[0] * t[1]) / sqrt((n * t[2] - t[0] * t[0]) * (n * t[3] - t[1] * t[1]));
    }
    assert_true(fabs(r[0]) < 0.02);
    /* Skewed margins keep somewhat less than the 0.8 of the normal scores. */
    assert_true(r[1] > 0.70 && r[1] < 0.80);
    dataset_destroy(free_draw);
    dataset_destroy(tied);
}

static void draws_of_whole_lengths(void **state) {
    (void)state;
    struct dataset *d = draw("{\"name\":\"x\",\"kind\":\"distribution\",\"sample_count\":5,"
                             "\"vision_tiles\":3,\"language_tokens\":8192}",
                             NULL);
    assert_int_equal(d->samples[4].vision_tiles, 3);
    assert_int_equal(d->samples[4].language_tokens, 8192);
    dataset_destroy(d);
    d = draw("{\"name\":\"x\",\"kind\":\"distribution\",\"sample_count\":5,\"text_tokens\":100}",
             NULL);
    assert_int_equal(d->samples[0].vision_tiles, 0);
    assert_int_equal(d->samples[0].language_tokens, 100);
    dataset_destroy(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shipped_set_loads),
        cmocka_unit_test(tiling_reproduces_the_files),
        cmocka_unit_test(mixture_holds_the_real_records),
        cmocka_unit_test(unknown_names),
        cmocka_unit_test(no_sizes_no_tiling),
        cmocka_unit_test(several_files),
        cmocka_unit_test(chosen_parts),
        cmocka_unit_test(smaller_pictures),
        cmocka_unit_test(overlays),
        cmocka_unit_test(one_object),
        cmocka_unit_test(written_descriptions),
        cmocka_unit_test(broken_descriptions),
        cmocka_unit_test(draws_repeat),
        cmocka_unit_test(draws_have_the_moments),
        cmocka_unit_test(draws_correlate),
        cmocka_unit_test(draws_clips),
        cmocka_unit_test(draws_frame_sizes),
        cmocka_unit_test(published_means_come_out),
        cmocka_unit_test(bounds_hold_in_each_iteration),
        cmocka_unit_test(bounds_condition_the_distribution),
        cmocka_unit_test(mixtures_keep_their_parts),
        cmocka_unit_test(kinds_say_what_is_wrong),
        cmocka_unit_test(draws_of_whole_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, remove_scratch);
}
