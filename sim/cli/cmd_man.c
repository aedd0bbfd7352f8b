/* cmd_man.c - the manual page ballast(1), written in mdoc from the tables of commands and
 * options. */
#include <string.h>
#include "sim/cli/cli.h"

/* Text of a macro's line or of a paragraph: no character has a meaning of its own. */
static void text(const char *from) {
    for (; *from != '\0'; from++) {
        /* The break of a long usage, with what indents its second line. */
        if (*from == '\n' && from[1] == ' ') {
            while (from[1] == ' ')
                from++;
            putchar(' ');
        } else if (*from == '\\')
            fputs("\\e", stdout);
        else if (*from == '-')
            fputs("\\-", stdout);
        else if (*from == '"')
            fputs("\\(dq", stdout);
        else
            putchar(*from);
    }
}

static void section(const char *title) {
    printf(".Sh %s\n", title);
}

static void option_row(const struct option *o) {
    fputs(".It Fl \\-", stdout);
    text(o->name);
    if (o->metavar != NULL) {
        fputs(" Ar \"", stdout);
        text(o->metavar);
        putchar('"');
    }
    fputs("\n\\&", stdout);
    text(o->help);
    puts(".");
}

/* Lines as they stand; none can begin with a request. */
static void unfilled(const char *lines) {
    puts(".Bd -unfilled");
    bool begins = true;
    for (; *lines != '\0'; lines++) {
        if (begins) fputs("\\&", stdout);
        char one[2] = { *lines, '\0' };
        text(one);
        begins = *lines == '\n';
    }
    puts(".Ed");
}

static void command_section(const struct command *c) {
    printf(".Ss ballast %s ", c->name);
    text(c->usage);
    fputs("\n\\&", stdout);
    text(c->help);
    puts(".");
    if (c->more != NULL) unfilled(c->more);
    if (c->option_count == 0) return;
    puts(".Bl -tag -width Ds");
    for (size_t i = 0; i < c->option_count; i++)
        option_row(&c->options[i]);
    puts(".El");
}

static int run(struct cli *cli, void *options) {
    (void)cli, (void)options;
    size_t count, common_count;
    const struct command *const *table = commands(&count);
    const struct option *common = options_common(&common_count);
    printf(".\\\" Made by `ballast man`.\n.Dd $Mdocdate$\n.Dt BALLAST 1\n.Os Ballast %s\n",
           execution_version());
    section("NAME");
    puts(".Nm ballast\n.Nd simulate the training of large multimodal models on GPU clusters");
    section("SYNOPSIS");
    puts(".Nm\n.Ar command\n.Op Ar argument ...\n.Op Fl \\-json\n.Op Fl \\-set Ar path=value");
    section("DESCRIPTION");
    puts("Answers, before any cluster time is bought, how long a training run takes, whether it "
         "fits,\nwhat it costs, and which layout and balancing policy to take.\n"
         "Data goes to standard output, talk and progress to standard error.");
    puts(".Pp\nEvery command takes:\n.Bl -tag -width Ds");
    for (size_t i = 0; i < common_count; i++)
        option_row(&common[i]);
    puts(".El");
    section("COMMANDS");
    for (size_t i = 0; i < count; i++)
        command_section(table[i]);
    section("ENVIRONMENT");
    puts(".Bl -tag -width Ds\n.It Ev BALLAST_SCENARIOS\nThe folder of models, data sets, hardware "
         "and clusters, where\n.Fl \\-scenarios\nis not given.\n.El");
    section("EXIT STATUS");
    puts("0: done; 1: ran but failed, or the machine did (no rights, a full disk, no GPU); 2: bad "
         "usage or input.\nOut of memory is an answer, not a "
         "failure.");
    section("EXAMPLES");
    puts(".Dl ballast check study.json\n.Dl ballast run study.json \\-\\-db results.db\n"
         ".Dl ballast compare a.json b.json\n.Dl ballast model import config.json \\-o own.json");
    return EXIT_DONE;
}

const struct command command_man = {
    .name = "man",
    .usage = "",
    .help = "print the manual page",
    .more = "ballast man | man -l -\n",
    .without_scenarios = true,
    .run = run,
};
