// The one function whose calls are counted: C, because its name must be the same in every build.
#ifndef HOT_PATHS_LOOP_H
#define HOT_PATHS_LOOP_H

/// Calls `body(context)` so many times.
/// Answers how often that asked for memory: what is linked with this has the C library's allocation counted.
long hot_paths_loop(long count, void (*body)(void *context), void *context);

#endif
