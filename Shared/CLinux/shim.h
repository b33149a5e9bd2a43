#ifndef CLINUX_SHIM_H
#define CLINUX_SHIM_H

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

/* glibc's <string.h> keeps it for GNU sources, and Swift's are none. */
void *memmem(const void *haystack, size_t haystack_byte_count, const void *needle, size_t needle_byte_count);

#endif
