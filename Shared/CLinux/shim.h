#ifndef CLINUX_SHIM_H
#define CLINUX_SHIM_H

#include <malloc.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Declared here, because glibc's <string.h> declares it only with _GNU_SOURCE, which Swift does not define. */
void *memmem(const void *haystack, size_t haystack_byte_count, const void *needle, size_t needle_byte_count);

/* Declared here for the same reason: <fcntl.h> hides it. Writes the dirty pages of a range of a file to the disk and
   waits for them; it makes neither the file's length nor the places of its blocks durable. Returns -1 with errno on
   failure. */
int sync_file_range(int descriptor, __off64_t start, __off64_t byte_count, unsigned int flags);

static inline int sync_stretch(int descriptor, __off64_t start, __off64_t byte_count) {
  const unsigned int wait_before = 1, write = 2, wait_after = 4;
  return sync_file_range(descriptor, start, byte_count, wait_before | write | wait_after);
}

/* Names the calling thread for `top -H` and /proc, with at most 15 bytes. A thread inherits the name of its creator. */
static inline void name_this_thread(const char *name) { prctl(PR_SET_NAME, name); }

#endif
