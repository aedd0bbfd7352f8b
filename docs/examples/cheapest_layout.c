/* cheapest_layout.c - a program of one's own on libballast: which tensor and pipeline degrees make
 * a scenario cheapest?
 *
 *     cc cheapest_layout.c $(pkg-config --cflags --libs ballast) -o cheapest_layout
 *     ./cheapest_layout study.json
 */
#include <ballast.h>
#include <stdio.h>

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: cheapest_layout SCENARIO.json\n");
        return 2;
    }
    struct ballast *ballast = ballast_open(NULL);
    struct ballast_answer answer = { .size = sizeof answer };
    double best_gpu_days = -1;
    char best[64] = "";
    int failures = 0, tried = 0;
    for (int tp = 1; tp <= 8; tp *= 2) {
        for (int pp = 1; pp <= 8; pp *= 2) {
            char tp_text[32], pp_text[32];
            snprintf(tp_text, sizeof tp_text, "layout.tp=%d", tp);
            snprintf(pp_text, sizeof pp_text, "layout.pp=%d", pp);
            const char *const overrides[] = { tp_text, pp_text, NULL };
            tried++;
            if (!ballast_run_file(ballast, argv[1], overrides, &answer)) {
                /* Most often a layout that does not divide the GPUs; the sentence says which. */
                failures++;
                continue;
            }
            const int fits = answer.verdict != BALLAST_OUT_OF_MEMORY;
            printf("tp %d pp %d: %8.1f ms a step, %.3g GPU-days, MFU %2.0f %%, %s\n", tp, pp,
                   answer.step_time_mean_ms, answer.gpu_days, answer.mfu_fraction * 100,
                   fits ? "fits" : "out of memory");
            if (fits && (best_gpu_days < 0 || answer.gpu_days < best_gpu_days)) {
                best_gpu_days = answer.gpu_days;
                snprintf(best, sizeof best, "tp %d pp %d", tp, pp);
            }
        }
    }
    if (failures == tried) fprintf(stderr, "%s\n", ballast_error(ballast));
    if (best_gpu_days >= 0) printf("cheapest: %s, %.3g GPU-days\n", best, best_gpu_days);
    ballast_close(ballast);
    return best_gpu_days < 0;
}
