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
    for count in 1...2 {
      let added = try CommandLineTool.run(["encryption-key", "add", path], environment: loss.environment)
      #expect(added.code == 0, "\(added.problem)")
      _ = try loss.strike { true }
      let left = String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
      let kept = left.split(separator: "\n")
      #expect(kept.count == count && kept.starts(with: keys), "\(kept.count) keys are left")
      keys = kept
    }
  }
}
