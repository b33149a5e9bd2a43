// Kills a process at its n-th step: a preloaded library counts the process's writes and messages.

import Foundation
import Testing

/// Counts the steps of all processes of an installation, and kills one of them before a chosen step.
///
/// A step is an effect outside of the process: the first byte of a commit, a sync of files, requests and replies on the
/// bus (except announcements), an HTTP answer. Each process counts over all its threads in a memory page that it shares
/// with the test.
struct StepShim: Sendable {
  private let folder: URL

  /// The environment that the processes need.
  var environment: [String: String] {
    ["LD_PRELOAD": folder.appending(path: "steps.so").path, "STEPS_FOLDER": folder.path]
  }

  private static let source = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <fcntl.h>
    #include <signal.h>
    #include <stdatomic.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/socket.h>
    #include <sys/uio.h>
    #include <unistd.h>
    static struct page { _Atomic long limit, count, kills; char kinds[4072]; } *page;
    static _Atomic int isWriting;
    __attribute__((constructor)) static void begin(void) {
      char line[8192], path[4200];
      const char *folder = getenv("STEPS_FOLDER"), *name = 0;
      int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
      ssize_t n = folder && fd >= 0 ? read(fd, line, sizeof line - 1) : -1;
      if (fd >= 0) close(fd);
      if (n <= 0) return;
      line[n] = 0;
      for (char *p = line; p < line + n; p += strlen(p) + 1) if (!strcmp(p, "--name")) name = p + 7;
      if (!name || name >= line + n) return;
      snprintf(path, sizeof path, "%s/%s", folder, name);
      fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      if (fd < 0 || ftruncate(fd, sizeof *page)) abort();
      page = mmap(0, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (page == MAP_FAILED) abort();
      close(fd);
    }
    static void step(char kind) {
      if (!page) return;
      long n = atomic_fetch_add(&page->count, 1) + 1;
      if (n <= (long)sizeof page->kinds) page->kinds[n - 1] = kind;
      if (n != atomic_load(&page->limit)) return;
      atomic_fetch_add(&page->kills, 1);
      kill(getpid(), SIGKILL);
      while (1) pause();
    }
    /* Requests, replies and failures begin with 41 71 01 04, 05 and 06. */
    static void look(const char *bytes, size_t n) {
      if (n >= 7 && !memcmp(bytes, "HTTP/1.", 7)) return step('H');
      for (const char *p = bytes; n >= 4 && (p = memmem(p, bytes + n - p, "\\x41\\x71\\x01", 3)) && p + 3 < bytes + n; \
    p++)
        if (p[3] >= 4 && p[3] <= 6) return step("QRF"[p[3] - 4]);
    }
    ssize_t send(int fd, const void *bytes, size_t n, int flags) {
      static ssize_t (*next)(int, const void *, size_t, int);
      if (!next) next = dlsym(RTLD_NEXT, "send");
      look(bytes, n);
      return next(fd, bytes, n, flags);
    }
    ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
      static ssize_t (*next)(int, const struct msghdr *, int);
      if (!next) next = dlsym(RTLD_NEXT, "sendmsg");
      if (m->msg_iovlen > 0) look(m->msg_iov[0].iov_base, m->msg_iov[0].iov_len);
      return next(fd, m, flags);
    }
    ssize_t writev(int fd, const struct iovec *v, int count) {
      static ssize_t (*next)(int, const struct iovec *, int);
      if (!next) next = dlsym(RTLD_NEXT, "writev");
      if (count > 0) look(v[0].iov_base, v[0].iov_len);
      return next(fd, v, count);
    }
    ssize_t pwrite64(int fd, const void *bytes, size_t n, off_t at) {
      static ssize_t (*next)(int, const void *, size_t, off_t);
      if (!next) next = dlsym(RTLD_NEXT, "pwrite64");
      if (!atomic_exchange(&isWriting, 1)) step('W');
      return next(fd, bytes, n, at);
    }
    int fdatasync(int fd) {
      static int (*next)(int);
      if (!next) next = dlsym(RTLD_NEXT, "fdatasync");
      step('S');
      atomic_store(&isWriting, 0);
      return next(fd);
    }
    int fsync(int fd) {
      static int (*next)(int);
      if (!next) next = dlsym(RTLD_NEXT, "fsync");
      step('S');
      atomic_store(&isWriting, 0);
      return next(fd);
    }
    """

  /// - Parameter folder: a folder of the caller's for the library and the processes' pages.
  init(in folder: URL) throws {
    self.folder = folder
    let source = folder.appending(path: "steps.c")
    try Self.source.write(to: source, atomically: true, encoding: .utf8)
    let library = folder.appending(path: "steps.so").path
    let words = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", library, source.path, "-ldl"]
    let made = try CommandLineTool.run(words, executable: URL(filePath: "/usr/bin/env"))
    guard made.code == 0 else { throw Unexpected("cc: \(made.problem)") }
  }

  /// The steps of a process since it was armed.
  struct Progress: Sendable {
    let count: Int
    let wasKilled: Bool
    /// A letter for each step: W(rite), S(ync), Q (request), R(eply), F(ailure), H(TTP).
    let kinds: String
  }

  /// Lets the process begin to count, and kills it at a step; nil: at none.
  func arm(_ process: String, at step: Int?) throws {
    let page = try Page(folder.appending(path: process).path)
    page[0] = 0
    page[2] = 0
    page[1] = 0
    page[0] = step ?? 0
  }

  func disarm(_ process: String) throws { try Page(folder.appending(path: process).path)[0] = 0 }

  func progress(of process: String) throws -> Progress {
    let page = try Page(folder.appending(path: process).path)
    return Progress(count: page[1], wasKilled: page[2] > 0, kinds: page.text(from: 24, count: page[1]))
  }

  func count(of process: String) throws -> Int { try Page(folder.appending(path: process).path)[1] }

  /// A process's page, mapped from its file, so that the test and the process share the memory.
  private final class Page {
    private let descriptor: Int32

    init(_ path: String) throws {
      descriptor = open(path, O_RDWR | O_CLOEXEC)
      guard descriptor >= 0 else { throw Unexpected("\(path): \(String(cString: strerror(errno)))") }
    }

    deinit { close(descriptor) }

    subscript(place: Int) -> Int {
      get {
        var value = 0
        return pread(descriptor, &value, 8, off_t(8 * place)) == 8 ? value : 0
      }
      set {
        var value = newValue
        _ = pwrite(descriptor, &value, 8, off_t(8 * place))
      }
    }

    func text(from offset: Int, count: Int) -> String {
      var bytes = [UInt8](repeating: 0, count: min(max(count, 0), 4000))
      let read = pread(descriptor, &bytes, bytes.count, off_t(offset))
      return String(decoding: bytes.prefix(max(read, 0)), as: UTF8.self)
    }
  }
}
