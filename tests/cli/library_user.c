/* library_user.c - uses every call of ballast.h; argv: a plug-in, a scenario file. */
#include <ballast.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s; error: %s\n", __LINE__, #condition, ballast_error(b));   \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static char *read_file(const char *path) {
    char *text = calloc(1, 1 << 16);
    FILE *in = fopen(path, "r");
    if (in == NULL || text == NULL) return NULL;
    text[fread(text, 1, (1 << 16) - 1, in)] = '\0';
    fclose(in);
    return text;
}

int main(int argc, char **argv) {
    struct ballast *b = ballast_open(NULL);
    struct ballast_answer first = { .size = sizeof first }, second = { .size = sizeof second };
    CHECK(argc == 3);
    CHECK(ballast_api_version() == BALLAST_API_VERSION && strlen(ballast_version()) >= 5);
    CHECK(ballast_answer_json(b) == NULL);
    CHECK(ballast_run_file(b, argv[2], NULL, &first));
    CHECK(first.step_time_mean_ms > 0 && first.gpu_count == 8 && first.iteration_count == 3);
    CHECK(first.money_usd > 0 && first.mfu_fraction > 0 && first.mfu_fraction < 1);
    CHECK(first.step_time_p50_ms <= first.step_time_p95_ms);
    const double parts = first.compute_ms + first.padding_ms + first.recompute_ms +
                         first.communication_ms + first.bubble_ms + first.imbalance_ms +
                         first.update_ms + first.launch_wait_ms;
    CHECK(fabs(parts / first.step_time_mean_ms - 1) < 1e-9);
    CHECK(strstr(ballast_answer_json(b), "\"step_time_mean_ms\"") != NULL);

    /* The same from text; without a price, money is unknown. */
    char *text = read_file(argv[2]);
    CHECK(text != NULL);
    CHECK(ballast_run_text(b, text, NULL, &second));
    CHECK(second.step_time_mean_ms == first.step_time_mean_ms);
    const char *const unpriced[] = { "cluster.price_usd_per_gpu_hour=null", NULL };
    CHECK(ballast_run_text(b, text, unpriced, &second) && isnan(second.money_usd));

    /* A program built with an older header has room for less, and gets no more. */
    struct {
        size_t size;
        double step_time_mean_ms, guard;
    } older = { .size = offsetof(struct ballast_answer, step_time_p50_ms), .guard = 42 };
    CHECK(ballast_run_text(b, text, NULL, (struct ballast_answer *)(void *)&older));
    CHECK(older.step_time_mean_ms == first.step_time_mean_ms && older.guard == 42);

    /* Mistakes. */
    struct ballast_answer unset = { 0 };
    CHECK(!ballast_run_text(b, text, NULL, &unset) && strstr(ballast_error(b), "answer.size"));
    CHECK(!ballast_run_text(b, "{ \"nam\": 1 }", NULL, &second));
    CHECK(strstr(ballast_error(b), "scenario:1:") != NULL && ballast_answer_json(b) == NULL);
    CHECK(!ballast_run_file(b, "/nowhere.json", NULL, &second));
    const char *const wrong[] = { "layout.tpp=4", NULL };
    CHECK(!ballast_run_text(b, text, wrong, &second) && strstr(ballast_error(b), "layout.tpp"));

    /* A plug-in. */
    const char *const bottleneck[] = { "policy.partition=bottleneck", NULL };
    CHECK(!ballast_run_text(b, text, bottleneck, &second));
    CHECK(!ballast_load_plugin(b, "/nowhere.so") && strstr(ballast_error(b), "/nowhere.so"));
    CHECK(ballast_load_plugin(b, argv[1]));
    CHECK(ballast_run_text(b, text, bottleneck, &second));
    CHECK(second.step_time_mean_ms < first.step_time_mean_ms);
    free(text);
    ballast_close(b);
    ballast_close(NULL);
    return 0;
}
