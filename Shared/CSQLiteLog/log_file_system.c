// SQLite writes each page of a commit to its log with two system calls: one for the 24 bytes of the frame's header, one
// for the page. This file system gathers the frames and writes them with one call: when the last frame of a commit is
// complete, before the log is synced, read, truncated, measured or closed, and when the next write does not continue
// the last one.
//
// Nobody misses the gathered frames. Other connections read only frames of commits in the log's index, and SQLite
// enters a commit there after it has written the commit's last frame. The writing connection reads through this file
// system.
//
// A log that grows gets zeros ahead of its frames, a stretch at a time. Syncing bytes that a file had already is one
// write of the disk. Syncing a file that became longer also commits the file system's journal, which takes twice the
// time and half as much processor time again. Recovery recognizes zeros as no frame. They are optional: without room
// for them, the log goes without.
//
// A log that exists when it is opened is rewritten byte for byte and synced before its writer reads it. After a failed
// sync the kernel takes the pages that it could not write for written: they exist only in its memory, and no later sync
// would write them. Commits after them would be acknowledged and yet lost with the power, because recovery stops at the
// first missing frame. A process cannot know whether a sync failed before it began, so it rewrites every log that it
// finds. Each byte replaces itself, so a loss of power meanwhile changes nothing.
//
// Recovery also stops silently at a frame that the disk did not keep as it was written. A log is therefore refused as
// damaged if frames of a later commit follow the commit with the first wrong frame: a commit is written only after the
// one before it is synced, so a loss of power can spoil no commit but the last. Damage in the last commit cannot be
// told from a loss of power.
//
// A dead writer leaves frames of a commit that it never ended, and later commits overwrite only their beginning. So a
// log may have, behind its last commit, frames that continue one another but prove nothing: none of them ends a commit.

#include "CSQLiteLog.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const csqlitelog_exclusive_name = "aquifer-exclusive-log";
const char *const csqlitelog_exclusive_reader_name = "unix-excl";
const char *const csqlitelog_shared_name = "aquifer-shared-log";
const char *const csqlitelog_shared_reader_name = "unix";

/// The file system below writes at most 0x1ffff bytes per call: it takes larger counts modulo that.
enum { frame_header_size = 24, capacity = 0x1ffff };

/// The length of one stretch: some ten commits of a few records. A longer one makes the commit that writes it wait
/// longer.
enum { stretch = 512 * 1024, piece = 128 * 1024 - 4096 };

/// A log file; the object of the file system below follows it in memory.
typedef struct {
  sqlite3_file base;
  unsigned char *bytes;
  int count;
  /// The place of `bytes` in the file.
  sqlite3_int64 start;
  /// The end of the bytes written since the log began anew. Writes before it are rewrites and are not gathered.
  sqlite3_int64 end;
  /// The file's length; less where it is not known.
  sqlite3_int64 size;
  /// The last frame header marks its frame as the end of a commit.
  int ends_commit;
  /// Nothing was written since the last sync. Checkpoints sync again all the same, and the disk would flush its cache.
  int is_synced;
} log_file;

static sqlite3_file *below(log_file *file) { return (sqlite3_file *)(file + 1); }

static unsigned char zeros[piece];

static int write_below(log_file *file, const void *bytes, int count, sqlite3_int64 offset) {
  file->is_synced = 0;
  return below(file)->pMethods->xWrite(below(file), bytes, count, offset);
}

/// Extends the file beyond `end`, as far as there is room.
static void stretch_beyond(log_file *file, sqlite3_int64 end) {
  file->size = end;
  for (sqlite3_int64 last = end + stretch; file->size < last;) {
    // Ends at a page boundary of the file, because the next write ends within a page anyway.
    int count = piece - (int)(file->size % 4096);
    if (write_below(file, zeros, count, file->size) != SQLITE_OK) return;
    file->size += count;
  }
}

static int flush(log_file *file) {
  if (file->count == 0) return SQLITE_OK;
  int count = file->count;
  // Dropped even if the write fails: SQLite rolls back then, and writes the next commit to the same place.
  file->count = 0;
  int code = write_below(file, file->bytes, count, file->start);
  if (code != SQLITE_OK) {
    file->end = file->start;
  } else if (file->start + count > file->size) {
    stretch_beyond(file, file->start + count);
  }
  return code;
}

static int log_write(sqlite3_file *base, const void *bytes, int count, sqlite3_int64 offset) {
  log_file *file = (log_file *)base;
  if (offset == 0) file->end = 0;
  int is_header = count == frame_header_size;
  // Bytes 4 to 7 of a frame's header: the database's size in pages if the frame ends a commit, or else 0.
  static const unsigned char none[4] = {0};
  if (is_header) file->ends_commit = memcmp((const unsigned char *)bytes + 4, none, sizeof none) != 0;
  int is_rewrite = offset < file->end;
  if (file->count > 0 && (is_rewrite || offset != file->start + file->count || count > capacity - file->count)) {
    int code = flush(file);
    if (code != SQLITE_OK) return code;
  }
  if (is_rewrite || count > capacity) return write_below(file, bytes, count, offset);
  if (file->count == 0) file->start = offset;
  memcpy(file->bytes + file->count, bytes, (size_t)count);
  file->count += count;
  file->end = offset + count;
  return file->ends_commit && !is_header ? flush(file) : SQLITE_OK;
}

static int log_close(sqlite3_file *base) {
  log_file *file = (log_file *)base;
  int flushed = flush(file);
  sqlite3_free(file->bytes);
  file->bytes = NULL;
  int closed = below(file)->pMethods->xClose(below(file));
  return flushed != SQLITE_OK ? flushed : closed;
}

static int log_read(sqlite3_file *base, void *bytes, int count, sqlite3_int64 offset) {
  int code = flush((log_file *)base);
  return code != SQLITE_OK ? code : below((log_file *)base)->pMethods->xRead(below((log_file *)base), bytes, count, offset);
}

static int log_truncate(sqlite3_file *base, sqlite3_int64 size) {
  log_file *file = (log_file *)base;
  int code = flush(file);
  if (code != SQLITE_OK) return code;
  if (file->end > size) file->end = size;
  file->size = size;
  file->is_synced = 0;
  return below(file)->pMethods->xTruncate(below(file), size);
}

static _Thread_local double seconds_in_sync;

double csqlitelog_seconds_in_sync(void) { return seconds_in_sync; }

static int log_sync(sqlite3_file *base, int flags) {
  log_file *file = (log_file *)base;
  int code = flush(file);
  if (code != SQLITE_OK || file->is_synced) return code;
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  code = below(file)->pMethods->xSync(below(file), flags);
  file->is_synced = code == SQLITE_OK;
  clock_gettime(CLOCK_MONOTONIC, &end);
  seconds_in_sync += (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
  return code;
}

static int log_size(sqlite3_file *base, sqlite3_int64 *size) {
  int code = flush((log_file *)base);
  return code != SQLITE_OK ? code : below((log_file *)base)->pMethods->xFileSize(below((log_file *)base), size);
}

static int log_control(sqlite3_file *base, int operation, void *argument) {
  int code = flush((log_file *)base);
  return code != SQLITE_OK ? code : below((log_file *)base)->pMethods->xFileControl(below((log_file *)base), operation, argument);
}

static int log_lock(sqlite3_file *base, int lock) { return below((log_file *)base)->pMethods->xLock(below((log_file *)base), lock); }

static int log_unlock(sqlite3_file *base, int lock) { return below((log_file *)base)->pMethods->xUnlock(below((log_file *)base), lock); }

static int log_check_lock(sqlite3_file *base, int *is_locked) {
  return below((log_file *)base)->pMethods->xCheckReservedLock(below((log_file *)base), is_locked);
}

static int log_sector_size(sqlite3_file *base) { return below((log_file *)base)->pMethods->xSectorSize(below((log_file *)base)); }

static int log_characteristics(sqlite3_file *base) {
  return below((log_file *)base)->pMethods->xDeviceCharacteristics(below((log_file *)base));
}

/// Version 1: shared memory and mapping belong to the database file.
static const sqlite3_io_methods log_methods = {
  .iVersion = 1,
  .xClose = log_close,
  .xRead = log_read,
  .xWrite = log_write,
  .xTruncate = log_truncate,
  .xSync = log_sync,
  .xFileSize = log_size,
  .xLock = log_lock,
  .xUnlock = log_unlock,
  .xCheckReservedLock = log_check_lock,
  .xFileControl = log_control,
  .xSectorSize = log_sector_size,
  .xDeviceCharacteristics = log_characteristics,
};

/// A file system with the one that handles every file but the log.
typedef struct {
  sqlite3_vfs base;
  sqlite3_vfs *below;
} log_system;

static log_system exclusive_system, shared_system;

// MARK: Damage

static unsigned number_at(const unsigned char *bytes) {
  return (unsigned)bytes[0] << 24 | (unsigned)bytes[1] << 16 | (unsigned)bytes[2] << 8 | bytes[3];
}

/// Continues SQLite's checksum in `sums` over `count` bytes, a multiple of eight.
static void add_sums(int is_big_endian, const unsigned char *bytes, int count, unsigned sums[2]) {
  for (int index = 0; index < count; index += 8) {
    unsigned words[2];
    for (int word = 0; word < 2; word++) {
      const unsigned char *place = bytes + index + 4 * word;
      unsigned value = number_at(place);
      words[word] = is_big_endian ? value : value >> 24 | (value >> 8 & 0xff00) | (value << 8 & 0xff0000) | value << 24;
    }
    sums[0] += words[0] + sums[1];
    sums[1] += words[1] + sums[0];
  }
}

/// The state of the check, frame after frame.
typedef struct {
  int is_big_endian;
  int page_size;
  unsigned char salts[8];
  /// The sums in the previous frame, or in the log's header.
  unsigned sums[2];
  /// A frame was wrong, and the commit that it belongs to has ended.
  int has_wrong_frame, has_ended;
  /// The next frame is the first one after that commit.
  int is_next;
} log_scan;

/// - Returns: whether the frame proves that a commit follows the damaged one.
static int shows_damage(log_scan *scan, const unsigned char *frame) {
  unsigned sums[2] = {scan->sums[0], scan->sums[1]};
  add_sums(scan->is_big_endian, frame, 8, sums);
  add_sums(scan->is_big_endian, frame + frame_header_size, scan->page_size, sums);
  // A frame of an earlier log has neither salt: the first one counts the logs, and the second one is random. No sector
  // ends between them. So a frame with one of them is damaged, and still tells whether it ends a commit.
  int has_first = memcmp(frame + 8, scan->salts, 4) == 0, has_second = memcmp(frame + 12, scan->salts + 4, 4) == 0;
  int is_of_this_log = has_first || has_second;
  scan->sums[0] = number_at(frame + 16);
  scan->sums[1] = number_at(frame + 20);
  int is_right = has_first && has_second && sums[0] == scan->sums[0] && sums[1] == scan->sums[1];
  int ends_commit = number_at(frame + 4) != 0;
  // Frames of a commit that was never ended neither continue the damaged one nor end a commit.
  if (scan->has_ended && is_right && (scan->is_next || ends_commit)) return 1;
  if (!is_right) scan->has_wrong_frame = 1;
  scan->is_next = 0;
  if (scan->has_wrong_frame && is_of_this_log && ends_commit) scan->has_ended = scan->is_next = 1;
  return 0;
}

/// - Returns: `SQLITE_CORRUPT` if a commit other than the last one is damaged.
static int look_over(log_file *file, sqlite3_int64 size) {
  enum { header_size = 32, usual_page_size = 4096 };
  sqlite3_file *log = below(file);
  unsigned char header[header_size];
  if (size < header_size + frame_header_size) return SQLITE_OK;
  int code = log->pMethods->xRead(log, header, header_size, 0);
  if (code != SQLITE_OK) return code;
  log_scan scan = {.is_big_endian = header[3] & 1, .page_size = (int)number_at(header + 8)};
  memcpy(scan.salts, header + 16, sizeof scan.salts);
  add_sums(scan.is_big_endian, header, 24, scan.sums);
  if (scan.page_size < 512 || scan.page_size > 65536 || scan.page_size % 8 != 0) scan.page_size = usual_page_size;
  int frame_size = frame_header_size + scan.page_size;
  sqlite3_int64 offset = header_size;
  if (scan.sums[0] != number_at(header + 24) || scan.sums[1] != number_at(header + 28)) {
    // The header is synced before the first frame is written: if frames continue one another, it was damaged later.
    code = log->pMethods->xRead(log, header, frame_header_size, offset);
    scan.has_ended = scan.is_next = 1;
    memcpy(scan.salts, header + 8, sizeof scan.salts);
    scan.sums[0] = number_at(header + 16);
    scan.sums[1] = number_at(header + 20);
    offset += frame_size;
  }
  for (; offset + frame_size <= size && code == SQLITE_OK; offset += frame_size) {
    code = log->pMethods->xRead(log, file->bytes, frame_size, offset);
    if (code == SQLITE_OK && shows_damage(&scan, file->bytes)) code = SQLITE_CORRUPT;
  }
  return code;
}

/// Makes the file's present content durable, by writing it again.
static int write_again(log_file *file) {
  sqlite3_file *log = below(file);
  sqlite3_int64 size = 0;
  int code = log->pMethods->xFileSize(log, &size);
  file->size = size;
  if (code != SQLITE_OK || size == 0) return code;
  code = look_over(file, size);
  for (sqlite3_int64 offset = 0; offset < size && code == SQLITE_OK; offset += capacity) {
    int count = size - offset < capacity ? (int)(size - offset) : capacity;
    code = log->pMethods->xRead(log, file->bytes, count, offset);
    if (code == SQLITE_OK) code = log->pMethods->xWrite(log, file->bytes, count, offset);
  }
  return code == SQLITE_OK ? log->pMethods->xSync(log, SQLITE_SYNC_NORMAL) : code;
}

static int system_open(sqlite3_vfs *system, const char *name, sqlite3_file *base, int flags, int *flags_out) {
  sqlite3_vfs *system_below = ((log_system *)system)->below;
  if (!(flags & SQLITE_OPEN_WAL)) return system_below->xOpen(system_below, name, base, flags, flags_out);
  log_file *file = (log_file *)base;
  memset(file, 0, sizeof *file);
  file->bytes = sqlite3_malloc(capacity);
  if (file->bytes == NULL) return SQLITE_NOMEM;
  int code = system_below->xOpen(system_below, name, below(file), flags, flags_out);
  if (code == SQLITE_OK) {
    code = write_again(file);
    if (code != SQLITE_OK) below(file)->pMethods->xClose(below(file));
  }
  if (code != SQLITE_OK) {
    sqlite3_free(file->bytes);
    file->bytes = NULL;
    return code;
  }
  file->base.pMethods = &log_methods;
  return SQLITE_OK;
}

static int register_system(log_system *system, const char *name, const char *name_below) {
  sqlite3_vfs *system_below = sqlite3_vfs_find(name_below);
  if (system_below == NULL) return SQLITE_ERROR;
  system->below = system_below;
  system->base = *system_below;
  system->base.zName = name;
  system->base.pNext = NULL;
  system->base.szOsFile = (int)sizeof(log_file) + system_below->szOsFile;
  system->base.xOpen = system_open;
  return sqlite3_vfs_register(&system->base, 0);
}

int csqlitelog_register(void) {
  int code = sqlite3_initialize();
  if (code != SQLITE_OK || sqlite3_vfs_find(csqlitelog_shared_name) != NULL) return code;
  code = register_system(&exclusive_system, csqlitelog_exclusive_name, csqlitelog_exclusive_reader_name);
  if (code != SQLITE_OK) return code;
  return register_system(&shared_system, csqlitelog_shared_name, csqlitelog_shared_reader_name);
}
