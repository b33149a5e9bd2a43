#include "CEventReads.h"

#include <stddef.h>

/// The number of events that libmicrohttpd 0.9.75 asks for.
enum { full_read = 128 };

/// Stands in for glibc's function of that name in all libraries of the process.
///
/// After a read that brings all the events it asked for, libmicrohttpd reads once more with the same time limit, before
/// it serves the first. If exactly so many were there, their requests wait until something else happens on that thread,
/// or a connection has been idle for too long. With one event less than it asked for, it serves them and comes back.
/// The alternative is a thread of ours that looks after each of the library's epoll sets: a system call more a request.
int epoll_wait(int set, struct epoll_event *events, int limit, int timeout) {
  return epoll_pwait(set, events, limit == full_read ? full_read - 1 : limit, timeout, NULL);
}
