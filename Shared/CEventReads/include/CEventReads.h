// The reads of epoll sets by the C libraries of a process.
#ifndef CEVENTREADS_H
#define CEVENTREADS_H

#include <sys/epoll.h>

#endif
