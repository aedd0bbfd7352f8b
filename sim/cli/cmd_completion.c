/* cmd_completion.c - shell completion, written from the tables of commands and options.
 *
 * Commands, options, the values of options with a closed choice and the words of a first argument
 * are completed; everything else is a file name.
 */
#include <string.h>
#include "sim/cli/cli.h"

/* Options of `command`: its own first, then the common ones. */
struct option_walk {
    const struct command *command;
    const struct option *common;
    size_t common_count, at;
};

static struct option_walk walk_begin(const struct command *command) {
    struct option_walk walk = { .command = command };
    walk.common = options_common(&walk.common_count);
    return walk;
}

static const struct option *walk_next(struct option_walk *walk) {
    const size_t own = walk->command->option_count;
    const struct option *next = NULL;
    if (walk->at < own)
        next = &walk->command->options[walk->at];
    else if (walk->at < own + walk->common_count)
        next = &walk->common[walk->at - own];
    walk->at++;
    const bool of_scenario =
        next != NULL && (strcmp(next->name, "set") == 0 || strcmp(next->name, "unset") == 0 ||
                         (strcmp(next->name, "plugin") == 0 && !walk->command->takes_plugins));
    if (of_scenario && !walk->command->takes_scenario) return walk_next(walk);
    return next;
}

static bool names_a_file(const struct option *option) {
    return (option->type == OPTION_TEXT || option->type == OPTION_OUTPUT ||
            option->type == OPTION_PICTURE || option->type == OPTION_LIST) &&
           option->metavar != NULL &&
           (strcmp(option->metavar, "FILE") == 0 || strcmp(option->metavar, "DIR") == 0);
}

static bool takes_value(const struct option *option) {
    return option->type != OPTION_FLAG;
}

static void print_words(FILE *out, const char *const *words) {
    for (size_t i = 0; words[i] != NULL; i++)
        fprintf(out, "%s%s", i > 0 ? " " : "", words[i]);
}

/* ---- bash ---- */

static void bash_values(FILE *out, const struct command *command) {
    struct option_walk walk = walk_begin(command);
    for (const struct option *o; (o = walk_next(&walk)) != NULL;) {
        if (!takes_value(o) || names_a_file(o)) continue;
        fprintf(out, "    '%s --%s')", command->name, o->name);
        if (o->choices != NULL) {
            fputs(" COMPREPLY=($(compgen -W '", out);
            print_words(out, o->choices);
            fputs("' -- \"$cur\"));", out);
        }
        fputs(" return ;;\n", out);
    }
}

static void bash(FILE *out) {
    size_t count;
    const struct command *const *table = commands(&count);
    fputs("# Completion of ballast for bash; made by `ballast completion bash`.\n"
          "_ballast() {\n"
          "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "  local command=${COMP_WORDS[1]}\n"
          "  COMPREPLY=()\n"
          "  if [[ $COMP_CWORD -eq 1 ]]; then\n"
          "    COMPREPLY=($(compgen -W '",
          out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i > 0 ? " " : "", table[i]->name);
    fputs(" --help --version' -- \"$cur\")); return\n  fi\n  case \"$command $prev\" in\n", out);
    for (size_t i = 0; i < count; i++)
        bash_values(out, table[i]);
    fputs("  esac\n  if [[ $cur == -* ]]; then\n    case $command in\n", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "    %s) COMPREPLY=($(compgen -W '", table[i]->name);
        struct option_walk walk = walk_begin(table[i]);
        for (const struct option *o; (o = walk_next(&walk)) != NULL;)
            fprintf(out, "--%s ", o->name);
        fputs("' -- \"$cur\")) ;;\n", out);
    }
    fputs("    esac\n    return\n  fi\n  if [[ $COMP_CWORD -eq 2 ]]; then\n    case $command in\n",
          out);
    for (size_t i = 0; i < count; i++) {
        if (table[i]->words == NULL) continue;
        fprintf(out, "    %s) COMPREPLY=($(compgen -W '", table[i]->name);
        print_words(out, table[i]->words);
        fputs("' -- \"$cur\")); return ;;\n", out);
    }
    fputs("    esac\n  fi\n  COMPREPLY=($(compgen -f -- \"$cur\"))\n}\n"
          "complete -o filenames -F _ballast ballast\n",
          out);
}

/* ---- zsh ---- */

/* Inside single quotes; with `spec`, also what _arguments and _describe read specially. */
static void zsh_text(FILE *out, const char *text, bool spec) {
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", out);
            continue;
        }
        if (spec && strchr(":[]\\", *text) != NULL) fputc('\\', out);
        fputc(*text, out);
    }
}

static void zsh_option(FILE *out, const struct option *o) {
    bool repeats = o->type == OPTION_LIST;
    fprintf(out, " \\\n        '%s--%s%s[", repeats ? "*" : "", o->name, takes_value(o) ? "=" : "");
    zsh_text(out, o->help, true);
    fputc(']', out);
    if (takes_value(o)) {
        fputc(':', out);
        zsh_text(out, o->metavar != NULL ? o->metavar : "value", true);
        fputc(':', out);
        if (o->choices != NULL) {
            fputc('(', out);
            print_words(out, o->choices);
            fputc(')', out);
        } else if (names_a_file(o)) {
            fputs("_files", out);
        }
    }
    fputc('\'', out);
}

static void zsh(FILE *out) {
    size_t count;
    const struct command *const *table = commands(&count);
    fputs("#compdef ballast\n# Completion of ballast for zsh; made by `ballast completion zsh`.\n"
          "_ballast() {\n  local -a list\n  if (( CURRENT == 2 )); then\n    list=(\n",
          out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "      '%s:", table[i]->name);
        zsh_text(out, table[i]->help, true);
        fputs("'\n", out);
    }
    fputs("    )\n    _describe command list\n    return\n  fi\n  local command=$words[2]\n"
          "  shift words\n  (( CURRENT-- ))\n  case $command in\n",
          out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "    %s)\n      _arguments -s", table[i]->name);
        struct option_walk walk = walk_begin(table[i]);
        for (const struct option *o; (o = walk_next(&walk)) != NULL;)
            zsh_option(out, o);
        if (table[i]->words != NULL) {
            fputs(" \\\n        '1:action:(", out);
            print_words(out, table[i]->words);
            fputs(")'", out);
        }
        fputs(" \\\n        '*:file:_files' ;;\n", out);
    }
    fputs("  esac\n}\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n  _ballast \"$@\"\n"
          "else\n  compdef _ballast ballast\nfi\n",
          out);
}

/* ---- fish ---- */

static void fish_text(FILE *out, const char *text) {
    fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
    fputc('\'', out);
}

static void fish(FILE *out) {
    size_t count;
    const struct command *const *table = commands(&count);
    fputs("# Completion of ballast for fish; made by `ballast completion fish`.\n", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "complete -c ballast -n __fish_use_subcommand -f -a %s -d ", table[i]->name);
        fish_text(out, table[i]->help);
        fputc('\n', out);
        struct option_walk walk = walk_begin(table[i]);
        for (const struct option *o; (o = walk_next(&walk)) != NULL;) {
            fprintf(out, "complete -c ballast -n '__fish_seen_subcommand_from %s' -l %s%s",
                    table[i]->name, o->name,
                    !takes_value(o)   ? ""
                    : names_a_file(o) ? " -r"
                                      : " -x");
            if (o->choices != NULL) {
                fputs(" -a '", out);
                print_words(out, o->choices);
                fputc('\'', out);
            }
            fputs(" -d ", out);
            fish_text(out, o->help);
            fputc('\n', out);
        }
        if (table[i]->words == NULL) continue;
        fprintf(out, "complete -c ballast -n '__fish_seen_subcommand_from %s' -a '",
                table[i]->name);
        print_words(out, table[i]->words);
        fputs("'\n", out);
    }
}

/* ---- the command ---- */

static const char *const shells[] = { "bash", "fish", "zsh", NULL };

static int run(struct cli *cli, void *options) {
    (void)options;
    static void (*const writers[])(FILE *) = { bash, fish, zsh };
    const char *name = cli->arguments.positional[0];
    for (size_t i = 0; shells[i] != NULL; i++)
        if (strcmp(shells[i], name) == 0) {
            writers[i](stdout);
            return EXIT_DONE;
        }
    struct error err = { 0 };
    error_set(&err, "no completion for \"%s\": bash, fish or zsh", name);
    return cli_error(&err);
}

const struct command command_completion = {
    .name = "completion",
    .usage = "bash|fish|zsh",
    .help = "print the completion of a shell",
    .more = "bash: source <(ballast completion bash)\n"
            "fish: ballast completion fish | source\n"
            "zsh:  source <(ballast completion zsh), after compinit\n"
            "An installation puts all three in their places.\n",
    .min_arguments = 1,
    .max_arguments = 1,
    .words = shells,
    .without_scenarios = true,
    .run = run,
};
