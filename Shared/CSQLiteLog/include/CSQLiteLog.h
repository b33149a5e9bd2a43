// An SQLite file system that writes a commit's frames of the write-ahead log with one system call.
#ifndef CSQLITELOG_H
#define CSQLITELOG_H

/// The name to open connections with.
extern const char *const csqlitelog_name;

/// Makes the file system known to this process; it stands on the default one. Calling it again changes nothing.
/// Returns SQLITE_OK or SQLite's error.
int csqlitelog_register(void);

#endif
