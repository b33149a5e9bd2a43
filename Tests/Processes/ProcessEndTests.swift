// The end of a process, of which some threads still run.

import Foundation
import Testing

/// Preloads a library whose destructor ends the process by a signal, as two threads that free the same memory would.
struct ProcessEndTests {
  private static let source = """
    #include <stdlib.h>
    __attribute__((destructor)) static void end(void) { abort(); }
    """

  /// - Returns: the path of the library.
  private func makeLibrary(in folder: URL) throws -> String {
    let source = folder.appending(path: "destructor.c")
    let library = folder.appending(path: "destructor.so").path
    try Self.source.write(to: source, atomically: true, encoding: .utf8)
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

  @Test(arguments: [("aquifer", 2), ("aquifer-gateway", 64), ("aquifer-notifier", 64), ("aquifer-worker", 64)])
  func `a command runs no destructors beside its threads`(name: String, usage: Int32) throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let library = try makeLibrary(in: folder)
    for (word, code) in [("--help", 0), ("--unknown", usage)] {
      let ended = try CommandLineTool.run(
        [word], executable: Checkout.products.appending(path: name), environment: ["LD_PRELOAD": library])
      #expect(ended.code == code, "\(word): \(ended.problem)")
    }
  }
}
