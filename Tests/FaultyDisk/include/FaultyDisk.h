// A file system for SQLite that asks before every step that changes files below the folders under watch: whoever watches lets the step
// happen, makes it fail, or half happen. It takes the place of the one that Aquifer's connections stand on when the program is loaded.
#ifndef FAULTY_DISK_H
#define FAULTY_DISK_H

enum faulty_disk_step { FAULTY_DISK_OPEN, FAULTY_DISK_WRITE, FAULTY_DISK_SYNC, FAULTY_DISK_TRUNCATE, FAULTY_DISK_DELETE };

/// Asked before a step.
/// - bytes, count, offset: what is written and where; `offset` is the new length of what is truncated.
/// - done: how many of the bytes are written before the step fails.
/// Returns 0 to let it happen, or the SQLite error that it fails with.
typedef int (*faulty_disk_watcher)(void *context, int step, const char *path, const void *bytes, int count, long long offset, int *done);

/// Files whose path begins with `folder`, from their next opening on. Returns a number for `faulty_disk_unwatch`, -1 when there are too many.
/// What is watched is synced by the watcher's word alone: nothing waits for the real disk.
int faulty_disk_watch(const char *folder, faulty_disk_watcher watcher, void *context);
/// The files must be closed.
void faulty_disk_unwatch(int number);

#endif
