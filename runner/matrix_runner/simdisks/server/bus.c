#include "bus.h"

#include <string.h>

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

/* Put a turn in the place of `old` others, from `place` on. */
static void replace(struct bus *bus, int place, int old, struct turn turn) {
  struct turn *at = bus->turn + place;
  memmove(at + 1, at + old, (size_t)(bus->turns - place - old) * sizeof *at);
  *at = turn;
  bus->turns += 1 - old;
}

static void forget_oldest(struct bus *bus) {
  bus->since = bus->turn[0].to;
  bus->turns--;
  memmove(bus->turn, bus->turn + 1, (size_t)bus->turns * sizeof bus->turn[0]);
}

/* A bus moves some bytes at a time, first for one disk and then for another. So a transfer takes all the time that is
 * free from its start on, and no gap between two others is too short for it.
 *
 * A disk knows in advance when it needs the bus, so transfers are not booked in order of time. */
double bus_end(struct bus *bus, double ready, double length, double begun) {
  if (bus->turns == MOST_TURNS) forget_oldest(bus);
  double takes = length / bus->rate, start = most(most(ready - takes, begun), bus->since);
  struct turn whole = {start, start + takes};
  int place = bus->turns, met = 0;
  while (place > 0 && bus->turn[place - 1].to >= start) place--;
  for (; place + met < bus->turns && bus->turn[place + met].from < whole.to; met++) {
    struct turn other = bus->turn[place + met];
    whole.to += other.to - most(other.from, start);
    whole.from = least(whole.from, other.from);
  }
  replace(bus, place, met, whole);
  return whole.to;
}
