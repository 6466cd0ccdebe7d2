/* What the disks of a rig share with each other and with the runner: clock, buses, faults and counters.
 *
 * It is in an unnamed file that every server maps. It has numbers and no pointers, so it stays usable after a process
 * is killed with the lock held.
 */
#ifndef MATRIX_BOARD_H
#define MATRIX_BOARD_H

#include <stdint.h>

#include "physics.h"

enum { MOST_DISKS = 64, MOST_BUSES = 26, MOST_FAULTS = 64 };
enum { FAULT_DIES, FAULT_SLOW, FAULT_STALLS, FAULT_MEDIUM, FAULT_CORRUPT };

/* A fault of a disk. Times are seconds on the board's clock. */
struct fault {
  double disk, kind;
  double from, until; /* until: infinite if it never ends */
  double factor;      /* slow: how many times slower */
  double start, end;  /* medium: bytes that cannot be read until they are written; corrupt: bytes that are read wrong */
};

/* Counters of one disk since the board was made. */
struct report {
  struct disk_done done;
  double occupied;  /* seconds with requests in flight */
  double late;      /* seconds by which answers came after the model's time, summed over requests */
  double owed;      /* seconds that the model took for requests, summed */
  uint64_t failed;  /* requests that failed by a fault */
  double idle;      /* of the whole board: seconds in which all disks were idle */
  double starved;   /* of this disk: seconds without a request that delayed answers */
};

struct board;

/* Make a board in an empty file, or join one. Null and errno on failure.
 *
 * Its clock, and with it all disks, links, faults and counters, runs `slow` times slower than the host's. Only the two
 * functions below convert; delays that the host causes (wake-ups, pauses) are in the host's seconds. */
struct board *board_made(int file, double slow);
struct board *board_joined(int file);
void board_left(struct board *);

double board_clock(const struct board *);
/* The board's clock at a moment of the host's monotonic clock, and the reverse. */
double board_clock_at(const struct board *, double moment);
double board_moment(const struct board *, double clock);
double board_slow(const struct board *);
/* From now on it runs so many times slower; it does not jump. The disks have no requests. */
void board_slower(struct board *, double slow);
void board_bus(struct board *, int bus, double rate);
int board_fault(struct board *, const struct fault *);
void board_report(struct board *, int disk, struct report *);

/* The disks' side. */
/* How long before an answer is due its disk has to be awake; remembers the last due time. Not at all if both are due at
 * once: many busy-waiting disks would take the processor from the clients, and all answers would be late. */
double board_early(double *last, double arrived, double due);
double board_bus_end(struct board *, int bus, double ready, double length, double begun);
/* Returns how long the disk had been without a request since the answer, of any disk, that brought this one. */
double board_begins(struct board *, int disk, double now);
void board_starved(struct board *, int disk, double seconds);
void board_ended(struct board *, int disk, double now, double arrived, double due, int failed);
void board_done(struct board *, int disk, const struct disk_done *done);
int board_faults(struct board *, int disk, struct fault *into);

#endif
