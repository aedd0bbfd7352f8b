/* model_fixture.h - what the tests of sim/model share: loading by name and from a text. */
#ifndef BALLAST_TESTS_MODEL_FIXTURE_H
#define BALLAST_TESTS_MODEL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "sim/model/model.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

static inline const struct model *fixture_model(struct arena *arena, const char *name) {
    struct error err = { 0 };
    const struct model *model = model_load(arena, SCENARIOS, name, &err);
    if (model == NULL) fail_msg("%s: %s", name, err.text);
    return model;
}

/* Loads `text` as a model file at a path of its own, which is written to `path`. */
static inline const struct model *fixture_text(struct arena *arena, const char *text, char *path,
                                               size_t path_size, struct error *err) {
    const char *folder = getenv("TMPDIR");
    snprintf(path, path_size, "%s/ballast-model-XXXXXX.json", folder != NULL ? folder : "/tmp");
    int file = mkstemps(path, 5);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    const struct model *model = model_load(arena, SCENARIOS, path, err);
    unlink(path);
    return model;
}

/* A model of one module alone. */
static inline const struct model *fixture_module(struct arena *arena, const char *role,
                                                 const char *module) {
    char text[256], path[256];
    /* DIP's decoders attend to the text of a language model, others have theirs encoded. */
    const char *beside = strncmp(module, "dit-", 4) == 0 ? "\"language\": \"llama3-8b\", " : "";
    snprintf(text, sizeof text, "{\"name\": \"alone\", %s\"%s\": \"%s\", \"source\": \"test\"}",
             beside, role, module);
    struct error err = { 0 };
    const struct model *model = fixture_text(arena, text, path, sizeof path, &err);
    if (model == NULL) fail_msg("%s: %s", module, err.text);
    return model;
}

/* The first layer of a kind; -1 if there is none. */
static inline int64_t fixture_layer(const struct model *model, enum layer_kind kind) {
    for (int64_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].kind == kind) return i;
    return -1;
}

/* An ISF group of OmniBal: 9 tiles and one packed sample of 4096 tokens. */
static inline struct batch_shape fixture_group(const struct model *model) {
    return model_batch_shape(model, 1, 9, 4096, 4096.0 * 4096.0);
}

#endif
