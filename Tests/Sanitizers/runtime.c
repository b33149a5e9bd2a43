// Tells ThreadSanitizer what it can't see of Swift's runtime, which is not instrumented. Loaded into a test process (LD_PRELOAD), it stands before the library's
// functions.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *self

extern void __tsan_acquire(void *place) __attribute__((weak));
extern void __tsan_release(void *place) __attribute__((weak));

// A `Mutex`. Its uncontended ways are compiled into whoever locks, and seen; the contended ones go through the library to the kernel: without this, whatever a
// Mutex protects is reported once two threads have met there.

// `Synchronization._MutexHandle`'s `_lockSlow(UInt32)`, `_tryLockSlow() -> Bool` and `_unlockSlow()` of Swift 6.3.
#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define TRY_LOCK "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

typedef SWIFT void lock_function(uint32_t thread, SELF);
typedef SWIFT _Bool try_lock_function(SELF);
typedef SWIFT void unlock_function(SELF);

extern lock_function lock __asm__(LOCK);
extern try_lock_function try_lock __asm__(TRY_LOCK);
extern unlock_function unlock __asm__(UNLOCK);

SWIFT void lock(uint32_t thread, SELF) {
  ((lock_function *)dlsym(RTLD_NEXT, LOCK))(thread, self);
  if (__tsan_acquire) __tsan_acquire(self);
}

SWIFT _Bool try_lock(SELF) {
  if (!((try_lock_function *)dlsym(RTLD_NEXT, TRY_LOCK))(self)) return 0;
  if (__tsan_acquire) __tsan_acquire(self);
  return 1;
}

SWIFT void unlock(SELF) {
  if (__tsan_release) __tsan_release(self);
  ((unlock_function *)dlsym(RTLD_NEXT, UNLOCK))(self);
}

// A continuation that is resumed before its task waits. Who resumes releases the task, and who runs it then acquires it, but for a task that need not wait at
// all: `swift_continuation_await` lets it go on, and what the other thread made for it is reported. Optimised code calls that function itself. The library calls it,
// too, for code that is not, and can't be made to call another; just before, however, the task lets go of a `CheckedContinuation`'s canary.

// The name of `_Concurrency.CheckedContinuationCanary`.
#define CANARY "s25CheckedContinuationCanaryC"

extern SWIFT const void *swift_getTypeByMangledNameInContext(const char *name, size_t length, const void *context, const void *const *arguments) __attribute__((weak));
extern SWIFT void *swift_task_getCurrent(void) __attribute__((weak));
typedef void release_function(void *object);

static const void *canary;
static release_function *release;

typedef __attribute__((swiftasynccall)) void await_function(void *continuation);

__attribute__((swiftasynccall)) void swift_continuation_await(void *continuation) {
  static await_function *await;
  if (!await) await = (await_function *)dlsym(RTLD_NEXT, "swift_continuation_await");
  if (canary) __tsan_acquire(swift_task_getCurrent());
  __attribute__((musttail)) return await(continuation);
}

__attribute__((constructor)) static void find(void) {
  // Every process that a test starts comes here, too.
  if (!__tsan_acquire || !swift_task_getCurrent) return;
  canary = swift_getTypeByMangledNameInContext(CANARY, strlen(CANARY), 0, 0);
  if (canary) return;
  fprintf(stderr, "Tests/Sanitizers/runtime.c does not know this version of Swift\n");
  abort();
}

// Copies of an array, a string or a dictionary that share their storage. Who reads a copy lets go of the storage afterwards, and who finds then that nobody else holds it
// writes to it in place: the count of references orders the two, and the library keeps it.

// The second word of an object; of a count beyond 1, or one that is kept elsewhere, some of these bits are set.
#define IS_SHARED 0xfffffffe00000000

static void let_go(void *object) {
  if (canary && (((uint64_t *)object)[1] & IS_SHARED)) __tsan_release(object);
}

_Bool swift_isUniquelyReferenced_nonNull_native(const void *object) {
  static _Bool (*is_unique)(const void *);
  if (!is_unique) is_unique = (_Bool(*)(const void *))dlsym(RTLD_NEXT, "swift_isUniquelyReferenced_nonNull_native");
  if (!is_unique(object)) return 0;
  if (canary) __tsan_acquire((void *)object);
  return 1;
}

// What is no object is null or negative.
static _Bool is_object(const void *reference) { return (intptr_t)reference > 0; }

void swift_release_n(void *object, uint32_t count) {
  static void (*release_n)(void *, uint32_t);
  if (!release_n) release_n = (void (*)(void *, uint32_t))dlsym(RTLD_NEXT, "swift_release_n");
  if (is_object(object)) let_go(object);
  release_n(object, count);
}

// A reference whose first four and last three bits tell what it is.
void swift_bridgeObjectRelease(void *reference) {
  static release_function *bridge_release;
  if (!bridge_release) bridge_release = (release_function *)dlsym(RTLD_NEXT, "swift_bridgeObjectRelease");
  if (is_object(reference)) let_go((void *)((uintptr_t)reference & 0x0ffffffffffffff8));
  bridge_release(reference);
}

void swift_release(void *object) {
  // Libraries that begin before this one let go of objects, too.
  if (!release) release = (release_function *)dlsym(RTLD_NEXT, "swift_release");
  if (canary && is_object(object)) {
    // A type stands first in its objects.
    void *task = *(const void **)object == canary ? swift_task_getCurrent() : 0;
    if (task) __tsan_acquire(task);
    let_go(object);
  }
  release(object);
}
