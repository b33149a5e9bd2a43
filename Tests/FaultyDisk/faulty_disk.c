// The implementation of FaultyDisk.h.

#include "FaultyDisk.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/// The names that Aquifer's connections use: of files of one process, and of files that others read.
static const char *const names[] = {"unix-excl", "unix"};
enum { most_watches = 64 };

typedef struct {
  char *folder;
  faulty_disk_watcher watcher;
  void *context;
} watch;

static watch watches[most_watches];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/// A file system in the place of the one below it.
typedef struct {
  sqlite3_vfs base;
  sqlite3_vfs *below;
} faulty_system;

static faulty_system systems[sizeof names / sizeof names[0]];

/// The underlying file system's object follows it in memory.
typedef struct {
  sqlite3_file base;
  watch watch;
  char *path;
} faulty_file;

static sqlite3_file *below(sqlite3_file *file) { return (sqlite3_file *)((faulty_file *)file + 1); }

static int ask(sqlite3_file *base, int step, const void *bytes, int count, sqlite3_int64 offset, int *done) {
  faulty_file *file = (faulty_file *)base;
  return file->watch.watcher(file->watch.context, step, file->path, bytes, count, offset, done);
}

static int faulty_close(sqlite3_file *file) {
  int code = below(file)->pMethods->xClose(below(file));
  free(((faulty_file *)file)->path);
  return code;
}

static int faulty_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 offset) {
  return below(file)->pMethods->xRead(below(file), bytes, count, offset);
}

static int faulty_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
  int done = 0;
  int refused = ask(file, FAULTY_DISK_WRITE, bytes, count, offset, &done);
  if (refused == SQLITE_OK) done = count;
  int code = done > 0 ? below(file)->pMethods->xWrite(below(file), bytes, done, offset) : SQLITE_OK;
  return refused != SQLITE_OK ? refused : code;
}

static int faulty_truncate(sqlite3_file *file, sqlite3_int64 size) {
  int done = 0;
  int refused = ask(file, FAULTY_DISK_TRUNCATE, NULL, 0, size, &done);
  return refused != SQLITE_OK ? refused : below(file)->pMethods->xTruncate(below(file), size);
}

static int faulty_sync(sqlite3_file *file, int flags) {
  (void)flags;
  int done = 0;
  return ask(file, FAULTY_DISK_SYNC, NULL, 0, 0, &done);
}

static int faulty_size(sqlite3_file *file, sqlite3_int64 *size) { return below(file)->pMethods->xFileSize(below(file), size); }
static int faulty_lock(sqlite3_file *file, int level) { return below(file)->pMethods->xLock(below(file), level); }
static int faulty_unlock(sqlite3_file *file, int level) { return below(file)->pMethods->xUnlock(below(file), level); }
static int faulty_check_lock(sqlite3_file *file, int *is_locked) { return below(file)->pMethods->xCheckReservedLock(below(file), is_locked); }
static int faulty_control(sqlite3_file *file, int operation, void *argument) { return below(file)->pMethods->xFileControl(below(file), operation, argument); }
static int faulty_sector_size(sqlite3_file *file) { return below(file)->pMethods->xSectorSize(below(file)); }
static int faulty_characteristics(sqlite3_file *file) { return below(file)->pMethods->xDeviceCharacteristics(below(file)); }

static int faulty_map(sqlite3_file *file, int page, int size, int extends, void volatile **memory) {
  return below(file)->pMethods->xShmMap(below(file), page, size, extends, memory);
}
static int faulty_shared_lock(sqlite3_file *file, int offset, int count, int flags) {
  return below(file)->pMethods->xShmLock(below(file), offset, count, flags);
}
static void faulty_barrier(sqlite3_file *file) { below(file)->pMethods->xShmBarrier(below(file)); }
static int faulty_unmap(sqlite3_file *file, int deletes) { return below(file)->pMethods->xShmUnmap(below(file), deletes); }

/// Version 2 has shared memory but no mapped files.
static const sqlite3_io_methods faulty_methods = {
  .iVersion = 2,
  .xClose = faulty_close,
  .xRead = faulty_read,
  .xWrite = faulty_write,
  .xTruncate = faulty_truncate,
  .xSync = faulty_sync,
  .xFileSize = faulty_size,
  .xLock = faulty_lock,
  .xUnlock = faulty_unlock,
  .xCheckReservedLock = faulty_check_lock,
  .xFileControl = faulty_control,
  .xSectorSize = faulty_sector_size,
  .xDeviceCharacteristics = faulty_characteristics,
  .xShmMap = faulty_map,
  .xShmLock = faulty_shared_lock,
  .xShmBarrier = faulty_barrier,
  .xShmUnmap = faulty_unmap,
};

/// The watch of a path; without a watcher when the path is not watched.
static watch watch_of(const char *path) {
  watch found = {0};
  if (path == NULL) return found;
  pthread_mutex_lock(&lock);
  for (int number = 0; number < most_watches; number++) {
    const char *folder = watches[number].folder;
    if (folder != NULL && strncmp(path, folder, strlen(folder)) == 0) found = watches[number];
  }
  pthread_mutex_unlock(&lock);
  return found;
}

static int system_open(sqlite3_vfs *system, const char *path, sqlite3_file *base, int flags, int *flags_out) {
  sqlite3_vfs *system_below = ((faulty_system *)system)->below;
  watch found = watch_of(path);
  if (found.watcher == NULL) return system_below->xOpen(system_below, path, base, flags, flags_out);
  faulty_file *file = (faulty_file *)base;
  memset(file, 0, sizeof *file);
  int done = 0;
  int refused = found.watcher(found.context, FAULTY_DISK_OPEN, path, NULL, 0, 0, &done);
  if (refused != SQLITE_OK) return refused;
  int code = system_below->xOpen(system_below, path, below(base), flags, flags_out);
  if (code != SQLITE_OK) return code;
  file->watch = found;
  file->path = strdup(path);
  file->base.pMethods = &faulty_methods;
  return SQLITE_OK;
}

static int system_delete(sqlite3_vfs *system, const char *path, int syncs) {
  sqlite3_vfs *system_below = ((faulty_system *)system)->below;
  watch found = watch_of(path);
  int done = 0;
  int refused = found.watcher == NULL ? SQLITE_OK : found.watcher(found.context, FAULTY_DISK_DELETE, path, NULL, 0, 0, &done);
  return refused != SQLITE_OK ? refused : system_below->xDelete(system_below, path, syncs);
}

__attribute__((constructor)) static void take_place(void) {
  if (sqlite3_initialize() != SQLITE_OK) abort();
  sqlite3_vfs *usual = sqlite3_vfs_find(NULL);
  for (size_t number = 0; number < sizeof names / sizeof names[0]; number++) {
    faulty_system *system = &systems[number];
    system->below = sqlite3_vfs_find(names[number]);
    if (system->below == NULL) abort();
    system->base = *system->below;
    system->base.pNext = NULL;
    system->base.szOsFile = (int)sizeof(faulty_file) + system->below->szOsFile;
    system->base.xOpen = system_open;
    system->base.xDelete = system_delete;
    // SQLite finds the usual file system first under its name, and then the one registered last.
    if (sqlite3_vfs_register(&system->base, system->below == usual) != SQLITE_OK) abort();
  }
}

int faulty_disk_watch(const char *folder, faulty_disk_watcher watcher, void *context) {
  int result = -1;
  pthread_mutex_lock(&lock);
  for (int number = 0; number < most_watches && result < 0; number++) {
    if (watches[number].folder != NULL) continue;
    watches[number] = (watch){strdup(folder), watcher, context};
    result = number;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

void faulty_disk_unwatch(int number) {
  pthread_mutex_lock(&lock);
  free(watches[number].folder);
  watches[number] = (watch){0};
  pthread_mutex_unlock(&lock);
}
