/* The flash of an SSD that ages: a page map, blocks that are erased as a whole, and the collection of free blocks.
 *
 * It has no time. It counts the pages that a write copies, and physics.c turns them into seconds.
 */
#ifndef MATRIX_FTL_H
#define MATRIX_FTL_H

#include <stdint.h>

struct ftl;

/* `spare`: the flash beyond the size of the disk, as a share of it. Sizes are bytes. Null without memory. */
struct ftl *ftl_new(double size, double page, double block, double spare);
void ftl_free(struct ftl *);

/* Write pages in order. Returns how many others were copied to make room. */
uint64_t ftl_write(struct ftl *, uint32_t first, uint32_t count);

/* The pages have no data any more. */
void ftl_trim(struct ftl *, uint32_t first, uint32_t count);

#endif
