/* sweep_condition.c - a recursive-descent parser into a tree, and its evaluation. */
#include "sim/study/sweep/sweep_condition.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum node_kind {
    NODE_NUMBER,
    NODE_TEXT,
    NODE_TRUE,
    NODE_FALSE,
    NODE_NULL,
    NODE_PATH,
    NODE_LIST, /* left: first item, items joined by `right` */
    NODE_ITEM,
    NODE_NOT,
    NODE_NEGATE,
    NODE_OR,
    NODE_AND,
    NODE_EQUAL,
    NODE_UNEQUAL,
    NODE_LESS,
    NODE_LESS_EQUAL,
    NODE_GREATER,
    NODE_GREATER_EQUAL,
    NODE_IN,
    NODE_ADD,
    NODE_SUBTRACT,
    NODE_MULTIPLY,
    NODE_DIVIDE,
    NODE_REMAINDER,
};

struct node {
    enum node_kind kind;
    double number;
    const char *text;
    const struct node *left, *right;
};

struct condition {
    const char *text;
    const struct node *root;
};

struct parser {
    struct arena *arena;
    const char *text, *at;
    struct error *err;
    bool failed;
    int depth, operator_count;
};

/* A chain of operators is a tree as deep as it is long. */
enum { DEPTH_LIMIT = 64, OPERATOR_LIMIT = 1000 };

static const struct node *parse_or(struct parser *p);

static void skip_space(struct parser *p) {
    while (isspace((unsigned char)*p->at))
        p->at++;
}

static const struct node *fail(struct parser *p, const char *what) {
    if (p->failed) return NULL;
    p->failed = true;
    const char *dots = strlen(p->text) > 100 ? "..." : "";
    if (*p->at == '\0')
        error_set(p->err, "condition \"%.100s%s\": %s at its end", p->text, dots, what);
    else
        error_set(p->err, "condition \"%.100s%s\": %s at \"%.20s\"", p->text, dots, what, p->at);
    return NULL;
}

static const struct node *make(struct parser *p, enum node_kind kind, const struct node *left,
                               const struct node *right) {
    if (p->failed) return NULL;
    if (++p->operator_count > OPERATOR_LIMIT) return fail(p, "more than 1000 operators");
    struct node *node = arena_new(p->arena, struct node);
    *node = (struct node){ .kind = kind, .left = left, .right = right };
    return node;
}

static bool is_word_character(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static bool take(struct parser *p, const char *token) {
    skip_space(p);
    size_t length = strlen(token);
    if (strncmp(p->at, token, length) != 0) return false;
    if (isalpha((unsigned char)token[0]) && is_word_character(p->at[length])) return false;
    p->at += length;
    return true;
}

static const struct node *parse_text(struct parser *p) {
    const char *begin = ++p->at, *end = strchr(begin, '"');
    if (end == NULL) return fail(p, "a text without its closing quote");
    struct node *node = arena_new(p->arena, struct node);
    *node = (struct node){ .kind = NODE_TEXT,
                           .text = arena_format(p->arena, "%.*s", (int)(end - begin), begin) };
    p->at = end + 1;
    return node;
}

static const struct node *parse_word(struct parser *p) {
    const char *begin = p->at;
    while (is_word_character(*p->at))
        p->at++;
    struct node *node = arena_new(p->arena, struct node);
    *node = (struct node){ .kind = NODE_PATH,
                           .text = arena_format(p->arena, "%.*s", (int)(p->at - begin), begin) };
    if (strcmp(node->text, "true") == 0) node->kind = NODE_TRUE;
    if (strcmp(node->text, "false") == 0) node->kind = NODE_FALSE;
    if (strcmp(node->text, "null") == 0) node->kind = NODE_NULL;
    return node;
}

/* Not all that strtod() takes: "0x10" is none of JSON's. */
static const struct node *parse_number(struct parser *p) {
    char *end;
    struct node *number = arena_new(p->arena, struct node);
    *number = (struct node){ .kind = NODE_NUMBER, .number = strtod(p->at, &end) };
    if (!isfinite(number->number)) return fail(p, "a number that is too large");
    if (memchr(p->at, 'x', (size_t)(end - p->at)) != NULL ||
        memchr(p->at, 'X', (size_t)(end - p->at)) != NULL)
        return fail(p, "a number that is not decimal");
    p->at = end;
    return number;
}

static const struct node *parse_list(struct parser *p) {
    struct node *first = NULL, *last = NULL;
    while (!p->failed && !take(p, "]")) {
        if (first != NULL && !take(p, ",")) return fail(p, "expected , or ]");
        struct node *item = arena_new(p->arena, struct node);
        *item = (struct node){ .kind = NODE_ITEM, .left = parse_or(p) };
        if (last != NULL) last->right = item;
        if (first == NULL) first = item;
        last = item;
    }
    return make(p, NODE_LIST, first, NULL);
}

static const struct node *parse_operand(struct parser *p) {
    skip_space(p);
    if (p->failed || ++p->depth > DEPTH_LIMIT) return fail(p, "nested too deep");
    const struct node *node = NULL;
    if (take(p, "-")) {
        node = make(p, NODE_NEGATE, parse_operand(p), NULL);
    } else if (take(p, "(")) {
        node = parse_or(p);
        if (!p->failed && !take(p, ")")) node = fail(p, "expected )");
    } else if (take(p, "[")) {
        node = parse_list(p);
    } else if (*p->at == '"') {
        node = parse_text(p);
    } else if (isdigit((unsigned char)*p->at)) {
        node = parse_number(p);
    } else if (isalpha((unsigned char)*p->at)) {
        node = parse_word(p);
    } else {
        node = fail(p, "expected a number, a \"text\" or a field");
    }
    p->depth--;
    return node;
}

struct operator_row {
    const char *token;
    enum node_kind kind;
};

/* Longer tokens before those that they begin with. */
static const struct operator_row products[] = {
    { "*", NODE_MULTIPLY }, { "/", NODE_DIVIDE }, { "%", NODE_REMAINDER }, { NULL, NODE_NULL }
};
static const struct operator_row sums[] = { { "+", NODE_ADD },
                                            { "-", NODE_SUBTRACT },
                                            { NULL, NODE_NULL } };
static const struct operator_row comparisons[] = {
    { "==", NODE_EQUAL }, { "!=", NODE_UNEQUAL },       { "<=", NODE_LESS_EQUAL },
    { "<", NODE_LESS },   { ">=", NODE_GREATER_EQUAL }, { ">", NODE_GREATER },
    { "in", NODE_IN },    { NULL, NODE_NULL }
};

static const struct operator_row *take_operator(struct parser *p, const struct operator_row *rows) {
    for (; rows->token != NULL; rows++)
        if (take(p, rows->token)) return rows;
    return NULL;
}

static const struct node *parse_chain(struct parser *p, const struct operator_row *rows,
                                      const struct node *(*inner)(struct parser *)) {
    const struct node *left = inner(p);
    const struct operator_row *row;
    while (!p->failed && (row = take_operator(p, rows)) != NULL) {
        const char *begin = p->at;
        const struct node *right = inner(p);
        if (right != NULL && right->kind == NODE_NUMBER && right->number == 0 &&
            (row->kind == NODE_DIVIDE || row->kind == NODE_REMAINDER)) {
            p->at = begin;
            return fail(p, "a division by zero");
        }
        left = make(p, row->kind, left, right);
    }
    return left;
}

static const struct node *parse_product(struct parser *p) {
    return parse_chain(p, products, parse_operand);
}

static const struct node *parse_sum(struct parser *p) {
    return parse_chain(p, sums, parse_product);
}

static const struct node *parse_comparison(struct parser *p) {
    const struct node *left = parse_sum(p);
    const struct operator_row *row = p->failed ? NULL : take_operator(p, comparisons);
    return row != NULL ? make(p, row->kind, left, parse_sum(p)) : left;
}

static const struct node *parse_not(struct parser *p) {
    int count = 0;
    while (take(p, "not"))
        count++;
    const struct node *node = parse_comparison(p);
    return count % 2 == 1 ? make(p, NODE_NOT, node, NULL) : node;
}

static const struct node *parse_and(struct parser *p) {
    const struct node *left = parse_not(p);
    while (!p->failed && (take(p, "and") || take(p, "&&")))
        left = make(p, NODE_AND, left, parse_not(p));
    return left;
}

static const struct node *parse_or(struct parser *p) {
    const struct node *left = parse_and(p);
    while (!p->failed && (take(p, "or") || take(p, "||")))
        left = make(p, NODE_OR, left, parse_and(p));
    return left;
}

const struct condition *condition_parse(struct arena *arena, const char *text, struct error *err) {
    struct parser parser = { .arena = arena, .text = arena_text(arena, text), .err = err };
    parser.at = parser.text;
    const struct node *root = parse_or(&parser);
    skip_space(&parser);
    if (!parser.failed && *parser.at != '\0')
        fail(&parser,
             *parser.at == '=' ? "expected an operator (== compares)" : "expected an operator");
    if (parser.failed) return NULL;
    struct condition *condition = arena_new(arena, struct condition);
    *condition = (struct condition){ parser.text, root };
    return condition;
}

const char *condition_text(const struct condition *condition) {
    return condition->text;
}

/* ---- evaluation ---- */

enum value_kind { VALUE_NULL, VALUE_BOOL, VALUE_NUMBER, VALUE_TEXT };

struct value {
    enum value_kind kind;
    double number; /* of a bool: 0 or 1 */
    const char *text;
};

static struct value number_value(double number) {
    return (struct value){ .kind = isnan(number) ? VALUE_NULL : VALUE_NUMBER, .number = number };
}

static struct value bool_value(bool truth) {
    return (struct value){ .kind = VALUE_BOOL, .number = truth };
}

const cJSON *condition_field(const cJSON *at, const char *path) {
    while (at != NULL && *path != '\0') {
        char key[128];
        size_t length = strcspn(path, ".");
        if (length >= sizeof key) return NULL;
        memcpy(key, path, length);
        key[length] = '\0';
        if (!cJSON_IsNumber(at) || strcmp(path, "samples") != 0)
            at = cJSON_GetObjectItemCaseSensitive(at, key);
        path += length + (path[length] == '.');
    }
    return at;
}

/* What was resolved goes before what was written: that may be a default's absence, or in another
 * unit. */
static const cJSON *field_of(const struct condition_scenario *s, const char *path) {
    const cJSON *at = condition_field(s->resolved, path);
    return at != NULL ? at : condition_field(s->written, path);
}

/* "policy.recompute" of a policy with a name is that name. */
static struct value value_of(const cJSON *at) {
    if (cJSON_IsObject(at)) {
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(at, "name");
        at = name != NULL ? name : cJSON_GetArraySize(at) == 1 ? at->child : NULL;
    }
    if (cJSON_IsNumber(at)) return number_value(at->valuedouble);
    if (cJSON_IsBool(at)) return bool_value(cJSON_IsTrue(at));
    if (cJSON_IsString(at)) return (struct value){ .kind = VALUE_TEXT, .text = at->valuestring };
    return (struct value){ 0 };
}

static bool is_true(struct value v) {
    return (v.kind == VALUE_BOOL || v.kind == VALUE_NUMBER) && v.number != 0;
}

static bool equal(struct value a, struct value b) {
    if (a.kind == VALUE_TEXT || b.kind == VALUE_TEXT)
        return a.kind == b.kind && strcmp(a.text, b.text) == 0;
    return a.kind == VALUE_NULL || b.kind == VALUE_NULL ? a.kind == b.kind : a.number == b.number;
}

static bool comparable(struct value a, struct value b) {
    return a.kind == VALUE_NUMBER && b.kind == VALUE_NUMBER;
}

struct evaluation {
    const struct condition_scenario *scenario;
    bool divides_by_zero;
};

static struct value arithmetic(struct evaluation *e, enum node_kind kind, struct value a,
                               struct value b) {
    if (!comparable(a, b)) return (struct value){ 0 };
    if ((kind == NODE_DIVIDE || kind == NODE_REMAINDER) && b.number == 0) {
        e->divides_by_zero = true;
        return (struct value){ 0 };
    }
    switch (kind) {
    case NODE_ADD:
        return number_value(a.number + b.number);
    case NODE_SUBTRACT:
        return number_value(a.number - b.number);
    case NODE_MULTIPLY:
        return number_value(a.number * b.number);
    case NODE_DIVIDE:
        return number_value(a.number / b.number);
    default:
        return number_value(fmod(a.number, b.number));
    }
}

static struct value evaluate(struct evaluation *e, const struct node *n);

static bool is_in(struct evaluation *e, struct value value, const struct node *list) {
    const cJSON *field = list->kind == NODE_PATH ? field_of(e->scenario, list->text) : NULL, *one;
    if (cJSON_IsArray(field)) {
        cJSON_ArrayForEach(one, field) if (equal(value, value_of(one))) return true;
        return false;
    }
    if (list->kind != NODE_LIST) return equal(value, evaluate(e, list));
    for (const struct node *item = list->left; item != NULL; item = item->right)
        if (equal(value, evaluate(e, item->left))) return true;
    return false;
}

static struct value evaluate(struct evaluation *e, const struct node *n) {
    switch (n->kind) {
    case NODE_NUMBER:
        return number_value(n->number);
    case NODE_TEXT:
        return (struct value){ .kind = VALUE_TEXT, .text = n->text };
    case NODE_TRUE:
    case NODE_FALSE:
        return bool_value(n->kind == NODE_TRUE);
    case NODE_PATH:
        return value_of(field_of(e->scenario, n->text));
    case NODE_NULL:
    case NODE_LIST:
    case NODE_ITEM:
        return (struct value){ 0 };
    case NODE_NOT:
        return bool_value(!is_true(evaluate(e, n->left)));
    case NODE_NEGATE:
        return arithmetic(e, NODE_SUBTRACT, number_value(0), evaluate(e, n->left));
    case NODE_OR:
        return bool_value(is_true(evaluate(e, n->left)) ||
                          is_true(evaluate(e, n->right)));
    case NODE_AND:
        return bool_value(is_true(evaluate(e, n->left)) &&
                          is_true(evaluate(e, n->right)));
    default:
        break;
    }
    struct value a = evaluate(e, n->left);
    if (n->kind == NODE_IN) return bool_value(is_in(e, a, n->right));
    struct value b = evaluate(e, n->right);
    switch (n->kind) {
    case NODE_EQUAL:
        return bool_value(equal(a, b));
    case NODE_UNEQUAL:
        return bool_value(!equal(a, b));
    case NODE_LESS:
        return bool_value(comparable(a, b) && a.number < b.number);
    case NODE_LESS_EQUAL:
        return bool_value(comparable(a, b) && a.number <= b.number);
    case NODE_GREATER:
        return bool_value(comparable(a, b) && a.number > b.number);
    case NODE_GREATER_EQUAL:
        return bool_value(comparable(a, b) && a.number >= b.number);
    default:
        return arithmetic(e, n->kind, a, b);
    }
}

bool condition_holds(const struct condition *condition, const struct condition_scenario *scenario) {
    struct evaluation e = { .scenario = scenario };
    return is_true(evaluate(&e, condition->root));
}

bool condition_divides_by_zero(const struct condition *condition,
                               const struct condition_scenario *scenario) {
    struct evaluation e = { .scenario = scenario };
    evaluate(&e, condition->root);
    return e.divides_by_zero;
}

/* ---- its fields ---- */

struct visitor {
    condition_visit *visit;
    void *context;
};

/* A path or a text, used so beside `other` (NULL: alone). */
static void visit_operand(const struct visitor *v, const struct node *n,
                          enum condition_use_kind kind, const struct node *other) {
    struct condition_use use = { .kind = kind };
    if (n->kind == NODE_PATH)
        use.path = n->text;
    else if (n->kind == NODE_TEXT && kind == CONDITION_IS_NUMBER)
        use.text = n->text;
    else
        return;
    if (other != NULL && other->kind == NODE_TEXT && use.path != NULL) use.text = other->text;
    v->visit(v->context, &use);
}

static enum condition_use_kind use_beside(const struct node *other) {
    switch (other->kind) {
    case NODE_TEXT:
        return CONDITION_IS_TEXT;
    case NODE_NUMBER:
    case NODE_NEGATE:
    case NODE_ADD:
    case NODE_SUBTRACT:
    case NODE_MULTIPLY:
    case NODE_DIVIDE:
    case NODE_REMAINDER:
        return CONDITION_IS_NUMBER;
    default:
        return CONDITION_IS_ANY;
    }
}

static void visit_fields(const struct visitor *v, const struct node *n);

static void visit_in(const struct visitor *v, const struct node *n) {
    if (n->right->kind != NODE_LIST) {
        visit_operand(v, n->left, CONDITION_IS_ANY, NULL);
        visit_operand(v, n->right, CONDITION_IS_LIST, n->left);
        return;
    }
    if (n->right->left == NULL) visit_operand(v, n->left, CONDITION_IS_ANY, NULL);
    for (const struct node *item = n->right->left; item != NULL; item = item->right) {
        visit_operand(v, n->left, use_beside(item->left), item->left);
        visit_fields(v, item->left);
    }
}

static void visit_fields(const struct visitor *v, const struct node *n) {
    if (n == NULL) return;
    switch (n->kind) {
    case NODE_PATH:
        visit_operand(v, n, CONDITION_IS_ANY, NULL);
        return;
    case NODE_EQUAL:
    case NODE_UNEQUAL:
        visit_operand(v, n->left, use_beside(n->right), n->right);
        visit_operand(v, n->right, use_beside(n->left), n->left);
        break;
    case NODE_IN:
        visit_in(v, n);
        break;
    case NODE_NOT:
    case NODE_AND:
    case NODE_OR:
    case NODE_LIST:
    case NODE_ITEM:
        visit_fields(v, n->left);
        visit_fields(v, n->right);
        return;
    default:
        if (n->left != NULL) visit_operand(v, n->left, CONDITION_IS_NUMBER, NULL);
        if (n->right != NULL) visit_operand(v, n->right, CONDITION_IS_NUMBER, NULL);
        break;
    }
    /* What lies deeper; paths right below were visited. */
    if (n->left != NULL && n->left->kind != NODE_PATH) visit_fields(v, n->left);
    if (n->right != NULL && n->right->kind != NODE_PATH && n->right->kind != NODE_LIST)
        visit_fields(v, n->right);
}

void condition_for_each_field(const struct condition *condition, condition_visit *visit,
                              void *context) {
    const struct visitor visitor = { visit, context };
    visit_fields(&visitor, condition->root);
}
