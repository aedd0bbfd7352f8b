/* test_scenario.c - the scenario reader: every rule with its exact message, references by name,
 * overrides, and the resolved scenario, which must read back as itself. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "sim/policy/partition/partition.h"
#include "sim/scenario/scenario.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

/* ---- a scenario of seven lines, any of which a case replaces ---- */

enum line { MODEL, DATASET, CLUSTER, LAYOUT, TRAINING, POLICY, SIMULATE, LINE_COUNT };

static const char *const base_lines[LINE_COUNT] = {
    [MODEL] = "\"model\": \"internvl-6b-20b\"",
    [DATASET] = "\"dataset\": \"omnibal-real\"",
    [CLUSTER] = "\"cluster\": { \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 32, "
                "\"nic_Gbit_per_s_per_gpu\": 100 }",
    [LAYOUT] = "\"layout\": { \"tp\": 2, \"pp\": 4 }",
    [TRAINING] = "\"training\": { \"global_batch\": { \"samples\": 64 }, \"micro_batch\": { "
                 "\"samples\": 4 } }",
    [POLICY] = "\"policy\": { \"batching\": { \"name\": \"isf\", \"qv\": 9 } }",
    [SIMULATE] = "\"simulate\": { \"iterations\": 2 }",
};

/* The tests stand in a folder of their own, so that messages say "s.json". */
static char folder[] = "/tmp/ballast-scenario-XXXXXX";

static int enter_folder(void **state) {
    (void)state;
    return mkdtemp(folder) != NULL && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state) {
    (void)state;
    unlink("s.json");
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

static void write_text(const char *text) {
    FILE *file = fopen("s.json", "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The file is { newline, the lines with commas between, newline }: line 2 is the first. */
static void write_lines(enum line replaced, const char *text) {
    FILE *file = fopen("s.json", "w");
    assert_non_null(file);
    bool first = true;
    for (int i = 0; i < LINE_COUNT; i++) {
        const char *line = text != NULL && i == (int)replaced ? text : base_lines[i];
        if (line[0] == '\0') continue;
        fprintf(file, "%s%s", first ? "{\n" : ",\n", line);
        first = false;
    }
    fputs("\n}\n", file);
    assert_int_equal(fclose(file), 0);
}

static struct scenario *load(const char *const *overrides, struct error *err) {
    struct scenario_options options = { SCENARIOS, overrides };
    return scenario_load(&options, "s.json", err);
}

static struct scenario *load_valid(enum line replaced, const char *text,
                                   const char *const *overrides) {
    struct error err = { 0 };
    write_lines(replaced, text);
    struct scenario *s = load(overrides, &err);
    if (s == NULL) fail_msg("%s: %s", text != NULL ? text : "base", err.text);
    return s;
}

/* ---- messages ---- */

/* Where this repository lies is not part of a message. */
static void strip_source_directory(char *text) {
    static const char prefix[] = BALLAST_SOURCE_DIR "/";
    for (char *at = strstr(text, prefix); at != NULL; at = strstr(text, prefix))
        memmove(at, at + sizeof prefix - 1, strlen(at + sizeof prefix - 1) + 1);
}

/* The message begins with the line `want` and its first hint is `hint` (NULL: it has none). */
static void check_message(const char *name, struct error *err, const char *want, const char *hint) {
    assert_false(err->internal);
    strip_source_directory(err->text);
    size_t length = strcspn(err->text, "\n");
    if (length != strlen(want) || strncmp(err->text, want, length) != 0)
        fail_msg("%s: got\n%s\nwant\n%s", name, err->text, want);
    const char *found = strstr(err->text, "\n  hint: ");
    if (hint == NULL ? found != NULL : found == NULL) fail_msg("%s: got\n%s", name, err->text);
    if (hint == NULL) return;
    found += strlen("\n  hint: ");
    if (strcspn(found, "\n") != strlen(hint) || strncmp(found, hint, strlen(hint)) != 0)
        fail_msg("%s: got\n%s\nwant the hint\n%s", name, err->text, hint);
}

static void test_rules_in_the_file(void **state) {
    (void)state;
    /* want follows "s.json:" */
    static const struct {
        const char *name;
        enum line line;
        const char *text, *want, *hint;
    } cases[] = {
        { "unknown section", LAYOUT, "\"layuot\": { \"tp\": 2 }",
          "5:1: error: /layuot: unknown key \"layuot\" in \"scenario\"",
          "did you mean \"layout\"?" },
        { "unknown key", LAYOUT, "\"layout\": { \"tp\": 2, \"ppp\": 4 }",
          "5:29: error: /layout/ppp: unknown key \"ppp\" in \"layout\"", "did you mean \"pp\"?" },
        { "unknown key, none near", LAYOUT, "\"layout\": { \"tp\": 2, \"wheels\": 4 }",
          "5:32: error: /layout/wheels: unknown key \"wheels\" in \"layout\"",
          "`ballast check --help` lists the fields of \"layout\"" },
        { "duplicate key", LAYOUT, "\"layout\": { \"tp\": 2, \"pp\": 4, \"tp\": 2 }",
          "5:37: error: /layout/tp: duplicate key \"tp\"", "keep one of the two" },
        { "duplicate section", SIMULATE,
          "\"simulate\": { \"iterations\": 2 }, \"model\": \"llama3-8b\"",
          "8:43: error: /model: duplicate key \"model\"", "keep one of the two" },
        { "wrong type: count", LAYOUT, "\"layout\": { \"tp\": \"2\", \"pp\": 4 }",
          "5:19: error: /layout/tp: must be a whole number, got \"2\"", "tensor parallel degree" },
        { "wrong type: fraction", LAYOUT, "\"layout\": { \"tp\": 2.5, \"pp\": 4 }",
          "5:19: error: /layout/tp: must be a whole number, got 2.5", "tensor parallel degree" },
        { "wrong type: bool", LAYOUT, "\"layout\": { \"tp\": 2, \"pp\": 4, \"sp\": 1 }",
          "5:37: error: /layout/sp: must be true or false, got 1",
          "sequence parallel with TP (no effect at tp 1)" },
        { "wrong type: section", LAYOUT, "\"layout\": [ 2, 4 ]",
          "5:1: error: /layout: \"layout\" must be an object { ... }",
          "how the model is spread over the GPUs" },
        { "null where no default is null", LAYOUT, "\"layout\": { \"tp\": null, \"pp\": 4 }",
          "5:19: error: /layout/tp: must be a whole number, got null", "tensor parallel degree" },
        { "out of range", CLUSTER,
          "\"cluster\": { \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 32, "
          "\"nic_Gbit_per_s_per_gpu\": -4 }",
          "4:85: error: /cluster/nic_Gbit_per_s_per_gpu: must be 0.01 to 100000 Gbit/s, got -4",
          "one-way network bandwidth of a node divided by its GPUs" },
        { "out of range: zero", LAYOUT, "\"layout\": { \"tp\": 0, \"pp\": 4 }",
          "5:19: error: /layout/tp: must be 1 to 1024 ranks, got 0", "tensor parallel degree" },
        { "unknown choice", TRAINING, "\"training\": { \"precision\": \"bf8\" }",
          "6:28: error: /training/precision: unknown precision \"bf8\"",
          "did you mean \"bf16\"? one of: bf16, fp16, fp8, fp32" },
        { "missing section: model", MODEL, "",
          "1:1: error: /: \"model\" is missing from \"scenario\"",
          "what is trained: a model name, or the section `model`" },
        { "missing section: dataset", DATASET, "",
          "1:1: error: /: \"dataset\" is missing from \"scenario\"",
          "what it is trained on: a data-set name, or the section `dataset`" },
        { "missing section: cluster", CLUSTER, "",
          "1:1: error: /: \"cluster\" is missing from \"scenario\"",
          "where: a cluster name, or the section `cluster`" },
        { "missing section: layout", LAYOUT, "",
          "1:1: error: /: \"layout\" is missing from \"scenario\"",
          "how the model is spread over the GPUs: section `layout`" },
        { "missing key", MODEL, "\"model\": { \"frozen\": [] }",
          "2:1: error: /model: \"name\" is missing from \"model\"",
          "a file in scenarios/models, or a path" },
        { "missing key of the cluster", CLUSTER,
          "\"cluster\": { \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 32 }",
          "4:1: error: /cluster: \"nic_Gbit_per_s_per_gpu\" is missing from \"cluster\"",
          "one-way network bandwidth of a node divided by its GPUs" },
        { "section null", MODEL, "\"model\": null",
          "1:1: error: /: \"name\" is missing from \"model\"",
          "a file in scenarios/models, or a path" },
        { "unknown model", MODEL, "\"model\": \"internvl-6b-20\"",
          "2:10: error: /model/name: no model is called 'internvl-6b-20' in scenarios/models",
          "did you mean 'internvl-6b-20b'?" },
        { "unknown model as an object", MODEL,
          "\"model\": { \"frozen\": [], \"name\": \"llama-8b\" }",
          "2:34: error: /model/name: no model is called 'llama-8b' in scenarios/models",
          "did you mean 'llama3-8b'?" },
        { "unknown model path", MODEL, "\"model\": \"models/none.json\"",
          "2:10: error: /model/name: cannot read models/none.json: No such file or directory",
          NULL },
        { "unknown data set", DATASET, "\"dataset\": \"omnibal-rael\"",
          "3:12: error: /dataset/name: no data set \"omnibal-rael\" in scenarios/datasets",
          "did you mean \"omnibal-real\"?" },
        { "unknown data file", DATASET, "\"dataset\": { \"name\": \"nowhere/x.csv\" }",
          "3:22: error: /dataset/name: cannot read nowhere/x.csv: No such file or directory",
          NULL },
        { "unknown hardware", CLUSTER,
          "\"cluster\": { \"gpu_count\": 32, \"nic_Gbit_per_s_per_gpu\": 100, \"hardware\": "
          "\"a100-80g-sxn\" }",
          "4:74: error: /cluster/hardware: no 'a100-80g-sxn.json' in scenarios/hardware",
          "did you mean 'a100-80g-sxm'?" },
        { "unknown cluster", CLUSTER, "\"cluster\": \"omnibal-a100-4x200\"",
          "4:12: error: /cluster/name: no 'omnibal-a100-4x200.json' in scenarios/clusters",
          "did you mean 'omnibal-a100-4x200g'?" },
        { "heads of the language model", LAYOUT, "\"layout\": { \"tp\": 32, \"pp\": 1 }",
          "5:19: error: /layout/tp: tp 32 does not divide the 48 attention heads of InternLM2-20B",
          "tp must divide the heads of every module" },
        { "GPUs not divisible", LAYOUT, "\"layout\": { \"tp\": 2, \"pp\": 3 }",
          "4:55: error: /cluster/gpu_count: 32 GPUs cannot be divided by tp x pp x cp = 6",
          "choose a multiple, or change tp or pp" },
        { "dp wrong", LAYOUT, "\"layout\": { \"tp\": 2, \"pp\": 4, \"dp\": 3 }",
          "5:37: error: /layout/dp: tp x pp x cp x dp = 24, but the cluster has gpu_count 32",
          "leave dp out to derive it" },
        { "nodes not filled", CLUSTER,
          "\"cluster\": { \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 40, \"gpus_per_node\": "
          "16, \"nic_Gbit_per_s_per_gpu\": 100 }",
          "4:55: error: /cluster/gpu_count: 40 GPUs do not fill whole nodes of 16", NULL },
        { "tp straddles nodes", CLUSTER,
          "\"cluster\": { \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 24, \"gpus_per_node\": 3, "
          "\"nic_Gbit_per_s_per_gpu\": 100 }",
          "5:19: error: /layout/tp: tp 2 does not fit nodes of 3 GPUs",
          "tensor parallel groups must not straddle nodes" },
        { "global batch", TRAINING,
          "\"training\": { \"global_batch\": { \"samples\": 65 }, \"micro_batch\": { \"samples\": "
          "4 } }",
          "6:44: error: /training/global_batch/samples: 65 samples do not divide into "
          "micro-batches of 4 on 4 data-parallel ranks",
          "use a multiple of 16" },
        { "global batch as a number", TRAINING,
          "\"training\": { \"global_batch\": 65, \"micro_batch\": 4 }",
          "6:31: error: /training/global_batch: 65 samples do not divide into micro-batches of 4 "
          "on 4 data-parallel ranks",
          "use a multiple of 16" },
        { "global batch, default", TRAINING, "\"training\": { \"micro_batch\": 3 }",
          "6:1: error: /training: 1024 samples do not divide into micro-batches of 3 on 4 "
          "data-parallel ranks",
          "use a multiple of 12" },
        { "micro-batches", TRAINING, "\"training\": { \"global_batch\": { \"micro_batches\": 6 } }",
          "6:50: error: /training/global_batch/micro_batches: 6 micro-batches cannot be dealt to 4 "
          "data-parallel ranks",
          NULL },
        { "batch unit", TRAINING, "\"training\": { \"global_batch\": { \"tokens\": 6 } }",
          "6:43: error: /training/global_batch/tokens: unknown unit \"tokens\" of global_batch",
          "samples or micro_batches" },
        { "micro-batch unit", TRAINING,
          "\"training\": { \"micro_batch\": { \"micro_batches\": 6 } }",
          "6:49: error: /training/micro_batch/micro_batches: unknown unit \"micro_batches\" of "
          "micro_batch",
          "samples" },
        { "batch with two units", TRAINING,
          "\"training\": { \"global_batch\": { \"samples\": 64, \"micro_batches\": 16 } }",
          "6:15: error: /training/global_batch: global_batch has exactly one unit",
          "write the whole object, for example {\"samples\": 4}" },
        { "batch of nothing", TRAINING, "\"training\": { \"global_batch\": { \"samples\": 0 } }",
          "6:44: error: /training/global_batch/samples: must be a whole number from 1 to 1e9",
          NULL },
        { "batch of a text", TRAINING, "\"training\": { \"micro_batch\": { \"samples\": \"4\" } }",
          "6:43: error: /training/micro_batch/samples: must be a whole number from 1 to 1e9",
          NULL },
        { "batch as a list", TRAINING, "\"training\": { \"micro_batch\": [ 4 ] }",
          "6:15: error: /training/micro_batch: micro_batch has exactly one unit",
          "write the whole object, for example {\"samples\": 4}" },
        { "vpp without stages", LAYOUT, "\"layout\": { \"tp\": 2, \"pp\": 1, \"vpp\": 2 }",
          "5:38: error: /layout/vpp: vpp 2 needs more than one pipeline stage", NULL },
        { "cp", LAYOUT, "\"layout\": { \"tp\": 2, \"pp\": 4, \"cp\": 2 }",
          "5:37: error: /layout/cp: context parallelism is not simulated in this version: cp must "
          "be 1",
          NULL },
        { "zero_stage", LAYOUT, "\"layout\": { \"tp\": 2, \"pp\": 4, \"zero_stage\": 3 }",
          "5:45: error: /layout/zero_stage: ZeRO-3 is simulated without a pipeline only: pp must "
          "be 1, "
          "got 4",
          "ZeRO-1 goes with pipelines" },
        { "iterations zero", SIMULATE, "\"simulate\": { \"iterations\": 0 }",
          "8:29: error: /simulate/iterations: must be \"epoch\" or a number of steps from 1 to 1e9",
          "\"epoch\" replays the whole data set" },
        { "iterations text", SIMULATE, "\"simulate\": { \"iterations\": \"all\" }",
          "8:29: error: /simulate/iterations: must be \"epoch\" or a number of steps from 1 to 1e9",
          "\"epoch\" replays the whole data set" },
        { "iterations fraction", SIMULATE, "\"simulate\": { \"iterations\": 1.5 }",
          "8:29: error: /simulate/iterations: must be \"epoch\" or a number of steps from 1 to 1e9",
          "\"epoch\" replays the whole data set" },
        { "seed", SIMULATE, "\"simulate\": { \"seed\": 4294967296 }",
          "8:23: error: /simulate/seed: must be 0 to 4294967295, got 4294967296",
          "of the batching policies; 1024 gives the published streams; drawn data have a seed of "
          "their own" },
        { "tiles", DATASET,
          "\"dataset\": { \"name\": \"omnibal-real\", \"min_tiles\": 9, \"max_tiles\": 8 }",
          "3:51: error: /dataset/min_tiles: min_tiles is above max_tiles", NULL },
        { "pixels", DATASET, "\"dataset\": { \"name\": \"omnibal-real\", \"max_pixels\": 3135 }",
          "3:1: error: /dataset: min_pixels is above max_pixels", NULL },
        { "frozen: unknown role", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"frozen\": [ \"vision\", \"head\" ] }",
          "2:61: error: /model/frozen/1: unknown module \"head\"",
          "one of: vision, connector, language" },
        { "frozen: absent module", MODEL,
          "\"model\": { \"name\": \"llama3-8b\", \"frozen\": [ \"vision\" ] }",
          "2:45: error: /model/frozen/0: model \"llama3-8b\" has no module \"vision\"", NULL },
        { "frozen: everything", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"frozen\": [ \"vision\", \"connector\", "
          "\"language\" ] }",
          "2:39: error: /model/frozen: every module is frozen: nothing is left to train", NULL },
        { "frozen: a text", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"frozen\": \"vision\" }",
          "2:49: error: /model/frozen: must be a list of modules", "for example [\"vision\"]" },
        { "frozen: a number", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"frozen\": [ 1 ] }",
          "2:51: error: /model/frozen/0: must be the name of a module",
          "one of: vision, connector, language" },
        { "precision of a module: unknown", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"precision\": { \"vision\": \"fp7\" } }",
          "2:64: error: /model/precision/vision: unknown precision \"fp7\"",
          "one of: bf16, fp16, fp8, fp32" },
        { "precision of a module: a number", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"precision\": { \"vision\": 8 } }",
          "2:64: error: /model/precision/vision: must be the name of a precision",
          "one of: bf16, fp16, fp8, fp32" },
        { "precision of a module: unknown role", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"precision\": { \"vison\": \"bf16\" } }",
          "2:63: error: /model/precision/vison: unknown module \"vison\"",
          "one of: vision, connector, language" },
        { "precision of a module: a text", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"precision\": \"bf16\" }",
          "2:52: error: /model/precision: must be an object of module and precision",
          "for example {\"vision\": \"fp8\"}" },
        { "precision of a module: GPU lacks it", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"precision\": { \"language\": \"fp8\" } }",
          "2:66: error: /model/precision/language: a100-80g-sxm cannot compute in fp8", NULL },
        { "precision: GPU lacks it", TRAINING, "\"training\": { \"precision\": \"fp8\" }",
          "6:28: error: /training/precision: a100-80g-sxm cannot compute in fp8", NULL },
        { "policy: unknown batching", POLICY, "\"policy\": { \"batching\": \"iff\" }",
          "7:25: error: /policy/batching: unknown batching policy \"iff\"",
          "did you mean \"isf\"?" },
        { "policy: unknown batching as an object", POLICY,
          "\"policy\": { \"batching\": { \"qv\": 9, \"name\": \"iff\" } }",
          "7:44: error: /policy/batching/name: unknown batching policy \"iff\"",
          "did you mean \"isf\"?" },
        { "policy: unknown, none near", POLICY, "\"policy\": { \"batching\": \"wheels\" }",
          "7:25: error: /policy/batching: unknown batching policy \"wheels\"",
          "docs/SCENARIOS.md lists the policies" },
        { "policy: unknown partition", POLICY, "\"policy\": { \"partition\": \"encoder-frist\" }",
          "7:26: error: /policy/partition: unknown partition policy \"encoder-frist\"",
          "did you mean \"encoder-first\"?" },
        { "policy: unknown recompute", POLICY, "\"policy\": { \"recompute\": \"ful\" }",
          "7:26: error: /policy/recompute: unknown recompute policy \"ful\"",
          "did you mean \"full\"?" },
        { "policy: unknown schedule", POLICY, "\"policy\": { \"schedule\": \"1f1\" }",
          "7:25: error: /policy/schedule: unknown schedule policy \"1f1\"",
          "did you mean \"1f1b\"?" },
        { "policy: unknown kind", POLICY, "\"policy\": { \"batch\": \"isf\" }",
          "7:22: error: /policy/batch: unknown key \"batch\" in \"policy\"",
          "did you mean \"batching\"?" },
        { "policy: name missing", POLICY, "\"policy\": { \"batching\": { \"qv\": 9 } }",
          "7:13: error: /policy/batching: \"name\" is missing from the batching policy",
          "for example {\"name\": \"isf\", \"qv\": 9}" },
        { "policy: a number", POLICY, "\"policy\": { \"schedule\": 1 }",
          "7:25: error: /policy/schedule: a schedule policy is a name, or an object with a name",
          NULL },
        { "policy: unknown parameter, name first", POLICY,
          "\"policy\": { \"batching\": { \"name\": \"isf\", \"qv\": 9, \"qx\": 3 } }",
          "7:57: error: /policy/batching/qx: unknown key \"qx\" in \"isf\"",
          "did you mean \"qv\"?" },
        { "policy: unknown parameter, name last", POLICY,
          "\"policy\": { \"batching\": { \"qx\": 3, \"qv\": 9, \"name\": \"isf\" } }",
          "7:33: error: /policy/batching/qx: unknown key \"qx\" in \"isf\"",
          "did you mean \"qv\"?" },
        { "policy: parameter out of range", POLICY,
          "\"policy\": { \"batching\": { \"name\": \"isf\", \"qv\": 9, \"iterations\": 0 } }",
          "7:65: error: /policy/batching/iterations: must be 1 to 1000000 passes, got 0",
          "sampling passes T; the first T-1 are filtered" },
        { "policy: parameter of the wrong type", POLICY,
          "\"policy\": { \"batching\": { \"name\": \"isf\", \"qv\": \"nine\" } }",
          "7:48: error: /policy/batching/qv: must be a whole number, got \"nine\"",
          "most vision tiles (native resolution: patches) in a group" },
        { "policy: parameter missing", POLICY,
          "\"policy\": { \"recompute\": { \"name\": \"uniform\" } }",
          "7:13: error: /policy/recompute: \"blocks_per_stage\" is missing from \"uniform\"",
          "blocks of each stage that recompute, counted from its first" },
        { "policy: parameters missing, a text", POLICY, "\"policy\": { \"partition\": \"manual\" }",
          "7:26: error: /policy/partition: policy \"manual\" needs \"blocks\"",
          "write {\"name\": \"manual\", \"blocks\": ...}: list of transformer blocks per stage, "
          "for example [22, 23, 24, 24]" },
        { "policy: has no parameters", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"layer\", \"method\": \"greedy\" } }",
          "7:55: error: /policy/partition/method: policy \"layer\" has no parameters", NULL },
        { "policy: schedule has no parameters", POLICY,
          "\"policy\": { \"schedule\": { \"chunks\": 2, \"name\": \"1f1b\" } }",
          "7:37: error: /policy/schedule/chunks: policy \"1f1b\" has no parameters", NULL },
        { "policy: choice", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"parameter\", \"method\": \"minmax\" } }",
          "7:59: error: /policy/partition/method: unknown method \"minmax\"",
          "did you mean \"min-max\"? one of: greedy, min-max" },
        { "manual: too few stages", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"manual\", \"blocks\": [ 46, 47 ] } }",
          "7:13: error: /policy/partition: blocks must be a list of 4 numbers, one per pipeline "
          "stage",
          NULL },
        { "manual: not a list", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"manual\", \"blocks\": 93 } }",
          "7:13: error: /policy/partition: blocks must be a list of 4 numbers, one per pipeline "
          "stage",
          NULL },
        { "manual: an empty stage", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"manual\", \"blocks\": [ 57, 12, 24, 0 ] } }",
          "7:13: error: /policy/partition: each stage needs a whole number of blocks, at least 1",
          NULL },
        { "manual: half a block", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"manual\", \"blocks\": [ 57, 12, 11.5, 12.5 ] "
          "} }",
          "7:13: error: /policy/partition: each stage needs a whole number of blocks, at least 1",
          NULL },
        { "manual: a wrong sum", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"manual\", \"blocks\": [ 57, 12, 12, 13 ] } }",
          "7:13: error: /policy/partition: the stages hold 94 blocks, the model has 93", NULL },
        { "stages: too many", POLICY,
          "\"policy\": { \"recompute\": { \"name\": \"stages\", \"blocks\": [ 1, 2, 3, 4, 5 ] } }",
          "7:13: error: /policy/recompute: blocks must be a list of 4 numbers, one per pipeline "
          "stage",
          NULL },
        { "stages: negative", POLICY,
          "\"policy\": { \"recompute\": { \"name\": \"stages\", \"blocks\": [ 1, 2, 3, -4 ] } }",
          "7:13: error: /policy/recompute: each stage needs a whole number of recomputing blocks, "
          "at least 0",
          NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        write_lines(cases[i].line, cases[i].text);
        struct scenario *s = load(NULL, &err);
        if (s != NULL) fail_msg("%s: is accepted", cases[i].name);
        char want[512];
        snprintf(want, sizeof want, "s.json:%s", cases[i].want);
        check_message(cases[i].name, &err, want, cases[i].hint);
    }
}

static void test_rules_in_overrides(void **state) {
    (void)state;
    static const struct {
        const char *name;
        const char *overrides[5];
        const char *want, *hint;
    } cases[] = {
        { "unknown key",
          { "layout.tpp=4" },
          "--set layout.tpp=4: /layout/tpp: unknown key \"tpp\" in \"layout\"",
          "did you mean \"tp\"?" },
        { "unknown section",
          { "layuot.tp=4" },
          "--set layuot.tp=4: /layuot: unknown key \"layuot\" in \"scenario\"",
          "did you mean \"layout\"?" },
        { "wrong type",
          { "layout.tp=two" },
          "--set layout.tp=two: /layout/tp: must be a whole number, got \"two\"",
          "tensor parallel degree" },
        { "out of range",
          { "layout.tp=0" },
          "--set layout.tp=0: /layout/tp: must be 1 to 1024 ranks, got 0",
          "tensor parallel degree" },
        { "fraction",
          { "cluster.nic_efficiency_fraction=1.5" },
          "--set cluster.nic_efficiency_fraction=1.5: /cluster/nic_efficiency_fraction: must be "
          "0.01 to 1, got 1.5",
          "of the NIC rate that a collective reaches" },
        { "null",
          { "layout.tp=null" },
          "--set layout.tp=null: /layout/tp: must be a whole number, got null",
          "tensor parallel degree" },
        { "unknown model",
          { "model=internvl-6b-20" },
          "--set model=internvl-6b-20: /model/name: no model is called 'internvl-6b-20' in "
          "scenarios/models",
          "did you mean 'internvl-6b-20b'?" },
        { "unknown model in a section made of a text",
          { "model.name=internvl-6b-20" },
          "--set model.name=internvl-6b-20: /model/name: no model is called 'internvl-6b-20' in "
          "scenarios/models",
          "did you mean 'internvl-6b-20b'?" },
        { "unknown data set",
          { "dataset=omnibal-rael" },
          "--set dataset=omnibal-rael: /dataset/name: no data set \"omnibal-rael\" in "
          "scenarios/datasets",
          "did you mean \"omnibal-real\"?" },
        { "unknown hardware",
          { "cluster.hardware=a100-80g-sxn" },
          "--set cluster.hardware=a100-80g-sxn: /cluster/hardware: no 'a100-80g-sxn.json' in "
          "scenarios/hardware",
          "did you mean 'a100-80g-sxm'?" },
        { "unknown cluster",
          { "cluster=omnibal-a100-4x200" },
          "--set cluster=omnibal-a100-4x200: /cluster/name: no 'omnibal-a100-4x200.json' in "
          "scenarios/clusters",
          "did you mean 'omnibal-a100-4x200g'?" },
        { "heads",
          { "layout.tp=32", "layout.pp=1" },
          "--set layout.tp=32: /layout/tp: tp 32 does not divide the 48 attention heads of "
          "InternLM2-20B",
          "tp must divide the heads of every module" },
        { "ffn width",
          { "model=llava-1.6-13b", "layout.tp=5", "cluster.gpu_count=20",
            "cluster.gpus_per_node=5" },
          "--set layout.tp=5: /layout/tp: tp 5 does not divide the ffn width 4096 of CLIP "
          "ViT-L/14-336",
          NULL },
        { "stages above blocks",
          { "layout.pp=128", "cluster.gpu_count=256" },
          "--set layout.pp=128: /layout/pp: 128 stages need at least as many layers, "
          "internvl-6b-20b has 93",
          NULL },
        { "GPUs not divisible: tp",
          { "layout.tp=3" },
          "--set layout.tp=3: /layout/tp: 32 GPUs cannot be divided by tp x pp x cp = 12",
          "choose a multiple, or change tp or pp" },
        { "GPUs not divisible: gpu_count",
          { "cluster.gpu_count=30" },
          "--set cluster.gpu_count=30: /cluster/gpu_count: 30 GPUs cannot be divided by tp x pp x "
          "cp = 8",
          "choose a multiple, or change tp or pp" },
        { "dp",
          { "layout.dp=3" },
          "--set layout.dp=3: /layout/dp: tp x pp x cp x dp = 24, but the cluster has gpu_count 32",
          "leave dp out to derive it" },
        { "nodes not filled",
          { "cluster.gpus_per_node=20" },
          "--set cluster.gpus_per_node=20: /cluster/gpus_per_node: 32 GPUs do not fill whole nodes "
          "of 20",
          NULL },
        { "tp straddles nodes",
          { "cluster.gpu_count=24", "cluster.gpus_per_node=3" },
          "--set cluster.gpus_per_node=3: /cluster/gpus_per_node: tp 2 does not fit nodes of 3 "
          "GPUs",
          "tensor parallel groups must not straddle nodes" },
        { "tp above a node",
          { "layout.tp=16", "cluster.gpu_count=48", "cluster.gpus_per_node=12", "layout.pp=3" },
          "--set layout.tp=16: /layout/tp: tp 16 does not fit nodes of 12 GPUs",
          "tensor parallel groups must not straddle nodes" },
        { "global batch",
          { "training.global_batch.samples=65" },
          "--set training.global_batch.samples=65: /training/global_batch/samples: 65 samples do "
          "not divide into micro-batches of 4 on 4 data-parallel ranks",
          "use a multiple of 16" },
        { "micro-batch",
          { "training.micro_batch=5" },
          "--set training.micro_batch=5: /training/micro_batch: 64 samples do not divide into "
          "micro-batches of 5 on 4 data-parallel ranks",
          "use a multiple of 20" },
        { "dp that does not divide the batch",
          { "cluster.gpu_count=24" },
          "--set cluster.gpu_count=24: /cluster/gpu_count: 64 samples do not divide into "
          "micro-batches of 4 on 3 data-parallel ranks",
          "use a multiple of 12" },
        { "batch unit",
          { "training.global_batch={\"tokens\":65}" },
          "--set training.global_batch={\"tokens\":65}: /training/global_batch/tokens: unknown "
          "unit \"tokens\" of global_batch",
          "samples or micro_batches" },
        { "vpp in a schedule without chunks",
          { "layout.vpp=2", "policy.schedule=gpipe" },
          "--set layout.vpp=2: /layout/vpp: schedule \"gpipe\" runs one chunk a stage, vpp asks "
          "for 2",
          "\"policy\": { \"schedule\": \"interleaved\" }" },
        { "cp",
          { "layout.cp=2" },
          "--set layout.cp=2: /layout/cp: context parallelism is not simulated in this version: cp "
          "must be 1",
          NULL },
        { "zero_stage",
          { "layout.zero_stage=2" },
          "--set layout.zero_stage=2: /layout/zero_stage: ZeRO-2 is simulated without a pipeline "
          "only: "
          "pp must be 1, got 4",
          "ZeRO-1 goes with pipelines" },
        { "iterations",
          { "simulate.iterations=-1" },
          "--set simulate.iterations=-1: /simulate/iterations: must be \"epoch\" or a number of "
          "steps from 1 to 1e9",
          "\"epoch\" replays the whole data set" },
        { "frozen",
          { "model.frozen=[\"all\"]" },
          "--set model.frozen=[\"all\"]: /model/frozen/0: unknown module \"all\"",
          "one of: vision, connector, language" },
        { "frozen: absent module",
          { "model=llama3-8b", "model.frozen=[\"connector\"]" },
          "--set model.frozen=[\"connector\"]: /model/frozen/0: model \"llama3-8b\" has no module "
          "\"connector\"",
          NULL },
        { "frozen: everything",
          { "model=llama3-8b", "model.frozen=[\"language\"]" },
          "--set model.frozen=[\"language\"]: /model/frozen: every module is frozen: nothing is "
          "left to train",
          NULL },
        { "precision of a module",
          { "model.precision.vision=fp8" },
          "--set model.precision.vision=fp8: /model/precision/vision: a100-80g-sxm cannot compute "
          "in fp8",
          NULL },
        { "precision",
          { "training.precision=fp8" },
          "--set training.precision=fp8: /training/precision: a100-80g-sxm cannot compute in fp8",
          NULL },
        { "hardware without the precision",
          { "cluster.hardware=h100-80g-sxm", "training.precision=fp8",
            "cluster.hardware=a100-80g-sxm" },
          "--set training.precision=fp8: /training/precision: a100-80g-sxm cannot compute in fp8",
          NULL },
        { "policy",
          { "policy.batching=iff" },
          "--set policy.batching=iff: /policy/batching: unknown batching policy \"iff\"",
          "did you mean \"isf\"?" },
        { "policy parameter",
          { "policy.batching.qx=1" },
          "--set policy.batching.qx=1: /policy/batching/qx: unknown key \"qx\" in \"isf\"",
          "did you mean \"qv\"?" },
        { "policy parameter out of range",
          { "policy.batching.qt=0" },
          "--set policy.batching.qt=0: /policy/batching/qt: must be 1 to 1000000000 tokens, got 0",
          "most language tokens in a group" },
        { "policy parameter missing",
          { "policy.recompute=uniform" },
          "--set policy.recompute=uniform: /policy/recompute: policy \"uniform\" needs "
          "\"blocks_per_stage\"",
          "write {\"name\": \"uniform\", \"blocks_per_stage\": ...}: blocks of each stage that "
          "recompute, counted from its first" },
        { "policy without parameters",
          { "policy.partition={\"name\":\"layer\",\"x\":1}" },
          "--set policy.partition={\"name\":\"layer\",\"x\":1}: /policy/partition/x: policy "
          "\"layer\" has no parameters",
          NULL },
        { "manual",
          { "policy.partition={\"name\":\"manual\",\"blocks\":[1,2,3,4]}" },
          "--set policy.partition={\"name\":\"manual\",\"blocks\":[1,2,3,4]}: /policy/partition: "
          "the stages hold 10 blocks, the model has 93",
          NULL },
        { "manual after another pp",
          { "policy.partition={\"name\":\"manual\",\"blocks\":[46,47]}", "layout.pp=4" },
          "--set policy.partition={\"name\":\"manual\",\"blocks\":[46,47]}: /policy/partition: "
          "blocks must be a list of 4 numbers, one per pipeline stage",
          NULL },
        { "duplicate key in the value",
          { "layout={\"tp\":1,\"tp\":2}" },
          "--set layout={\"tp\":1,\"tp\":2}: /layout/tp: duplicate key \"tp\"",
          "keep one of the two" },
        { "no value",
          { "layout.tp" },
          "--set layout.tp: expected path=value, for example layout.tp=4",
          NULL },
        { "empty part",
          { "layout..tp=1" },
          "--set layout..tp=1: the path has an empty part",
          NULL },
        { "below a number",
          { "layout.tp.x=1" },
          "--set layout.tp.x=1: \"tp\" has nothing below it that could be set",
          NULL },
        { "item of a list",
          { "model={\"name\":\"internvl-6b-20b\",\"frozen\":[]}", "model.frozen.0=vision" },
          "--set model.frozen.0=vision: the list has no item \"0\"",
          NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        write_lines(MODEL, NULL);
        struct scenario *s = load(cases[i].overrides, &err);
        if (s != NULL) fail_msg("%s: is accepted", cases[i].name);
        check_message(cases[i].name, &err, cases[i].want, cases[i].hint);
    }
}

static void test_files_that_are_no_scenario(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *want, *hint;
    } cases[] = {
        { "empty", "",
          "s.json:1:1: error: the JSON text ends too early: a value, bracket or quote is missing",
          NULL },
        { "cut short", "{ \"model\": \"x\",",
          "s.json:1:16: error: the JSON text ends too early: a value, bracket or quote is missing",
          NULL },
        { "a comment", "{\n  // why\n  \"model\": \"x\" }",
          "s.json:2:3: error: JSON has no comments", NULL },
        { "a list", "[]", "s.json:1:1: error: /: \"scenario\" must be an object { ... }",
          "a JSON object" },
        { "a number", "7", "s.json:1:1: error: /: \"scenario\" must be an object { ... }",
          "a JSON object" },
        { "null", "null", "s.json:1:1: error: /: \"scenario\" must be an object { ... }",
          "a JSON object" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        write_text(cases[i].text);
        if (load(NULL, &err) != NULL) fail_msg("%s: is accepted", cases[i].name);
        check_message(cases[i].name, &err, cases[i].want, cases[i].hint);
    }
    struct error err = { 0 };
    struct scenario_options options = { SCENARIOS, NULL };
    assert_null(scenario_load(&options, "none.json", &err));
    assert_string_equal(err.text, "cannot read none.json: No such file or directory");
    assert_null(scenario_load(&options, ".", &err));
    assert_string_equal(err.text, "cannot read .: it is not a file");
}

/* ---- what is accepted ---- */

static void test_defaults(void **state) {
    (void)state;
    struct scenario *s = load_valid(POLICY, "\"policy\": null", NULL);
    assert_string_equal(s->name, "s");
    assert_null(s->description);
    assert_string_equal(s->batching.name, "random");
    assert_string_equal(s->partition.name, "layer");
    assert_string_equal(s->recompute.name, "none");
    assert_string_equal(s->schedule.name, "1f1b");
    assert_string_equal(s->backend->name, "megatron-lm");
    assert_string_equal(s->optimizer->name, "adamw");
    assert_int_equal(s->layout.dp, 4);
    assert_int_equal(s->layout.zero_stage, 1);
    assert_int_equal(s->layout.gpus_per_node, 8);
    assert_true(s->layout.sequence_parallel);
    assert_int_equal(s->micro_batch_samples, 4);
    assert_int_equal(s->micro_batches_per_rank, 4);
    assert_int_equal(s->iteration_limit, 2);
    assert_int_equal(s->simulate_fields.seed, 1024);
    assert_int_equal(s->training_fields.epochs, 1);
    assert_true(isnan(s->cluster_fields.price_usd_per_gpu_hour));
    scenario_destroy(s);
}

static bool assumes(const struct scenario *s, const char *text) {
    for (int64_t i = 0; s->assumptions[i] != NULL; i++)
        if (strcmp(s->assumptions[i], text) == 0) return true;
    return false;
}

static void test_assumptions(void **state) {
    (void)state;
    static const struct {
        const char *name, *overrides[4], *text;
        bool want;
    } cases[] = {
        { "InternViT's 25 heads",
          { NULL },
          "the 25 heads of InternViT-6B-448px are padded to a multiple of tp 2",
          true },
        { "tp 1 pads nothing",
          { "layout.tp=1" },
          "the 25 heads of InternViT-6B-448px are padded to a multiple of tp 1",
          false },
        { "micro_batch not given", { "training={}" }, "micro_batch: 1 sample (not given)", true },
        { "micro_batch given", { NULL }, "micro_batch: 1 sample (not given)", false },
        { "global_batch not given",
          { "training={}" },
          "global_batch: 1024 samples (not given)",
          true },
        { "sends",
          { "layout.backend=megatron-deepspeed" },
          "a stage waits for its sends to finish before it computes on (backend "
          "megatron-deepspeed)",
          true },
        { "no stages, no sends",
          { "layout.backend=megatron-deepspeed", "layout.pp=1" },
          "a stage waits for its sends to finish before it computes on (backend "
          "megatron-deepspeed)",
          false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(MODEL, NULL, cases[i].overrides);
        bool got = assumes(s, cases[i].text);
        if (got != cases[i].want)
            fail_msg("%s: %s (the first is: %s)", cases[i].name, got ? "assumed" : "not assumed",
                     s->assumptions[0]);
        scenario_destroy(s);
    }
}

static void test_batches(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t micro_batch_samples, micro_batches_per_rank;
    } cases[] = {
        /* dp is 4 */
        { "\"training\": { \"global_batch\": 32 }", 1, 8 },
        { "\"training\": { \"global_batch\": 32, \"micro_batch\": 2 }", 2, 4 },
        { "\"training\": { \"global_batch\": { \"micro_batches\": 32 }, \"micro_batch\": 2 }", 2,
          8 },
        { "\"training\": { \"micro_batch\": { \"samples\": 8 } }", 8, 32 },
        { "\"training\": null", 1, 256 },
        { "\"training\": { \"global_batch\": null, \"micro_batch\": null }", 1, 256 }
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(TRAINING, cases[i].text, NULL);
        if (s->micro_batch_samples != cases[i].micro_batch_samples ||
            s->micro_batches_per_rank != cases[i].micro_batches_per_rank)
            fail_msg("%s: got %ld samples, %ld micro-batches", cases[i].text,
                     (long)s->micro_batch_samples, (long)s->micro_batches_per_rank);
        scenario_destroy(s);
    }
}

static void test_a_tp_group_may_span_whole_nodes(void **state) {
    (void)state;
    struct scenario *s =
        load_valid(MODEL, NULL, (const char *const[]){ "layout.tp=16", "layout.pp=1", NULL });
    assert_int_equal(s->layout.tp, 16);
    assert_int_equal(s->layout.dp, 2);
    scenario_destroy(s);
}

static void test_frozen_modules_and_precisions(void **state) {
    (void)state;
    struct scenario *s = load_valid(
        MODEL,
        "\"model\": { \"name\": \"internvl-6b-20b\", \"frozen\": [ \"vision\", \"vision\" ], "
        "\"precision\": { \"vision\": \"fp8\" } }",
        (const char *const[]){ "cluster.hardware=h100-80g-sxm", "training.precision=fp16", NULL });
    assert_true(s->model->modules[MODULE_VISION].frozen);
    assert_false(s->model->modules[MODULE_LANGUAGE].frozen);
    assert_int_equal(s->model->modules[MODULE_VISION].precision, PRECISION_FP8);
    assert_int_equal(s->model->modules[MODULE_LANGUAGE].precision, PRECISION_FP16);
    assert_int_equal(s->model->modules[MODULE_CONNECTOR].precision, PRECISION_FP16);
    scenario_destroy(s);
}

static void test_policy_parameters(void **state) {
    (void)state;
    struct scenario *s = load_valid(
        POLICY,
        "\"policy\": { \"batching\": { \"qv\": 12, \"name\": \"isf\" }, \"partition\": { \"name\": "
        "\"manual\", \"blocks\": [ 57, 12, 12, 12 ] }, \"recompute\": { \"name\": \"uniform\", "
        "\"blocks_per_stage\": 3 } }",
        (const char *const[]){ "policy.batching.qt=2048", NULL });
    assert_string_equal(s->batching.name, "isf");
    cJSON *resolved = scenario_resolved(s);
    char *policy = cJSON_PrintUnformatted(cJSON_GetObjectItem(resolved, "policy"));
    assert_string_equal(
        policy, "{\"batching\":{\"name\":\"isf\",\"qv\":12,\"qt\":2048,\"vision_threshold\":null,"
                "\"llm_threshold\":null,\"threshold_rule\":\"code\",\"leftovers\":\"keep\","
                "\"iterations\":10,"
                "\"rng\":\"numpy\",\"sampler\":\"block\",\"sampler_seed\":null},"
                "\"partition\":{\"name\":\"manual\",\"blocks\":[57,12,12,12]},"
                "\"recompute\":{\"name\":\"uniform\",\"blocks_per_stage\":3},"
                "\"schedule\":{\"name\":\"1f1b\"}}");
    cJSON_free(policy);
    cJSON_Delete(resolved);
    scenario_destroy(s);
}

/* A name takes the file's values; what the section says itself goes before. */
static void test_cluster_by_name(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *override;
        int64_t gpu_count, nics_per_node;
        double nic_Gbit_per_s_per_gpu, nic_latency_us;
        const char *hardware;
    } cases[] = {
        { "a bare string", "\"cluster\": \"omnibal-a100-4x200g\"", NULL, 32, 4, 100, 10,
          "a100-80g-sxm" },
        { "a section", "\"cluster\": { \"name\": \"omnibal-a100-4x200g\" }", NULL, 32, 4, 100, 10,
          "a100-80g-sxm" },
        { "values of its own",
          "\"cluster\": { \"gpu_count\": 64, \"name\": \"omnibal-a100-4x200g\", "
          "\"nic_latency_us\": "
          "0, \"hardware\": \"a800-80g-sxm\" }",
          NULL, 64, 4, 100, 0, "a800-80g-sxm" },
        { "an override of a bare string", "\"cluster\": \"omnibal-a100-4x200g\"",
          "cluster.gpu_count=16", 16, 4, 100, 10, "a100-80g-sxm" },
        { "an override by a name", "\"cluster\": \"omnibal-a100-4x200g\"",
          "cluster=omnibal-a100-2x200g", 32, 2, 50, 10, "a100-80g-sxm" },
        { "a name of one's own",
          "\"cluster\": { \"name\": \"mine\", \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 8, "
          "\"nic_Gbit_per_s_per_gpu\": 200 }",
          NULL, 8, 0, 200, 5, "a100-80g-sxm" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *overrides[] = { cases[i].override, NULL };
        struct scenario *s = load_valid(CLUSTER, cases[i].text, overrides);
        const struct scenario_cluster *c = &s->cluster_fields;
        if (c->gpu_count != cases[i].gpu_count || c->nics_per_node != cases[i].nics_per_node ||
            fabs(c->nic_Gbit_per_s_per_gpu - cases[i].nic_Gbit_per_s_per_gpu) > 1e-9 ||
            fabs(c->nic_latency_us - cases[i].nic_latency_us) > 1e-9 ||
            strcmp(c->hardware, cases[i].hardware) != 0)
            fail_msg("%s: got %ld GPUs, %ld NICs, %g Gbit/s, %g us, %s", cases[i].name,
                     (long)c->gpu_count, (long)c->nics_per_node, c->nic_Gbit_per_s_per_gpu,
                     c->nic_latency_us, c->hardware);
        scenario_destroy(s);
    }
}

static void test_names_and_descriptions(void **state) {
    (void)state;
    struct scenario *s =
        load_valid(SIMULATE, "\"name\": \"a \\\"name\\\" \\u00e9\", \"description\": \"\"", NULL);
    assert_string_equal(s->name, "a \"name\" \xc3\xa9");
    assert_string_equal(s->description, "");
    assert_int_equal(s->iteration_limit, 0);
    scenario_destroy(s);
}

/* ---- the resolved scenario ---- */

static char *resolved_text(const struct scenario *s) {
    cJSON *resolved = scenario_resolved(s);
    char *text = cJSON_Print(resolved);
    cJSON_Delete(resolved);
    return text;
}

/* The resolved scenario, read as a scenario, resolves to itself and means the same job. */
static void check_round_trip(const char *name, const struct scenario *s) {
    char *text = resolved_text(s);
    write_text(text);
    struct error err = { 0 };
    struct scenario *again = load(NULL, &err);
    if (again == NULL) fail_msg("%s: resolved: %s", name, err.text);
    char *second = resolved_text(again);
    if (strcmp(text, second) != 0)
        fail_msg("%s: resolves to\n%s\nand that to\n%s", name, text, second);
    if (memcmp(&s->layout, &again->layout, sizeof s->layout) != 0 ||
        s->micro_batches_per_rank != again->micro_batches_per_rank ||
        s->micro_batch_samples != again->micro_batch_samples ||
        s->iteration_limit != again->iteration_limit ||
        model_parameters(s->model) != model_parameters(again->model) ||
        strcmp(cost_model_profile_id(s->cost_model), cost_model_profile_id(again->cost_model)) != 0)
        fail_msg("%s: the resolved scenario is another job", name);
    cJSON_free(text);
    cJSON_free(second);
    scenario_destroy(again);
}

static int64_t round_trip_folder(const char *path) {
    DIR *directory = opendir(path);
    if (directory == NULL) fail_msg("cannot open %s", path);
    int64_t count = 0;
    for (struct dirent *e = readdir(directory); e != NULL; e = readdir(directory)) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        size_t length = strlen(e->d_name);
        struct stat status;
        if (e->d_name[0] == '.' || stat(file, &status) != 0) continue;
        if (S_ISDIR(status.st_mode)) {
            count += round_trip_folder(file);
            continue;
        }
        /* NAME.table.json lists scenarios; it is none. */
        if (length < 5 || strcmp(e->d_name + length - 5, ".json") != 0) continue;
        if (strstr(e->d_name, ".table.") != NULL) continue;
        struct scenario_options options = { SCENARIOS, NULL };
        struct error err = { 0 };
        struct scenario *s = scenario_load(&options, file, &err);
        if (s == NULL) fail_msg("%s: %s", file, err.text);
        check_round_trip(file, s);
        scenario_destroy(s);
        count++;
    }
    closedir(directory);
    return count;
}

static void test_shipped_scenarios_round_trip(void **state) {
    (void)state;
    assert_true(round_trip_folder(SCENARIOS "/examples") >= 2);
    assert_true(round_trip_folder(SCENARIOS "/papers") >= 8);
}

static void test_odd_scenarios_round_trip(void **state) {
    (void)state;
    static const struct {
        const char *name, *overrides[6];
    } cases[] = {
        { "base", { NULL } },
        { "no batches", { "training={}" } },
        { "micro-batches", { "training={\"global_batch\":{\"micro_batches\":8}}" } },
        { "fractions",
          { "cluster.nic_efficiency_fraction=0.1", "cluster.nic_latency_us=0.30000000000000004",
            "cluster.price_usd_per_gpu_hour=1e-7" } },
        { "cluster by name", { "cluster=omnibal-a100-4x200g", "cluster.nic_latency_us=3.7" } },
        { "cluster of one's own", { "cluster.name=mine" } },
        { "frozen", { "model.frozen=[\"vision\"]" } },
        { "precisions",
          { "cluster.hardware=h100-80g-sxm", "model.precision.vision=fp8",
            "training.precision=fp16" } },
        { "policies",
          { "policy.recompute={\"name\":\"stages\",\"blocks\":[3,2,0,0]}",
            "policy.partition={\"name\":\"parameter\",\"method\":\"min-max\"}",
            "policy.schedule=gpipe", "policy.batching.llm_threshold=0" } },
        { "native",
          { "model=qwen2-vl-7b", "dataset.tiling=native", "dataset.max_pixels=1000000" } },
        { "epoch", { "simulate.iterations=epoch", "simulate.seed=4294967295" } },
        { "texts", { "name=a \"b\" \xc3\xa9 \\", "description=", "layout.sp=false" } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(MODEL, NULL, cases[i].overrides);
        check_round_trip(cases[i].name, s);
        scenario_destroy(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_in_the_file),
        cmocka_unit_test(test_rules_in_overrides),
        cmocka_unit_test(test_files_that_are_no_scenario),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_assumptions),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_a_tp_group_may_span_whole_nodes),
        cmocka_unit_test(test_frozen_modules_and_precisions),
        cmocka_unit_test(test_policy_parameters),
        cmocka_unit_test(test_cluster_by_name),
        cmocka_unit_test(test_names_and_descriptions),
        cmocka_unit_test(test_shipped_scenarios_round_trip),
        cmocka_unit_test(test_odd_scenarios_round_trip),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
