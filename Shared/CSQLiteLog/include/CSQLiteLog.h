// An SQLite file system that writes a commit's frames of the write-ahead log with one system call.
#ifndef CSQLITELOG_H
#define CSQLITELOG_H

/// The file system of the connection that writes.
extern const char *const csqlitelog_name;

/// The file system of connections that only read: SQLite's own for files of one process. It keeps the log's index in
/// this process's memory, and its locks cost no system calls; the file is locked for every other process.
extern const char *const csqlitelog_reader_name;

/// Registers the file system, which uses the readers' one below; a second call has no effect.
/// Returns SQLITE_OK or SQLite's error.
int csqlitelog_register(void);

/// The seconds that the calling thread has waited for syncs of logs since it began.
double csqlitelog_seconds_in_sync(void);

#endif
