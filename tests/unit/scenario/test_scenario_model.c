/* test_scenario_model.c - section `model`: the size of frames, and its mistakes. */
#include "tests/unit/scenario/scenario_fixture.h"

static struct scenario *load_wan(const char *frame_size, struct error *err) {
    const char *overrides[] = { frame_size, NULL };
    struct scenario_options options = { .directory = SCENARIOS,
                                        .overrides = overrides,
                                        .cache = shared_cache() };
    return scenario_load(&options, SCENARIOS "/examples/wan-14b.json", err);
}

/* 81 frames are 21 latent ones: of 52 x 30 patches as the model has them, of 80 x 45. */
static void test_frame_size(void **state) {
    (void)state;
    static const struct {
        const char *set;
        int64_t width, height, tokens;
    } cases[] = {
        { "model.frame_size=null", 832, 480, 21 * 52 * 30 },
        { "model.frame_size=1280x720", 1280, 720, 21 * 80 * 45 },
        { "model.frame_size=720x1280", 720, 1280, 21 * 80 * 45 },
        { "model.frame_size=16x16", 16, 16, 21 },
        { "model.frame_size=null", 832, 480, 21 * 52 * 30 }, /* the shared model is as it was */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        struct scenario *s = load_wan(cases[i].set, &err);
        if (s == NULL) fail_msg("%s: %s", cases[i].set, err.text);
        const struct module *m = &s->model->modules[MODULE_DIFFUSION_DECODER];
        assert_int_equal(m->image_size, cases[i].width);
        assert_int_equal(m->image_height, cases[i].height);
        assert_int_equal(model_clip_tokens(s->model, 81000 / 16 + 1), cases[i].tokens);
        scenario_destroy(s);
    }
}

static void test_mistakes(void **state) {
    (void)state;
    static const char form[] = "width and height in pixels, for example \"1280x720\"";
    static const struct {
        const char *value, *want, *hint;
    } cases[] = {
        { "1280x", "\"1280x\" is no size of a frame", form },
        { "1280x720p", "\"1280x720p\" is no size of a frame", form },
        { " 1280x720", "\" 1280x720\" is no size of a frame", form },
        { "+1280x720", "\"+1280x720\" is no size of a frame", form },
        { "0x720", "\"0x720\" is no size of a frame", form },
        { "16x100016", "\"16x100016\" is no size of a frame", form },
        { "99999999999999999999x16", "\"99999999999999999999x16\" is no size of a frame", form },
        { "1283x720", "width 1283 is no multiple of latent_pixels x patch_size (16)", NULL },
        { "1280x721", "height 721 is no multiple of latent_pixels x patch_size (16)", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char set[64], want[256];
        struct error err = { 0 };
        snprintf(set, sizeof set, "model.frame_size=%s", cases[i].value);
        if (load_wan(set, &err) != NULL) fail_msg("%s was read", set);
        snprintf(want, sizeof want, "--set %s: /model/frame_size: %s", set, cases[i].want);
        check_message(set, &err, want, cases[i].hint);
    }
    struct error err = { 0 };
    write_lines(MODEL, "\"model\": { \"name\": \"internvl-6b-20b\", \"frame_size\": \"448x448\" }");
    assert_null(load(NULL, &err));
    check_message("no decoder", &err,
                  "s.json:2:53: error: /model/frame_size: frame_size is of a diffusion decoder, "
                  "and model \"internvl-6b-20b\" has none",
                  "an encoder's tiles are of its model file's size");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_frame_size),
                                        cmocka_unit_test(test_mistakes) };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
