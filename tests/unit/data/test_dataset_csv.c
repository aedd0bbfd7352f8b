/* test_dataset_csv.c - tests. */
#include "tests/unit/data/fixture.h"

struct want_sample {
    int64_t tiles, tokens;
    const char *part;
};

static void rows_as_samples(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
        struct want_sample want[3];
        int64_t count;
    } cases[] = {
        { "language tokens",
          "vision_tiles,language_tokens\n3,800\n5,1400\n",
          { { 3, 800, "t" }, { 5, 1400, "t" } },
          2 },
        { "other names of the columns", "vit_num,token_num\n3,800\n", { { 3, 800, "t" } }, 1 },
        { "text tokens get 256 a tile",
          "text_tokens,vision_tiles\n40,3\n",
          { { 3, 808, "t" } },
          1 },
        { "both: the file's total stands",
          "text_tokens,llm_tokens,vision_tiles\n40,900,3\n",
          { { 3, 900, "t" } },
          1 },
        { "text only", "language_tokens\n100\n", { { 0, 100, "t" } }, 1 },
        { "a dummy tile has no tokens",
          "text_tokens,vision_tiles,image_flags\n40,1,0\n40,1,1\n",
          { { 1, 40, "t" }, { 1, 296, "t" } },
          2 },
        { "no image is a dummy too",
          "text_tokens,vision_tiles,width,height\n40,1,0,0\n",
          { { 1, 40, "t" } },
          1 },
        { "images without a tile count",
          "text_tokens,image_wh\n40,640x480;32x32\n40,\n",
          { { 2, 552, "t" }, { 0, 40, "t" } },
          2 },
        { "parts by name",
          "part,language_tokens\nb,1\na,2\nb,3\n",
          { { 0, 1, "b" }, { 0, 2, "a" }, { 0, 3, "b" } },
          3 },
        { "parts by number",
          "part_id,language_tokens\n7,1\n0,2\n",
          { { 0, 1, "7" }, { 0, 2, "0" } },
          2 },
        { "quotes, spaces, Windows lines, blank lines, no last newline",
          "\xEF\xBB\xBF\"dataset\" , \"language_tokens\",id\r\n\"a,b\", 12 "
          ",x\r\n\r\nc,\"13\",\"y\"",
          { { 0, 12, "a,b" }, { 0, 13, "c" } },
          2 },
        { "leading zeros and the largest number",
          "language_tokens\n0000000012\n100000000\n",
          { { 0, 12, "t" }, { 0, 100000000, "t" } },
          2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = scratch_path("t.csv");
        write_text(path, cases[i].text);
        struct error err = { 0 };
        struct dataset *d = dataset_load(SCENARIOS, path, NULL, &err);
        if (d == NULL) fail_msg("%s: %s", cases[i].name, err.text);
        if (d->sample_count != cases[i].count)
            fail_msg("%s: %lld samples", cases[i].name, (long long)d->sample_count);
        for (int64_t k = 0; k < d->sample_count; k++) {
            const struct want_sample *want = &cases[i].want[k];
            const struct sample *got = &d->samples[k];
            if (got->vision_tiles != want->tiles || got->language_tokens != want->tokens ||
                strcmp(d->parts[got->part].name, want->part) != 0)
                fail_msg("%s, sample %lld: got %u tiles, %u tokens, part %s", cases[i].name,
                         (long long)k, (unsigned)got->vision_tiles, got->language_tokens,
                         d->parts[got->part].name);
        }
        dataset_destroy(d);
    }
}

static void broken_tables(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *want;
    } cases[] = {
        { "empty file", "", "%s is empty" },
        { "header alone", "language_tokens\n", "%s has a header but no rows" },
        { "no token column", "id,vision_tiles\n1,2\n",
          "%s:1:1: error: no column \"language_tokens\" or \"text_tokens\"\n"
          "  hint: the header's columns are: id, vision_tiles" },
        { "a token column by another name", "image,text_token\n1,2\n",
          "%s:1:1: error: no column \"language_tokens\" or \"text_tokens\"\n"
          "  hint: did you mean \"text_tokens\" by \"text_token\"?" },
        { "bars", "text_tokens|vision_tiles\n1|2\n",
          "%s:1:1: error: its columns are divided by bars\n"
          "  hint: save it with commas, and with decimal points" },
        { "lines of an old Macintosh", "text_tokens,vision_tiles\r1,2\r3,4\r",
          "%s:1:1: error: its lines end with a carriage return alone\n"
          "  hint: save it with line feeds" },
        { "no header", "3,800\n5,1400\n",
          "%s:1:1: error: no column \"language_tokens\" or \"text_tokens\"\n"
          "  hint: the header's columns are: 3, 800" },
        { "repeated column", "llm_tokens,language_tokens\n1,2\n",
          "%s:1:12: error: column \"language_tokens\" repeats another column" },
        { "width alone", "text_tokens,width\n1,2\n",
          "%s:1:1: error: a column \"width\" needs a column \"height\"\n"
          "  hint: the header's columns are: text_tokens, width" },
        { "patches without a total", "text_tokens,vision_patches\n1,2\n",
          "%s:1:1: error: a column \"vision_patches\" needs a column \"language_tokens\"\n"
          "  hint: the header's columns are: text_tokens, vision_patches" },
        { "not a number", "vision_tiles,language_tokens\n1,300\n2,12a4\n",
          "%s:3:3: error: language_tokens must be a whole number, got \"12a4\"" },
        { "a fraction", "language_tokens\n1.5\n",
          "%s:2:1: error: language_tokens must be a whole number, got \"1.5\"" },
        { "negative", "vision_tiles,language_tokens\n-1,300\n",
          "%s:2:1: error: vision_tiles must be 0 to 65535, got -1" },
        { "too large", "vision_tiles,language_tokens\n65536,300\n",
          "%s:2:1: error: vision_tiles must be 0 to 65535, got 65536" },
        { "huge", "language_tokens\n99999999999999999999999999\n",
          "%s:2:1: error: language_tokens must be 0 to 100000000, got 99999999999999999999999999" },
        { "missing value", "vision_tiles,language_tokens\n,300\n",
          "%s:2:1: error: vision_tiles is empty" },
        { "short row", "a,language_tokens,b\n1,2,3\n1,2\n",
          "%s:3:4: error: the row has 2 columns, the header has 3" },
        { "long row", "a,language_tokens\n1,2\n1,2,3,4\n",
          "%s:3:4: error: the row has at least 3 columns, the header has 2" },
        { "open quote", "part,language_tokens\n\"a,2\n", "%s:2:1: error: the quote is not closed" },
        { "text behind a quote", "part,language_tokens\n\"a\"b,2\n",
          "%s:2:4: error: text behind a closing quote" },
        { "a sample of nothing", "vision_tiles,text_tokens\n1,0\n0,4\n0,0\n",
          "%s:4:1: error: a sample of no tokens, no images and no clip trains nothing\n"
          "  hint: leave it out, as training code does" },
        { "nameless part", "part,language_tokens\n,2\n", "%s:2:1: error: the part has no name" },
        { "half a size", "text_tokens,width,height\n5,640,0\n",
          "%s:2:1: error: width and height must both be positive, or both be 0 for no image" },
        { "size list with an end", "text_tokens,image_wh\n5,640x480;\n",
          "%s:2:7: error: image_wh must be sizes like 640x480, separated by ';', with sides of 1 "
          "to 1000000" },
        { "bad size list", "text_tokens,image_wh\n5,640x480;32\n",
          "%s:2:11: error: image_wh must be sizes like 640x480, separated by ';', with sides of 1 "
          "to 1000000" },
        { "sum too large", "text_tokens,vision_tiles\n100000000,65535\n100000000,x\n",
          "%s:3:11: error: vision_tiles must be a whole number, got \"x\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = scratch_path("broken.csv");
        write_text(path, cases[i].text);
        assert_load_error(cases[i].name, path, NULL, cases[i].want);
    }
}

static void broken_bytes(void **state) {
    (void)state;
    const char nul[] = "id,language_tokens\nx,5\ny\0z,6\n";
    const char *path = scratch_path("nul.csv");
    write_bytes(path, nul, sizeof nul - 1);
    assert_load_error("NUL byte", path, NULL, "%s:3:2: error: a NUL byte: this is not a text file");

    path = scratch_path("plain.csv.gz");
    write_text(path, "language_tokens\n5\n");
    assert_load_error("not gzip", path, NULL, "cannot read %s: it is not a gzip file");

    path = scratch_path("empty.csv.gz");
    write_text(path, "");
    assert_load_error("empty gzip", path, NULL, "%s is empty");
    assert_load_error("no file", scratch_path("absent.csv"), NULL,
                      "cannot read %s: No such file or directory");
}

/* 20,000 rows zipped, then all but the last bytes of the file. */
static void truncated_gzip(void **state) {
    (void)state;
    size_t capacity = 400000, used = 0;
    char *text = malloc(capacity);
    used += (size_t)sprintf(text, "language_tokens\n");
    for (int i = 0; i < 20000; i++)
        used += (size_t)sprintf(text + used, "%d\n", 1 + i * 7919 % 10007);
    char path[512];
    snprintf(path, sizeof path, "%s", scratch_path("cut.csv.gz"));
    write_gzip(path, text, used);
    free(text);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(truncate(path, status.st_size / 2), 0);

    struct error err = { 0 };
    assert_null(dataset_load(SCENARIOS, path, NULL, &err));
    long line;
    size_t length = strlen(path);
    assert_memory_equal(err.text, path, length);
    assert_int_equal(sscanf(err.text + length, ":%ld:", &line), 1);
    assert_in_range(line, 2, 20001);
    assert_non_null(strstr(err.text, ": error: the compressed file is cut short"));
}

static void notes(void **state) {
    (void)state;
    char path[512], want[600];
    snprintf(path, sizeof path, "%s", scratch_path("notes.csv"));
    write_text(path, "id,text_tokens,width,height\n1,40,640,480\n2,50,0,0\n");
    struct dataset_options options = { .max_language_tokens = 200 };
    struct dataset *d = load_or_fail(path, &options);
    assert_int_equal(d->samples[0].language_tokens, 200);
    assert_int_equal(d->samples[1].language_tokens, 50);
    assert_int_equal(d->note_count, 3);
    snprintf(want, sizeof want, "%s: column \"id\" is ignored", path);
    assert_string_equal(d->notes[0], want);
    assert_string_equal(d->notes[1], "1 sample has images but no tile count: one tile per image "
                                     "(dataset.tiling uses the image sizes)");
    assert_string_equal(d->notes[2], "1 sample is cut to 200 language tokens");
    dataset_destroy(d);
}

/* What an import wrote of images without tile counts is a guess that no longer looks like one. */
static void one_tile_an_image(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *note; /* NULL: none */
    } cases[] = {
        { "all alike", "vision_tiles,language_tokens,width,height\n1,300,640,480\n1,310,1280,720\n",
          "2 samples have one tile for each image, whatever its size, and record the sizes "
          "(dataset.tiling uses them)" },
        { "counted", "vision_tiles,language_tokens,width,height\n1,300,448,448\n4,1310,896,896\n",
          NULL },
        { "no sizes", "vision_tiles,language_tokens\n1,300\n1,310\n", NULL },
        { "patches",
          "vision_patches,vision_tiles,language_tokens,width,height\n1024,1,300,448,448\n", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = scratch_path("one-tile.csv");
        write_text(path, cases[i].text);
        struct dataset *d = load_or_fail(path, NULL);
        const char *got = d->note_count > 0 ? d->notes[0] : NULL;
        if ((got == NULL) != (cases[i].note == NULL) ||
            (got != NULL && strcmp(got, cases[i].note) != 0))
            fail_msg("%s: %s", cases[i].name, got != NULL ? got : "no note");
        dataset_destroy(d);
    }
}

static void tiling_chosen(void **state) {
    (void)state;
    struct tiling t = tiling_default();
    struct dataset_options options = { .tiling = &t };
    const char *path = scratch_path("sizes.csv");
    write_text(path, "language_tokens,vision_tiles,image_wh\n"
                     "296,1,640x480\n1040,4,448x448;1344x448\n77,1,\n");
    /* The last row has a tile but no size: refused. */
    t.kind = TILING_INTERNVL;
    assert_load_error(
        "no size", path, &options,
        "%s:4:1: error: the tiling needs the size of every image, and this record has "
        "none\n  hint: give width and height with each image, or keep the file's own "
        "tile counts (tiling \"as-file\")");
    write_text(path, "language_tokens,vision_tiles,width,height\n296,1,640,480\n77,1,0,0\n");
    struct dataset *d = load_or_fail(path, &options);
    assert_int_equal(d->samples[0].vision_tiles, 13);
    assert_int_equal(d->samples[0].language_tokens, 40 + 13 * 256);
    assert_int_equal(d->samples[1].vision_tiles, 1);
    assert_int_equal(d->samples[1].language_tokens, 77);
    assert_int_equal(d->parts[0].dummy_tiles, 1);
    dataset_destroy(d);

    t.kind = TILING_NATIVE;
    d = load_or_fail(path, &options);
    assert_int_equal(d->samples[0].vision_tiles, 1);
    assert_int_equal(d->vision_patches[0], 1564);
    assert_int_equal(d->samples[0].language_tokens, 40 + 1564 / 4);
    assert_int_equal(d->samples[1].vision_tiles, 0);
    assert_int_equal(d->vision_patches[1], 0);
    assert_int_equal(d->samples[1].language_tokens, 77);
    assert_int_equal(d->patches_per_language_token, 4);
    dataset_destroy(d);

    write_text(path, "language_tokens,vision_tiles,width,height\n100,1,640,480\n");
    assert_load_error(
        "tokens below tiles", path, &options,
        "%s:2:1: error: 100 language tokens are fewer than 1 tiles x 256 tokens\n"
        "  hint: tile_language_tokens in the data set's description says what one tile "
        "becomes");
    write_text(path, "text_tokens,width,height\n100,10000,40\n");
    assert_load_error(
        "too thin", path, &options,
        "%s:2:1: error: native resolution refuses an image of 10000 x 40: one side is "
        "more than 200 times the other\n  hint: drop it from the file, as training code "
        "does");
}

static void assert_same_samples(const struct dataset *a, const struct dataset *b) {
    assert_int_equal(a->sample_count, b->sample_count);
    for (int64_t i = 0; i < a->sample_count; i++) {
        const struct sample *s = &a->samples[i], *t = &b->samples[i];
        if (s->language_tokens != t->language_tokens || s->vision_tiles != t->vision_tiles ||
            strcmp(a->parts[s->part].name, b->parts[t->part].name) != 0)
            fail_msg("sample %lld differs", (long long)i);
    }
}

/* What is written is read back, under any tiling that the original allows. */
static void round_trip(void **state) {
    (void)state;
    static const struct {
        const char *name, *in, *out, *header;
    } cases[] = {
        { "sizes, names with commas",
          "part,vision_tiles,text_tokens,width,height\n\"a,\"\"b\"\"\",1,9,640,480\nc,1,5,0,0\n",
          "rt.csv", "part,vision_tiles,language_tokens,image_flags,width,height\n" },
        { "several images",
          "vision_tiles,text_tokens,image_wh\n4,9,448x448;1344x448\n3,7,300x600\n", "rt.csv.gz",
          "part,vision_tiles,language_tokens,image_flags,image_wh\n" },
        { "no sizes", "vision_tiles,language_tokens,image_flags\n3,800,3\n1,90,0\n", "rt2.csv.gz",
          "part,vision_tiles,language_tokens,image_flags\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[512], line[256];
        snprintf(out, sizeof out, "%s", scratch_path(cases[i].out));
        const char *path = scratch_path("in.csv");
        write_text(path, cases[i].in);
        struct dataset_options options = { .keep_images = true };
        struct dataset *before = load_or_fail(path, &options);
        struct error err = { 0 };
        if (!dataset_write_csv(before, out, &err)) fail_msg("%s: %s", cases[i].name, err.text);
        gzFile file = gzopen(out, "rb");
        assert_non_null(gzgets(file, line, sizeof line));
        gzclose(file);
        assert_string_equal(line, cases[i].header);
        struct dataset *after = load_or_fail(out, &options);
        for (int64_t k = 0; k < before->sample_count; k++)
            if (strcmp(cases[i].name, "sizes, names with commas") == 0 && k == 0)
                assert_string_equal(before->parts[0].name, "a,\"b\"");
        assert_same_samples(before, after);
        assert_int_equal(before->image_starts[2], after->image_starts[2]);
        dataset_destroy(after);
        if (i < 2) {
            struct tiling t = tiling_default();
            t.kind = TILING_INTERNVL;
            options.tiling = &t;
            struct dataset *tiled_before = load_or_fail(path, &options);
            struct dataset *tiled_after = load_or_fail(out, &options);
            assert_same_samples(tiled_before, tiled_after);
            dataset_destroy(tiled_before);
            dataset_destroy(tiled_after);
        }
        dataset_destroy(before);
    }
}

/* One image with a size and one without cannot be written as sizes: the cell stays empty. */
static void partly_known_sizes(void **state) {
    (void)state;
    char out[512], line[256];
    snprintf(out, sizeof out, "%s", scratch_path("partly.csv"));
    const char *path = scratch_path("partly.jsonl");
    write_text(path, "{\"text_tokens\":9,\"image\":[\"a\",\"b\"],\"image_wh\":[[3,4]]}\n"
                     "{\"text_tokens\":9,\"image_wh\":[[3,4],[5,6]]}\n");
    struct dataset_options options = { .keep_images = true };
    struct dataset *d = load_or_fail(path, &options);
    struct error err = { 0 };
    assert_true(dataset_write_csv(d, out, &err));
    dataset_destroy(d);
    FILE *file = fopen(out, "r");
    assert_non_null(fgets(line, sizeof line, file));
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "partly,2,521,2,\n");
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "partly,2,521,2,3x4;5x6\n");
    fclose(file);
    dataset_destroy(load_or_fail(out, &options));
}

/* A first sample without a clip, and an empty cell. */
static void clips_round_trip(void **state) {
    (void)state;
    char in[512], out[512];
    snprintf(in, sizeof in, "%s", scratch_path("clips.csv"));
    snprintf(out, sizeof out, "%s", scratch_path("clips-out.csv"));
    write_text(in, "clip_ms,text_tokens\n0,10\n,20\n8117,30\n16000,40\n");
    struct dataset *before = load_or_fail(in, NULL);
    struct error err = { 0 };
    assert_true(dataset_write_csv(before, out, &err));
    struct dataset *after = load_or_fail(out, NULL);
    static const uint32_t want[] = { 0, 0, 8117, 16000 };
    assert_memory_equal(before->clip_ms, want, sizeof want);
    assert_memory_equal(after->clip_ms, want, sizeof want);
    dataset_destroy(before);
    dataset_destroy(after);
    assert_load_error("too long", (write_text(in, "clip_ms,text_tokens\n86400001,1\n"), in), NULL,
                      "%s:2:1: error: clip_ms must be 0 to 86400000, got 86400001");
}

/* Sizes of frames stand beside clips; a sample may leave them to the model. */
static void frames_round_trip(void **state) {
    (void)state;
    char in[512], out[512];
    snprintf(in, sizeof in, "%s", scratch_path("frames.csv"));
    snprintf(out, sizeof out, "%s", scratch_path("frames-out.csv"));
    write_text(in, "clip_ms,text_tokens,frame_width,frame_height\n1000,10,,\n5000,20,1280,720\n"
                   "5000,30,0,0\n0,40,720,1280\n");
    struct dataset *before = load_or_fail(in, NULL);
    struct error err = { 0 };
    assert_true(dataset_write_csv(before, out, &err));
    struct dataset *after = load_or_fail(out, NULL);
    static const struct image_size want[] = { { 0, 0 }, { 1280, 720 }, { 0, 0 }, { 0, 0 } };
    assert_memory_equal(before->frame_sizes, want, sizeof want);
    assert_memory_equal(after->frame_sizes, want, sizeof want);
    dataset_destroy(before);
    dataset_destroy(after);
    const struct {
        const char *name, *text, *want;
    } mistakes[] = {
        { "half a size", "clip_ms,text_tokens,frame_width,frame_height\n1000,1,16,0\n",
          "%s:2:1: error: frame_width and frame_height must both be positive, or both be 0 for the "
          "model's own" },
        { "one column", "clip_ms,text_tokens,frame_width\n1000,1,16\n",
          "%s:1:1: error: columns \"frame_width\", \"frame_height\" and \"clip_ms\" stand "
          "together\n"
          "  hint: the header's columns are: clip_ms, text_tokens, frame_width" },
        { "no clips", "text_tokens,frame_width,frame_height\n1,16,16\n",
          "%s:1:1: error: columns \"frame_width\", \"frame_height\" and \"clip_ms\" stand "
          "together\n"
          "  hint: the header's columns are: text_tokens, frame_width, frame_height" },
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++)
        assert_load_error(mistakes[i].name, (write_text(in, mistakes[i].text), in), NULL,
                          mistakes[i].want);
}

static void patches_round_trip(void **state) {
    (void)state;
    char out[512];
    snprintf(out, sizeof out, "%s", scratch_path("patches.csv"));
    struct tiling t = tiling_default();
    t.kind = TILING_NATIVE;
    struct dataset_options options = { .tiling = &t };
    const char *path = scratch_path("in.csv");
    write_text(path, "text_tokens,width,height\n40,640,480\n30,0,0\n");
    struct dataset *before = load_or_fail(path, &options);
    struct error err = { 0 };
    assert_true(dataset_write_csv(before, out, &err));
    struct dataset *after = load_or_fail(out, NULL);
    assert_same_samples(before, after);
    assert_int_equal(after->vision_patches[0], 1564);
    assert_int_equal(after->vision_patches[1], 0);
    dataset_destroy(before);
    dataset_destroy(after);
}

/* Attention stays within an image: as many patches in four images cost a quarter of the squares. */
static void squares_are_those_of_images(void **state) {
    (void)state;
    struct tiling t = tiling_default();
    t.kind = TILING_NATIVE;
    struct dataset_options native = { .tiling = &t };
    static const struct {
        const char *name, *text;
        bool native;
        uint32_t patches;
        uint64_t squares;
        int64_t notes;
    } cases[] = {
        { "one image", "text_tokens,image_wh\n40,1120x1120\n", true, 6400, 6400 * 6400, 0 },
        { "four images", "text_tokens,image_wh\n40,560x560;560x560;560x560;560x560\n", true, 6400,
          6400 * 1600, 0 },
        { "patches alone", "language_tokens,vision_patches,vision_tiles\n1700,6400,1\n", false,
          6400, 6400 * 6400, 0 },
        { "patches of four images", "language_tokens,vision_patches,vision_tiles\n1700,6400,4\n",
          false, 6400, 6400 * 1600, 1 },
        { "patches, count not given", "language_tokens,vision_patches\n1700,6400\n", false, 6400,
          6400 * 6400, 0 },
        { "squares of unequal images",
          "language_tokens,vision_patches,vision_squares,vision_tiles\n1700,6400,20500000,4\n",
          false, 6400, 20500000, 0 },
        { "sizes of unequal images",
          "language_tokens,vision_patches,image_wh\n1700,8000,1120x1120;560x560\n", false, 8000,
          6400 * 6400 + 1600 * 1600, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = scratch_path("squares.csv");
        write_text(path, cases[i].text);
        struct dataset *d = load_or_fail(path, cases[i].native ? &native : NULL);
        int64_t notes = 0;
        for (int64_t n = 0; n < d->note_count; n++)
            notes += strstr(d->notes[n], "images of equal size") != NULL;
        if (d->vision_patches[0] != cases[i].patches || d->vision_squares[0] != cases[i].squares ||
            notes != cases[i].notes)
            fail_msg("%s: %u patches, %llu squares, %lld notes", cases[i].name,
                     d->vision_patches[0], (unsigned long long)d->vision_squares[0],
                     (long long)notes);
        char out[512];
        snprintf(out, sizeof out, "%s", scratch_path("written.csv"));
        struct error err = { 0 };
        assert_true(dataset_write_csv(d, out, &err));
        struct dataset *again = load_or_fail(out, NULL);
        if (again->vision_squares[0] != cases[i].squares)
            fail_msg("%s: %llu squares after writing", cases[i].name,
                     (unsigned long long)again->vision_squares[0]);
        dataset_destroy(again);
        dataset_destroy(d);
    }
    assert_true(6400 * 6400 == 4 * (6400 * 1600));
}

static void vision_must_fit(void **state) {
    (void)state;
    struct dataset_options model = { .model_tile_language_tokens = 576 };
    const char *path = scratch_path("fit.csv");
    write_text(path, "vision_tiles,language_tokens\n1,576\n0,3\n");
    dataset_destroy(load_or_fail(path, &model));
    write_text(path, "vision_tiles,language_tokens,image_flags\n1,40,0\n");
    dataset_destroy(load_or_fail(path, &model));
    write_text(path, "vision_tiles,language_tokens\n1,576\n2,1151\n");
    assert_load_error(
        "two tiles", path, &model,
        "%s:3:1: error: the model makes 1152 language tokens of the images, the whole sample has "
        "1151\n  hint: the data set was counted for another model (dataset import --tile-tokens N "
        "counts for this one), or a text-only sample is not marked by image_flags 0");
}

/* Whose figure counts: the options', the description's, the model's, 256. */
static void tile_tokens(void **state) {
    (void)state;
    static const struct {
        const char *name, *stated;
        int64_t given, model, want;
    } cases[] = {
        { "nobody says", "", 0, 0, 256 },
        { "the model", "", 0, 576, 576 },
        { "the description", ", \"tile_language_tokens\": 600", 0, 576, 600 },
        { "the options", ", \"tile_language_tokens\": 600", 700, 576, 700 },
    };
    write_text(scratch_path("tiles.csv"), "vision_tiles,text_tokens\n3,40\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "{ \"name\": \"t\", \"file\": \"tiles.csv\"%s }",
                 cases[i].stated);
        const char *path = scratch_path("tiles.json");
        write_text(path, text);
        struct dataset_options options = { .tile_language_tokens = cases[i].given,
                                           .model_tile_language_tokens = cases[i].model };
        struct dataset *d = load_or_fail(path, &options);
        if (d->samples[0].language_tokens != 40 + 3 * cases[i].want ||
            d->tile_language_tokens != cases[i].want)
            fail_msg("%s: %u tokens", cases[i].name, d->samples[0].language_tokens);
        dataset_destroy(d);
    }
}

/* By its own name, by another path, by a link. */
static void the_input_is_not_overwritten(void **state) {
    (void)state;
    static const char *const names[] = { "in.csv", "../in.csv", "hard.csv", "soft.csv" };
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s", scratch_path("own"));
    mkdir(folder, 0755);
    snprintf(path, sizeof path, "%s/in.csv", folder);
    write_text(path, "language_tokens\n100\n");
    char other[600];
    snprintf(other, sizeof other, "%s/hard.csv", folder);
    assert_int_equal(link(path, other), 0);
    snprintf(other, sizeof other, "%s/soft.csv", folder);
    assert_int_equal(symlink(path, other), 0);
    struct dataset *d = load_or_fail(path, NULL);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct error err = { 0 };
        snprintf(other, sizeof other, strncmp(names[i], "../", 3) == 0 ? "%s/../own/%s" : "%s/%s",
                 folder, strncmp(names[i], "../", 3) == 0 ? names[i] + 3 : names[i]);
        if (dataset_write_csv(d, other, &err)) fail_msg("%s is overwritten", names[i]);
        if (strstr(err.text, "the data set is read from this file") == NULL || err.internal)
            fail_msg("%s: %s", names[i], err.text);
    }
    dataset_destroy(d);
    d = load_or_fail(path, NULL);
    assert_int_equal(d->samples[0].language_tokens, 100);
    dataset_destroy(d);
}

static void write_to_nowhere(void **state) {
    (void)state;
    struct dataset *d = load_or_fail("mathvista-testmini", NULL);
    struct error err = { 0 };
    assert_false(dataset_write_csv(d, "/nonexistent/folder/x.csv", &err));
    assert_string_equal(err.text, "cannot write /nonexistent/folder/x.csv: there is no folder "
                                  "'/nonexistent/folder'");
    assert_false(err.internal);
    dataset_destroy(d);
}

struct progress {
    int64_t calls, done, total;
};

static void count_progress(void *context, int64_t done, int64_t total) {
    struct progress *p = context;
    assert_true(done >= p->done && done <= total);
    p->calls++;
    p->done = done;
    p->total = total;
}

static void progress_is_reported(void **state) {
    (void)state;
    struct progress p = { 0 };
    struct dataset_options options = { .progress = count_progress, .progress_context = &p };
    struct dataset *d = load_or_fail("refcoco", &options);
    struct stat status;
    assert_int_equal(stat(SCENARIOS "/datasets/refcoco.csv.gz", &status), 0);
    assert_true(p.calls >= 2);
    assert_int_equal(p.total, status.st_size);
    assert_int_equal(p.done, p.total);
    dataset_destroy(d);
}

/* Lines longer than the first window, and rows across its edge. */
static void long_lines(void **state) {
    (void)state;
    const size_t filler = 3 << 20;
    char *text = malloc(filler + 200);
    size_t used = (size_t)sprintf(text, "note,language_tokens\n");
    memset(text + used, 'x', filler);
    used += filler;
    used += (size_t)sprintf(text + used, ",5\ny,6\n");
    char path[512];
    snprintf(path, sizeof path, "%s", scratch_path("long.csv"));
    write_bytes(path, text, used);
    free(text);
    struct dataset *d = load_or_fail(path, NULL);
    assert_int_equal(d->sample_count, 2);
    assert_int_equal(d->samples[0].language_tokens, 5);
    assert_int_equal(d->samples[1].language_tokens, 6);
    dataset_destroy(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_as_samples),
        cmocka_unit_test(broken_tables),
        cmocka_unit_test(broken_bytes),
        cmocka_unit_test(truncated_gzip),
        cmocka_unit_test(notes),
        cmocka_unit_test(one_tile_an_image),
        cmocka_unit_test(tiling_chosen),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(partly_known_sizes),
        cmocka_unit_test(clips_round_trip),
        cmocka_unit_test(frames_round_trip),
        cmocka_unit_test(patches_round_trip),
        cmocka_unit_test(squares_are_those_of_images),
        cmocka_unit_test(vision_must_fit),
        cmocka_unit_test(tile_tokens),
        cmocka_unit_test(the_input_is_not_overwritten),
        cmocka_unit_test(write_to_nowhere),
        cmocka_unit_test(progress_is_reported),
        cmocka_unit_test(long_lines),
    };
    return cmocka_run_group_tests(tests, NULL, remove_scratch);
}
