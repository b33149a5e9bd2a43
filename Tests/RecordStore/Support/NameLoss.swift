// Names lost in a power cut: links, renames and new files in folders without a later sync.

import Foundation
import Testing

/// A shim like the one for unsynced writes, but for names. Content that was renamed without a sync is lost, too.
struct NameLoss {
  private let folder: TemporaryFolder
  var shim: String { folder.path + "/libnameloss.so" }

  private static let source = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <fcntl.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <unistd.h>
    static int logFile = -1;
    static const char *root;
    __attribute__((constructor)) static void begin(void) {
      root = getenv("PF_ROOT");
      if (getenv("NL_LOG")) logFile = open(getenv("NL_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    static void note(char what, const char *a, const char *b) {
      char line[2048];
      if (logFile < 0 || !root || strncmp(a, root, strlen(root))) return;
      int n = snprintf(line, sizeof line, "%c\\t%s\\t%s\\n", what, a, b);
      if (write(logFile, line, n) != n) abort();
    }
    int link(const char *a, const char *b) {
      int (*next)(const char *, const char *) = dlsym(RTLD_NEXT, "link");
      int r = next(a, b);
      if (!r) note('L', a, b);
      return r;
    }
    int rename(const char *a, const char *b) {
      int (*next)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
      int r = next(a, b);
      if (!r) note('R', a, b);
      return r;
    }
    int mkdir(const char *a, mode_t m) {
      int (*next)(const char *, mode_t) = dlsym(RTLD_NEXT, "mkdir");
      int r = next(a, m);
      if (!r) note('M', a, a);
      return r;
    }
    int fsync(int fd) {
      char link[64], path[1024];
      struct stat s;
      snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
      ssize_t n = readlink(link, path, sizeof path - 1);
      int isFolder = !fstat(fd, &s) && S_ISDIR(s.st_mode);
      int (*next)(int) = dlsym(RTLD_NEXT, "fsync");
      int r = next(fd);
      if (!r && n > 0 && !(isFolder && getenv("NL_NO_FOLDERS"))) { path[n] = 0; note('S', path, path); }
      return r;
    }
    """

  /// nil, with a printed reason, where there is no C compiler.
  static func library() throws -> NameLoss? {
    let library = NameLoss(folder: try TemporaryFolder())
    let source = library.folder.path + "/nameloss.c"
    try Self.source.write(toFile: source, atomically: true, encoding: .utf8)
    let compiler: ChildProcess
    do {
      compiler = try ChildProcess("cc", ["-shared", "-fPIC", "-O1", "-w", "-o", library.shim, source, "-ldl"])
    } catch {
      print("skipped: there is no C compiler")
      return nil
    }
    try #require(compiler.wait() == 0)
    return library
  }

  /// Undoes names that no sync has made durable; their files and folders are gone then.
  /// - Returns: the number of lost names.
  func cutPower(_ rig: CrashRig) throws -> Int {
    let lines = String(decoding: FileManager.default.contents(atPath: rig.nameLog) ?? Data(), as: UTF8.self).split(
      separator: "\n")
    var pending: [(folder: String, name: String)] = []
    var synced: Set<String> = []
    var torn: Set<String> = []
    for line in lines {
      let parts = line.split(separator: "\t").map(String.init)
      guard parts.count == 3 else { continue }
      switch parts[0] {
      case "S":
        synced.insert(parts[1])
        pending.removeAll { $0.folder == parts[1] }
      default:
        pending.append(((parts[2] as NSString).deletingLastPathComponent, parts[2]))
        if parts[0] == "R", !synced.contains(parts[1]) { torn.insert(parts[2]) }
      }
    }
    for path in torn where FileManager.default.fileExists(atPath: path) { #expect(truncate(path, 0) == 0) }
    for (_, name) in pending.reversed() where FileManager.default.fileExists(atPath: name) {
      try FileManager.default.removeItem(atPath: name)
    }
    // From here on the journal begins anew.
    if FileManager.default.fileExists(atPath: rig.nameLog) { try FileManager.default.removeItem(atPath: rig.nameLog) }
    return pending.count + torn.count
  }
}
