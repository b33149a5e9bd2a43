// The end of a process, of which some threads still run.

import Foundation
import Testing

/// Preloads libraries into processes.
struct ProcessEndTests {
  /// Its destructor ends the process by a signal, as two threads that free the same memory would.
  private static let destructor = """
    #include <stdlib.h>
    __attribute__((destructor)) static void end(void) { abort(); }
    """
  /// Holds the stop of a service where it removes its ready file, tells so by a file beside it, and goes on when there
  /// is another one.
  private static let gate = """
    #include <fcntl.h>
    #include <stdio.h>
    #include <string.h>
    #include <unistd.h>
    int unlink(const char *path) {
      const char *end = strrchr(path, '.');
      if (end && strcmp(end, ".ready") == 0) {
        char beside[4096];
        snprintf(beside, sizeof beside, "%s.stops", path);
        close(open(beside, O_CREAT | O_WRONLY, 0600));
        snprintf(beside, sizeof beside, "%s.goes", path);
        while (access(beside, F_OK) != 0) usleep(1000);
      }
      return unlinkat(AT_FDCWD, path, 0);
    }
    """

  /// - Returns: the path of the library.
  private func makeLibrary(_ text: String = Self.destructor, in folder: URL) throws -> String {
    let source = folder.appending(path: "preloaded.c")
    let library = folder.appending(path: "preloaded.so").path
    try text.write(to: source, atomically: true, encoding: .utf8)
    let words = ["cc", "-shared", "-fPIC", "-o", library, source.path]
    let made = try CommandLineTool.run(words, executable: URL(filePath: "/usr/bin/env"))
    guard made.code == 0 else { throw Unexpected("cc: \(made.problem)") }
    return library
  }

  @Test(.timeLimit(.minutes(1))) func `a service that stops runs no destructors beside its threads`() async throws {
    try await SeparateProcesses.run { processes in
      let library = try makeLibrary(in: processes.folder)
      let launcher = ["/usr/bin/env", "LD_PRELOAD=\(library)"]
      try await processes.start("share-1", ["--data", processes.folder.path + "/directory"], launcher: launcher)
      let end = try processes.end("share-1", by: SIGTERM)
      #expect(end.reason == .exit && end.code == 0, "ended with \(end.code)")
    }
  }

  /// An init system may tell all processes of a service, and `aquifer dev` tells them when their turn has come.
  @Test(.timeLimit(.minutes(1)), arguments: [true, false])
  func `a stop that the parent passes on late lets a service drain, and the parent's second one ends it`(
    isPassedOn: Bool
  ) async throws {
    try await SeparateProcesses.run { processes in
      let launcher = ["/usr/bin/env", "LD_PRELOAD=\(try makeLibrary(Self.gate, in: processes.folder))"]
      let data = processes.folder.path + "/directory"
      let pid = try await processes.start("share-1", ["--data", data], launcher: launcher).pid
      if isPassedOn {
        // The shell is a process beside this one, which is the service's parent.
        let told = try CommandLineTool.run(["-c", "kill -TERM \(pid)"], executable: URL(filePath: "/bin/sh"))
        #expect(told.code == 0, "\(told.problem)")
      } else {
        kill(pid, SIGTERM)
      }
      let ready = processes.folder.appending(path: "run/share-1.ready").path
      while !FileManager.default.fileExists(atPath: ready + ".stops") { try await Task.sleep(for: .milliseconds(10)) }
      // All signals of one second are one stop.
      try await Task.sleep(for: .milliseconds(1200))
      guard isPassedOn else {
        let end = try processes.end("share-1", by: SIGTERM)
        #expect(end.reason == .exit && end.code == 75, "ended with \(end.code)")
        return
      }
      kill(pid, SIGTERM)
      // A service that does not wait ends within this time.
      for _ in 0..<30 where processes.isRunning("share-1") { try await Task.sleep(for: .milliseconds(10)) }
      #expect(FileManager.default.createFile(atPath: ready + ".goes", contents: nil))
      let end = try processes.end("share-1", by: 0)
      #expect(end.reason == .exit && end.code == 0, "ended with \(end.code)")
    }
  }

  @Test(arguments: [
    ("aquifer", 2), ("aquifer-gateway", 64), ("aquifer-notifier", 64), ("aquifer-worker", 64), ("aquifer-load", 2),
    ("aquifer-attacks", 64), ("aquifer-chaos", 64),
  ])
  func `a command runs no destructors beside its threads, and its output is whole`(name: String, usage: Int32) throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let library = try makeLibrary(in: folder)
    for (word, code) in [("--help", 0), ("--unknown", usage)] {
      let ended = try CommandLineTool.run(
        [word], executable: Checkout.products.appending(path: name), environment: ["LD_PRELOAD": library])
      #expect(ended.code == code, "\(word): \(ended.problem)")
      #expect(!(code == 0 ? ended.output : ended.problem).isEmpty)
    }
  }

  @Test(arguments: [("aquifer-photos", 64), ("client-peer", 2), ("replica-convergence-runs", 2)])
  func `a client's process runs no destructors beside its threads, and tells its usage`(name: String, code: Int32)
    throws
  {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let ended = try CommandLineTool.run(
      ["--unknown"], executable: Checkout.products.appending(path: name),
      environment: ["LD_PRELOAD": try makeLibrary(in: folder)])
    #expect(ended.code == code && !(ended.output + ended.problem).isEmpty, "\(ended)")
  }
}
