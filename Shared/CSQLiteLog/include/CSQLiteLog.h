// SQLite file systems that write a commit's frames of the write-ahead log with one system call.
#ifndef CSQLITELOG_H
#define CSQLITELOG_H

/// The file systems of the connection that writes: to a file that belongs to this process alone, and to a file that other
/// processes may read meanwhile.
extern const char *const csqlitelog_exclusive_name;
extern const char *const csqlitelog_shared_name;

/// The file systems of connections that only read, which are SQLite's own. The one for files of one process keeps the
/// log's index in this process's memory, and its locks cost no system calls; the file is locked for every other process.
extern const char *const csqlitelog_exclusive_reader_name;
extern const char *const csqlitelog_shared_reader_name;

/// Registers the writers' file systems, which use the readers' ones below; a second call has no effect.
/// Returns SQLITE_OK or SQLite's error.
int csqlitelog_register(void);

/// The seconds that the calling thread has waited for syncs of logs since it began.
double csqlitelog_seconds_in_sync(void);

#endif
