/* Preloaded into nbdkit: the answer to a read is sent as two chunks, the data, and an empty last one.

   QEMU's NBD client has one coroutine that waits for answers, with a lock. A coroutine that got its answer wants this
   lock before it ends. If another one took it meanwhile, the answer is kept until the next one arrives (block/nbd.c,
   nbd_recv_coroutines_wake). The second chunk is this next one. A write has no data, so it cannot have two chunks. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct chunk {
  uint32_t magic;
  uint16_t flags, type;
  uint64_t cookie;
  uint32_t length;
} __attribute__((packed));

#define MAGIC 0x668e33ef
#define DONE 1
#define DATA 1

typedef ssize_t sender(int, const void *, size_t, int);

/* nbdkit sends the header, the offset and the data one after the other, by one thread, under a lock. Its sockets block. */
static __thread uint32_t left;
static __thread struct chunk last;

static int send_all(sender *next, int socket, const void *content, size_t size, int flags)
{
  while (size > 0) {
    ssize_t sent = next(socket, content, size, flags);
    if (sent < 0 && errno != EINTR)
      return -1;
    if (sent > 0) {
      content = (const char *)content + sent;
      size -= (size_t)sent;
    }
  }
  return 0;
}

/* Sends the end of the data and the empty chunk with one call. */
static ssize_t send_end(sender *next, int socket, const void *content, size_t size, int flags)
{
  struct iovec parts[] = {{(void *)content, size}, {&last, sizeof last}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  ssize_t sent = sendmsg(socket, &message, flags & ~MSG_MORE);
  if (sent < 0 || (size_t)sent < size)
    return sent;
  size_t done = (size_t)sent - size;
  return send_all(next, socket, (char *)&last + done, sizeof last - done, flags & ~MSG_MORE) < 0 ? -1 : (ssize_t)size;
}

ssize_t send(int socket, const void *content, size_t size, int flags)
{
  static sender *next;
  struct chunk chunk;

  if (!next)
    next = (sender *)dlsym(RTLD_NEXT, "send");
  if (left == 0 && size == sizeof chunk) {
    memcpy(&chunk, content, sizeof chunk);
    if (chunk.magic == htonl(MAGIC) && chunk.type == htons(DATA) && chunk.flags == htons(DONE)) {
      chunk.flags = 0;
      if (send_all(next, socket, &chunk, sizeof chunk, flags) < 0)
        return -1;
      left = ntohl(chunk.length);
      last = chunk;
      last.flags = htons(DONE);
      last.type = 0;
      last.length = 0;
      return sizeof chunk;
    }
  }
  ssize_t sent = left > 0 && size == left ? send_end(next, socket, content, size, flags) : next(socket, content, size, flags);
  if (sent > 0)
    left -= (size_t)sent < left ? (uint32_t)sent : left;
  return sent;
}
