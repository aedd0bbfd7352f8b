/* measured_cards.c - how many GPUs a name of the hardware counts: "8x H100", "A100 x 4",
 * "4 nodes of 8 H100". */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "sim/study/measured/measured_row.h"
#include "sim/study/measured/measured_words.h"

enum { MOST_CARDS = 1000000 };

/* Behind "x", "*", the sign of multiplication or "of", with blanks around; the same place: none. */
static const char *behind_times(const char *at) {
    const char *sign = at + strspn(at, " ");
    if (tolower((unsigned char)*sign) == 'x' && !isalpha((unsigned char)sign[1]))
        return sign + 1 + strspn(sign + 1, " ");
    if (tolower((unsigned char)*sign) == 'x' && sign == at) return sign + 1; /* "8xH100" */
    if (*sign == '*') return sign + 1 + strspn(sign + 1, " ");
    if (strncmp(sign, "\xc3\x97", 2) == 0) return sign + 2 + strspn(sign + 2, " ");
    if (strncasecmp(sign, "of ", 3) == 0) return sign + 3 + strspn(sign + 3, " ");
    return at;
}

static const char *behind_nodes(const char *at) {
    static const char *const words[] = {
        "nodes", "node", "servers", "server", "machines", "hosts"
    };
    const char *word = at + strspn(at, " ");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strncasecmp(word, words[i], strlen(words[i])) == 0 &&
            !isalnum((unsigned char)word[strlen(words[i])]))
            return word + strlen(words[i]);
    return at;
}

static int64_t number_at(const char *at, const char **end) {
    *end = at;
    if (!isdigit((unsigned char)*at)) return 0;
    const long number = strtol(at, (char **)end, 10);
    return number > 0 && number <= MOST_CARDS ? number : 0;
}

/* "A100-SXM4-80GB x8". */
static int64_t behind_name(const char *text) {
    const char *last = text + strlen(text);
    while (last > text && last[-1] == ' ')
        last--;
    const char *digits = last;
    while (digits > text && isdigit((unsigned char)digits[-1]))
        digits--;
    const char *sign = digits;
    while (sign > text && sign[-1] == ' ')
        sign--;
    if (digits == last || sign < text + 2 || strchr("xX*", sign[-1]) == NULL) return 0;
    const char before = sign[-2];
    if (before != ' ' && !isdigit((unsigned char)before) && before != 'B' && before != 'b')
        return 0;
    const char *end;
    return number_at(digits, &end);
}

struct measured_cards measured_cards_of(const char *hardware) {
    struct measured_cards cards = { 0, 0 };
    const char *at = hardware + strspn(hardware, " "), *end;
    const int64_t first = number_at(at, &end);
    if (first == 0) {
        cards.count = behind_name(hardware);
        return cards;
    }
    const char *nodes = behind_nodes(end), *times = behind_times(nodes);
    const bool of_nodes = nodes != end;
    const int64_t second = times != nodes ? number_at(times, &end) : 0;
    const bool named = second > 0 && (*end == ' ' || behind_times(end) != end);
    if (named && first * second <= MOST_CARDS) {
        cards.count = first * second;
        cards.per_node = second;
    } else if (!of_nodes && second == 0 && times != nodes && isalpha((unsigned char)*times)) {
        cards.count = first;
    } else if (!of_nodes && *end == ' ' && isalpha((unsigned char)end[strspn(end, " ")]) &&
               first <= 4096 && times == nodes) {
        cards.count = first; /* "8 H100"; "80 GB H100" tells no count */
        const char *unit = end + strspn(end, " ");
        if (strncasecmp(unit, "gb", 2) == 0 || strncasecmp(unit, "gib", 3) == 0) cards.count = 0;
    }
    return cards;
}

void measured_count_cards(struct measured_row *row) {
    struct measured_run *r = &row->run;
    struct measured_cards cards = measured_cards_of(r->hardware);
    const char *name = r->hardware;
    const struct known_machine *machine = measured_known_machine(row);
    const int64_t of_machine = measured_machine_node(row->context, name); /* "4x p5.48xlarge" */
    if (machine != NULL && r->gpus_per_node < 1 && cards.per_node == 0 && of_machine == 0) {
        r->gpus_per_node = machine->preset.network.gpus_per_node;
        measured_row_note(row, "gpus_per_node: %ld, as in %s", (long)r->gpus_per_node,
                          machine->name);
    }
    if (cards.count == 0 || measured_is_file(name)) return;
    if (of_machine > 0) cards = (struct measured_cards){ cards.count * of_machine, of_machine };
    if (r->gpu_count < 1 && r->dp < 1) {
        r->gpu_count = cards.count;
        measured_row_note(row, "gpu_count: %ld, as hardware \"%.40s\" says", (long)cards.count,
                          name);
    }
    if (r->gpu_count < 1) return;
    const int64_t node = cards.per_node > 0 ? cards.per_node : cards.count;
    if (r->gpus_per_node < 1 && node < r->gpu_count && r->gpu_count % node == 0) {
        r->gpus_per_node = node;
        measured_row_note(row, "gpus_per_node: %ld, as hardware \"%.40s\" says", (long)node, name);
    } else if (r->gpu_count != cards.count && r->gpu_count % node != 0) {
        measured_row_note(row, "hardware: \"%.40s\" counts %ld GPUs, gpu_count %ld holds", name,
                          (long)cards.count, (long)r->gpu_count);
    }
}
