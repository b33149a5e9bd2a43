#ifndef CSQLITE_SHIM_H
#define CSQLITE_SHIM_H

#include <sqlite3.h>

// sqlite3_config is variadic, and Swift does not import it. With memory statistics on, every allocation of every
// connection takes one global lock to count bytes that nobody reads. Must run before the first connection; later calls
// are refused and harmless.
static inline int csqlite_disable_memory_statistics(void) { return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); }

// sqlite3_db_config is variadic too.
static inline int csqlite_no_checkpoint_on_close(sqlite3 *connection) {
  return sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}

#endif
