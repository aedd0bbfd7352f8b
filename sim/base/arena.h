/* arena.h - memory that is freed all at once.
 *
 * One arena per run: made by the command, handed down first, freed once. Allocation never fails
 * (an exhausted machine stops the program with one sentence). Memory is zeroed and aligned to 16.
 *
 *     struct arena *a = arena_create();
 *     struct layer *layers = arena_array(a, struct layer, layer_count);
 *     arena_destroy(a);
 */
#ifndef BALLAST_SIM_BASE_ARENA_H
#define BALLAST_SIM_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena;

struct arena *arena_create(void);
void arena_destroy(struct arena *arena);
/* Forgets everything but keeps the largest block for the next use. */
void arena_reset(struct arena *arena);
void *arena_alloc(struct arena *arena, size_t size);
char *arena_text(struct arena *arena, const char *text);
char *arena_format(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int64_t arena_bytes(const struct arena *arena); /* held from the system */

#define arena_new(arena, type)          ((type *)arena_alloc((arena), sizeof(type)))
#define arena_array(arena, type, count)                                                            \
    ((type *)arena_alloc((arena), sizeof(type) * (size_t)(count)))

/* malloc and realloc that stop the program instead of returning NULL; the caller frees. */
void *memory_alloc(size_t size);
void *memory_realloc(void *old, size_t size);

#endif
