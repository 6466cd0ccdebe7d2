/* A closed loop on simulated disks, on simulated time: fio, Linux's deadline scheduler, and the physics. */
#include "physics.h"

#include <math.h>
#include <stdlib.h>

enum { PAUSED, OUTSIDE, WAITING, UNDER_WAY, ANSWERED };
enum { BATCH = 16, MOST_SORTED = 128 }; /* a process waits if the scheduler has so many (nr_requests) */
static const double EXPIRES[] = {0.5, 5.0}; /* of reads and writes, in seconds */

struct work {
  double begin, end, block, depth, reads, in_sequence, safe, disks, queue, turn, seconds, most, seed;
};

struct request {
  int state, what, disk;
  double offset, arrival, at; /* when it is asked or answered */
};

struct disk {
  struct physics *physics;
  int inside, under_way, batch;
  double next;
};

struct loop {
  const struct work *work;
  struct disk *disks;
  struct request *requests;
  uint64_t chance, asked;
};

static double share(struct loop *l) {
  uint64_t z = (l->chance += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static void settle(struct loop *l, int disk, double now) {
  uint64_t tag;
  double end;
  while (physics_next(l->disks[disk].physics, now, &tag, &end)) {
    l->requests[tag].state = ANSWERED;
    l->requests[tag].at = end;
  }
}

/* The scheduler goes on in the order of places; a batch ends at a request that waited for too long. */
static struct request *taken(struct loop *l, int disk, double now) {
  struct disk *d = &l->disks[disk];
  struct request *oldest = 0, *next = 0;
  for (int at = 0; at < (int)l->work->depth; at++) {
    struct request *r = &l->requests[at];
    if (r->state != WAITING || r->disk != disk) continue;
    if (!oldest || r->arrival < oldest->arrival) oldest = r;
    if (r->offset >= d->next && (!next || r->offset < next->offset)) next = r;
  }
  if (!oldest) return 0;
  if (!next || (d->batch >= BATCH && now - oldest->arrival > EXPIRES[oldest->what])) next = oldest;
  d->batch = d->batch >= BATCH ? 1 : d->batch + 1;
  d->next = next->offset + 1;
  return next;
}

/* Requests enter the scheduler in the order in which they were asked. */
static void enter(struct loop *l, int disk) {
  while (l->disks[disk].inside < MOST_SORTED) {
    struct request *oldest = 0;
    for (int at = 0; at < (int)l->work->depth; at++) {
      struct request *r = &l->requests[at];
      if (r->state == OUTSIDE && r->disk == disk && (!oldest || r->arrival < oldest->arrival)) oldest = r;
    }
    if (!oldest) return;
    oldest->state = WAITING;
    l->disks[disk].inside++;
  }
}

static void start(struct loop *l, int disk, double now) {
  struct disk *d = &l->disks[disk];
  struct request *r;
  enter(l, disk);
  while (d->under_way < (int)l->work->queue && (r = taken(l, disk, now))) {
    d->under_way++;
    r->state = UNDER_WAY;
    uint64_t tag = (uint64_t)(r - l->requests);
    physics_submit(d->physics, now, r->what ? PHYSICS_WRITE : PHYSICS_READ, (uint64_t)r->offset, (uint64_t)l->work->block,
                   r->what && l->work->safe > 0, tag);
  }
  settle(l, disk, now);
}

static void ask(struct loop *l, struct request *r, double now) {
  const struct work *w = l->work;
  double places = floor((w->end - w->begin) / w->block);
  r->what = share(l) >= w->reads;
  r->disk = (int)(share(l) * w->disks);
  r->offset = w->begin + (w->in_sequence > 0 ? fmod((double)l->asked++, places) : floor(share(l) * places)) * w->block;
  r->arrival = now;
  r->state = OUTSIDE;
  start(l, r->disk, now);
}

/* What requests took, in seconds: reads from the beginning of `took`, writes from its end. Returns the time at the end. */
double closed_loop(const struct disk_model *model, const struct work *work, double *took, double *reads, double *writes) {
  struct loop l = {work, calloc((size_t)work->disks, sizeof *l.disks), calloc((size_t)work->depth, sizeof *l.requests),
                   (uint64_t)work->seed, 0};
  for (int at = 0; at < (int)work->disks; at++) l.disks[at].physics = physics_new(model);
  double now = 0;
  for (*reads = *writes = 0; *reads + *writes < work->most && now < work->seconds;) {
    struct request *first = 0;
    for (int at = 0; at < (int)work->depth; at++) {
      struct request *r = &l.requests[at];
      if ((r->state == PAUSED || r->state == ANSWERED) && (!first || r->at < first->at)) first = r;
    }
    int disk = 0;
    for (int at = 1; at < (int)work->disks; at++)
      if (physics_wakes(l.disks[at].physics) < physics_wakes(l.disks[disk].physics)) disk = at;
    double wakes = physics_wakes(l.disks[disk].physics);
    now = fmax(now, first ? fmin(first->at, wakes) : wakes);
    if (!first || first->at > wakes) {
      settle(&l, disk, now);
    } else if (first->state == PAUSED) {
      ask(&l, first, now);
    } else {
      took[(size_t)(first->what ? work->most - 1 - (*writes)++ : (*reads)++)] = now - first->arrival;
      first->state = PAUSED;
      first->at = now + work->turn;
      l.disks[first->disk].under_way--;
      l.disks[first->disk].inside--;
      start(&l, first->disk, now);
    }
  }
  for (int at = 0; at < (int)work->disks; at++) physics_free(l.disks[at].physics);
  free(l.disks);
  free(l.requests);
  return now;
}
