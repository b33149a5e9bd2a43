// Tells ThreadSanitizer what it can't see of Swift's Mutex. The uncontended ways are compiled into whoever locks, and seen; the contended ones go through the
// library, which is not instrumented, to the kernel: without this, whatever a Mutex protects is reported once two threads have met there. Loaded into a
// test process (LD_PRELOAD), it stands before the library's functions.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

// `Synchronization._MutexHandle`'s `_lockSlow(UInt32)`, `_tryLockSlow() -> Bool` and `_unlockSlow()` of Swift 6.3.
#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define TRY_LOCK "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *self

typedef SWIFT void lock_function(uint32_t thread, SELF);
typedef SWIFT _Bool try_lock_function(SELF);
typedef SWIFT void unlock_function(SELF);

extern void __tsan_acquire(void *place) __attribute__((weak));
extern void __tsan_release(void *place) __attribute__((weak));
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
