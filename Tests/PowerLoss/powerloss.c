/* A preloaded library (LD_PRELOAD) that notes unsynced writes; PowerLoss.swift takes them back after a kill.
 *
 * Below the folder POWERLOSS_ROOT it notes every write and truncation with the replaced bytes, until the file is synced,
 * and every new name until its folder is synced. All processes append to one file, POWERLOSS_NOTES. No sync reaches the
 * disk, because a killed process loses nothing of the page cache. With POWERLOSS_NORMAL all databases use
 * synchronous=NORMAL.
 *
 * With POWERLOSS_KILL_STEP=n the process dies before its n-th such step, with POWERLOSS_KILL_STATEMENT=n before its
 * n-th statement or row of SQLite's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { WRITTEN = 1, TRUNCATED, SYNCED, MADE, NAMED, FOLDER_SYNCED, REMOVED };

/* Where a note begins. A process that is killed may write a part of its last note, before those of other processes. */
#define MARK UINT64_C(0x9b1f63c2e5a8d741)

/* Followed by bytes, the replaced ones, or one or two paths, and by its number again. */
struct note {
  uint64_t mark, number;
  uint32_t kind, byteCount, secondCount, replaced;
  uint64_t inode;
  int64_t offset, size;
};

enum { FILES = 65536 };
static uint64_t inodes[FILES];
static char root[PATH_MAX];
static size_t rootLength;
static int notes = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_long steps, statements;

static int (*nextOpen)(const char *, int, ...);
static int (*nextClose)(int);
static ssize_t (*nextWrite)(int, const void *, size_t);
static ssize_t (*nextPwrite)(int, const void *, size_t, off64_t);
static int (*nextTruncate)(int, off64_t);
static int (*nextSync)(int), (*nextDataSync)(int);
static int (*nextMkdir)(const char *, mode_t), (*nextRename)(const char *, const char *), (*nextUnlink)(const char *);

__attribute__((constructor)) static void begin(void) {
  if (nextOpen) return;
  nextClose = dlsym(RTLD_NEXT, "close");
  nextWrite = dlsym(RTLD_NEXT, "write");
  nextPwrite = dlsym(RTLD_NEXT, "pwrite64");
  nextTruncate = dlsym(RTLD_NEXT, "ftruncate64");
  nextSync = dlsym(RTLD_NEXT, "fsync");
  nextDataSync = dlsym(RTLD_NEXT, "fdatasync");
  nextMkdir = dlsym(RTLD_NEXT, "mkdir");
  nextRename = dlsym(RTLD_NEXT, "rename");
  nextUnlink = dlsym(RTLD_NEXT, "unlink");
  nextOpen = dlsym(RTLD_NEXT, "open64");
  const char *step = getenv("POWERLOSS_KILL_STEP"), *statement = getenv("POWERLOSS_KILL_STATEMENT");
  steps = step ? atol(step) : 0;
  statements = statement ? atol(statement) : 0;
  const char *folder = getenv("POWERLOSS_ROOT"), *file = getenv("POWERLOSS_NOTES");
  if (!folder || !file) return;
  rootLength = (size_t)snprintf(root, sizeof root, "%s/", folder);
  notes = nextOpen(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (notes < 0) abort();
}

/* A -shm file is only shared memory with a name. */
static int isOurs(const char *path) {
  size_t length = strlen(path);
  return notes >= 0 && !strncmp(path, root, rootLength) && !(length > 4 && !strcmp(path + length - 4, "-shm"));
}

/* Dies when so many were counted. */
static void countDown(atomic_long *left) {
  if (*left > 0 && atomic_fetch_sub(left, 1) == 1) raise(SIGKILL);
}

static void beforeStep(void) { countDown(&steps); }

static uint64_t inodeOf(int fd) { return fd >= 0 && fd < FILES ? inodes[fd] : 0; }

static void put(struct note note, const void *first, const void *second) {
  static atomic_uint count;
  note.mark = MARK;
  note.number = (uint64_t)getpid() << 32 | atomic_fetch_add(&count, 1);
  struct iovec parts[] = {
    {&note, sizeof note}, {(void *)first, note.byteCount}, {(void *)second, note.secondCount}, {&note.number, sizeof note.number}
  };
  if (writev(notes, parts, 4) < (ssize_t)sizeof note) abort();
}

static void notePath(enum kind kind, const char *path) { put((struct note){.kind = kind, .byteCount = strlen(path)}, path, 0); }

/* Notes the bytes of a file that are about to be replaced. */
static void noteOld(enum kind kind, int fd, size_t count, off64_t offset) {
  struct stat64 status;
  if (fstat64(fd, &status)) return;
  int64_t there = status.st_size > offset ? status.st_size - offset : 0;
  if (kind == WRITTEN && there > (int64_t)count) there = (int64_t)count;
  char *old = malloc((size_t)there + 1);
  if (!old) abort();
  ssize_t read = there ? pread64(fd, old, (size_t)there, offset) : 0;
  put((struct note){.kind = kind, .byteCount = read > 0 ? (uint32_t)read : 0, .inode = inodes[fd], .offset = offset, .size = status.st_size}, old, 0);
  free(old);
}

static int openNoting(const char *path, int flags, mode_t mode) {
  begin();
  int isNew = (flags & O_CREAT) && isOurs(path) && access(path, F_OK);
  if (isNew) beforeStep();
  int fd = nextOpen(path, flags, mode);
  if (fd < 0 || fd >= FILES) return fd;
  struct stat64 status;
  inodes[fd] = isOurs(path) && !fstat64(fd, &status) && S_ISREG(status.st_mode) ? status.st_ino : 0;
  if (isNew) notePath(MADE, path);
  return fd;
}

#define OPEN(name)                                \
  int name(const char *path, int flags, ...) {    \
    mode_t mode = 0;                              \
    if (flags & (O_CREAT | O_TMPFILE)) {          \
      va_list rest;                               \
      va_start(rest, flags);                      \
      mode = va_arg(rest, mode_t);                \
      va_end(rest);                               \
    }                                             \
    return openNoting(path, flags, mode);         \
  }
OPEN(open)
OPEN(open64)

int close(int fd) {
  begin();
  if (fd >= 0 && fd < FILES) inodes[fd] = 0;
  return nextClose(fd);
}

static ssize_t pwriteNoting(int fd, const void *bytes, size_t count, off64_t offset) {
  begin();
  if (!inodeOf(fd)) return nextPwrite(fd, bytes, count, offset);
  beforeStep();
  pthread_mutex_lock(&lock);
  noteOld(WRITTEN, fd, count, offset);
  ssize_t result = nextPwrite(fd, bytes, count, offset);
  pthread_mutex_unlock(&lock);
  return result;
}
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) { return pwriteNoting(fd, bytes, count, offset); }
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) { return pwriteNoting(fd, bytes, count, offset); }

ssize_t write(int fd, const void *bytes, size_t count) {
  begin();
  if (!inodeOf(fd)) return nextWrite(fd, bytes, count);
  beforeStep();
  pthread_mutex_lock(&lock);
  noteOld(WRITTEN, fd, count, lseek64(fd, 0, SEEK_CUR));
  ssize_t result = nextWrite(fd, bytes, count);
  pthread_mutex_unlock(&lock);
  return result;
}

static int truncateNoting(int fd, off64_t size) {
  begin();
  if (!inodeOf(fd)) return nextTruncate(fd, size);
  beforeStep();
  pthread_mutex_lock(&lock);
  noteOld(TRUNCATED, fd, 0, size);
  int result = nextTruncate(fd, size);
  pthread_mutex_unlock(&lock);
  return result;
}
int ftruncate(int fd, off_t size) { return truncateNoting(fd, size); }
int ftruncate64(int fd, off64_t size) { return truncateNoting(fd, size); }

static int syncNoting(int fd, int (*next)(int)) {
  if (notes < 0) return next(fd);
  if (inodeOf(fd)) {
    beforeStep();
    /* About as long as a disk takes, so that there are unsynced writes to lose. */
    usleep(2000);
    pthread_mutex_lock(&lock);
    put((struct note){.kind = SYNCED, .inode = inodes[fd]}, 0, 0);
    pthread_mutex_unlock(&lock);
    return 0;
  }
  struct stat64 status;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = !fstat64(fd, &status) && S_ISDIR(status.st_mode) ? readlink(link, path, sizeof path - 1) : -1;
  if (length < 0) return next(fd);
  path[length] = 0;
  beforeStep();
  usleep(2000);
  notePath(FOLDER_SYNCED, path);
  return 0;
}
int fsync(int fd) {
  begin();
  return syncNoting(fd, nextSync);
}
int fdatasync(int fd) {
  begin();
  return syncNoting(fd, nextDataSync);
}

int mkdir(const char *path, mode_t mode) {
  begin();
  if (isOurs(path)) beforeStep();
  int result = nextMkdir(path, mode);
  if (!result && isOurs(path)) notePath(MADE, path);
  return result;
}

int rename(const char *from, const char *to) {
  begin();
  uint32_t replaced = !access(to, F_OK);
  if (isOurs(to)) beforeStep();
  int result = nextRename(from, to);
  if (!result && isOurs(to)) put((struct note){.kind = NAMED, .byteCount = strlen(from), .secondCount = strlen(to), .replaced = replaced}, from, to);
  return result;
}

int unlink(const char *path) {
  begin();
  struct stat64 status;
  int isLast = isOurs(path) && !lstat64(path, &status) && status.st_nlink == 1;
  if (isLast) beforeStep();
  int result = nextUnlink(path);
  if (!result && isLast) put((struct note){.kind = REMOVED, .inode = status.st_ino}, 0, 0);
  return result;
}

struct sqlite3_stmt;
int sqlite3_step(struct sqlite3_stmt *statement) {
  static int (*next)(struct sqlite3_stmt *);
  if (!next) next = dlsym(RTLD_NEXT, "sqlite3_step");
  countDown(&statements);
  return next(statement);
}

struct sqlite3;
int sqlite3_exec(struct sqlite3 *database, const char *text, int (*row)(void *, int, char **, char **), void *context, char **problem) {
  static int (*next)(struct sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
  if (!next) next = dlsym(RTLD_NEXT, "sqlite3_exec");
  countDown(&statements);
  const char *place = getenv("POWERLOSS_NORMAL") ? strstr(text, "synchronous=FULL") : 0;
  if (!place) return next(database, text, row, context, problem);
  char *changed = malloc(strlen(text) + 3);
  if (!changed) abort();
  sprintf(changed, "%.*ssynchronous=NORMAL%s", (int)(place - text), text, place + strlen("synchronous=FULL"));
  int result = next(database, changed, row, context, problem);
  free(changed);
  return result;
}
