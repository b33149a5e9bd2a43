// A file system for SQLite that asks a watcher before every change of files in watched folders. The watcher lets the step
// happen, makes it fail, or lets it happen in part. It replaces the file system under Aquifer's connections at load time.
#ifndef FAULTY_DISK_H
#define FAULTY_DISK_H

enum faulty_disk_step { FAULTY_DISK_OPEN, FAULTY_DISK_WRITE, FAULTY_DISK_SYNC, FAULTY_DISK_TRUNCATE, FAULTY_DISK_DELETE };

/// Called before a step.
/// - bytes, count, offset: the bytes to write and their place; for a truncation `offset` is the new length.
/// - done: set to the number of bytes that are written before the step fails.
/// Returns 0 to let the step happen, or the SQLite error with which it fails.
typedef int (*faulty_disk_watcher)(void *context, int step, const char *path, const void *bytes, int count, long long offset, int *done);

/// Watches files whose path begins with `folder`, from their next opening on. Syncs of watched files never reach the disk.
/// Returns a number for `faulty_disk_unwatch`, or -1 when there are too many watches.
int faulty_disk_watch(const char *folder, faulty_disk_watcher watcher, void *context);
/// The files must be closed.
void faulty_disk_unwatch(int number);

#endif
