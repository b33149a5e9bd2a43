#ifndef CLINUX_SHIM_H
#define CLINUX_SHIM_H

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* glibc's <string.h> keeps it for GNU sources, and Swift's are none. */
void *memmem(const void *haystack, size_t haystack_byte_count, const void *needle, size_t needle_byte_count);

/* <fcntl.h> keeps this one for them, too. Writes what is dirty of a stretch of a file to the disk, and waits for it; neither the file's length nor
   its blocks' places are made durable by that. -1: it failed, and errno says how. */
int sync_file_range(int descriptor, __off64_t start, __off64_t byte_count, unsigned int flags);

static inline int sync_stretch(int descriptor, __off64_t start, __off64_t byte_count) {
  const unsigned int wait_before = 1, write = 2, wait_after = 4;
  return sync_file_range(descriptor, start, byte_count, wait_before | write | wait_after);
}

/* What `top -H` and /proc call the calling thread: 15 bytes at most. A new thread has the name of the one that made it. */
static inline void name_this_thread(const char *name) { prctl(PR_SET_NAME, name); }

#endif
