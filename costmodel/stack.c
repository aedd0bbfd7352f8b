/* stack.c - the folder of stacks: whose factors a file without its own borrows, and which stack a
 * name or a measured run means. What a file may hold is in stack_file.c, what the factors do to a
 * price in stack_factor.c.
 */
#include "costmodel/stack.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "costmodel/stack_file.h"
#include "sim/base/folder_names.h"

/* ---- loading ---- */

/* A relative does not borrow in its turn. */
static struct stack *load(struct stack_files *files, const char *name, struct error *err) {
    struct stack *stack = arena_new(files->arena, struct stack);
    const struct stack *own = stack_files_read(files, name, err);
    if (own != NULL) {
        *stack = *own;
        const bool of_base = stack->base != NULL && stack->relative != NULL &&
                             strcmp(stack->base, stack->relative) == 0;
        stack->uncalibrated = stack->factor_count == 0 && !stack->simulated && !of_base;
        if (stack->factor_count > 0 || stack->relative == NULL) return stack;
        const struct stack *relative = stack_files_read(files, stack->relative, err);
        if (relative != NULL) {
            stack->borrows = true;
            stack->factors = relative->factors;
            stack->factor_count = relative->factor_count;
            return stack;
        }
        error_context(err, "while loading stack '%s'", stack->relative);
    }
    error_context(err, "while loading stack '%s'", name);
    return NULL;
}

static const char **stack_names(struct arena *arena, const char *search_directory, int64_t *count) {
    return folder_names(arena, arena_format(arena, "%s/stacks", search_directory), ".json", count);
}

static bool load_all(struct stack_files *files, struct stack_list *list, struct error *err) {
    struct arena *arena = files->arena;
    int64_t count;
    const char **names = stack_names(arena, files->directory, &count);
    if (names == NULL) return error_system(err, "cannot read %s/stacks", files->directory);
    struct stack **stacks = arena_array(arena, struct stack *, count);
    *list = (struct stack_list){ .stacks = arena_array(arena, const struct stack *, count) };
    for (int64_t i = 0; i < count; i++) {
        stacks[i] = load(files, names[i], err);
        if (stacks[i] == NULL)
            return error_context(err,
                                 "every file of %s/stacks counts for what is usual on a GPU: mend "
                                 "it or take it out",
                                 files->directory);
        list->stacks[list->count++] = stacks[i];
    }
    for (int64_t i = 0; i < count; i++)
        stacks[i]->known = list->stacks;
    for (int64_t i = 0; i < count; i++)
        stacks[i]->known_count = count;
    return true;
}

bool stack_load_all(struct arena *arena, const char *search_directory, struct stack_list *list,
                    struct error *err) {
    struct stack_files files = { .arena = arena, .directory = search_directory };
    const bool ok = load_all(&files, list, err);
    stack_files_close(&files);
    return ok;
}

const struct stack *stack_load(struct arena *arena, const char *search_directory, const char *name,
                               struct error *err) {
    struct stack_files files = { .arena = arena, .directory = search_directory };
    struct stack *stack = load(&files, name, err);
    struct stack_list all;
    int64_t count;
    /* A path to a stack may be all that there is. */
    if (stack != NULL && stack_names(arena, search_directory, &count) != NULL) {
        if (load_all(&files, &all, err)) {
            stack->known = all.stacks;
            stack->known_count = all.count;
        } else
            stack = NULL;
    }
    stack_files_close(&files);
    return stack;
}

/* ---- search ---- */

static bool in_a_word(char c) {
    return isalnum((unsigned char)c) != 0;
}

/* Sources write "Megatron LM" and "PyTorch_FSDP" where stacks have "megatron-lm" and
 * "pytorch-fsdp". What does not fit in names nothing. */
enum { STACK_NAME_MAX = 256 };
static void plain_name(const char *name, char out[STACK_NAME_MAX]) {
    size_t n = 0;
    for (const char *c = name; *c != '\0' && n + 1 < STACK_NAME_MAX; c++) {
        if (in_a_word(*c) || (*c == '.' && n > 0 && in_a_word(c[-1]) && in_a_word(c[1])))
            out[n++] = (char)tolower((unsigned char)*c);
        else if (n > 0 && out[n - 1] != '-')
            out[n++] = '-';
    }
    while (n > 0 && out[n - 1] == '-')
        n--;
    out[n] = '\0';
}

/* Behind the word that stands at `at`; NULL: another word. A longer one may have blanks inside
 * ("torch-titan" is "torchtitan"), but not beside digits: "fsdp-128" is not "fsdp1". */
static const char *behind_word(const char *at, const char *word, bool *apart) {
    enum { SHORTEST_APART = 6 };
    const bool may = strlen(word) >= SHORTEST_APART;
    *apart = false;
    const char *const begin = word;
    while (*word != '\0')
        if (*at == *word)
            at++, word++;
        else if (may && *at == '-' && isalpha((unsigned char)at[-1]) &&
                 isalpha((unsigned char)at[1]))
            at++, *apart = true;
        else if (may && *word == '-' && word > begin && isalpha((unsigned char)word[-1]) &&
                 isalpha((unsigned char)word[1]))
            word++, *apart = true; /* "MSSwift" */
        else
            return NULL;
    return at;
}

/* "hf" is in "my-hf-2025", not in "chfx". A name may go on in digits: "fsdp2". */
static bool holds_word(const char *name, const char *word) {
    for (const char *at = name; *at != '\0'; at++) {
        if (!in_a_word(*at) || (at > name && in_a_word(at[-1]))) continue;
        bool apart;
        const char *end = behind_word(at, word, &apart);
        if (end == NULL) continue;
        if (!in_a_word(*end) || (!apart && isdigit((unsigned char)*end))) return true;
    }
    return false;
}

/* A word of the files with blanks names several, which stand anywhere: "hf fsdp" is in
 * "hf-trainer-2024-fsdp". */
static bool holds_words(const char *name, const char *words, size_t length) {
    char part[STACK_NAME_MAX];
    for (const char *at = words, *end = words + length; at < end; at += at < end && *at == ' ') {
        const size_t part_length = strcspn(at, " ");
        if (part_length >= sizeof part) return false;
        memcpy(part, at, part_length);
        part[part_length] = '\0';
        if (!holds_word(name, part)) return false;
        at += part_length;
    }
    return true;
}

/* Words may end in a year: "hf fsdp 2026" are in names that state that one or a later one, and are
 * no nearer to them than "hf fsdp". 0: none. */
static int64_t words_year(const char *words) {
    const char *last = strrchr(words, ' ');
    const bool has_year = last != NULL && strlen(last) == 5 && strspn(last + 1, "0123456789") == 4;
    return has_year ? strtol(last + 1, NULL, 10) : 0;
}

static bool is_word(const char *name, const char *at, size_t length) {
    return (at == name || !in_a_word(at[-1])) && !in_a_word(at[length]);
}

/* "25.04": containers and frameworks of NVIDIA are numbered by year and month. */
static int64_t release_year(const char *name) {
    for (const char *at = name; (at = strchr(at, '.')) != NULL; at++)
        if (at - name >= 2 && strspn(at - 2, "0123456789") == 2 &&
            strspn(at + 1, "0123456789") == 2 && is_word(name, at - 2, 5)) {
            const long month = strtol(at + 1, NULL, 10), year = 2000 + strtol(at - 2, NULL, 10);
            if (month >= 1 && month <= 12 && year >= STACK_YEAR_MIN && year <= STACK_YEAR_MAX)
                return year;
        }
    return 0;
}

/* A word that begins or ends in letters is no year: "h2048", "2048x". */
int64_t stack_name_year(const char *name) {
    for (const char *at = name; *at != '\0'; at++) {
        const size_t digits = strspn(at, "0123456789");
        if (digits == 0) continue;
        const int64_t year = digits == 4 ? strtol(at, NULL, 10) : 0;
        if (year >= STACK_YEAR_MIN && year <= STACK_YEAR_MAX && is_word(name, at, 4)) return year;
        at += digits - 1;
    }
    return release_year(name);
}

/* DeepSpeed's families divide no tensors and Megatron's run undivided as a special case. */
static bool runs_usually(const struct stack *stack, bool divided) {
    return strcmp(stack->backend, divided ? "deepspeed" : "megatron-lm") != 0;
}

static const struct stack *find_by(const struct stack_list *list, const char *plain, int64_t year,
                                   bool divided, bool by_project, bool *exact) {
    const int64_t newest = 9999;
    const struct stack *best = NULL;
    size_t best_length = 0;
    int64_t best_distance = 0;
    bool alone = true;
    for (int64_t i = 0; i < list->count; i++) {
        const struct stack *stack = list->stacks[i];
        /* The layout decides between stacks of one year. */
        const int64_t distance =
            2 * llabs((year > 0 ? year : newest) - stack->year) + !runs_usually(stack, divided);
        for (const char **word = by_project ? stack->projects : stack->words; *word != NULL;
             word++) {
            const int64_t from_year = words_year(*word);
            const size_t length = strlen(*word) - (from_year > 0 ? strlen(" 2026") : 0);
            const bool better =
                length > best_length || (length == best_length && distance < best_distance);
            if (year < from_year || !holds_words(plain, *word, length)) continue;
            if (best != NULL && best != stack && length >= best_length)
                alone = length > best_length;
            if (best != NULL && !better) continue;
            best = stack;
            best_length = length;
            best_distance = distance;
        }
    }
    *exact = best != NULL && (year > 0 ? best->year == year : alone);
    return best;
}

const struct stack *stack_find_by_word(const struct stack_list *list, const char *name,
                                       bool divided, bool *exact) {
    char plain[STACK_NAME_MAX];
    plain_name(name, plain);
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->stacks[i]->name, plain) == 0) {
            *exact = true;
            return list->stacks[i];
        }
    return find_by(list, plain, stack_name_year(name), divided, false, exact);
}

const struct stack *stack_find(const struct stack_list *list, const char *name, bool divided,
                               bool *exact) {
    char plain[STACK_NAME_MAX];
    const struct stack *by_word = stack_find_by_word(list, name, divided, exact);
    if (by_word != NULL) return by_word;
    plain_name(name, plain);
    return find_by(list, plain, stack_name_year(name), divided, true, exact);
}

const struct stack *stack_of_run(const struct stack_list *list, const struct stack *named,
                                 const char *run) {
    char plain[STACK_NAME_MAX];
    plain_name(run, plain);
    for (int64_t i = 0; i < list->count; i++) {
        const struct stack *stack = list->stacks[i];
        if (strcmp(stack->backend, named->backend) != 0) continue;
        for (const char **words = stack->runs; *words != NULL; words++)
            if (holds_words(plain, *words, strlen(*words))) return stack;
    }
    return named;
}
