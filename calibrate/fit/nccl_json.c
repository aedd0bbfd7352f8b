/* nccl_json.c - one pass over the object, every part with its reader. */
#include "calibrate/fit/nccl_json.h"

#include <math.h>
#include <string.h>
#include "calibrate/fit/nccl_run.h"
#include "sim/base/json.h"

struct json_reader {
    struct arena *arena;
    const char *path;
    struct json *json;
    const struct nccl_log_options *options;
    struct nccl_log_rows *out;
    struct error *err;
    struct nccl_run run;
    bool any_row;
};

bool nccl_json_begins(const char *text, size_t size) {
    const size_t blank = strspn(text, " \t\r\n");
    return blank < size && text[blank] == '{' &&
           (strstr(text, "\"config\"") != NULL || strstr(text, "\"results\"") != NULL);
}

static bool complain(struct json_reader *r, const cJSON *node, const char *what) {
    return json_error(r->json, node, r->err, NULL, "%s", what);
}

static const cJSON *member(const cJSON *object, const char *key) {
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static bool read_text(struct json_reader *r, const cJSON *object, const char *key,
                      const char **out) {
    const cJSON *value = member(object, key);
    *out = cJSON_GetStringValue(value);
    return *out != NULL || json_error(r->json, value != NULL ? value : object, r->err, NULL,
                                      "nccl-tests write a text \"%s\" here", key);
}

static bool read_number(struct json_reader *r, const cJSON *object, const char *key, double least,
                        double *out) {
    const cJSON *value = member(object, key);
    *out = cJSON_GetNumberValue(value); /* NaN: none */
    return (*out >= least && isfinite(*out)) ||
           json_error(r->json, value != NULL ? value : object, r->err, NULL,
                      "nccl-tests write a number \"%s\" from %g here", key, least);
}

static bool read_list(struct json_reader *r, const cJSON *object, const char *key,
                      const cJSON **out) {
    *out = member(object, key);
    return cJSON_IsArray(*out) || json_error(r->json, *out != NULL ? *out : object, r->err, NULL,
                                             "nccl-tests write a list \"%s\" here", key);
}

/* The ranks of the first process' group, each process with as many. Other groups have communicators
 * of their own. */
static bool read_config(struct json_reader *r, const cJSON *config) {
    double threads, gpus;
    const cJSON *devices, *device;
    if (!read_number(r, config, "nthreads", 1, &threads) ||
        !read_number(r, config, "ngpus", 1, &gpus) || !read_list(r, config, "devices", &devices))
        return false;
    enum { MOST = 1 << 16 }; /* ranks of a process */
    if (threads * gpus > MOST) return complain(r, config, "so many GPUs no process has");
    const double first = cJSON_GetNumberValue(member(devices->child, "group"));
    cJSON_ArrayForEach(device, devices) {
        const char *host, *name;
        if (!read_text(r, device, "hostname", &host) || !read_text(r, device, "device_info", &name))
            return false;
        const double group = cJSON_GetNumberValue(member(device, "group"));
        if (isfinite(first) && isfinite(group) && group != first) continue;
        const char *why =
            nccl_run_add_rank(&r->run, r->arena, r->options, host, strlen(host), "", name);
        if (why != NULL) return complain(r, device, why);
    }
    r->run.rank_count *= (int64_t)(threads * gpus);
    return r->run.rank_count > 0 ||
           complain(r, devices, "no GPU is listed, so that their number is not known");
}

/* null: this test does not run it. */
static bool read_half(struct json_reader *r, const cJSON *result, const char *key, double bytes,
                      bool in_place) {
    const cJSON *half = member(result, key);
    if (half == NULL || cJSON_IsNull(half)) return true;
    if (member(half, "time") == NULL && member(half, "cpu_time") != NULL)
        return json_error(r->json, member(half, "cpu_time"), r->err, "run the test without -C",
                          "the time that the host took to launch is not the collective's");
    struct nccl_run_result one = { .bytes = bytes, .in_place = in_place };
    const cJSON *wrong = member(half, "nwrong");
    double wrong_count = 0;
    if (!read_number(r, half, "time", 0, &one.time_us) ||
        !read_number(r, half, "alg_bw", 0, &one.algbw_GB_per_s) ||
        !read_number(r, half, "bus_bw", 0, &one.busbw_GB_per_s))
        return false;
    if (wrong != NULL && !cJSON_IsNull(wrong) && !read_number(r, half, "nwrong", 0, &wrong_count))
        return false;
    if (wrong_count > 0)
        return json_error(r->json, wrong, r->err, NULL,
                          "the run found %.0f wrong values: its times are not to be trusted",
                          wrong_count);
    const char *doubt = nccl_run_doubt(&r->run, r->arena, &one);
    if (doubt != NULL) return complain(r, half, doubt);
    if (nccl_run_append(&r->run, r->arena, r->options, r->path, &one, r->out)) r->any_row = true;
    return true;
}

static bool read_results(struct json_reader *r, const cJSON *results) {
    const cJSON *result;
    cJSON_ArrayForEach(result, results) {
        double bytes;
        if (!read_number(r, result, "size", 0, &bytes) ||
            !read_half(r, result, "out_of_place", bytes, false) ||
            !read_half(r, result, "in_place", bytes, true))
            return false;
    }
    return r->any_row ||
           complain(r, results, "no results of nccl-tests in this file: the list has no time");
}

static bool read_root(struct json_reader *r) {
    const cJSON *root = json_root(r->json), *args, *results;
    if (!read_list(r, root, "args", &args) || !read_list(r, root, "results", &results))
        return false;
    const char *program = cJSON_GetStringValue(args->child), *hint = NULL;
    if (program != NULL) nccl_run_read_program(&r->run, program);
    const char *why = nccl_run_find_op(&r->run, r->options, r->path, r->arena, &hint);
    if (why != NULL) return json_error(r->json, args, r->err, hint, "%s", why);
    const double version = cJSON_GetNumberValue(member(root, "nccl_version"));
    if (version > 0 && version < 1e9) r->run.version = nccl_run_version(r->arena, (long)version);
    const cJSON *config = member(root, "config");
    if (config == NULL) return complain(r, root, "nccl-tests write an object \"config\" here");
    return read_config(r, config) && read_results(r, results);
}

bool nccl_json_read(struct arena *arena, const char *path, const char *text, size_t size,
                    const struct nccl_log_options *options, struct nccl_log_rows *out,
                    struct error *err) {
    struct json *json = json_parse(path, text, size, err);
    if (json == NULL) return false;
    struct json_reader r = {
        .arena = arena, .path = path, .json = json, .options = options, .out = out, .err = err
    };
    const bool ok = read_root(&r);
    json_destroy(json);
    return ok;
}
