// The file of encryption keys after a power cut: a key that was told of is there, and so are all before it.

import Foundation
import PowerLoss
import Testing

struct KeyFileTests {
  @Test func `a key that was added is there after a power cut, and so are the earlier ones`() throws {
    let folder = try Installation.makeFolder().resolvingSymlinksInPath()
    defer { try? FileManager.default.removeItem(at: folder) }
    let data = folder.appending(path: "data")
    try FileManager.default.createDirectory(at: data, withIntermediateDirectories: true)
    let library = folder.appending(path: "powerloss.so").path
    try PowerLoss.compile(Checkout.root.appending(path: "Tests/PowerLoss/powerloss.c").path, to: library)
    let loss = PowerLoss(
      root: data.path, notes: folder.appending(path: "notes").path, library: library, isControl: false)
    let path = data.appending(path: "encryption-key").path
    var keys: [Substring] = []
    for (action, count) in [("add", 1), ("add", 2), ("use", 2)] {
      let done = try CommandLineTool.run(["encryption-key", action, path], environment: loss.environment)
      #expect(done.code == 0, "\(done.problem)")
      _ = try loss.strike { true }
      let left = String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
      let kept = left.split(separator: "\n").filter { !$0.hasPrefix("#") }
      #expect(kept.count == count && Set(kept).isSuperset(of: keys), "\(kept.count) keys are left")
      if action == "use" { #expect(kept == keys.reversed(), "the added key is the last one") }
      keys = kept
    }
  }
}
