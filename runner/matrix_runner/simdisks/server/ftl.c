#include "ftl.h"

#include <math.h>
#include <stdlib.h>

enum { HOST, COPIES, STREAMS }; /* what the host writes, and what is copied, go to blocks of their own */
enum { LEAST_SPARE = 5 };       /* blocks: two open ones, a clean one to copy to, and room for both to work */
static const uint32_t nothing = UINT32_MAX;

/* A page holds the data of the disk's page `owner`, or nothing. A closed block is in the list of its number of valid
 * pages, so the block with the fewest is found at once. */
struct ftl {
  uint32_t pages, per_block, blocks;
  uint32_t *place; /* of each page of the disk: where it is, plus 1; 0: it has no data */
  uint32_t *owner; /* of each page of flash: whose data it has, plus 1; 0: none that is valid */
  uint32_t *valid, *next, *previous; /* per block */
  uint32_t *first; /* per number of valid pages: the first closed block */
  uint32_t *clean; /* a stack of erased blocks */
  uint32_t clean_blocks;
  uint32_t open[STREAMS], used[STREAMS]; /* the blocks that are written, and how many of their pages are used */
};

static void unlisted(struct ftl *f, uint32_t block) {
  if (f->previous[block] != nothing) f->next[f->previous[block]] = f->next[block];
  else f->first[f->valid[block]] = f->next[block];
  if (f->next[block] != nothing) f->previous[f->next[block]] = f->previous[block];
}

static void listed(struct ftl *f, uint32_t block) {
  uint32_t *first = &f->first[f->valid[block]];
  f->previous[block] = nothing;
  f->next[block] = *first;
  if (*first != nothing) f->previous[*first] = block;
  *first = block;
}

static void invalid(struct ftl *f, uint32_t page) {
  if (!f->place[page]) return;
  uint32_t at = f->place[page] - 1, block = at / f->per_block;
  int is_closed = block != f->open[HOST] && block != f->open[COPIES];
  if (is_closed) unlisted(f, block);
  f->owner[at] = 0;
  f->valid[block]--;
  if (is_closed) listed(f, block);
  f->place[page] = 0;
}

static void append(struct ftl *f, int stream, uint32_t page) {
  if (f->used[stream] == f->per_block) {
    uint32_t full = f->open[stream];
    f->open[stream] = f->clean[--f->clean_blocks];
    f->used[stream] = 0;
    listed(f, full);
  }
  uint32_t at = f->open[stream] * f->per_block + f->used[stream]++;
  f->owner[at] = page + 1;
  f->place[page] = at + 1;
  f->valid[f->open[stream]]++;
}

/* Copy the valid pages of the closed block that has the fewest, and erase it. There is always one that is not full of
 * valid pages, as there is more flash than the disk has pages. */
static uint32_t collected(struct ftl *f) {
  uint32_t fewest = 0;
  while (f->first[fewest] == nothing) fewest++;
  uint32_t block = f->first[fewest];
  for (uint32_t at = block * f->per_block; at < (block + 1) * f->per_block; at++) {
    if (!f->owner[at]) continue;
    uint32_t page = f->owner[at] - 1;
    invalid(f, page);
    append(f, COPIES, page);
  }
  unlisted(f, block);
  f->clean[f->clean_blocks++] = block;
  return fewest;
}

uint64_t ftl_write(struct ftl *f, uint32_t first, uint32_t count) {
  uint64_t copied = 0;
  for (uint32_t page = first; page < first + count && page < f->pages; page++) {
    invalid(f, page);
    /* Copies of one block take at most one clean block. */
    while (f->used[HOST] == f->per_block && f->clean_blocks < 2) copied += collected(f);
    append(f, HOST, page);
  }
  return copied;
}

void ftl_trim(struct ftl *f, uint32_t first, uint32_t count) {
  for (uint32_t page = first; page < first + count && page < f->pages; page++) invalid(f, page);
}

static uint32_t *table(uint32_t entries) { return calloc(entries, sizeof(uint32_t)); }

struct ftl *ftl_new(double size, double page, double block, double spare) {
  struct ftl *f = calloc(1, sizeof *f);
  if (!f) return 0;
  f->pages = (uint32_t)ceil(size / page);
  f->per_block = (uint32_t)(block / page);
  uint32_t needed = (f->pages + f->per_block - 1) / f->per_block;
  uint32_t more = (uint32_t)(size * spare / block);
  f->blocks = needed + (more > LEAST_SPARE ? more : LEAST_SPARE);
  f->place = table(f->pages);
  f->owner = table(f->blocks * f->per_block);
  f->valid = table(f->blocks);
  f->next = table(f->blocks);
  f->previous = table(f->blocks);
  f->first = table(f->per_block + 1);
  f->clean = table(f->blocks);
  if (!f->place || !f->owner || !f->valid || !f->next || !f->previous || !f->first || !f->clean) {
    ftl_free(f);
    return 0;
  }
  for (uint32_t at = 0; at <= f->per_block; at++) f->first[at] = nothing;
  f->open[COPIES] = 1; /* and that of the host is block 0 */
  for (uint32_t at = f->blocks; at-- > STREAMS;) f->clean[f->clean_blocks++] = at;
  return f;
}

void ftl_free(struct ftl *f) {
  if (!f) return;
  uint32_t *tables[] = {f->place, f->owner, f->valid, f->next, f->previous, f->first, f->clean};
  for (unsigned at = 0; at < sizeof tables / sizeof tables[0]; at++) free(tables[at]);
  free(f);
}
