/* What the disks of a rig share with each other and with the runner: a clock, buses, faults to come, and what was done.
 *
 * It lives in a nameless file that every server maps. Whoever dies with the lock in hand leaves numbers, not pointers,
 * so the next one goes on with them.
 */
#ifndef MATRIX_BOARD_H
#define MATRIX_BOARD_H

#include <stdint.h>

#include "physics.h"

enum { MOST_DISKS = 64, MOST_BUSES = 26, MOST_FAULTS = 64, MOST_TURNS = 256 };
enum { FAULT_DIES, FAULT_SLOW, FAULT_STALLS, FAULT_MEDIUM };

/* Something that goes wrong with a disk. Times are seconds on the board's clock. */
struct fault {
  double disk, kind;
  double from, until; /* until: infinite if it never ends */
  double factor;      /* slow: so many times */
  double start, end;  /* medium: bytes that cannot be read until they are written */
};

/* All of one disk since the board was made. */
struct report {
  struct disk_done done;
  double occupied;  /* seconds in which it had something to do */
  double late;      /* seconds by which answers came after the model's time, summed over requests */
  double owed;      /* seconds that the model took for requests, summed */
  uint64_t failed;  /* requests that a fault made fail */
  double idle;      /* of the whole board: seconds in which no disk had anything to do */
  double starved;   /* of that, what made an answer come later than it could have */
};

struct board;

/* Make a board in an empty file, or take part in one. Null with errno if that cannot be. */
struct board *board_made(int file);
struct board *board_joined(int file);
void board_left(struct board *);

double board_clock(const struct board *);
void board_bus(struct board *, int bus, double rate);
int board_fault(struct board *, const struct fault *);
void board_report(struct board *, int disk, struct report *);

/* The disks' side. */
/* How long before an answer is due its disk is awake for it, which keeps in mind when the last one is due. Not at all if
 * both are due at once: where many are awake, they take the processor from whoever brings and fetches, and all are late. */
double board_early(double *last, double arrived, double due);
double board_bus_end(struct board *, int bus, double ready, double length, double begun);
/* Says how long no disk had had anything to do. */
double board_begins(struct board *, int disk, double now);
void board_starved(struct board *, double seconds);
void board_ended(struct board *, int disk, double now, double arrived, double due, int failed);
void board_done(struct board *, int disk, const struct disk_done *done);
int board_faults(struct board *, int disk, struct fault *into);

#endif
