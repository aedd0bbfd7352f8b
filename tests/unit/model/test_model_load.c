/* test_model_load.c - every shipped file loads; changes and inline modules; exact error texts. */
#include "tests/unit/model/model_fixture.h"

#include <dirent.h>

/* ---- the shipped files ---- */

static int64_t for_each_file(const char *folder, void (*check)(const char *stem)) {
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    int64_t count = 0;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        size_t length = strlen(entry->d_name);
        if (length <= 5 || strcmp(entry->d_name + length - 5, ".json") != 0) continue;
        char stem[256];
        snprintf(stem, sizeof stem, "%.*s", (int)(length - 5), entry->d_name);
        check(stem);
        count++;
    }
    closedir(directory);
    return count;
}

static void check_model(const char *stem) {
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, stem);
    if (strcmp(m->name, stem) != 0) fail_msg("%s.json names itself %s", stem, m->name);
    if (m->description[0] == '\0' || m->source[0] == '\0')
        fail_msg("%s.json: no description or source", stem);
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        if (m->modules[role].layer_count > 0 && m->modules[role].source[0] == '\0')
            fail_msg("%s.json: a %s without source", stem, module_role_name(role));
    arena_destroy(arena);
}

static void check_module(const char *stem) {
    struct arena *arena = arena_create();
    char path[1024];
    snprintf(path, sizeof path, SCENARIOS "/models/modules/%s.json", stem);
    struct error err = { 0 };
    struct json *file = json_load(path, &err);
    assert_non_null(file);
    const cJSON *role = cJSON_GetObjectItemCaseSensitive(json_root(file), "role");
    assert_true(cJSON_IsString(role));
    fixture_module(arena, role->valuestring, stem);
    json_destroy(file);
    arena_destroy(arena);
}

static void test_shipped_files(void **state) {
    (void)state;
    assert_true(for_each_file(SCENARIOS "/models", check_model) >= 44);
    assert_true(for_each_file(SCENARIOS "/models/modules", check_module) >= 36);
}

static void test_all_fields(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-20b");
    const struct module *v = &m->modules[MODULE_VISION], *l = &m->modules[MODULE_LANGUAGE];
    const struct module *c = &m->modules[MODULE_CONNECTOR];
    assert_string_equal(v->name, "InternViT-6B-448px");
    assert_int_equal(v->role, MODULE_VISION);
    assert_int_equal(v->precision, PRECISION_BF16);
    assert_int_equal(v->kv_heads, 25);
    assert_int_equal(v->head_dim, 128);
    assert_int_equal(v->ffn, FFN_GELU);
    assert_int_equal(v->norm, NORM_RMS);
    assert_int_equal(v->position, POSITION_LEARNED);
    assert_int_equal(v->position_count, 1025);
    assert_int_equal(v->merge, 2);
    assert_true(v->qk_norm && !v->qk_norm_per_head && v->layer_scale && v->linear_bias);
    assert_true(!v->qkv_bias && v->class_token && v->patch_bias && !v->frozen);
    assert_int_equal(c->connector_in, 12800);
    assert_int_equal(c->connector_inner, 6144);
    assert_int_equal(c->connector_out, 6144);
    assert_true(c->connector_norm && !c->connector_norm_before_merge && c->linear_bias);
    assert_int_equal(l->vocabulary, 92553); /* changed: the module file has 92544 */
    assert_int_equal(l->kv_heads, 8);
    assert_int_equal(l->ffn, FFN_SWIGLU);
    assert_int_equal(l->position, POSITION_ROTARY);
    assert_int_equal(l->patch_size, 0);

    m = fixture_model(arena, "eva-1b-20b");
    assert_true(m->modules[MODULE_VISION].qkv_bias && !m->modules[MODULE_VISION].key_bias);
    m = fixture_model(arena, "qwen2-vl-7b");
    assert_true(m->modules[MODULE_LANGUAGE].qkv_bias && m->modules[MODULE_LANGUAGE].key_bias);
    assert_int_equal(m->modules[MODULE_CONNECTOR].connector_inner, 5120);
    assert_true(m->modules[MODULE_CONNECTOR].connector_norm_before_merge);
    assert_int_equal(m->modules[MODULE_VISION].temporal_patch, 2);
    m = fixture_model(arena, "uneven-pp-3");
    assert_int_equal(m->modules[MODULE_CONNECTOR].connector_inner, 0);
    m = fixture_model(arena, "vlm-l");
    assert_true(m->modules[MODULE_VISION].qk_norm_per_head);
    arena_destroy(arena);
}

/* Eight class tokens of NeMo's: one and seven registers, in the sequence, the table and the
 * weights. */
static void test_registers(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_module(arena, "vision", "nemo-clip-vit-g-14-224");
    const struct module *v = &m->modules[MODULE_VISION];
    assert_int_equal(v->register_tokens, 7);
    assert_int_equal(m->tile_vision_tokens, 256 + 8);
    assert_int_equal(v->position_count, 264);
    const int64_t h = 1408, f = 6144;
    const int64_t block = 4 * h * h + 2 * h * f + 9 * h + f;
    assert_int_equal(module_parameters(m, MODULE_VISION),
                     40 * block + (3 * 14 * 14 + 8 + 264) * h + 2 * h);
    arena_destroy(arena);
}

/* ---- text models inside another document ---- */

/* What stands beside "role" and "source" in the definition of a language model. */
static const struct {
    const char *what, *keys;
    int64_t want;
    const char *formula;
} text_models[] = {
    { "GPT-2 XL",
      "\"layer_count\": 48, \"hidden\": 1600, \"ffn_hidden\": 6400, \"heads\": 25, \"ffn\": "
      "\"gelu\", "
      "\"norm\": \"layer\", \"qkv_bias\": \"all\", \"linear_bias\": true, \"dropout\": true, "
      "\"position\": \"learned\", \"position_count\": 1024, \"vocabulary\": 50257, "
      "\"tied_embeddings\": true",
      1557611200, "48 (12 h^2 + 13 h) + (50257 + 1024) h + 2 h" },
    { "GPT-3 175B",
      "\"layer_count\": 96, \"hidden\": 12288, \"ffn_hidden\": 49152, \"heads\": 96, "
      "\"ffn\": \"gelu\", \"norm\": \"layer\", \"qkv_bias\": \"all\", \"linear_bias\": true, "
      "\"position\": \"learned\", \"position_count\": 2048, \"vocabulary\": 51200, "
      "\"tied_embeddings\": true",
      96 * (12 * 12288LL * 12288 + 13 * 12288) + (51200 + 2048) * 12288LL + 2 * 12288,
      "12 l h^2 (1 + 13 / 12h + (V + s) / 12 l h) of Narayanan et al. 2021 and the final norm" },
    { "the same, untied",
      "\"layer_count\": 96, \"hidden\": 12288, \"ffn_hidden\": 49152, \"heads\": 96, "
      "\"ffn\": \"gelu\", \"norm\": \"layer\", \"qkv_bias\": \"all\", \"linear_bias\": true, "
      "\"position\": \"learned\", \"position_count\": 2048, \"vocabulary\": 51200",
      96 * (12 * 12288LL * 12288 + 13 * 12288) + (2 * 51200 + 2048) * 12288LL + 2 * 12288,
      "one more table" },
    { "MPT-7B",
      "\"layer_count\": 32, \"hidden\": 4096, \"ffn_hidden\": 16384, \"heads\": 32, "
      "\"ffn\": \"gelu\", \"norm\": \"layer-no-bias\", \"position\": \"none\", "
      "\"vocabulary\": 50432, \"tied_embeddings\": true",
      6649286656, "32 (12 h^2 + 2 h) + 50432 h + h" },
    { "MPT-30B",
      "\"layer_count\": 48, \"hidden\": 7168, \"ffn_hidden\": 28672, \"heads\": 64, "
      "\"ffn\": \"gelu\", \"norm\": \"layer-no-bias\", \"position\": \"none\", "
      "\"vocabulary\": 50432, \"tied_embeddings\": true",
      29957200896, "48 (12 h^2 + 2 h) + 50432 h + h" },
    { "Llama-2-7B",
      "\"layer_count\": 32, \"hidden\": 4096, \"ffn_hidden\": 11008, \"heads\": 32, "
      "\"ffn\": \"swiglu\", \"norm\": \"rms\", \"position\": \"rotary\", \"vocabulary\": 32000",
      6738415616, "32 (4 h^2 + 3 h f + 2 h) + 2 x 32000 h + h" },
    { "Llama-2-70B",
      "\"layer_count\": 80, \"hidden\": 8192, \"ffn_hidden\": 28672, \"heads\": 64, "
      "\"kv_heads\": 8, \"ffn\": \"swiglu\", \"norm\": \"rms\", \"position\": \"rotary\", "
      "\"vocabulary\": 32000",
      68976648192, "80 (2 h^2 + 2 h x 1024 + 3 h f + 2 h) + 2 x 32000 h + h" },
    { "Llama-3.1-405B",
      "\"layer_count\": 126, \"hidden\": 16384, \"ffn_hidden\": 53248, \"heads\": 128, "
      "\"kv_heads\": 8, \"ffn\": \"swiglu\", \"norm\": \"rms\", \"position\": \"rotary\", "
      "\"vocabulary\": 128256",
      405853388800, "126 (2 h^2 + 2 h x 1024 + 3 h f + 2 h) + 2 x 128256 h + h" },
    { "Nemotron-4 340B",
      "\"layer_count\": 96, \"hidden\": 18432, \"ffn_hidden\": 73728, \"heads\": 96, "
      "\"kv_heads\": 8, \"ffn\": \"relu2\", \"norm\": \"layer\", \"position\": \"rotary\", "
      "\"vocabulary\": 256000",
      341029195776, "96 (2 h^2 + 2 h x 1536 + 2 h f + 4 h) + 2 x 256000 h + 2 h" },
};

static struct json *document_of(const char *text) {
    struct error err = { 0 };
    struct json *document = json_parse("study/runs.json", text, strlen(text), &err);
    if (document == NULL) fail_msg("%s", err.text);
    return document;
}

static void test_text_models(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof text_models / sizeof text_models[0]; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "{ \"runs\": [ { \"model\": { \"name\": \"run\", \"source\": \"test\", "
                 "\"language\": { \"name\": \"%s\", \"role\": \"language\", %s, "
                 "\"source\": \"test\" } } } ] }",
                 text_models[i].what, text_models[i].keys);
        struct json *document = document_of(text);
        const cJSON *runs = cJSON_GetObjectItemCaseSensitive(json_root(document), "runs");
        const cJSON *node = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(runs, 0), "model");
        struct error err = { 0 };
        const struct model *m = model_from_json(arena, SCENARIOS, document, node, &err);
        if (m == NULL) fail_msg("%s: %s", text_models[i].what, err.text);
        json_destroy(document); /* nothing of it is kept */
        assert_string_equal(m->modules[MODULE_LANGUAGE].name, text_models[i].what);
        if (model_parameters(m) != text_models[i].want)
            fail_msg("%s: %lld parameters, want %lld = %s", text_models[i].what,
                     (long long)model_parameters(m), (long long)text_models[i].want,
                     text_models[i].formula);
    }
    arena_destroy(arena);
}

/* A squared ReLU has two matrices, like GELU; a gate makes three. */
static void test_feed_forward_kinds(void **state) {
    (void)state;
    static const struct {
        enum ffn_kind kind;
        int64_t up; /* columns of the first matmul */
    } cases[] = { { FFN_GELU, 400 },
                  { FFN_QUICK_GELU, 400 },
                  { FFN_SWIGLU, 800 },
                  { FFN_RELU2, 400 },
                  { FFN_GELU_NEW, 400 } };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "{ \"name\": \"t\", \"source\": \"test\", \"language\": { \"name\": \"t\", "
                 "\"role\": \"language\", \"layer_count\": 2, \"hidden\": 64, "
                 "\"ffn_hidden\": 400, \"heads\": 4, \"ffn\": \"%s\", \"norm\": \"rms\", "
                 "\"position\": \"none\", \"vocabulary\": 100, \"source\": \"test\" } }",
                 ffn_kind_name(cases[i].kind));
        struct json *document = document_of(text);
        struct error err = { 0 };
        const struct model *m =
            model_from_json(arena, SCENARIOS, document, json_root(document), &err);
        if (m == NULL) fail_msg("%s", err.text);
        json_destroy(document);
        int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
        assert_int_equal(model_layer_parameters(m, block),
                         4 * 64 * 64 + 64 * (cases[i].up + 400) + 2 * 64);
        struct batch_shape shape = model_batch_shape(m, 1, 0, 1000, 1e6);
        const struct tensor_split split = { .tp = 1, .cp = 1 };
        struct operator_list list = { 0 };
        layer_operators(m, block, &shape, &split, PASS_SET_FORWARD, (struct gradient_need){ 0 },
                        &list);
        int64_t found = 0;
        for (int64_t j = 0; j < list.count; j++) {
            const struct operator_work *w = &list.operators[j];
            if (strcmp(w->name, "up") == 0 && w->n == cases[i].up) found++;
            if (strcmp(w->name, "down") == 0 && w->k == 400) found++;
            if (strcmp(w->name, "activation") == 0 &&
                w->memory_bytes == 2.0 * 1000 * (double)(cases[i].up + 400))
                found++;
        }
        if (found != 3) fail_msg("%s: operators", ffn_kind_name(cases[i].kind));
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* A named module, changed, and a model that is the document itself. */
static void test_named_module_in_document(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct json *document =
        document_of("{ \"name\": \"t\", \"source\": \"test\","
                    " \"language\": { \"module\": \"mpt-30b\", \"layer_count\": 2 } }");
    struct error err = { 0 };
    const struct model *m = model_from_json(arena, SCENARIOS, document, json_root(document), &err);
    if (m == NULL) fail_msg("%s", err.text);
    assert_int_equal(m->layer_count, 4);
    assert_int_equal(m->modules[MODULE_LANGUAGE].norm, NORM_LAYER_NO_BIAS);
    assert_int_equal(m->modules[MODULE_LANGUAGE].head_dim, 112);
    assert_false(m->modules[MODULE_LANGUAGE].dropout);
    json_destroy(document);
    arena_destroy(arena);
}

static void test_document_errors(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "{ \"model\": 7 }",
          "study/runs.json:1:12: error: /model: a model must be defined by an object { ... }\n"
          "     1 | { \"model\": 7 }\n"
          "       |            ^\n"
          "  hint: the keys of a model file: \"name\", \"language\", \"source\"" },
        { "{ \"model\": { \"name\": \"t\", \"source\": \"s\" } }",
          "study/runs.json:1:3: error: /model: model \"t\" has no module\n"
          "     1 | { \"model\": { \"name\": \"t\", \"source\": \"s\" } }\n"
          "       |   ^\n"
          "  hint: add \"vision\", \"language\" or both" },
        { "{ \"model\": { \"name\": \"t\", \"source\": \"s\", \"language\": \"mpt-3b\" } }",
          "study/runs.json:1:54: error: /model/language: no module is called \"mpt-3b\"\n"
          "     1 | { \"model\": { \"name\": \"t\", \"source\": \"s\", \"language\": \"mpt-3b\" } "
          "}\n"
          "       |                                                      ^~~~~~~~\n"
          "  hint: did you mean \"mpt-30b\"?\n"
          "  while loading the language module" },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json *document = document_of(cases[i].text);
        const cJSON *node = cJSON_GetObjectItemCaseSensitive(json_root(document), "model");
        struct error err = { 0 };
        assert_null(model_from_json(arena, SCENARIOS, document, node, &err));
        if (strcmp(err.text, cases[i].want) != 0)
            fail_msg("row %zu:\n got %s\nwant %s", i, err.text, cases[i].want);
        json_destroy(document);
    }
    arena_destroy(arena);
}

/* ---- inline modules and paths ---- */

#define TINY                                                                                       \
    "{\n"                                                                                          \
    "    \"name\": \"tiny\", \"role\": \"language\", \"layer_count\": 2, \"hidden\": 64,\n"        \
    "    \"ffn_hidden\": 256, \"heads\": 4, \"ffn\": \"gelu\", \"norm\": \"layer\",\n"             \
    "    \"position\": \"rotary\", \"vocabulary\": 1000, \"source\": \"test\"\n"                   \
    "  }"

static void test_inline_module(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    char path[256];
    const struct model *m =
        fixture_text(arena, "{ \"name\": \"t\", \"source\": \"test\", \"language\": " TINY " }",
                     path, sizeof path, &err);
    if (m == NULL) fail_msg("%s", err.text);
    const struct module *l = &m->modules[MODULE_LANGUAGE];
    assert_int_equal(m->layer_count, 4);
    assert_int_equal(l->head_dim, 16);
    assert_int_equal(l->kv_heads, 4);
    /* 12 h^2 and 2 layer norms a block, two tables and the final norm */
    assert_int_equal(model_parameters(m), 2 * (12 * 4096 + 256) + 2 * 64000 + 128);
    arena_destroy(arena);
}

/* A contrastive text tower ends with its blocks: no head's parameters, and no layer of it. */
static void test_headless(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    char path[256];
    struct error err = { 0 };
    const struct model *whole = fixture_module(arena, "language", "llama3-8b");
    const struct model *tower =
        fixture_text(arena,
                     "{ \"name\": \"t\", \"source\": \"s\", \"language\": { \"module\": "
                     "\"llama3-8b\", \"headless\": true } }",
                     path, sizeof path, &err);
    assert_non_null(tower);
    assert_int_equal(fixture_layer(tower, LAYER_HEAD), -1);
    assert_int_equal(tower->layer_count, whole->layer_count - 1);
    const int64_t head = fixture_layer(whole, LAYER_HEAD);
    assert_int_equal(tower->layers[tower->layer_count - 1].kind, LAYER_LANGUAGE_BLOCK);
    assert_int_equal(model_parameters(whole) - model_parameters(tower),
                     model_layer_parameters(whole, head));
    arena_destroy(arena);
}

static void test_paths(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct model *m = model_load(arena, SCENARIOS, SCENARIOS "/models/llama3-8b.json", &err);
    assert_non_null(m);
    assert_string_equal(m->name, "llama3-8b");
    /* a module by its path */
    char path[256];
    m = fixture_text(arena,
                     "{ \"name\": \"t\", \"source\": \"test\", \"language\": \"" SCENARIOS
                     "/models/modules/llama3-8b.json\" }",
                     path, sizeof path, &err);
    assert_non_null(m);
    assert_int_equal(m->modules[MODULE_LANGUAGE].hidden, 4096);
    arena_destroy(arena);
}

/* ---- errors ---- */

/* The text with every occurrence of `from` written as `to`. */
static void replace_all(char *text, size_t size, const char *from, const char *to) {
    char out[8192] = "";
    size_t used = 0;
    for (const char *at = text; *at != '\0';) {
        bool here = strncmp(at, from, strlen(from)) == 0;
        used +=
            (size_t)snprintf(out + used, sizeof out - used, "%.*s", here ? 64 : 1, here ? to : at);
        at += here ? strlen(from) : 1;
    }
    snprintf(text, size, "%s", out);
}

static const struct {
    const char *what, *text, *want;
} error_cases[] = {
    { "unknown module",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"language\": \"lama3-8b\" }",
      "FILE:2:15: error: /language: no module is called \"lama3-8b\"\n"
      "     2 |   \"language\": \"lama3-8b\" }\n"
      "       |               ^~~~~~~~~~\n"
      "  hint: did you mean \"llama3-8b\"?\n"
      "  while loading the language module\n"
      "  while loading model 'FILE'" },
    { "wrong role",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"vision\": { \"module\": \"eva-clip-1b\",\n"
      "              \"role\": \"language\" } }",
      "FILE:3:23: error: /vision/role: 'EVA-CLIP-1B (EVA01 g/14)' is a language module and cannot "
      "stand as \"vision\"\n"
      "     3 |               \"role\": \"language\" } }\n"
      "       |                       ^~~~~~~~~~\n"
      "  while loading the vision module\n"
      "  while loading model 'FILE'" },
    { "an encoder's key in a language model",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"language\": { \"module\": \"llama3-8b\", \"max_pixels\": 100 } }",
      "FILE:2:54: error: /language/max_pixels: belongs to a vision encoder\n"
      "     2 |   \"language\": { \"module\": \"llama3-8b\", \"max_pixels\": 100 } }\n"
      "       |                                                      ^~~\n"
      "  while loading the language module\n"
      "  while loading model 'FILE'" },
    { "unknown key of a change",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"language\": { \"module\": \"llama3-8b\", \"layers_count\": 3 } }",
      "FILE:2:40: error: /language/layers_count: unknown key \"layers_count\" in \"module\"\n"
      "     2 |   \"language\": { \"module\": \"llama3-8b\", \"layers_count\": 3 } }\n"
      "       |                                        ^~~~~~~~~~~~~~\n"
      "  hint: did you mean \"layer_count\"?\n"
      "  while loading the language module\n"
      "  while loading model 'FILE'" },
    { "a change out of range",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"language\": { \"module\": \"llama3-8b\", \"layer_count\": 0 } }",
      "FILE:2:55: error: /language/layer_count: must be 1 to 10000, got 0\n"
      "     2 |   \"language\": { \"module\": \"llama3-8b\", \"layer_count\": 0 } }\n"
      "       |                                                       ^\n"
      "  hint: transformer blocks\n"
      "  while loading the language module\n"
      "  while loading model 'FILE'" },
    { "heads that do not divide the width",
      "{ \"name\": \"t\", \"source\": \"s\", \"language\": {\n"
      "    \"name\": \"x\", \"role\": \"language\", \"layer_count\": 2, \"hidden\": 64,\n"
      "    \"heads\": 5,\n"
      "    \"ffn_hidden\": 256, \"ffn\": \"gelu\", \"norm\": \"rms\", \"position\": \"rotary\",\n"
      "    \"vocabulary\": 10, \"source\": \"s\" } }",
      "FILE:3:14: error: /language/heads: must divide hidden (64) unless head_dim is given, got 5\n"
      "     3 |     \"heads\": 5,\n"
      "       |              ^\n"
      "  while loading the language module\n"
      "  while loading model 'FILE'" },
    { "key-value heads that do not divide the heads",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"language\": { \"module\": \"llama3-8b\",\n"
      "    \"kv_heads\": 5 } }",
      "FILE:3:17: error: /language/kv_heads: must divide the 32 query heads, got 5\n"
      "     3 |     \"kv_heads\": 5 } }\n"
      "       |                 ^\n"
      "  hint: each key and value head serves the same number of query heads\n"
      "  while loading the language module\n"
      "  while loading model 'FILE'" },
    { "full blocks without a window",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"language\": { \"module\": \"llama3-8b\",\n"
      "    \"full_attention_blocks\": 5 } }",
      "FILE:3:30: error: /language/full_attention_blocks: needs \"attention_window\"\n"
      "     3 |     \"full_attention_blocks\": 5 } }\n"
      "       |                              ^\n"
      "  hint: without a window all blocks are full\n"
      "  while loading the language module\n"
      "  while loading model 'FILE'" },
    { "more full blocks than blocks",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"language\": { \"module\": \"llama3-8b\", \"attention_window\": 4096,\n"
      "    \"full_attention_blocks\": 33 } }",
      "FILE:3:30: error: /language/full_attention_blocks: must be at most the 32 blocks, got 33\n"
      "     3 |     \"full_attention_blocks\": 33 } }\n"
      "       |                              ^~\n"
      "  while loading the language module\n"
      "  while loading model 'FILE'" },
    { "an image that the patches do not fill",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"vision\": { \"module\": \"eva-clip-1b\", \"image_size\": 450 } }",
      "FILE:2:54: error: /vision/image_size: must be a multiple of patch_size (14), got 450\n"
      "     2 |   \"vision\": { \"module\": \"eva-clip-1b\", \"image_size\": 450 } }\n"
      "       |                                                      ^~~\n"
      "  while loading the vision module\n"
      "  while loading model 'FILE'" },
    { "a merge that the patches do not fill",
      "{ \"name\": \"t\", \"source\": \"s\", \"vision\": \"eva-clip-1b\", \"language\": "
      "\"llama3-8b\",\n"
      "  \"connector\": { \"merge\": 3, \"source\": \"s\" } }",
      "FILE:2:27: error: /connector/merge: merge 3 must divide the 32 patches of a tile's side\n"
      "     2 |   \"connector\": { \"merge\": 3, \"source\": \"s\" } }\n"
      "       |                           ^\n"
      "  hint: image_size / patch_size of the vision encoder\n"
      "  while loading model 'FILE'" },
    { "no connector",
      "{ \"name\": \"t\", \"source\": \"s\", \"vision\": \"eva-clip-1b\", \"language\": "
      "\"llama3-8b\" }",
      "FILE:1:1: error: /: \"connector\" is missing: vision encoder and language model need one\n"
      "     1 | { \"name\": \"t\", \"source\": \"s\", \"vision\": \"eva-clip-1b\", \"language\": "
      "\"llama3-8b\" }\n"
      "       | ^\n"
      "  hint: for example \"connector\": { \"merge\": 2, \"source\": \"...\" }\n"
      "  while loading model 'FILE'" },
    { "a connector to nowhere",
      "{ \"name\": \"t\", \"source\": \"s\", \"vision\": \"eva-clip-1b\",\n"
      "  \"connector\": { \"source\": \"s\" } }",
      "FILE:2:3: error: /connector: a connector needs a vision encoder and a language model\n"
      "     2 |   \"connector\": { \"source\": \"s\" } }\n"
      "       |   ^\n"
      "  while loading model 'FILE'" },
    { "no module at all", "{ \"name\": \"t\", \"source\": \"s\" }",
      "FILE:1:1: error: /: model \"t\" has no module\n"
      "     1 | { \"name\": \"t\", \"source\": \"s\" }\n"
      "       | ^\n"
      "  hint: add \"vision\", \"language\" or both\n"
      "  while loading model 'FILE'" },
    { "a vocabulary of images",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"vision\": { \"module\": \"eva-clip-1b\", \"vocabulary\": 9 } }",
      "FILE:2:54: error: /vision/vocabulary: belongs to a language model\n"
      "     2 |   \"vision\": { \"module\": \"eva-clip-1b\", \"vocabulary\": 9 } }\n"
      "       |                                                      ^\n"
      "  while loading the vision module\n"
      "  while loading model 'FILE'" },
    { "an encoder said to have no head",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"vision\": { \"module\": \"eva-clip-1b\", \"headless\": true } }",
      "FILE:2:52: error: /vision/headless: belongs to a language model\n"
      "     2 |   \"vision\": { \"module\": \"eva-clip-1b\", \"headless\": true } }\n"
      "       |                                                    ^~~~\n"
      "  while loading the vision module\n"
      "  while loading model 'FILE'" },
    { "an encoder with some of a head",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"vision\": { \"module\": \"eva-clip-1b\", \"head_share\": 0.5 } }",
      "FILE:2:54: error: /vision/head_share: belongs to a language model\n"
      "     2 |   \"vision\": { \"module\": \"eva-clip-1b\", \"head_share\": 0.5 } }\n"
      "       |                                                      ^~~\n"
      "  while loading the vision module\n"
      "  while loading model 'FILE'" },
    { "some positions of no head",
      "{ \"name\": \"t\", \"source\": \"s\", \"language\": { \"module\": \"llama3-8b\",\n"
      "  \"headless\": true, \"head_share\": 0.5 } }",
      "FILE:2:35: error: /language/head_share: needs a head, and \"headless\" is true\n"
      "     2 |   \"headless\": true, \"head_share\": 0.5 } }\n"
      "       |                                   ^~~\n"
      "  while loading the language module\n"
      "  while loading model 'FILE'" },
    { "a cap on no logits",
      "{ \"name\": \"t\", \"source\": \"s\", \"language\": { \"module\": \"llama3-8b\",\n"
      "  \"headless\": true, \"logit_cap\": true } }",
      "FILE:2:34: error: /language/logit_cap: needs a head, and \"headless\" is true\n"
      "     2 |   \"headless\": true, \"logit_cap\": true } }\n"
      "       |                                  ^~~~\n"
      "  while loading the language module\n"
      "  while loading model 'FILE'" },
    { "learned positions without a table",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"language\": { \"module\": \"llama3-8b\",\n"
      "    \"position\": \"learned\" } }",
      "FILE:3:17: error: /language/position: learned positions of a language model need "
      "\"position_count\"\n"
      "     3 |     \"position\": \"learned\" } }\n"
      "       |                 ^~~~~~~~~\n"
      "  hint: the longest sequence it was made for\n"
      "  while loading the language module\n"
      "  while loading model 'FILE'" },
    { "a source for nothing",
      "{ \"name\": \"t\", \"source\": \"s\", \"language\": { \"module\": \"llama3-8b\",\n"
      "  \"sources\": { \"hiden\": \"s\" } } }",
      "FILE:2:25: error: /language/sources/hiden: \"hiden\" is no figure of a module\n"
      "     2 |   \"sources\": { \"hiden\": \"s\" } } }\n"
      "       |                         ^~~\n"
      "  hint: did you mean \"hidden\"?\n"
      "  while loading the language module\n"
      "  while loading model 'FILE'" },
    { "a module that is a number",
      "{ \"name\": \"t\", \"source\": \"s\",\n"
      "  \"language\": 8 }",
      "FILE:2:15: error: /language: must be the name of a module or an object { ... }\n"
      "     2 |   \"language\": 8 }\n"
      "       |               ^\n"
      "  while loading the language module\n"
      "  while loading model 'FILE'" },
};

static void test_errors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof error_cases / sizeof error_cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        char path[256];
        if (fixture_text(arena, error_cases[i].text, path, sizeof path, &err) != NULL)
            fail_msg("%s: loads", error_cases[i].what);
        replace_all(err.text, sizeof err.text, path, "FILE");
        if (strcmp(err.text, error_cases[i].want) != 0)
            fail_msg("%s:\n got %s\nwant %s", error_cases[i].what, err.text, error_cases[i].want);
        arena_destroy(arena);
    }
}

static void test_unknown_model(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    assert_null(model_load(arena, SCENARIOS, "internvl-6b-20", &err));
    assert_string_equal(err.text, "no model is called 'internvl-6b-20' in " SCENARIOS "/models\n"
                                  "  hint: did you mean 'internvl-6b-20b'?");
    arena_destroy(arena);
}

static void test_module_named_as_model(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    assert_null(model_load(arena, SCENARIOS, "qwen3-8b", &err));
    assert_string_equal(err.text, "no model is called 'qwen3-8b' in " SCENARIOS "/models\n"
                                  "  hint: 'qwen3-8b' is a module; a model of it alone: \"model\": "
                                  "{\"definition\": {\"name\": \"qwen3-8b\", \"source\": \"...\", "
                                  "\"language\": \"qwen3-8b\"}}, or \"vision\" for an encoder");
    arena_destroy(arena);
}

/* ---- the tables ---- */

static void test_tables(void **state) {
    (void)state;
    const struct field_table *tables[] = { &model_table, &module_table, &connector_table };
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        for (size_t i = 0; i < tables[t]->count; i++) {
            const struct field *field = &tables[t]->fields[i];
            if (field->help[0] == '\0') fail_msg("%s has no help", field->name);
            if ((field->type == FIELD_CHOICE) != (field->choices != NULL))
                fail_msg("%s: choices", field->name);
            for (size_t j = 0; j < i; j++)
                if (strcmp(field->name, tables[t]->fields[j].name) == 0)
                    fail_msg("%s twice in %s", field->name, tables[t]->name);
        }
    }
    /* choices stand in the order of their enums */
    for (int kind = 0; kind < FFN_KIND_COUNT; kind++)
        assert_string_equal(field_table_find(&module_table, "ffn")->choices[kind],
                            ffn_kind_name((enum ffn_kind)kind));
    const char *const *norms = field_table_find(&module_table, "norm")->choices;
    assert_string_equal(norms[NORM_LAYER], "layer");
    assert_string_equal(norms[NORM_RMS], "rms");
    assert_string_equal(norms[NORM_LAYER_NO_BIAS], "layer-no-bias");
    assert_null(norms[NORM_KIND_COUNT]);
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        assert_string_equal(field_table_find(&module_table, "role")->choices[role],
                            module_role_name((enum module_role)role));
    for (int precision = 0; precision < PRECISION_COUNT; precision++)
        assert_string_equal(field_table_find(&module_table, "precision")->choices[precision],
                            precision_name((enum precision)precision));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registers),
        cmocka_unit_test(test_text_models),
        cmocka_unit_test(test_feed_forward_kinds),
        cmocka_unit_test(test_named_module_in_document),
        cmocka_unit_test(test_document_errors),
        cmocka_unit_test(test_shipped_files),
        cmocka_unit_test(test_all_fields),
        cmocka_unit_test(test_inline_module),
        cmocka_unit_test(test_headless),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_unknown_model),
        cmocka_unit_test(test_module_named_as_model),
        cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
