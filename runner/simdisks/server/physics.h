/* How long a disk takes: a pure, deterministic simulation. Times are seconds since the disk was made, places are bytes.
 *
 * It knows no clock and starts nothing. Whoever drives it says what time it is, and must not go back: a server with the
 * real clock, a prediction with a made-up one. Both get the same answers, because there is no other source of them.
 */
#ifndef MATRIX_PHYSICS_H
#define MATRIX_PHYSICS_H

#include <stdint.h>

enum { PHYSICS_READ, PHYSICS_WRITE, PHYSICS_FLUSH };
enum { PHYSICS_IDEAL, PHYSICS_HDD, PHYSICS_SSD, PHYSICS_VOLUME };
enum { MOST_ZONES = 64, MOST_CHANNELS = 256 };

/* Part of a rotating disk where a track holds the same number of bytes. */
struct zone {
  double end;  /* the share of the disk at which it ends */
  double rate; /* bytes per second passing below the head */
};

/* Everything that makes a disk what it is. What a kind does not use is zero. */
struct disk_model {
  double kind;
  double size;
  double overhead;  /* of every command, on the interface */
  double interface; /* bytes per second to the host; 0: no limit */

  /* hdd */
  double revolution;
  double seek_track;
  double seek_full;
  double phase; /* where the platter is at the beginning, in revolutions */
  double read_ahead;
  double segments;
  double write_cache;  /* bytes; 0: writes wait for the medium */
  double write_extents; /* how many separate places may be waiting in it */
  double window;       /* among how many of the oldest commands it chooses the next */
  double band;         /* shingled: bytes that can only be written one after another; 0: it is not shingled */
  double landing;      /* shingled: bytes of the place where other writes land before they are put where they belong */

  /* ssd */
  double read_latency;
  double write_latency;
  double channels;
  double read_rate;
  double write_rate;
  double cliff;          /* bytes that are written at write_rate before it falls */
  double cliff_rate;     /* bytes per second once they are, and while idle it recovers at this */

  /* volume */
  double iops;
  double burst_iops;
  double burst_credits; /* I/Os beyond `iops` that were saved up at most, and at the beginning */
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
  uint64_t seeks;     /* accesses for which the arm moved */
  uint64_t hits;      /* reads answered from the disk's own memory */
  double busy;        /* seconds in which the medium worked for the host */
};

struct physics;

struct physics *physics_new(const struct disk_model *model);
void physics_free(struct physics *);

/* A number of a model by its name, or null; and how many numbers there are before its zones. */
double *physics_field(struct disk_model *, const char *name);
extern const int physics_numbers;

/* The way to the host is shared with others: says when a transfer ends that can end at `ready`, not begin before `begun`. */
void physics_shares(struct physics *, double (*ends)(void *context, double ready, double length, double begun), void *);

/* A command arrives. Tags are the caller's. */
void physics_submit(struct physics *, double now, int what, uint64_t offset, uint64_t length, int fua, uint64_t tag);

/* The next command whose end is certain by `now`: 1, its tag and when it ends (which may be later than `now`); else 0. */
int physics_next(struct physics *, double now, uint64_t *tag, double *end);

/* Was the last command that became certain held up by what the medium was doing anyway? Had it come earlier, it would
 * have ended no earlier. */
int physics_held_up(const struct physics *);

/* When the disk will next decide something; infinite if it has nothing to decide. */
double physics_wakes(const struct physics *);

void physics_done(const struct physics *, struct disk_done *);

#endif
