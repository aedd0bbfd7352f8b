/* cmd_model.c - `model show`: what a model is made of; `model import`: a Hugging Face
 * config.json. */
#include <string.h>
#include "sim/base/output_draft.h"
#include "sim/base/field.h"
#include "sim/cli/cli.h"
#include "sim/model/huggingface.h"

struct model_options {
    const char *output, *name;
};

#define AT(member) offsetof(struct model_options, member)
static const struct option options_table[] = {
    { "output", OPTION_OUTPUT, AT(output), "FILE",
      "import: the model file to write, .json (also -o); default stdout", NULL, 0, 0 },
    { "name", OPTION_TEXT, AT(name), "NAME", "import: the model's name (default: from the config)",
      NULL, 0, 0 },
};

static const char *const verbs[] = { "import", "show", NULL };

static int64_t left_out_parameters(const struct huggingface_model *imported) {
    int64_t sum = 0;
    for (int64_t i = 0; i < imported->left_out_count; i++)
        sum += imported->left_out[i].parameters;
    return sum;
}

/* ---- what a model is made of ---- */

static cJSON *module_json(const struct model *model, enum module_role role) {
    const struct module *m = &model->modules[role];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "role", module_role_name(role));
    cJSON_AddStringToObject(o, "name", m->name);
    cJSON_AddNumberToObject(o, "parameters", (double)module_parameters(model, role));
    if (role == MODULE_CONNECTOR) {
        cJSON_AddNumberToObject(o, "in", (double)m->connector_in);
        cJSON_AddNumberToObject(o, "inner", (double)m->connector_inner);
        cJSON_AddNumberToObject(o, "out", (double)m->connector_out);
        return o;
    }
    cJSON_AddNumberToObject(o, "layer_count", (double)m->layer_count);
    cJSON_AddNumberToObject(o, "hidden", (double)m->hidden);
    cJSON_AddNumberToObject(o, "ffn_hidden", (double)m->ffn_hidden);
    cJSON_AddNumberToObject(o, "heads", (double)m->heads);
    cJSON_AddNumberToObject(o, "kv_heads", (double)m->kv_heads);
    cJSON_AddNumberToObject(o, "head_dim", (double)m->head_dim);
    if (role == MODULE_LANGUAGE) {
        cJSON_AddNumberToObject(o, "vocabulary", (double)m->vocabulary);
        cJSON_AddBoolToObject(o, "tied_embeddings", m->tied_embeddings);
        if (m->headless) cJSON_AddBoolToObject(o, "headless", true);
        if (m->head_share < 1) cJSON_AddNumberToObject(o, "head_share", m->head_share);
    } else {
        cJSON_AddNumberToObject(o, "image_size", (double)m->image_size);
        if (role == MODULE_DIFFUSION_DECODER)
            cJSON_AddNumberToObject(o, "image_height", (double)m->image_height);
        if (m->text_attention == TEXT_ATTENTION_JOINT)
            cJSON_AddNumberToObject(o, "double_stream_blocks", (double)m->double_stream_blocks);
        cJSON_AddNumberToObject(o, "patch_size", (double)m->patch_size);
    }
    return o;
}

static cJSON *model_json(const struct model *model) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", model->name);
    cJSON_AddStringToObject(o, "description", model->description);
    cJSON_AddNumberToObject(o, "parameters", (double)model_parameters(model));
    cJSON_AddNumberToObject(o, "tile_vision_tokens", (double)model->tile_vision_tokens);
    cJSON_AddNumberToObject(o, "tile_language_tokens", (double)model->tile_language_tokens);
    cJSON *modules = cJSON_AddArrayToObject(o, "modules");
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        if (model->modules[role].layer_count > 0)
            cJSON_AddItemToArray(modules, module_json(model, (enum module_role)role));
    cJSON_AddStringToObject(o, "source", model->source);
    cJSON_AddStringToObject(o, "notes", model->notes);
    return o;
}

static void print_vocabulary(FILE *out, const struct module *m) {
    char count[32];
    fprintf(out, ", vocabulary %s%s", cli_thousands(m->vocabulary, count),
            m->headless          ? ", no head"
            : m->tied_embeddings ? " (tied)"
                                 : "");
    if (m->head_share < 1) fprintf(out, ", head of %.3g of the positions", m->head_share);
    fputc('\n', out);
}

static void print_module(FILE *out, const struct model *model, enum module_role role) {
    const struct module *m = &model->modules[role];
    char count[32];
    fprintf(out, "  %-10s %15s  ", module_role_name(role),
            cli_thousands(module_parameters(model, role), count));
    if (role == MODULE_CONNECTOR) {
        fprintf(out, "%ld -> ", (long)m->connector_in);
        if (m->connector_inner > 0) fprintf(out, "%ld -> ", (long)m->connector_inner);
        fprintf(out, "%ld\n", (long)m->connector_out);
        return;
    }
    fprintf(out, "%s: %ld block%s, hidden %ld, ffn %ld (%s), heads %ld x %ld", m->name,
            (long)m->layer_count, m->layer_count == 1 ? "" : "s", (long)m->hidden,
            (long)m->ffn_hidden, ffn_kind_name(m->ffn), (long)m->heads, (long)m->head_dim);
    if (m->kv_heads != m->heads) fprintf(out, ", kv heads %ld", (long)m->kv_heads);
    if (m->text_attention == TEXT_ATTENTION_JOINT)
        fprintf(out, ", %ld with weights for the text", (long)m->double_stream_blocks);
    if (role == MODULE_LANGUAGE)
        print_vocabulary(out, m);
    else if (role == MODULE_DIFFUSION_DECODER)
        fprintf(out,
                ", %ld frames/s of %ld x %ld px, latents of %ld x %ld px and %ld frames, patches "
                "of %ld\n",
                (long)m->frames_per_second, (long)m->image_size, (long)m->image_height,
                (long)m->latent_pixels, (long)m->latent_pixels, (long)m->latent_frames,
                (long)m->patch_size);
    else
        fprintf(out, ", tiles of %ld px, patches of %ld\n", (long)m->image_size,
                (long)m->patch_size);
}

static void print_model(FILE *out, const struct model *model) {
    char count[32];
    fprintf(out, "%s: %s parameters (%.2f B)\n", model->name,
            cli_thousands(model_parameters(model), count), (double)model_parameters(model) / 1e9);
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        if (model->modules[role].layer_count > 0) print_module(out, model, (enum module_role)role);
    if (model->tile_language_tokens > 0)
        fprintf(out, "  a tile is %ld tokens of the encoder and %ld of the language model\n",
                (long)model->tile_vision_tokens, (long)model->tile_language_tokens);
}

static int show(struct cli *cli, const char *name) {
    struct error err = { 0 };
    const struct model *model = model_load(cli->arena, cli->scenario_options.directory, name, &err);
    if (model == NULL) return cli_error(&err);
    if (cli->common.json) {
        cli_print_json(model_json(model));
        return EXIT_DONE;
    }
    print_model(stdout, model);
    if (model->description[0] != '\0') printf("  %s\n", model->description);
    printf("  source: %s\n", model->source);
    if (model->notes[0] != '\0') printf("  note: %s\n", model->notes);
    return EXIT_DONE;
}

/* ---- import ---- */

static void print_imported(FILE *out, const struct huggingface_model *imported) {
    char count[32];
    print_model(out, imported->model);
    for (int64_t i = 0; i < imported->left_out_count; i++)
        fprintf(out, "  left out   %15s  %s\n",
                cli_thousands(imported->left_out[i].parameters, count), imported->left_out[i].what);
    if (imported->left_out_count > 0)
        fprintf(out, "  checkpoint %15s  parameters in all\n",
                cli_thousands(model_parameters(imported->model) + left_out_parameters(imported),
                              count));
    for (int64_t i = 0; i < imported->note_count; i++)
        fprintf(out, "  note: %s\n", imported->notes[i]);
}

static cJSON *imported_json(const struct huggingface_model *imported, const char *output) {
    cJSON *o = model_json(imported->model);
    if (output != NULL) cJSON_AddStringToObject(o, "output", output);
    cJSON_AddNumberToObject(
        o, "checkpoint_parameters",
        (double)(model_parameters(imported->model) + left_out_parameters(imported)));
    cJSON *list = cJSON_AddArrayToObject(o, "left_out");
    for (int64_t i = 0; i < imported->left_out_count; i++) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "what", imported->left_out[i].what);
        cJSON_AddNumberToObject(item, "parameters", (double)imported->left_out[i].parameters);
        cJSON_AddItemToArray(list, item);
    }
    if (output == NULL) cJSON_AddItemToObject(o, "model", cJSON_Duplicate(imported->file, true));
    return o;
}

static bool write_file(const char *path, const char *text, struct error *err) {
    struct output_draft draft;
    FILE *out = output_draft_stream(&draft, path, err);
    if (out == NULL) return false;
    const bool ok = fputs(text, out) >= 0 && fputc('\n', out) >= 0;
    if (!ok) error_output(err, path);
    return output_draft_end(&draft, ok, err);
}

static bool check_output_name(const char *path, struct error *err) {
    size_t length = strlen(path);
    if (length > 5 && strcmp(path + length - 5, ".json") == 0)
        return error_check_output_file(err, path);
    return error_set(err, "--output %s: the name must end in .json", path);
}

static int import(struct cli *cli, const struct model_options *o, const char *path) {
    struct error err = { 0 };
    if (o->output != NULL &&
        !(check_output_name(o->output, &err) &&
          error_check_output_apart(&err, o->output, "the model is read", &path, 1)))
        return cli_error(&err);
    if (o->name != NULL && !name_is_plain(o->name)) {
        error_set(&err, "--name: must be one line of UTF-8 without control characters");
        return cli_error(&err);
    }
    struct json *config = json_load(path, &err);
    if (config == NULL) return cli_error(&err);
    struct huggingface_model imported;
    bool ok = huggingface_import(cli->arena, config, o->name, &imported, &err);
    if (ok) {
        char *text = cJSON_Print(imported.file);
        if (o->output != NULL) ok = write_file(o->output, text, &err);
        if (ok && cli->common.json) {
            cli_print_json(imported_json(&imported, o->output));
        } else if (ok) {
            if (o->output == NULL) puts(text);
            print_imported(o->output == NULL ? stderr : stdout, &imported);
            if (o->output != NULL)
                printf("written to %s: name this file as a scenario's \"model\"\n", o->output);
        }
        cJSON_free(text);
        cJSON_Delete(imported.file);
    }
    json_destroy(config);
    return ok ? EXIT_DONE : cli_error(&err);
}

static int run(struct cli *cli, void *options) {
    const struct model_options *o = options;
    const char *verb = cli->arguments.positional[0], *name = cli->arguments.positional[1];
    if (strcmp(verb, "import") == 0) return import(cli, o, name);
    struct error err = { 0 };
    if (strcmp(verb, "show") != 0)
        error_set(&err,
                  "unknown action \"%s\": model show NAME, or model import config.json -o OUT",
                  verb);
    else if (o->output != NULL || o->name != NULL)
        error_set(&err, "--output and --name belong to model import");
    else
        return show(cli, name);
    return cli_error(&err);
}

static void print_names(FILE *out, const char *key, const char *const *names) {
    fprintf(out, "\nImports these values of \"%s\":\n ", key);
    int column = 1;
    for (; *names != NULL; names++) {
        if (column + (int)strlen(*names) > 78) column = fprintf(out, "\n ") - 1;
        column += fprintf(out, " %s", *names);
    }
    fputc('\n', out);
}

static void print_types(FILE *out) {
    print_names(out, "model_type", huggingface_model_types());
    print_names(out, "_class_name", huggingface_class_names());
}

const struct command command_model = {
    .name = "model",
    .usage = "show NAME | import config.json [-o OUT.json] [--name NAME]",
    .help = "print what a model is made of; import a Hugging Face config.json",
    .more =
        "NAME is a file in scenarios/models or a path. Import writes a model file with the "
        "parameters of each\n"
        "part, and says what of the checkpoint it leaves out. Experts and other layers that are "
        "not modelled\n"
        "are refused, with a lower bound on the parameters.\n",
    .print_more = print_types,
    COMMAND_OPTIONS(options_table, struct model_options),
    .min_arguments = 2,
    .max_arguments = 2,
    .words = verbs,
    .without_scenarios = true,
    .run = run,
};
