// The measured loop, and counting replacements of the C library's allocation. The program has one thread.
#define _GNU_SOURCE
#include "HotPathsLoop.h"
#include <errno.h>
#include <stdlib.h>

static long allocation_count;

__attribute__((noinline)) long hot_paths_loop(long count, void (*body)(void *context), void *context) {
  long before = allocation_count;
  for (long round = 0; round < count; round++) body(context);
  return allocation_count - before;
}

// glibc's own names of the functions that are replaced here.
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) {
  allocation_count++;
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  allocation_count++;
  return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
  allocation_count++;
  return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size) {
  allocation_count++;
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **memory, size_t alignment, size_t size) {
  if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) return EINVAL;
  *memory = memalign(alignment, size);
  return *memory == NULL ? ENOMEM : 0;
}
