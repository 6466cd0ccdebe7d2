/* A bus that disks share: when it is occupied, and when a transfer over it ends. */
#ifndef MATRIX_BUS_H
#define MATRIX_BUS_H

enum { MOST_TURNS = 256 };

/* An interval in which a bus is occupied. */
struct turn {
  double from, to;
};

struct bus {
  double rate;  /* bytes per second */
  double since; /* the turns before are forgotten, and nothing can be transferred then any more */
  int turns;
  struct turn turn[MOST_TURNS]; /* in order of time, and apart from each other */
};

/* Book a transfer that cannot begin before `begun` nor end before `ready`, and return its end. */
double bus_end(struct bus *, double ready, double length, double begun);

#endif
