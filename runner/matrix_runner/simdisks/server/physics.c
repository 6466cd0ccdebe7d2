/* The time of each request: seek, rotation, cache and queue of a disk. physics.h describes the model. */
#include "physics.h"

#include "ftl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WAITING = 1024, MOST_EXTENTS = 1024, MOST_SEGMENTS = 64 };
#define PATIENCE 1.0 /* seconds after which a command is served, however far away it is */
#define ENTRY 65536.0 /* the least landing zone that a write takes: the list of its entries is the limit */
#define LEISURE 0.5  /* seconds after which an idle shingled disk cleans a band */
#define SAME 1e-9    /* seconds: times that differ by less are equal, but for rounding */
#define HURRY 0.05   /* seconds after which reading ahead no longer keeps others waiting */

struct command {
  int what, fua, marked;
  int turn; /* of the commands whose order is fixed: the lowest is the next; 0: not fixed */
  uint64_t tag;
  double offset, length, arrival;
};

struct end {
  uint64_t tag;
  double at;
  int held_up;
};

/* A piece of the disk: in the write cache, or read into a segment of the read cache. */
struct extent {
  double start, end;
  double since;
  int held; /* a flush waits for it */
};

struct physics {
  struct disk_model model;
  struct disk_done done;

  struct command waiting[MOST_WAITING];
  int commands;
  struct end ends[MOST_WAITING];
  int first_end, last_end, held_up;
  double interface_free;
  double (*shared)(void *, double, double, double);
  void *context;

  /* hdd */
  double revs[MOST_ZONES + 1]; /* revolutions from the first byte to where each zone begins */
  double free;                 /* when the head can do something else */
  double head;                 /* the byte it is over then */
  double ahead;                /* it reads ahead up to here; less than `head` if it does not */
  double segment_start;
  struct extent segments[MOST_SEGMENTS];
  int next_segment;
  struct extent dirty[MOST_EXTENTS];
  int extents;
  double dirty_bytes;
  double leaving_bytes, leaving_until; /* being written from the write cache to the platter */
  int leaving_held;
  int turns;                   /* commands whose order was fixed so far … */
  double planned_head, planned_until; /* … and where and when the last of them ends */

  /* hdd, shingled */
  double stream, stream_from; /* where the last in-place write ended; the place after which no write landed behind it */
  double asked;            /* the time of the last command */
  double landed;           /* bytes in the landing zone */
  double landing_next;     /* where the next write lands */
  double *astray;          /* per band: how many of its bytes are in the landing zone */
  int bands;

  /* ssd */
  double channel_free[MOST_CHANNELS];
  double medium_free;
  double cliff_used;
  int unsafe; /* something was written since the last flush */
  struct ftl *flash; /* null if it does not age */

  /* volume */
  double io_free, credits, credits_at;
};

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

static void ends(struct physics *p, uint64_t tag, double at, int held_up) {
  p->ends[p->last_end] = (struct end){tag, at, held_up};
  p->last_end = (p->last_end + 1) % MOST_WAITING;
}

/* The end of a command whose data is complete at `ready`, on a shared link that it can use from `begun` on. It occupies
 * the link only for the transfer, not while the medium is still busy. */
static double sent(struct physics *p, double overhead, double ready, double length, double begun) {
  double takes = overhead + (p->model.interface > 0 ? length / p->model.interface : 0);
  p->interface_free = most(p->interface_free, begun) + takes;
  double end = most(ready, p->interface_free);
  return p->shared ? p->shared(p->context, end, length, begun) : end;
}

static double transferred(struct physics *p, double ready, double length, double begun) {
  return sent(p, p->model.overhead, ready, length, begun);
}

/* ---- hdd: head position and positioning time ---- */

static double revs_at(const struct physics *p, double place) {
  double share = place / p->model.size, begins = 0;
  int at = 0;
  while (at < (int)p->model.zones - 1 && share >= p->model.zone[at].end) begins = p->model.zone[at++].end;
  return p->revs[at] + (share - begins) * p->model.size / (p->model.zone[at].rate * p->model.revolution);
}

static double place_at(const struct physics *p, double revs) {
  double begins = 0;
  int at = 0;
  while (at < (int)p->model.zones - 1 && revs >= p->revs[at + 1]) begins = p->model.zone[at++].end;
  return begins * p->model.size + (revs - p->revs[at]) * p->model.zone[at].rate * p->model.revolution;
}

static double passing(const struct physics *p, double from, double to) {
  return (revs_at(p, to) - revs_at(p, from)) * p->model.revolution;
}

/* The byte below the head at a time when it is otherwise idle: it reads ahead to its limit. */
static double head_at(const struct physics *p, double now) {
  if (p->ahead <= p->head || now <= p->free) return p->head;
  double revs = revs_at(p, p->head) + (now - p->free) / p->model.revolution;
  return least(place_at(p, revs), p->ahead);
}

static double fraction(double value) { return value - floor(value); }

/* Seconds from `now` until the head, over `from`, can begin at `to`.
 *
 * A byte's angle is the fraction of the revolutions before it: track after track is skewed just so that a head that
 * follows them loses nothing, which is what makes the rate of a zone its sequential rate.
 */
static double access_time(const struct physics *p, double now, double from, double to) {
  double here = revs_at(p, from), there = revs_at(p, to), all = p->revs[(int)p->model.zones];
  double distance = fabs(there - here);
  double move = distance < 1 ? 0 : p->model.seek_track + (p->model.seek_full - p->model.seek_track) * sqrt(distance / all);
  double angle = (now + move) / p->model.revolution + p->model.phase;
  double wait = fraction(there - angle);
  if (wait > 1 - 1e-7) wait = 0;
  return move + wait * p->model.revolution;
}

static int within(const struct extent *extent, double start, double end) {
  return start >= extent->start && end <= extent->end;
}

static int cached(const struct physics *p, const struct command *c, double now) {
  double end = c->offset + c->length;
  for (int at = 0; at < p->extents; at++)
    if (within(&p->dirty[at], c->offset, end)) return 1;
  for (int at = 0; at < (int)p->model.segments; at++)
    if (within(&p->segments[at], c->offset, end)) return 1;
  return now >= p->free && c->offset >= p->segment_start && end <= head_at(p, now);
}

/* Written data invalidates read segments. */
static void outdated(struct physics *p, double start, double end) {
  for (int at = 0; at < (int)p->model.segments; at++)
    if (p->segments[at].start < end && p->segments[at].end > start) p->segments[at] = (struct extent){0, 0, 0, 0};
  if (p->segment_start < end && most(p->ahead, p->head) > start) p->segment_start = p->model.size;
}

/* The head leaves the track it has been reading ahead on; what it read stays in a segment. */
static void leave(struct physics *p, double now) {
  double here = head_at(p, now);
  if (here > p->segment_start) {
    p->segments[p->next_segment] = (struct extent){p->segment_start, here, now, 0};
    if (p->model.segments > 0) p->next_segment = (p->next_segment + 1) % (int)p->model.segments;
  }
  p->segment_start = p->model.size;
  p->head = here;
  p->ahead = 0;
}

static void move_to(struct physics *p, double now, double start, double end) {
  leave(p, now);
  double access = access_time(p, now, p->head, start);
  if (fabs(revs_at(p, start) - revs_at(p, p->head)) >= 1) p->done.seeks++;
  p->free = now + access + passing(p, start, end);
  p->head = end;
  p->done.busy += p->free - now;
}

/* ---- hdd, shingled: non-sequential writes land in the landing zone first ---- */

static int band_of(const struct physics *p, double place) {
  return (int)least(floor(place / p->model.band), p->bands - 1);
}

/* Read a band, and rewrite it. */
static void put_in_order(struct physics *p, int band, double now) {
  double start = band * p->model.band, end = least(start + p->model.band, p->model.size);
  move_to(p, now, start, end);
  move_to(p, p->free, start, end);
  p->landed -= p->astray[band];
  p->astray[band] = 0;
  p->stream = -1;
}

static void put_worst_in_order(struct physics *p, double now) {
  int worst = 0;
  for (int band = 1; band < p->bands; band++)
    if (p->astray[band] > p->astray[worst]) worst = band;
  put_in_order(p, worst, now);
}

/* A write goes to its place if it begins a band or continues the last one. */
static int in_turn(const struct physics *p, double start) {
  return p->model.band <= 0 || start == p->stream || fmod(start, p->model.band) == 0;
}

/* A band that was rewritten completely has no bytes in the landing zone any more. */
static void overwritten(struct physics *p, double start, double end) {
  for (double border = floor(start / p->model.band + 1) * p->model.band; border <= end; border += p->model.band)
    if (border - p->model.band >= p->stream_from) {
      int band = band_of(p, border - 1);
      p->landed -= p->astray[band];
      p->astray[band] = 0;
    }
}

static void to_platter(struct physics *p, double now, double start, double end) {
  double length = end - start, takes = most(length, ENTRY);
  if (in_turn(p, start)) {
    move_to(p, now, start, end);
    if (start != p->stream) p->stream_from = start;
    p->stream = end;
    if (p->model.band > 0) overwritten(p, start, end);
    return;
  }
  while (p->landed > 0 && p->landed + takes > p->model.landing) {
    put_worst_in_order(p, now);
    now = p->free;
  }
  if (p->landing_next + length > p->model.landing) p->landing_next = 0;
  move_to(p, now, p->landing_next, p->landing_next + length);
  p->landing_next += length;
  p->landed += takes;
  p->astray[band_of(p, start)] += takes;
  if (start < p->stream && end > p->stream_from) p->stream_from = p->stream;
}

/* ---- hdd: the write cache ---- */

static int takes(const struct physics *p, const struct command *c, double now) {
  double leaving = now < p->leaving_until ? p->leaving_bytes : 0;
  if (p->dirty_bytes + leaving + c->length > p->model.write_cache && p->dirty_bytes + leaving > 0) return 0;
  if (p->extents < (int)p->model.write_extents) return 1;
  for (int at = 0; at < p->extents; at++)
    if (!p->dirty[at].held && p->dirty[at].end == c->offset) return 1;
  return 0;
}

static void drop(struct physics *p, int at) {
  p->extents--;
  if (p->model.write_window > 0) /* they stay in the order of their age */
    memmove(&p->dirty[at], &p->dirty[at + 1], (size_t)(p->extents - at) * sizeof p->dirty[0]);
  else
    p->dirty[at] = p->dirty[p->extents];
}

/* Keep what is not overwritten, then add the new piece to the one that it continues. */
static void keep(struct physics *p, const struct command *c, double now) {
  double start = c->offset, end = c->offset + c->length;
  outdated(p, start, end);
  for (int at = p->extents - 1; at >= 0; at--) {
    struct extent *old = &p->dirty[at];
    if (old->held || old->start >= end || old->end <= start) continue;
    if (old->start >= start && old->end <= end) {
      p->dirty_bytes -= old->end - old->start;
      drop(p, at);
    } else if (old->start < start && old->end <= end) {
      p->dirty_bytes -= old->end - start;
      old->end = start;
    } else if (old->start >= start) {
      p->dirty_bytes -= end - old->start;
      old->start = end;
    } else {
      return; /* all of it is dirty already */
    }
  }
  p->dirty_bytes += c->length;
  for (int at = 0; at < p->extents; at++)
    if (!p->dirty[at].held && p->dirty[at].end == start) {
      p->dirty[at].end = end;
      return;
    }
  p->dirty[p->extents++] = (struct extent){start, end, now, 0};
}

static int held(const struct physics *p) {
  for (int at = 0; at < p->extents; at++)
    if (p->dirty[at].held) return 1;
  return 0;
}

static void remove_command(struct physics *p, int at) {
  memmove(&p->waiting[at], &p->waiting[at + 1], (size_t)(--p->commands - at) * sizeof p->waiting[0]);
}

static int caches_writes(const struct physics *p, const struct command *c) {
  return c->what == PHYSICS_WRITE && !c->fua && p->model.write_cache > 0;
}

/* The medium works on a command, or soon will: the host does not keep it waiting. */
static int at_work(const struct physics *p, double now) {
  return p->extents > 0 || now < p->free || head_at(p, now) < p->ahead;
}

/* A flush waits for the pieces that were there when it came: they are marked, and written first. */
static int flushed(struct physics *p, struct command *c, double now) {
  int leaving = now < p->leaving_until;
  if (!c->marked) {
    for (int at = 0; at < p->extents; at++) p->dirty[at].held = 1;
    p->leaving_held = leaving;
    c->marked = 1;
  }
  return !(leaving && p->leaving_held) && !held(p);
}

/* Answer, in order of arrival, what does not need the medium; writes do not overtake a flush. */
static void answer_at_once(struct physics *p, double now) {
  int closed = 0; /* nothing more goes into the write cache */
  for (int at = 0; at < p->commands && p->waiting[at].arrival <= now;) {
    struct command *c = &p->waiting[at];
    int held_up = now > c->arrival || at_work(p, now), answered = 0;
    if (c->what == PHYSICS_FLUSH) {
      answered = flushed(p, c, now);
    } else if (c->what == PHYSICS_READ) {
      answered = cached(p, c, now);
      p->done.hits += (uint64_t)answered;
    } else if (caches_writes(p, c) && !closed && takes(p, c, now)) {
      double before = p->dirty_bytes;
      keep(p, c, now);
      if (p->dirty_bytes <= before) held_up = now > c->arrival; /* no more work for the medium */
      answered = 1;
    }
    closed |= !answered && (c->what == PHYSICS_FLUSH || caches_writes(p, c));
    if (answered) {
      ends(p, c->tag, transferred(p, now, c->length, c->arrival), held_up);
      remove_command(p, at);
    } else {
      at++;
    }
  }
}

/* ---- hdd: what to do next ---- */

/* Seconds until reading on reaches a place: a head that has stopped first waits for its angle. */
static double passing_over(const struct physics *p, double now, double here, double to) {
  return to <= here ? 0 : access_time(p, now, here, here) + passing(p, here, to);
}

/* It has been read, or reading ahead will reach it no later than a seek: two requests in the wrong order cost no
 * revolution. */
static int on_the_way(const struct physics *p, const struct command *c, double now, double here) {
  if (c->what != PHYSICS_READ || c->offset < p->segment_start || c->offset > most(here, p->ahead)) return 0;
  return passing_over(p, now, here, c->offset) <= access_time(p, now, here, c->offset) + SAME;
}

struct choice {
  int command, extent;
  double cost;
};

/* Commands that continue each other are served as one: otherwise the first would miss a revolution each time. */
static int beginning(const struct physics *p, int at, double now) {
  for (int before = 0, seen = 0; before < p->commands && p->waiting[before].arrival <= now; before++) {
    const struct command *c = &p->waiting[before], *goes_on = &p->waiting[at];
    if (c->what == PHYSICS_FLUSH || caches_writes(p, c)) continue;
    if (seen++ >= (int)p->model.window) break;
    int joined = c->length > 0 && c->offset + c->length == goes_on->offset;
    if (joined && c->what == goes_on->what) return beginning(p, before, now);
  }
  return at;
}

/* The order of some commands is fixed ahead: each of them is the nearest to where the one before it will end. */
static void plan(struct physics *p, double now) {
  int planned = 0;
  for (int at = 0; at < p->commands; at++) planned += p->waiting[at].turn > 0;
  if (!planned) p->planned_head = head_at(p, now);
  for (; planned < (int)p->model.in_order; planned++) {
    struct command *best = 0;
    double nearest = INFINITY, begin = planned ? most(now, p->planned_until) : now;
    for (int at = 0, seen = 0; at < p->commands && p->waiting[at].arrival <= now; at++) {
      struct command *c = &p->waiting[at];
      if (c->turn || c->what == PHYSICS_FLUSH || caches_writes(p, c)) continue;
      if (seen++ >= (int)p->model.window) break;
      double cost = now - c->arrival > PATIENCE ? -1 : access_time(p, begin, p->planned_head, c->offset);
      if (cost < nearest) {
        best = c;
        nearest = cost;
      }
      if (cost < 0) break;
    }
    if (!best) return;
    best->turn = ++p->turns;
    p->planned_head = best->offset + best->length;
    p->planned_until = begin + most(nearest, 0) + passing(p, best->offset, p->planned_head);
  }
}

static struct choice chosen(struct physics *p, double now) {
  struct choice best = {-1, -1, INFINITY};
  double here = head_at(p, now);
  int in_order = p->model.in_order > 0;
  if (in_order) plan(p, now);
  int seen = 0, blocked = 0, must = held(p), oldest = -1, streams = 0, urgent = 0;
  for (int at = 0; at < p->commands && p->waiting[at].arrival <= now; at++) {
    const struct command *c = &p->waiting[at];
    if (c->what == PHYSICS_FLUSH || caches_writes(p, c)) {
      blocked |= c->what == PHYSICS_WRITE;
      urgent |= now - c->arrival > HURRY;
      continue;
    }
    if (in_order) { /* the medium sees the next in turn only */
      if (c->turn && (best.command < 0 || c->turn < p->waiting[best.command].turn))
        best = (struct choice){at, -1, access_time(p, now, here, c->offset)};
      continue;
    }
    if (oldest < 0) oldest = at;
    if (seen++ >= (int)p->model.window) break;
    double cost = access_time(p, now, here, c->offset);
    int streaming = on_the_way(p, c, now, here);
    if (streaming) cost = passing_over(p, now, here, c->offset);
    if (now - c->arrival > PATIENCE) cost = -1;
    if (cost < best.cost) {
      best = (struct choice){at, -1, cost};
      streams = streaming;
    }
    /* A stream is read in its order: to go to the nearest by angle, tracks ahead, costs the others a revolution each. */
    if (cost < 0 || (streaming && at == oldest)) break;
  }
  if (streams && now - p->waiting[oldest].arrival > HURRY) best.command = oldest;
  int patient = best.cost >= 0; /* a command that waited for too long comes first, whatever it continues */
  if (best.command >= 0 && patient && !streams && !in_order) best.command = beginning(p, best.command, now);
  if (best.command >= 0 && !blocked && !must) return best;
  if (urgent && p->extents) best = (struct choice){-1, -1, INFINITY};
  int places = p->model.write_window > 0 && !must ? (int)least(p->extents, p->model.write_window) : p->extents;
  for (int at = 0; at < places; at++) {
    if (must && !p->dirty[at].held) continue;
    double cost = access_time(p, now, here, p->dirty[at].start);
    if (cost < best.cost) best = (struct choice){-1, at, cost};
  }
  return best;
}

static void read_medium(struct physics *p, int at, double now) {
  struct command c = p->waiting[at];
  double end = c.offset + c.length, here = head_at(p, now);
  remove_command(p, at);
  if (on_the_way(p, &c, now, here)) {
    /* The head is about to pass it, or needs a revolution if it has read to its limit. */
    double begun = now;
    int held_up = now > c.arrival || here < p->ahead; /* not if the head has stopped reading ahead */
    if (here < end) {
      double resume = now + access_time(p, now, here, here);
      p->free = resume + passing(p, here, end);
      p->head = end;
      p->done.busy += p->free - now;
    } else {
      p->free = now;
      p->head = here;
    }
    p->ahead = most(p->ahead, least(p->head + p->model.read_ahead, p->model.size));
    /* A segment is as large as the read-ahead: older data is overwritten. */
    p->segment_start = most(p->segment_start, p->head - p->model.read_ahead);
    ends(p, c.tag, transferred(p, p->free, c.length, begun), held_up);
    return;
  }
  move_to(p, now, c.offset, end);
  p->segment_start = c.offset;
  p->ahead = least(end + p->model.read_ahead, p->model.size);
  ends(p, c.tag, transferred(p, p->free, c.length, now), now > c.arrival);
}

static void write_medium(struct physics *p, int at, double now) {
  struct command c = p->waiting[at];
  remove_command(p, at);
  outdated(p, c.offset, c.offset + c.length);
  double arrived = transferred(p, now, c.length, c.arrival);
  to_platter(p, most(now, arrived), c.offset, c.offset + c.length);
  ends(p, c.tag, p->free, now > c.arrival);
}

/* Writes of the cache go out a revolution at a time, so that a read need not wait for long. */
static void write_back(struct physics *p, int at, double now) {
  struct extent *e = &p->dirty[at];
  double end = floor(least(e->end, place_at(p, revs_at(p, e->start) + 1)));
  if (e->end - end < 512) end = e->end;
  to_platter(p, now, e->start, end);
  p->leaving_bytes = end - e->start;
  p->leaving_until = p->free;
  p->leaving_held = e->held;
  p->dirty_bytes -= p->leaving_bytes;
  e->start = end;
  if (e->start >= e->end) drop(p, at);
  if (!p->extents) p->dirty_bytes = 0;
}

/* When an idle shingled disk cleans a band. */
static double tidies(const struct physics *p) {
  return p->landed > 0 ? most(p->free, p->asked) + LEISURE : INFINITY;
}

static double hdd_wakes(const struct physics *p) {
  double first = INFINITY;
  if (p->commands) first = p->waiting[0].arrival;
  for (int at = 0; at < p->extents; at++) first = least(first, p->dirty[at].since);
  if (first == INFINITY) return tidies(p);
  return most(first, p->free);
}

static void hdd_advance(struct physics *p, double now) {
  for (double at; (at = hdd_wakes(p)) <= now;) {
    answer_at_once(p, at);
    struct choice next = chosen(p, at);
    if (next.command >= 0 && p->waiting[next.command].what == PHYSICS_READ) read_medium(p, next.command, at);
    else if (next.command >= 0) write_medium(p, next.command, at);
    else if (next.extent >= 0) write_back(p, next.extent, at);
    else if (!p->commands && at >= tidies(p)) put_worst_in_order(p, at);
    else break;
  }
  answer_at_once(p, now);
}

/* ---- ssd: parallel units, one interface, and a cache that fills ---- */

static double ssd_written(struct physics *p, double idle, double length) {
  const struct disk_model *m = &p->model;
  if (m->cliff <= 0) return length / m->write_rate;
  p->cliff_used = most(0, p->cliff_used - idle * m->cliff_rate);
  if (m->cliff_stops > 0 && p->cliff_used >= m->cliff) {
    double emptied = p->cliff_used / m->cliff_rate;
    p->cliff_used = length;
    return emptied + length / m->write_rate;
  }
  double fits = m->cliff_stops > 0 ? length : least(length, most(0, m->cliff - p->cliff_used));
  p->cliff_used += length;
  return fits / m->write_rate + (length - fits) / m->cliff_rate;
}

/* Seconds for which the flash copies pages before a write, and the bytes that the write takes: whole pages. */
static double ssd_copying(struct physics *p, const struct command *c, double *length) {
  const struct disk_model *m = &p->model;
  double first = floor(c->offset / m->page), end = ceil((c->offset + c->length) / m->page);
  double copied = (double)ftl_write(p->flash, (uint32_t)first, (uint32_t)(end - first)) * m->page;
  double others = (end - first) * m->page - c->length; /* the rest of the first and last page is read first */
  p->done.copied_bytes += (uint64_t)copied;
  *length += others;
  return copied / m->read_rate + copied / m->write_rate + others / m->read_rate;
}

/* Pages that are trimmed completely have no data any more. */
static void ssd_trim(struct physics *p, const struct command *c) {
  double first = ceil(c->offset / p->model.page), end = floor((c->offset + c->length) / p->model.page);
  if (p->flash && end > first) ftl_trim(p->flash, (uint32_t)first, (uint32_t)(end - first));
  ends(p, c->tag, transferred(p, c->arrival, 0, c->arrival), 0);
}

/* The flash channel that holds a page, by a hash that spreads neighbours. */
static int channel_of(const struct physics *p, double place) {
  uint64_t page = (uint64_t)(place / 4096) * 0x9E3779B97F4A7C15u;
  return (int)((page >> 32) % (uint64_t)p->model.channels);
}

static void ssd(struct physics *p, const struct command *c) {
  const struct disk_model *m = &p->model;
  if (c->what == PHYSICS_TRIM) {
    ssd_trim(p, c);
    return;
  }
  if (c->what == PHYSICS_FLUSH) {
    double takes = m->flush > 0 && p->unsafe ? m->flush : m->write_latency;
    ends(p, c->tag, most(c->arrival, p->medium_free) + takes, p->medium_free > c->arrival);
    p->unsafe = 0;
    return;
  }
  int best = m->by_address > 0 ? channel_of(p, c->offset) : 0;
  for (int at = 1; at < (int)m->channels && m->by_address <= 0; at++)
    if (p->channel_free[at] < p->channel_free[best]) best = at;
  double start = most(c->arrival, p->channel_free[best]);
  double latency = c->what == PHYSICS_READ ? m->read_latency : m->write_latency;
  if (c->fua && m->flush > 0) latency = most(latency, m->flush);
  p->channel_free[best] = start + latency;
  double begun = most(start + latency, p->medium_free);
  int held_up = start > c->arrival || begun > start + latency;
  if (c->what == PHYSICS_READ) {
    p->medium_free = begun + c->length / m->read_rate;
  } else {
    double idle = begun - p->medium_free, length = c->length;
    double copying = p->flash ? ssd_copying(p, c, &length) : 0;
    p->medium_free = begun + copying + ssd_written(p, idle, length);
    p->unsafe = 1;
  }
  p->done.busy += p->medium_free - most(start, least(begun, p->medium_free));
  double overhead = c->what == PHYSICS_WRITE && m->write_overhead > 0 ? m->write_overhead : m->overhead;
  ends(p, c->tag, sent(p, overhead, p->medium_free, c->length, c->arrival), held_up);
}

/* ---- volume: a rate limit with burst credits ---- */

static void volume(struct physics *p, const struct command *c) {
  const struct disk_model *m = &p->model;
  if (c->what == PHYSICS_FLUSH) {
    ends(p, c->tag, c->arrival + m->latency, 0);
    return;
  }
  double counts = m->io_size > 0 ? most(1, ceil(c->length / m->io_size)) : 1;
  double start = most(c->arrival, p->io_free);
  if (m->burst_iops > 0) {
    p->credits = least(m->burst_credits, p->credits + (start - p->credits_at) * m->iops);
    if (p->credits < counts) { /* wait until the credits are there */
      start += (counts - p->credits) / m->iops;
      p->credits = counts;
    }
    p->credits_at = start;
    p->credits -= counts;
    p->io_free = start + counts / m->burst_iops;
  } else {
    p->io_free = start + counts / m->iops;
  }
  if (m->bandwidth > 0) p->io_free = most(p->io_free, start + c->length / m->bandwidth);
  p->done.busy += p->io_free - start;
  ends(p, c->tag, transferred(p, start + m->latency, c->length, c->arrival), start > c->arrival);
}

/* ---- all kinds ---- */

struct physics *physics_new(const struct disk_model *model) {
  struct physics *p = calloc(1, sizeof *p);
  if (!p) return 0;
  p->model = *model;
  if (model->band > 0) {
    p->bands = (int)ceil(model->size / model->band);
    p->astray = calloc((size_t)p->bands, sizeof *p->astray);
    if (!p->astray) return free(p), (struct physics *)0;
  }
  if (model->spare > 0) {
    p->flash = ftl_new(model->size, model->page, model->block, model->spare);
    if (!p->flash) return physics_free(p), (struct physics *)0;
  }
  p->segment_start = model->size;
  p->stream = -1;
  p->credits = model->burst_credits;
  double begins = 0;
  for (int at = 0; at < (int)model->zones; at++) {
    double bytes = (model->zone[at].end - begins) * model->size;
    p->revs[at + 1] = p->revs[at] + bytes / (model->zone[at].rate * model->revolution);
    begins = model->zone[at].end;
  }
  return p;
}

void physics_free(struct physics *p) {
  if (!p) return;
  free(p->astray);
  ftl_free(p->flash);
  free(p);
}

void physics_shares(struct physics *p, double (*shared)(void *, double, double, double), void *context) {
  p->shared = shared;
  p->context = context;
}

/* In the order of the struct, up to its zones. */
static const char *const names[] = {
  "kind", "size", "overhead", "interface", "revolution", "seek_track", "seek_full", "phase", "read_ahead", "segments",
  "write_cache", "write_extents", "write_window", "window", "in_order", "band", "landing", "read_latency", "write_latency",
  "channels", "read_rate", "write_rate", "cliff", "cliff_rate", "cliff_stops", "flush", "by_address", "write_overhead",
  "spare", "page", "block", "iops", "burst_iops", "burst_credits", "io_size", "bandwidth", "latency",
};
enum { NAMES = sizeof names / sizeof names[0] };
const int physics_numbers = NAMES;

double *physics_field(struct disk_model *model, const char *name) {
  for (int at = 0; at < NAMES; at++)
    if (!strcmp(names[at], name)) return &model->kind + at;
  return 0;
}

static void count(struct physics *p, int what, double length) {
  if (what == PHYSICS_READ) {
    p->done.reads++;
    p->done.read_bytes += (uint64_t)length;
  } else if (what == PHYSICS_WRITE) {
    p->done.writes++;
    p->done.written_bytes += (uint64_t)length;
  } else if (what == PHYSICS_FLUSH) {
    p->done.flushes++;
  }
}

void physics_submit(struct physics *p, double now, int what, uint64_t offset, uint64_t length, int fua, uint64_t tag) {
  struct command c = {what, fua, 0, 0, tag, (double)offset, (double)length, now};
  count(p, what, c.length);
  switch ((int)p->model.kind) {
    case PHYSICS_HDD:
      if (!p->commands) hdd_advance(p, now); /* it may have worked on its own until now */
      p->asked = now;
      p->waiting[p->commands++] = c;
      break;
    case PHYSICS_SSD: ssd(p, &c); break;
    case PHYSICS_VOLUME: volume(p, &c); break;
    default: ends(p, tag, transferred(p, now, c.length, now), 1);
  }
}

int physics_next(struct physics *p, double now, uint64_t *tag, double *end) {
  if (p->model.kind == PHYSICS_HDD) hdd_advance(p, now);
  if (p->first_end == p->last_end) return 0;
  *tag = p->ends[p->first_end].tag;
  *end = p->ends[p->first_end].at;
  p->held_up = p->ends[p->first_end].held_up;
  p->first_end = (p->first_end + 1) % MOST_WAITING;
  return 1;
}

int physics_held_up(const struct physics *p) { return p->held_up; }

double physics_wakes(const struct physics *p) { return p->model.kind == PHYSICS_HDD ? hdd_wakes(p) : INFINITY; }

void physics_done(const struct physics *p, struct disk_done *done) { *done = p->done; }
