// Tells ThreadSanitizer about synchronisation in Swift's runtime, which is not instrumented. Preloaded into a test process
// (LD_PRELOAD), it replaces functions of the runtime's libraries.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *self

extern void __tsan_acquire(void *place) __attribute__((weak));
extern void __tsan_release(void *place) __attribute__((weak));

// A `Mutex`. Its uncontended paths are inlined into the caller and visible. The contended ones run in the library:
// without this, data protected by a Mutex are reported as soon as two threads have contended for it.

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

// A continuation that is resumed before its task waits. The resuming thread releases the task, and a thread that runs it
// later acquires it. A task that need not wait continues in `swift_continuation_await` without acquiring, and data from
// the other thread are reported. Optimised code calls that function itself. For unoptimised code the library calls it,
// and can't be redirected; but just before, the task releases the canary of a `CheckedContinuation`.

// The name of `_Concurrency.CheckedContinuationCanary`.
#define CANARY "s25CheckedContinuationCanaryC"

extern SWIFT const void *swift_getTypeByMangledNameInContext(const char *name, size_t length, const void *context, const void *const *arguments) __attribute__((weak));
extern SWIFT void *swift_task_getCurrent(void) __attribute__((weak));
typedef void release_function(void *object);

static const void *canary;
static release_function *release;

typedef __attribute__((swiftasynccall)) void resume_function(__attribute__((swift_async_context)) void *continuation);
typedef __attribute__((swiftasynccall)) void await_function(void *continuation);

// The beginning of a continuation: the place where its task continues.
struct continuation {
  void *parent;
  resume_function *resume;
};

// The real resume functions of waiting tasks, which run `resumed` first. A continuation is in a slot near its hash.
enum { place_count = 1 << 16, reach = 64 };
static struct {
  struct continuation *continuation;
  resume_function *resume;
} places[place_count + reach];
static atomic_flag places_lock = ATOMIC_FLAG_INIT;

static resume_function *exchange_place(struct continuation *looked_for, struct continuation *continuation, resume_function *resume) {
  uint64_t own = ((uint64_t)(continuation ? continuation : looked_for) >> 4) % place_count;
  resume_function *found = 0;
  while (atomic_flag_test_and_set(&places_lock)) sched_yield();
  for (uint64_t place = own; place < own + reach && !found; place++) {
    if (places[place].continuation != looked_for) continue;
    found = looked_for ? places[place].resume : resume;
    places[place].continuation = continuation;
    places[place].resume = resume;
  }
  atomic_flag_clear(&places_lock);
  return found;
}

static __attribute__((swiftasynccall)) void resumed(__attribute__((swift_async_context)) void *continuation) {
  __tsan_acquire(swift_task_getCurrent());
  resume_function *resume = exchange_place(continuation, 0, 0);
  __attribute__((musttail)) return resume(continuation);
}

__attribute__((swiftasynccall)) void swift_continuation_await(void *data) {
  static await_function *await;
  if (!await) await = (await_function *)dlsym(RTLD_NEXT, "swift_continuation_await");
  struct continuation *continuation = data;
  resume_function *resume = continuation->resume;
  if (canary && exchange_place(0, continuation, resume)) {
    continuation->resume = resumed;
    // The task also stores the function in one of its first words.
    resume_function **words = swift_task_getCurrent();
    for (int word = 0; word < 10; word++)
      if (words[word] == resume) words[word] = resumed;
  }
  __attribute__((musttail)) return await(data);
}

__attribute__((constructor)) static void find(void) {
  // Child processes of tests run this, too.
  if (!__tsan_acquire || !swift_task_getCurrent) return;
  canary = swift_getTypeByMangledNameInContext(CANARY, strlen(CANARY), 0, 0);
  if (canary) return;
  fprintf(stderr, "Tests/Sanitizers/runtime.c does not know this version of Swift\n");
  abort();
}

// Copies of an array, a string or a dictionary that share their storage. A reader of a copy releases the storage
// afterwards; a later sole owner writes to it in place. The reference count, which the library maintains, orders the two.

// Bits of an object's second word: some are set when the count exceeds 1 or is stored elsewhere.
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

// References that are no objects are null or negative.
static _Bool is_object(const void *reference) { return (intptr_t)reference > 0; }

void swift_release_n(void *object, uint32_t count) {
  static void (*release_n)(void *, uint32_t);
  if (!release_n) release_n = (void (*)(void *, uint32_t))dlsym(RTLD_NEXT, "swift_release_n");
  if (is_object(object)) let_go(object);
  release_n(object, count);
}

// A reference whose first four and last three bits tell its kind.
void swift_bridgeObjectRelease(void *reference) {
  static release_function *bridge_release;
  if (!bridge_release) bridge_release = (release_function *)dlsym(RTLD_NEXT, "swift_bridgeObjectRelease");
  if (is_object(reference)) let_go((void *)((uintptr_t)reference & 0x0ffffffffffffff8));
  bridge_release(reference);
}

void swift_release(void *object) {
  // Libraries initialised before this one release objects, too.
  if (!release) release = (release_function *)dlsym(RTLD_NEXT, "swift_release");
  if (canary && is_object(object)) {
    // An object begins with its type.
    void *task = *(const void **)object == canary ? swift_task_getCurrent() : 0;
    if (task) __tsan_acquire(task);
    let_go(object);
  }
  release(object);
}
