// Logs whose writer died in the midst of a write: they open with the last whole commit, and are not taken for damaged.

import Foundation
import SQLite
import Testing

struct TornLogTests {
  private static let frameSize = 24 + 4096

  /// A file and its log, as the disk has them.
  private struct Files {
    var main: Data
    var log: Data

    init(in folder: String) throws {
      main = try Data(contentsOf: URL(fileURLWithPath: folder + "/notes.sqlite"))
      log = (try? Data(contentsOf: URL(fileURLWithPath: folder + "/notes.sqlite-wal"))) ?? Data()
    }

    func write(to folder: String) throws {
      try main.write(to: URL(fileURLWithPath: folder + "/notes.sqlite"))
      try log.write(to: URL(fileURLWithPath: folder + "/notes.sqlite-wal"))
    }
  }

  /// Runs a transaction on the files.
  /// - Returns: the files after it, as a dead process leaves them; what the file says before it; the log's pages.
  private static func run(
    _ files: Files, isShared: Bool, keys: ClosedRange<Int64>, text: String, commits: Bool, checkpoints: Bool = false
  ) throws -> (files: Files, notes: [Int64: String], pageCount: Int) {
    let tests = try LogFileTests()
    try files.write(to: tests.folder.path)
    let writer = try tests.writer(isShared: isShared, isNew: false)
    defer { writer.close() }
    let notes = try tests.notes(writer)
    if checkpoints { _ = try writer.checkpoint(.passive) }
    let put = try writer.statement(LogFileTests.put)
    try writer.beginImmediateTransaction()
    for key in keys { try put.binding(key, text).run() }
    if commits { try writer.commit() }
    let after = try Files(in: tests.folder.path)
    let count = writer.logPageCount
    if !commits { try writer.rollback() }
    return (after, notes, count)
  }

  private static func new(isShared: Bool) throws -> Files {
    let tests = try LogFileTests()
    let writer = try tests.writer(isShared: isShared)
    defer { writer.close() }
    try writer.statement(LogFileTests.put).binding(0, "first").run()
    return try Files(in: tests.folder.path)
  }

  private static func text(_ character: Character) -> String { String(repeating: character, count: 3900) }

  @Test(arguments: [false, true])
  func `a commit that ends within its last page, before what an earlier death left, is as if it had not been`(
    isShared: Bool
  ) throws {
    let first = try Self.new(isShared: isShared)
    let long = try Self.run(first, isShared: isShared, keys: 1...80, text: Self.text("a"), commits: false).files
    let short = try Self.run(long, isShared: isShared, keys: 1...3, text: Self.text("b"), commits: true)
    #expect(short.notes == [0: "first"])
    // The last frame's header is written, its page is not.
    let cut = 32 + (short.pageCount - 1) * Self.frameSize + 24
    #expect(long.log.count > cut + 8 * Self.frameSize, "the earlier death left too little")
    var torn = long
    torn.log.replaceSubrange(..<cut, with: short.files.log.prefix(cut))
    let found = try Self.run(torn, isShared: isShared, keys: 9...9, text: "next", commits: true)
    #expect(found.notes == [0: "first"])
    let again = try Self.run(found.files, isShared: isShared, keys: 10...10, text: "last", commits: true)
    #expect(again.notes == [0: "first", 9: "next"])
  }

  @Test(arguments: 1...4, [false, true])
  func `a writer that dies at any byte of any transaction leaves its last commit, death after death`(
    seed: Int, isShared: Bool
  ) throws {
    var random = SeededGenerator(seed: UInt64(seed))
    var files = try Self.new(isShared: isShared)
    var known: [Int64: String] = [0: "first"]
    for round in 1...60 {
      let first = Int64.random(in: 0...60, using: &random)
      let count = try #require([0, 2, 8, 70].randomElement(using: &random) as Int64?)
      let text = String(repeating: "\(round % 10)", count: Int.random(in: 1...3900, using: &random))
      let commits = Int.random(in: 0...2, using: &random) > 0
      let after = try Self.run(
        files, isShared: isShared, keys: first...first + count, text: text, commits: commits,
        checkpoints: Int.random(in: 0...9, using: &random) == 0)
      #expect(after.notes == known, "round \(round)")
      let end = 32 + after.pageCount * Self.frameSize
      // Within the log's header no write ends.
      let cut = Int.random(in: 32...max(32, after.files.log.count), using: &random)
      var torn = after.files
      if files.log.prefix(32) == torn.log.prefix(32) {
        torn.log.replaceSubrange(cut..., with: files.log.dropFirst(cut))
        if commits, cut >= end { for key in first...first + count { known[key] = text } }
      } else if commits {
        for key in first...first + count { known[key] = text }
      }
      files = torn
    }
  }
}
