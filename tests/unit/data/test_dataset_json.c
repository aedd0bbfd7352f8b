/* test_dataset_json.c - tests. */
#include "tests/unit/data/fixture.h"
#include "sim/data/dataset_json.h"

static void omnibal_list(void **state) {
    (void)state;
    static const int64_t want[][2] = { { 1, 358 }, { 1, 307 }, { 5, 1341 }, { 3, 811 },
                                       { 3, 812 }, { 3, 811 }, { 3, 831 },  { 1, 310 },
                                       { 1, 310 }, { 1, 320 }, { 3, 819 },  { 3, 809 } };
    struct dataset *d = load_or_fail(FIXTURES "omnibal_ai2d_head.json", NULL);
    assert_int_equal(d->sample_count, 12);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(d->samples[i].vision_tiles, want[i][0]);
        assert_int_equal(d->samples[i].language_tokens, want[i][1]);
    }
    assert_string_equal(d->status, "unstated");
    assert_string_equal(d->parts[0].name, "omnibal_ai2d_head");
    assert_int_equal(d->note_count, 0);
    dataset_destroy(d);
}

static void characters_to_tokens(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
        int64_t want;
    } cases[] = {
        { "empty", "", 0 },
        { "one character", "a", 1 },
        { "462 at 4.62 would be 100", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 10 },
        { "accents are one character", "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 1 },
        { "Chinese, 12 characters at 1.79", "图片中的狗是什么颜色？。", 7 },
        { "mixed", "ab中文", 2 },
        { "an image marker is no text", "<image>", 0 },
        { "a tag that is not a marker", "<imagery>", 2 },
        { "broken UTF-8 ends", "\xE4\xB8", 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t got = text_tokens_from_characters(cases[i].text);
        if (got != cases[i].want)
            fail_msg("%s: got %lld, want %lld", cases[i].name, (long long)got,
                     (long long)cases[i].want);
    }
}

/* Template: 1, 4 a message, 3 an image; the text by its characters. */
static void conversations(void **state) {
    (void)state;
    struct dataset *d = load_or_fail(FIXTURES "conversations.json", NULL);
    assert_int_equal(d->sample_count, 3);
    assert_string_equal(d->status, "estimated");
    /* 1 + 8 + 3; "\nWhat is \"shown\" here, [or {there}]?" 36 -> 8; "A cat on a red sofa." 20 -> 5
     */
    assert_int_equal(d->samples[0].vision_tiles, 1);
    assert_int_equal(d->samples[0].language_tokens, 12 + 8 + 5 + 256);
    /* a newline and 11 characters -> 7; 3 -> 2 */
    assert_int_equal(d->samples[1].language_tokens, 12 + 7 + 2 + 256);
    /* 1 + 16; 8 -> 2, 4 -> 1, 7 -> 2, 3 -> 1 */
    assert_int_equal(d->samples[2].vision_tiles, 0);
    assert_int_equal(d->samples[2].language_tokens, 17 + 2 + 1 + 2 + 1);
    assert_int_equal(d->note_count, 2);
    assert_string_equal(d->notes[0], "2 samples have images but no tile count: one tile per image "
                                     "(dataset.tiling uses the image sizes)");
    assert_string_equal(d->notes[1],
                        "token counts of 3 samples are estimated from their characters "
                        "(4.62 a token, 1.79 in Chinese, Japanese and Korean)");
    dataset_destroy(d);
}

static void lines_with_sizes(void **state) {
    (void)state;
    struct tiling t = tiling_default();
    t.kind = TILING_INTERNVL;
    struct dataset_options options = { .tiling = &t, .keep_images = true };
    struct dataset *d = load_or_fail(FIXTURES "conversations.jsonl", &options);
    static const struct {
        int64_t tiles, tokens, images;
        const char *part;
    } want[] = {
        /* 448x448: 1; 1344x448: 3 + 1. Text 1 + 8 + 6; "  Compare." 10 -> 3; 12 -> 3 */
        { 5, 21 + 5 * 256, 2, "conversations" },
        { 5, 40 + 5 * 256, 1, "conversations" }, /* 896x896: 2x2 + 1 */
        { 3, 20 + 3 * 256, 1, "portraits" },     /* 300x600: 1x2 + 1 */
        /* 1 + 12 + 3; 9 -> 2, 5 -> 2, 6 -> 2 */
        { 1, 22 + 256, 1, "conversations" },
        { 1, 9 + 1 + 2, 0, "conversations" }, /* a dummy tile; 2 -> 1, 5 -> 2 */
    };
    assert_int_equal(d->sample_count, 5);
    for (int i = 0; i < 5; i++) {
        const struct sample *s = &d->samples[i];
        if (s->vision_tiles != want[i].tiles || s->language_tokens != want[i].tokens ||
            d->image_starts[i + 1] - d->image_starts[i] != want[i].images ||
            strcmp(d->parts[s->part].name, want[i].part) != 0)
            fail_msg("record %d: %u tiles, %u tokens, part %s", i, (unsigned)s->vision_tiles,
                     s->language_tokens, d->parts[s->part].name);
    }
    assert_int_equal(d->images[1].width, 1344);
    assert_int_equal(d->images[3].height, 600);
    dataset_destroy(d);
}

static void short_records(void **state) {
    (void)state;
    const char *path = scratch_path("pairs.json");
    write_text(path, "\xEF\xBB\xBF[[1,300],\n [5, 1400]]\n");
    struct dataset *d = load_or_fail(path, NULL);
    assert_int_equal(d->sample_count, 2);
    assert_int_equal(d->samples[1].vision_tiles, 5);
    assert_int_equal(d->samples[1].language_tokens, 1400);
    dataset_destroy(d);
}

/* Objects one after the other are records whatever the name of the file. */
static void lines_named_json(void **state) {
    (void)state;
    const char *path = scratch_path("lines.json");
    write_text(path,
               "{\"vit_num\": 1, \"token_num\": 300}\n{\"vit_num\": 3, \"token_num\": 800}\n");
    struct dataset *d = load_or_fail(path, NULL);
    assert_int_equal(d->sample_count, 2);
    assert_int_equal(d->samples[1].language_tokens, 800);
    dataset_destroy(d);
}

static void broken_records(void **state) {
    (void)state;
    static const struct {
        const char *name, *file, *text, *want;
    } cases[] = {
        { "empty file", "b.json", "", "%s is empty" },
        { "white space", "b.jsonl", "\n \n", "%s is empty" },
        { "empty list", "b.json", "[]", "%s holds no records" },
        { "cut short", "b.json", "[\n { \"vit_num\": 1, \"token_num\": 5 },\n { \"vit_num\": 3",
          "%s:3:16: error: the file ends inside the record that begins on line 3: is it cut "
          "short?" },
        { "a cut line", "b.jsonl", "{\"token_num\": 5}\n{\"token_num\":",
          "%s:2:14: error: the file ends inside the record that begins on line 2: is it cut "
          "short?" },
        { "not JSON", "b.json", "[{\"token_num\": 5},\n {\"token_num\": five}]",
          "%s:2:16: error: expected a value, got five\n"
          "  hint: a text stands in double quotes: \"five\"" },
        { "a zero in front", "b.json", "[{\"token_num\": 5},\n {\"token_num\": 05}]",
          "%s:2:16: error: not a number of JSON" },
        { "brackets that do not match", "b.json", "[{\"token_num\": [5}}]",
          "%s:1:18: error: expected a comma or ] after the value, got }\n"
          "  hint: the [ of line 1 is still open" },
        { "a bare number", "b.json", "[5, 6]",
          "%s:1:2: error: a record must be an object { ... } or a pair [tiles, tokens]" },
        { "three numbers", "b.json", "[[0, 5, 1300]]",
          "%s:1:2: error: a short record must be [tiles, tokens], got 3 items" },
        { "no counts", "b.jsonl", "{\"id\": 1}\n",
          "%s:1:1: error: the record has no token count and no conversation\n"
          "  hint: a record needs token_num, text_tokens or conversations" },
        { "a count by another name", "b.jsonl", "{\"id\": 1, \"text_token\": 5}\n",
          "%s:1:1: error: the record has no token count and no conversation\n"
          "  hint: did you mean \"text_tokens\" by \"text_token\"?" },
        { "a sample of nothing", "b.jsonl",
          "{\"token_num\": 5}\n{\"vit_num\": 0, \"token_num\": 0}\n",
          "%s:2:1: error: a sample of no tokens, no images and no clip trains nothing\n"
          "  hint: leave it out, as training code does" },
        { "negative", "b.json", "[{\"vit_num\": -1, \"token_num\": 5}]",
          "%s:1:3: error: vit_num must be 0 to 65535, got -1" },
        { "huge", "b.json", "[{\"vit_num\": 1, \"token_num\": 1e300}]",
          "%s:1:17: error: token_num must be 0 to 100000000, got 1e+300" },
        { "fraction", "b.json", "[{\"vit_num\": 1, \"token_num\": 5.5}]",
          "%s:1:17: error: token_num must be a whole number, got 5.5" },
        { "text for a number", "b.json", "[{\"vit_num\": \"1\", \"token_num\": 5}]",
          "%s:1:3: error: vit_num must be a whole number, got the text \"1\"\n"
          "  hint: numbers stand without quotes" },
        { "a count twice", "b.jsonl", "{\"token_num\": 5}\n{\"token_num\": 5, \"token_num\": 6}",
          "%s:2:18: error: \"token_num\" repeats another key of this record" },
        { "two names of a count", "b.jsonl", "{\"token_num\": 5, \"llm_tokens\": 6}",
          "%s:1:18: error: \"llm_tokens\" repeats another key of this record" },
        { "a list of records on a line", "b.jsonl", "[{\"token_num\": 5}]",
          "%s:1:1: error: a list of records on one line\n"
          "  hint: one record a line here; a list of records is a file *.json" },
        { "more text than all", "b.jsonl", "{\"text_tokens\": 30, \"language_tokens\": 20}",
          "%s:1:1: error: 30 text tokens are more than the sample's 20 language tokens\n"
          "  hint: language_tokens counts text and images together; leave one of the two out" },
        { "width alone", "b.jsonl", "{\"text_tokens\": 5, \"width\": 640}",
          "%s:1:1: error: the height of an image must be a whole number" },
        { "unequal size lists", "b.jsonl",
          "{\"text_tokens\": 5, \"width_list\": [1, 2], \"height_list\": [3]}",
          "%s:1:1: error: the widths and heights of the images must be lists of equal length" },
        { "size of nothing", "b.jsonl", "{\"text_tokens\": 5, \"image_wh\": [0, 7]}",
          "%s:1:1: error: an image of 0 x 7" },
        { "a message without text", "b.jsonl", "{\"conversations\": [{\"from\": \"human\"}]}",
          "%s:1:1: error: message 1 has no text (\"value\" or \"content\")" },
        { "messages that are no list", "b.jsonl", "{\"conversations\": \"hello\"}",
          "%s:1:1: error: the conversation must be a list of messages" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = scratch_path(cases[i].file);
        write_text(path, cases[i].text);
        assert_load_error(cases[i].name, path, NULL, cases[i].want);
    }
}

static void doubtful_records(void **state) {
    (void)state;
    struct error err = { 0 };
    const char *path = scratch_path("doubt.jsonl");
    write_text(path, "\xEF\xBB\xBF{\"vision_tiles\": 2, \"text_tokens\": 9}\r\n\r\n"
                     "{\"text_tokens\": 5}\r\n{\"text_tokens\": 5, \"language_tokens\": 8}\r\n");
    struct dataset *d = dataset_load(SCENARIOS, path, NULL, &err);
    assert_non_null(d);
    assert_int_equal(d->sample_count, 3);
    assert_int_equal(d->note_count, 2);
    assert_non_null(strstr(d->notes[0], ": 2 of 3 records give no tiles: text alone"));
    assert_string_equal(d->notes[1], "1 sample without images has fewer text_tokens than "
                                     "language_tokens: the latter count");
    dataset_destroy(d);
}

static void broken_bytes(void **state) {
    (void)state;
    const char nul[] = "[{\"token_num\":\n5\0}]";
    const char *path = scratch_path("nul.json");
    write_bytes(path, nul, sizeof nul - 1);
    assert_load_error("NUL byte", path, NULL, "%s:2:2: error: a NUL byte: this is not a text file");

    /* Stored, not deflated, blocks would end cleanly; random digits do not. */
    size_t capacity = 2000000, used = 0;
    char *text = malloc(capacity);
    used += (size_t)sprintf(text, "[");
    for (int i = 0; i < 50000; i++)
        used += (size_t)sprintf(text + used, "%s[%d, %d]", i > 0 ? ",\n" : "", i * 31 % 13,
                                1 + i * 7919 % 10007);
    char zipped[512];
    snprintf(zipped, sizeof zipped, "%s", scratch_path("cut.json.gz"));
    write_gzip(zipped, text, used);
    free(text);
    struct stat status;
    assert_int_equal(stat(zipped, &status), 0);
    assert_int_equal(truncate(zipped, status.st_size / 2), 0);
    struct error err = { 0 };
    assert_null(dataset_load(SCENARIOS, zipped, NULL, &err));
    assert_memory_equal(err.text, zipped, strlen(zipped));
    assert_true(err.located);
    assert_non_null(strstr(err.text, ": error: the compressed file is cut short"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(omnibal_list),     cmocka_unit_test(characters_to_tokens),
        cmocka_unit_test(conversations),    cmocka_unit_test(lines_with_sizes),
        cmocka_unit_test(short_records),    cmocka_unit_test(lines_named_json),
        cmocka_unit_test(broken_records),   cmocka_unit_test(broken_bytes),
        cmocka_unit_test(doubtful_records),
    };
    return cmocka_run_group_tests(tests, NULL, remove_scratch);
}
