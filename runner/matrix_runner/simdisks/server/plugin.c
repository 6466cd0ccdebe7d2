/* An nbdkit plugin: one simulated disk. It answers at the times that its physics sets. */
#define _GNU_SOURCE
#define NBDKIT_API_VERSION 2
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

#include <nbdkit-plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "board.h"

enum { MOST_REQUESTS = 512, SECTOR = 512, PIECE = 64 * 1024 };
/* Plus errno: the exit status if the image file fails (see server.py). */
enum { HOST_FAILED = 100 };
/* A request in flight. */
struct request {
  int used, certain, held_up;
  int waits; /* for the disk's decision; the thread may still use the image file */
  double arrived, due;
  double gap; /* how long its disk had waited for it */
  pthread_cond_t told;
};

static int image = -1, disk, bus = -1;
static double last_due; /* when the last awaited answer is due */
static struct board *board;
static struct disk_model model;
static struct physics *physics;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct request requests[MOST_REQUESTS];
static int somebody_watches;
/* Which pieces of the image have data. Holes are not read: the host would allocate memory for zeros, which can take
 * tens of milliseconds. */
static unsigned char *filled;

/* ---- command line ---- */

static int number(const char *text, double *into) {
  char *end;
  *into = strtod(text, &end);
  return *text && !*end;
}

static int descriptor(const char *text) {
  double value;
  return number(text, &value) ? (int)value : -1;
}

static int zones(const char *text) {
  char *copy = strdup(text), *rest = copy, *one;
  int fine = copy != 0;
  while (fine && (one = strsep(&rest, ","))) {
    char *colon = strchr(one, ':');
    struct zone *zone = &model.zone[(int)model.zones];
    fine = colon && model.zones < MOST_ZONES;
    if (!fine) break;
    *colon = 0;
    fine = number(one, &zone->end) && number(colon + 1, &zone->rate);
    model.zones++;
  }
  free(copy);
  return fine;
}

static int disk_config(const char *key, const char *value) {
  double *field = physics_field(&model, key), given;
  if (!strcmp(key, "image")) return (image = descriptor(value)) < 0 ? -1 : 0;
  if (!strcmp(key, "board")) return (board = board_joined(descriptor(value))) ? 0 : -1;
  if (!strcmp(key, "disk") && number(value, &given)) return (disk = (int)given), 0;
  if (!strcmp(key, "bus") && number(value, &given)) return (bus = (int)given), 0;
  if (!strcmp(key, "zones")) return zones(value) ? 0 : -1;
  if (field && number(value, field)) return 0;
  nbdkit_error("%s=%s means nothing to a disk", key, value);
  return -1;
}

static double on_bus(void *context, double ready, double length, double begun) {
  (void)context;
  return board_bus_end(board, bus, ready, length, begun);
}

static int disk_ready(void) {
  pthread_condattr_t attributes;
  filled = calloc((size_t)(model.size / PIECE) + 1, 1);
  if (image < 0 || !board || !filled || !(physics = physics_new(&model))) {
    nbdkit_error("a disk needs an image, a board and memory");
    return -1;
  }
  if (bus >= 0) physics_shares(physics, on_bus, 0);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  for (int at = 0; at < MOST_REQUESTS; at++) pthread_cond_init(&requests[at].told, &attributes);
  pthread_condattr_destroy(&attributes);
  return 0;
}

/* ---- time ---- */

/* A time of the board's clock on the host's. */
static struct timespec absolute(double at) {
  double moment = board_moment(board, at), seconds = floor(moment);
  return (struct timespec){(time_t)seconds, (long)((moment - seconds) * 1e9)};
}

static void sleep_until(double at, double early) {
  double sooner = at - early / board_slow(board);
  if (sooner > board_clock(board)) {
    struct timespec until = absolute(sooner);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0) == EINTR) continue;
  }
  while (board_clock(board) < at) continue;
}

/* Threads have the slack and the rank of those that start them. A disk does little, but on time: where that is allowed it
   goes before all else on a busy host. Where it is not, the disk may be late, and that is told. */
static int disk_awake(void) {
  struct sched_param lowest = {.sched_priority = 1};
  prctl(PR_SET_TIMERSLACK, 1);
  sched_setscheduler(0, SCHED_RR, &lowest);
  return 0;
}

/* ---- faults ---- */

static struct fault faults[MOST_FAULTS];

/* The speed of a disk's clock at a moment; its worst fault decides. */
static double pace(int known, double at) {
  double slowest = 1;
  for (int one = 0; one < known; one++) {
    const struct fault *f = &faults[one];
    double its = f->kind == FAULT_STALLS ? 0 : f->kind == FAULT_SLOW ? 1 / f->factor : 1;
    if (at >= f->from && at < f->until && its < slowest) slowest = its;
  }
  return slowest;
}

/* The next moment after `at` at which a fault begins or ends; infinite if there is none. */
static double changes(int known, double at) {
  double next = INFINITY;
  for (int one = 0; one < known; one++) {
    if (faults[one].from > at && faults[one].from < next) next = faults[one].from;
    if (faults[one].until > at && faults[one].until < next) next = faults[one].until;
  }
  return next;
}

/* Seconds that a slow or stalled disk has lost until a time. */
static double lost(int known, double at) {
  double sum = 0;
  for (double from = 0, until; from < at; from = until) {
    until = fmin(changes(known, from), at);
    sum += (1 - pace(known, from)) * (until - from);
  }
  return sum;
}

/* The time at which a disk with lost time reaches a moment of its physics. */
static double regained(int known, double moment) {
  double passed = 0;
  for (double from = 0;;) {
    double until = changes(known, from), speed = pace(known, from);
    if (speed > 0 && passed + speed * (until - from) >= moment) return from + (moment - passed) / speed;
    passed += speed * (until - from);
    from = until;
  }
}

static int dead(int known, double now) {
  for (int one = 0; one < known; one++)
    if (faults[one].kind == FAULT_DIES && now >= faults[one].from && now < faults[one].until) return 1;
  return 0;
}

/* Written sectors of each bad range: they are good again, as a drive would reallocate them. */
static unsigned char *mended[MOST_FAULTS];

/* Whether a read touches a bad sector; a write repairs the sectors that it covers. */
static int unreadable(int known, double now, int what, double start, double end) {
  int met = 0;
  if (what == PHYSICS_FLUSH || what == PHYSICS_TRIM) return 0;
  for (int one = 0; one < known; one++) {
    const struct fault *f = &faults[one];
    if (f->kind != FAULT_MEDIUM || now < f->from || start >= f->end || end <= f->start) continue;
    double low = start > f->start ? start : f->start, high = end < f->end ? end : f->end;
    size_t first = (size_t)((low - f->start) / SECTOR), last = (size_t)ceil((high - f->start) / SECTOR);
    if (!mended[one]) mended[one] = calloc((size_t)ceil((f->end - f->start) / SECTOR), 1);
    for (size_t sector = first; sector < last; sector++) {
      if (what == PHYSICS_READ) met |= !mended[one] || !mended[one][sector];
      else if (mended[one]) mended[one][sector] = 1;
    }
  }
  return met;
}

/* A read of a corrupt range succeeds, with all bits of its bytes turned. */
static void corrupt(char *into, uint32_t count, uint64_t offset) {
  pthread_mutex_lock(&lock);
  int known = board_faults(board, disk, faults);
  double now = board_clock(board);
  for (int one = 0; one < known; one++) {
    const struct fault *f = &faults[one];
    if (f->kind != FAULT_CORRUPT || now < f->from || now >= f->until) continue;
    for (uint32_t at = 0; at < count; at++)
      if ((double)(offset + at) >= f->start && (double)(offset + at) < f->end) into[at] = (char)~into[at];
  }
  pthread_mutex_unlock(&lock);
}

/* ---- requests ---- */

static struct request *taken(void) {
  for (int at = 0; at < MOST_REQUESTS; at++)
    if (!requests[at].used) {
      requests[at].used = 1;
      requests[at].certain = requests[at].waits = 0;
      return &requests[at];
    }
  return 0;
}

/* Wake all threads whose request is settled. */
static void settle(double now) {
  uint64_t tag;
  double end;
  while (physics_next(physics, now, &tag, &end)) {
    requests[tag].certain = 1;
    requests[tag].due = end;
    requests[tag].held_up = physics_held_up(physics);
    pthread_cond_signal(&requests[tag].told);
  }
}

static void watch_next(void) {
  somebody_watches = 0;
  for (int at = 0; at < MOST_REQUESTS; at++)
    if (requests[at].used && requests[at].waits && !requests[at].certain) {
      pthread_cond_signal(&requests[at].told);
      return;
    }
}

/* The end is known only when the disk decides to serve it: one of the waiting threads watches the clock. */
static void become_certain(struct request *own, int known) {
  int watching = 0;
  own->waits = 1;
  while (!own->certain) {
    if (somebody_watches && !watching) {
      pthread_cond_wait(&own->told, &lock);
      continue;
    }
    watching = somebody_watches = 1;
    double wakes = physics_wakes(physics);
    struct timespec until = absolute(regained(known, wakes < 1e9 ? wakes : board_clock(board) + 1));
    pthread_cond_timedwait(&own->told, &lock, &until);
    double now = board_clock(board);
    settle(now - lost(known, now));
  }
  if (watching || !somebody_watches) watch_next();
}

/* Submit to the disk first. Host I/O on the image runs meanwhile: it neither reorders requests nor adds to the disk's
 * time. It is a delay only if it takes longer than the disk does. */
static struct request *asked(int what, uint64_t offset, uint64_t length, int fua) {
  pthread_mutex_lock(&lock);
  int known = board_faults(board, disk, faults);
  double arrived = board_clock(board), now = arrived - lost(known, arrived);
  struct request *own = taken();
  if (!own || dead(known, arrived)) {
    if (own) own->used = 0;
    pthread_mutex_unlock(&lock);
    board_begins(board, disk, arrived);
    board_ended(board, disk, arrived, arrived, arrived, 1);
    errno = EIO;
    return 0;
  }
  own->arrived = arrived;
  own->gap = board_begins(board, disk, arrived);
  physics_submit(physics, now, what, offset, length, fua, (uint64_t)(own - requests));
  settle(now);
  pthread_mutex_unlock(&lock);
  return own;
}

static int answered(struct request *own, int what, uint64_t offset, uint64_t length) {
  struct disk_done so_far;
  pthread_mutex_lock(&lock);
  int known = board_faults(board, disk, faults);
  become_certain(own, known);
  if (!own->held_up) board_starved(board, disk, own->gap);
  physics_done(physics, &so_far);
  board_done(board, disk, &so_far);
  double arrived = own->arrived, due = regained(known, own->due);
  own->used = 0;
  double early = board_early(&last_due, arrived * board_slow(board), due * board_slow(board));
  pthread_mutex_unlock(&lock);
  sleep_until(due, early);
  double ended = board_clock(board);
  pthread_mutex_lock(&lock);
  known = board_faults(board, disk, faults);
  int failed = dead(known, ended) || unreadable(known, ended, what, (double)offset, (double)(offset + length));
  pthread_mutex_unlock(&lock);
  board_ended(board, disk, ended, arrived, due, failed);
  if (failed) errno = EIO;
  return failed ? -1 : 0;
}

/* ---- image file ---- */

/* An array would take an I/O error for a dead disk and go on degraded. A server that ends is a disk fault on no bus:
 * the machine is lost, and the trial is not recorded. */
static void host_failed(int wrong) {
  nbdkit_error("the host's file behind disk %d failed: %s", disk, strerror(wrong));
  _exit(HOST_FAILED + wrong);
}

static void fills(uint64_t start, uint64_t end) {
  for (uint64_t piece = start / PIECE; piece * PIECE < end; piece++) filled[piece] = 1;
}

static ssize_t zeros(char *into, uint32_t count) {
  memset(into, 0, count);
  return (ssize_t)count;
}

static ssize_t some_read(char *into, uint32_t count, uint64_t offset) {
  if (filled[offset / PIECE]) return pread(image, into, count, (off_t)offset);
  off_t data = lseek(image, (off_t)offset, SEEK_DATA);
  if (data < 0 && errno == ENXIO) return zeros(into, count);
  if (data > (off_t)offset) return zeros(into, (uint64_t)data - offset < count ? (uint32_t)((uint64_t)data - offset) : count);
  if (data == (off_t)offset) fills(offset, offset + 1);
  return pread(image, into, count, (off_t)offset);
}

static void all_read(char *into, uint32_t count, uint64_t offset) {
  while (count) {
    ssize_t got = some_read(into, count, offset);
    if (got <= 0) host_failed(got < 0 ? errno : EIO);
    into += got;
    offset += (uint64_t)got;
    count -= (uint32_t)got;
  }
}

static int only_zeros(const char *from, uint32_t count) {
  return !from[0] && !memcmp(from, from + 1, count - 1);
}

static int nothing_there(uint64_t offset, uint32_t count) {
  off_t data = lseek(image, (off_t)offset, SEEK_DATA);
  return data < 0 ? errno == ENXIO : data >= (off_t)(offset + count);
}

static void all_written(const char *from, uint32_t count, uint64_t offset) {
  /* Do not write zeros to a hole: the host would have to allocate memory, which may take longer than the disk. */
  if (only_zeros(from, count) && nothing_there(offset, count)) return;
  fills(offset, offset + count);
  while (count) {
    ssize_t put = pwrite(image, from, count, (off_t)offset);
    if (put < 0) host_failed(errno);
    from += put;
    offset += (uint64_t)put;
    count -= (uint32_t)put;
  }
}

/* ---- nbdkit callbacks ---- */

static int disk_pread(void *handle, void *into, uint32_t count, uint64_t offset, uint32_t flags) {
  (void)handle, (void)flags;
  struct request *own = asked(PHYSICS_READ, offset, count, 0);
  if (!own) return -1;
  all_read(into, count, offset);
  corrupt(into, count, offset);
  return answered(own, PHYSICS_READ, offset, count);
}

/* A dead disk keeps its data; otherwise written data can be read at once, as from a disk's cache. */
static int disk_pwrite(void *handle, const void *from, uint32_t count, uint64_t offset, uint32_t flags) {
  (void)handle;
  struct request *own = asked(PHYSICS_WRITE, offset, count, (flags & NBDKIT_FLAG_FUA) != 0);
  if (!own) return -1;
  all_written(from, count, offset);
  return answered(own, PHYSICS_WRITE, offset, count);
}

static int disk_flush(void *handle, uint32_t flags) {
  (void)handle, (void)flags;
  struct request *own = asked(PHYSICS_FLUSH, 0, 0, 0);
  return own ? answered(own, PHYSICS_FLUSH, 0, 0) : -1;
}

/* The space of the file becomes free, and reads return zeros. */
static int disk_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags) {
  (void)handle, (void)flags;
  struct request *own = asked(PHYSICS_TRIM, offset, count, 0);
  if (!own) return -1;
  if (fallocate(image, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)count) && errno != EOPNOTSUPP)
    host_failed(errno);
  return answered(own, PHYSICS_TRIM, offset, count);
}

static int disk_can_trim(void *handle) {
  (void)handle;
  return model.spare > 0;
}

static void *disk_open(int readonly) {
  (void)readonly;
  return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t disk_size(void *handle) {
  (void)handle;
  return (int64_t)model.size;
}

static int disk_can_fua(void *handle) {
  (void)handle;
  return NBDKIT_FUA_NATIVE;
}

static int disk_rotates(void *handle) {
  (void)handle;
  return model.kind == PHYSICS_HDD;
}

static struct nbdkit_plugin plugin = {
  .name = "disk",
  .longname = "a disk that behaves like one",
  .config = disk_config,
  .get_ready = disk_ready,
  .after_fork = disk_awake,
  .open = disk_open,
  .get_size = disk_size,
  .can_fua = disk_can_fua,
  .can_trim = disk_can_trim,
  .is_rotational = disk_rotates,
  .pread = disk_pread,
  .pwrite = disk_pwrite,
  .flush = disk_flush,
  .trim = disk_trim,
  .errno_is_preserved = 1,
};

NBDKIT_REGISTER_PLUGIN(plugin)
