/* arena.c - blocks that double in size; each allocation is a bump of one pointer. */
#include "sim/base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/error.h"

enum { ARENA_ALIGNMENT = 16, ARENA_FIRST_BLOCK = 1 << 16 };

struct block {
    struct block *next;
    size_t size, used;
    _Alignas(16) char bytes[];
};

struct arena {
    struct block *newest;
    int64_t held_bytes;
};

void *memory_alloc(size_t size) {
    return memory_realloc(NULL, size);
}

void *memory_realloc(void *old, size_t size) {
    void *memory = realloc(old, size > 0 ? size : 1);
    if (memory == NULL) {
        fprintf(stderr, "error: out of memory while asking for %zu bytes\n", size);
        exit(1);
    }
    return memory;
}

static struct block *block_create(struct arena *arena, size_t size) {
    struct block *block = memory_alloc(sizeof *block + size);
    block->next = arena->newest;
    block->size = size;
    block->used = 0;
    arena->newest = block;
    arena->held_bytes += (int64_t)size;
    return block;
}

struct arena *arena_create(void) {
    struct arena *arena = memory_alloc(sizeof *arena);
    memset(arena, 0, sizeof *arena);
    block_create(arena, ARENA_FIRST_BLOCK);
    return arena;
}

static void free_blocks(struct block *block) {
    while (block != NULL) {
        struct block *next = block->next;
        free(block);
        block = next;
    }
}

void arena_destroy(struct arena *arena) {
    if (arena == NULL) return;
    free_blocks(arena->newest);
    free(arena);
}

void arena_reset(struct arena *arena) {
    struct block *largest = arena->newest;
    free_blocks(largest->next);
    largest->next = NULL;
    largest->used = 0;
    arena->held_bytes = (int64_t)largest->size;
}

void *arena_alloc(struct arena *arena, size_t size) {
    size_t rounded = (size + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    ballast_check(rounded >= size);
    struct block *block = arena->newest;
    if (block->size - block->used < rounded) {
        size_t next_size = block->size * 2 > rounded ? block->size * 2 : rounded;
        block = block_create(arena, next_size);
    }
    void *memory = block->bytes + block->used;
    block->used += rounded;
    memset(memory, 0, rounded);
    return memory;
}

char *arena_text(struct arena *arena, const char *text) {
    size_t size = strlen(text) + 1;
    return memcpy(arena_alloc(arena, size), text, size);
}

char *arena_format(struct arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ballast_check(length >= 0);
    char *text = arena_alloc(arena, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

int64_t arena_bytes(const struct arena *arena) {
    return arena->held_bytes;
}
