// The function that callgrind watches. It is in C, so that its name is the same in every build.
#ifndef HOT_PATHS_LOOP_H
#define HOT_PATHS_LOOP_H

/// Calls `body(context)` `count` times.
/// Returns the number of allocations. A program linked with this file has its allocations counted.
long hot_paths_loop(long count, void (*body)(void *context), void *context);

#endif
