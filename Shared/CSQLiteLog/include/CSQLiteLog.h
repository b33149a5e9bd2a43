// An SQLite file system that writes a commit's frames of the write-ahead log with one system call.
#ifndef CSQLITELOG_H
#define CSQLITELOG_H

/// The name to open the connection with that writes.
extern const char *const csqlitelog_name;

/// The name to open connections with that only read: SQLite's own file system for files of one process. The log's index is this
/// process's memory, and its locks cost no system calls; the file is locked for every other process.
extern const char *const csqlitelog_reader_name;

/// Makes the file system known to this process; it stands on that of the readers. Calling it again changes nothing.
/// Returns SQLITE_OK or SQLite's error.
int csqlitelog_register(void);

/// How long the calling thread has waited for logs to be synced, since it began.
double csqlitelog_seconds_in_sync(void);

#endif
