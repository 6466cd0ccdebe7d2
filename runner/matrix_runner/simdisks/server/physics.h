/* The timing of a disk: a pure, deterministic simulation. Times are seconds since the disk was made, places are bytes.
 *
 * It has no clock and no threads. The caller passes the time, which must not go back: real time in a server, simulated
 * time in a prediction. Both get the same answers from the same code.
 */
#ifndef MATRIX_PHYSICS_H
#define MATRIX_PHYSICS_H

#include <stdint.h>

enum { PHYSICS_READ, PHYSICS_WRITE, PHYSICS_FLUSH, PHYSICS_TRIM };
enum { PHYSICS_IDEAL, PHYSICS_HDD, PHYSICS_SSD, PHYSICS_VOLUME };
enum { MOST_ZONES = 64, MOST_CHANNELS = 256 };

/* Part of a rotating disk where a track holds the same number of bytes. */
struct zone {
  double end;  /* the share of the disk at which it ends */
  double rate; /* bytes per second passing below the head */
};

/* All parameters of a disk. Those that its kind does not use are zero. */
struct disk_model {
  double kind;
  double size;
  double overhead;  /* per command, on the interface */
  double interface; /* bytes per second to the host; 0: no limit */

  /* hdd */
  double revolution;
  double seek_track;
  double seek_full;
  double phase; /* of the platter at time 0, in revolutions */
  double read_ahead;
  double segments;
  double write_cache;  /* bytes; 0: writes wait for the medium */
  double write_extents; /* the most separate places in it */
  double write_window; /* how many of the oldest of these places it considers for the next; 0: all */
  double window;       /* how many of the oldest commands it considers for the next */
  double in_order;     /* how many commands have an order that is fixed ahead; 0: none */
  double band;         /* shingled: bytes that can only be written sequentially; 0: not shingled */
  double landing;      /* shingled: bytes of the media cache, where non-sequential writes land first */

  /* ssd */
  double read_latency;
  double write_latency;
  double channels;
  double read_rate;
  double write_rate;
  double cliff;          /* bytes that can be written at write_rate before it falls */
  double cliff_rate;     /* bytes per second after that; it recovers at this rate while idle */
  double cliff_stops;    /* 1: when they are full, writes wait until all of them are empty */
  double flush;          /* seconds until written data is safe; 0: it is at once */
  double by_address;     /* 1: the place decides on the channel; 0: the first free one takes the command */
  double write_overhead; /* per write, on the interface; 0: the same as `overhead` */
  double spare;          /* flash beyond the size, as a share of it; 0: it does not age */
  double page;           /* bytes that are written together */
  double block;          /* bytes that are erased together */

  /* volume */
  double iops;
  double burst_iops;
  double burst_credits; /* the most saved I/Os beyond `iops`, and those at time 0 */
  double io_size;       /* a larger request counts several times */
  double bandwidth;
  double latency;

  double zones;
  struct zone zone[MOST_ZONES];
};

/* What one disk has done so far. */
struct disk_done {
  uint64_t reads, writes, flushes;
  uint64_t read_bytes, written_bytes;
  uint64_t seeks;     /* accesses that moved the arm */
  uint64_t hits;      /* reads from the read cache */
  uint64_t copied_bytes; /* moved by an ageing SSD to make room for writes */
  double busy;        /* seconds in which the medium worked for the host */
};

struct physics;

struct physics *physics_new(const struct disk_model *model);
void physics_free(struct physics *);

/* A parameter of a model by its name, or null; and the number of parameters before its zones. */
double *physics_field(struct disk_model *, const char *name);
extern const int physics_numbers;

/* For a shared link to the host: returns the end of a transfer that can end at `ready` and not begin before `begun`. */
void physics_shares(struct physics *, double (*ends)(void *context, double ready, double length, double begun), void *);

/* A command arrives. Tags are the caller's. */
void physics_submit(struct physics *, double now, int what, uint64_t offset, uint64_t length, int fua, uint64_t tag);

/* The next command whose end is settled by `now`: 1, its tag and its end (which may be later than `now`); else 0. */
int physics_next(struct physics *, double now, uint64_t *tag, double *end);

/* Whether the last settled command waited for the medium anyway: an earlier arrival would have ended no earlier. */
int physics_held_up(const struct physics *);

/* When the disk will next decide something; infinite if it has nothing to decide. */
double physics_wakes(const struct physics *);

void physics_done(const struct physics *, struct disk_done *);

#endif
