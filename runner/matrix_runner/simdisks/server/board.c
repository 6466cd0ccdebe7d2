#define _GNU_SOURCE
#include "board.h"

#include "bus.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* A wake-up takes long on a busy or virtual host. */
#define EARLY 60e-6
/* A client that brings no request for longer is between two workloads. */
#define PAUSE 0.02
enum { MOST_ANSWERS = 512 };

struct presence {
  int outstanding;
  double since, idle_since;
};

/* How the clock runs: from a moment of the host's clock, so many times slower. */
struct pace {
  double epoch, slow;
};

struct board {
  pthread_mutex_t lock;
  struct pace pace[2]; /* one is read while the other is written */
  atomic_int now;      /* the one that is read */
  int outstanding;
  double idle_since, idle;
  double answer[MOST_ANSWERS]; /* when answers left that have brought no request yet, in a ring */
  unsigned answers, brought;
  struct presence presence[MOST_DISKS];
  struct report report[MOST_DISKS];
  struct bus bus[MOST_BUSES];
  int faults;
  struct fault fault[MOST_FAULTS];
};

static double monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double board_early(double *last, double arrived, double due) {
  double early = *last <= arrived || fabs(due - *last) >= EARLY ? EARLY : 0;
  *last = due;
  return early;
}

static const struct pace *pace_of(const struct board *b) { return &b->pace[b->now]; }

static double clock_of(const struct pace *p, double moment) { return (moment - p->epoch) / p->slow; }

double board_clock_at(const struct board *b, double moment) { return clock_of(pace_of(b), moment); }

double board_moment(const struct board *b, double clock) {
  const struct pace *p = pace_of(b);
  return p->epoch + clock * p->slow;
}

double board_clock(const struct board *b) { return board_clock_at(b, monotonic()); }

double board_slow(const struct board *b) { return pace_of(b)->slow; }

void board_slower(struct board *b, double slow) {
  double moment = monotonic();
  int next = !b->now;
  b->pace[next] = (struct pace){moment - board_clock_at(b, moment) * slow, slow};
  b->now = next;
}

static void lock(struct board *b) {
  if (pthread_mutex_lock(&b->lock) == EOWNERDEAD) pthread_mutex_consistent(&b->lock);
}

static void unlock(struct board *b) { pthread_mutex_unlock(&b->lock); }

struct board *board_joined(int file) {
  struct board *b = mmap(0, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return b == MAP_FAILED ? 0 : b;
}

struct board *board_made(int file, double slow) {
  if (ftruncate(file, sizeof(struct board)) < 0) return 0;
  struct board *b = board_joined(file);
  if (!b) return 0;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&b->lock, &attributes);
  pthread_mutexattr_destroy(&attributes);
  b->pace[0] = (struct pace){monotonic(), slow};
  return b;
}

void board_left(struct board *b) { munmap(b, sizeof *b); }

int board_fault(struct board *b, const struct fault *fault) {
  int there = 0;
  lock(b);
  if (b->faults < MOST_FAULTS) {
    b->fault[b->faults++] = *fault;
    there = 1;
  }
  unlock(b);
  return there;
}

int board_faults(struct board *b, int disk, struct fault *into) {
  int found = 0;
  if (!b->faults) return 0;
  lock(b);
  for (int at = 0; at < b->faults; at++)
    if ((int)b->fault[at].disk == disk) into[found++] = b->fault[at];
  unlock(b);
  return found;
}

void board_bus(struct board *b, int bus, double rate) { b->bus[bus].rate = rate; }

double board_bus_end(struct board *b, int bus, double ready, double length, double begun) {
  lock(b);
  double end = bus_end(&b->bus[bus], ready, length, begun);
  unlock(b);
  return end;
}

/* In a closed loop each answer brings a request, the first one the first. Old answers brought none. */
static double brought_by(struct board *b, double now) {
  if (b->answers - b->brought > MOST_ANSWERS) b->brought = b->answers - MOST_ANSWERS;
  while (b->brought != b->answers) {
    double answer = b->answer[b->brought++ % MOST_ANSWERS];
    if ((now - answer) * board_slow(b) < PAUSE) return answer;
  }
  return now;
}

double board_begins(struct board *b, int disk, double now) {
  struct presence *own = &b->presence[disk];
  double gap = 0;
  lock(b);
  double since = brought_by(b, now);
  if (!b->outstanding++ && b->idle_since > 0 && now > b->idle_since) b->idle += now - b->idle_since;
  if (!own->outstanding++) {
    if (own->idle_since > since) since = own->idle_since;
    if (own->idle_since > 0 && now > since) gap = now - since;
    own->since = now;
  }
  unlock(b);
  return gap;
}

void board_starved(struct board *b, int disk, double seconds) {
  lock(b);
  b->report[disk].starved += seconds;
  unlock(b);
}

void board_ended(struct board *b, int disk, double now, double arrived, double due, int failed) {
  struct report *r = &b->report[disk];
  struct presence *own = &b->presence[disk];
  lock(b);
  b->answer[b->answers++ % MOST_ANSWERS] = now;
  if (!--b->outstanding) b->idle_since = now;
  if (!--own->outstanding) {
    r->occupied += now - own->since;
    own->idle_since = now;
  }
  r->failed += (uint64_t)failed;
  r->owed += due - arrived;
  r->late += now - due;
  unlock(b);
}

void board_done(struct board *b, int disk, const struct disk_done *done) { b->report[disk].done = *done; }

void board_report(struct board *b, int disk, struct report *into) {
  lock(b);
  *into = b->report[disk];
  if (b->presence[disk].outstanding) into->occupied += board_clock(b) - b->presence[disk].since;
  into->idle = b->idle;
  if (!b->outstanding && b->idle_since > 0) into->idle += board_clock(b) - b->idle_since;
  unlock(b);
}
