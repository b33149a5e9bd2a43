// A store that one process after another works on, each of which is killed.

import Foundation
import MirrorWire
import PowerLoss
import Testing

@testable import ReplicaStore

struct Victim {
  enum Kind: String, CaseIterable, Sendable { case saves, imports, migrates, resets, contents, switches }

  /// When a process dies of itself.
  enum Death {
    case step(Int)
    case statement(Int)
  }

  let folder: Folder
  let kind: Kind
  /// The library of `PowerLoss`; nil: processes are killed from outside.
  var library: String?
  var isControl = false

  private static let products = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()

  private var root: String { "\(folder.path)/store" }
  private var store: String { "\(root)/store.sqlite" }
  private var ledger: String { "\(folder.path)/ledger" }

  init(_ kind: Kind, library: String? = nil, isControl: Bool = false) throws {
    folder = try World.folder()
    (self.kind, self.library, self.isControl) = (kind, library, isControl)
    try FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: true)
  }

  /// Compiles the library into a folder.
  static func library(in folder: Folder) throws -> String {
    let source = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../PowerLoss/powerloss.c")
    try PowerLoss.compile(source.standardized.path, to: "\(folder.path)/powerloss.so")
    return "\(folder.path)/powerloss.so"
  }

  private func process(_ more: [String] = [], _ environment: [String: String] = [:]) -> Process {
    let process = Process()
    process.executableURL = Self.products.appending(path: "replica-tool")
    process.arguments = [kind.rawValue, store, ledger] + more
    process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    return process
  }

  private var loss: PowerLoss? {
    guard let library else { return nil }
    // The library compares paths as they are opened.
    let root = URL(filePath: root).resolvingSymlinksInPath().path
    return PowerLoss(root: root, notes: "\(folder.path)/notes", library: library, isControl: isControl)
  }

  /// Runs a process until it has acknowledged so many more numbers, and kills it after a moment more.
  func kill(after count: Int, spins: Int) throws {
    let target = acknowledged().count + count
    let process = process()
    try process.run()
    while acknowledged().count < target, process.isRunning { usleep(200) }
    // A moment that ends anywhere within the next piece of work.
    for _ in 0..<spins { sched_yield() }
    #expect(process.isRunning, "the process ended by itself")
    Foundation.kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
  }

  /// Runs a process that dies of itself, and takes back what is lost of its unsynced work.
  /// - Parameter count: pieces of work, after which it ends.
  /// - Returns: whether it died before it came to an end.
  func die(_ death: Death, within count: Int, isLost: () -> Bool) throws -> Bool {
    guard let loss else { throw StoreError.invalid("no library") }
    var environment = loss.environment
    switch death {
    case .step(let number): environment["POWERLOSS_KILL_STEP"] = "\(number)"
    case .statement(let number): environment["POWERLOSS_KILL_STATEMENT"] = "\(number)"
    }
    let process = process(["\(count)"], environment)
    try process.run()
    process.waitUntilExit()
    let isDead = process.terminationReason == .uncaughtSignal && process.terminationStatus == SIGKILL
    #expect(isDead || process.terminationStatus == 0, "the process failed: \(process.terminationStatus)")
    _ = try loss.strike(isLost)
    return isDead
  }

  /// Works without dying, and keeps what is there then for `goBack`.
  /// - Parameter count: pieces of work; 0: there is no store yet.
  func begin(_ count: Int) throws {
    _ = FileManager.default.createFile(atPath: ledger, contents: nil)
    if count > 0 { _ = try die(.step(.max), within: count) { false } }
    try FileManager.default.copyItem(atPath: root, toPath: root + "-begun")
    try FileManager.default.copyItem(atPath: ledger, toPath: ledger + "-begun")
  }

  /// Makes the store what it was after `begin`.
  func goBack() throws {
    for path in [root, ledger] {
      try? FileManager.default.removeItem(atPath: path)
      try FileManager.default.copyItem(atPath: path + "-begun", toPath: path)
    }
  }

  // MARK: What is there

  /// Numbers that were acknowledged.
  func acknowledged() -> [Int] {
    let text = (try? String(contentsOfFile: ledger, encoding: .utf8)) ?? ""
    return text.split(separator: "\n").compactMap { Int($0) }
  }

  /// Numbers in the store by how many of their two halves are there, the texts of the pictures, and how many saves wait
  /// to be sent.
  struct Stored {
    var halves: [Int: Int] = [:]
    var pictures: [String] = []
    var outboxCount = 0
    /// Of switches: some file has saves of two accounts.
    var isMixed = false
  }

  /// nil: there is no store, or none that can be opened.
  func stored() async throws -> Stored? {
    guard kind == .switches else { return try await stored(in: store) }
    var all: Stored?
    for path in [store, "\(store)-account-1", "\(store)-account-2"] {
      guard let stored = try await stored(in: path) else { continue }
      var sum = all ?? Stored()
      sum.halves.merge(stored.halves, uniquingKeysWith: +)
      sum.outboxCount += stored.outboxCount
      sum.isMixed = sum.isMixed || Set(stored.halves.keys.map { $0 % 3 }).count > 1
      all = sum
    }
    return all
  }

  private func stored(in path: String) async throws -> Stored? {
    guard FileManager.default.fileExists(atPath: path) else { return nil }
    var configuration = World.configuration(path)
    configuration.isReadOnly = true
    for version in 1...3 {
      // Dropped because the file has another version's model; a file that none opens is told as one that is gone.
      guard let replica = try? await Replica.open(configuration, Self.model(version)) else { continue }
      let stored = try await replica.read { snapshot in
        var stored = Stored()
        let notes = "FROM e_Note n JOIN object o ON o._pk = n._pk WHERE o.state = 1"
        for row in try snapshot.rows("SELECT n.number, count(*) \(notes) GROUP BY 1", []) {
          guard case .integer(let number) = row[0], case .integer(let count) = row[1] else { continue }
          stored.halves[Int(number)] = Int(count)
        }
        for row in try snapshot.rows("SELECT n.picture \(notes) AND n.picture IS NOT NULL", []) {
          guard case .text(let text) = row[0] else { continue }
          stored.pictures.append(text)
        }
        if case .integer(let count) = try snapshot.rows("SELECT count(*) FROM outbox", [])[0][0] {
          stored.outboxCount = Int(count)
        }
        return stored
      }
      await replica.close()
      return stored
    }
    return nil
  }

  private static func model(_ version: Int) -> ManagedObjectModel {
    let attributes = [
      AttributeDescription(["text", "body", "words"][version - 1], .string), AttributeDescription("number", .integer64),
      AttributeDescription("picture", .binary, .external),
    ]
    return ManagedObjectModel(hash: "tool-\(version)", entities: [EntityDescription("Note", attributes: attributes)])
  }

  /// Records what is lost, or there in part.
  func check(_ place: String) async throws {
    let acknowledged = acknowledged()
    guard let stored = try await stored() else {
      #expect(acknowledged.isEmpty, "\(place): the store is gone")
      return
    }
    #expect(stored.halves.values.allSatisfy { $0 == 2 }, "\(place): \(stored.halves.filter { $0.value != 2 })")
    switch kind {
    case .resets:
      // Each reset takes away what the former one brought.
      #expect(stored.halves.count <= 1, "\(place)")
      #expect(stored.halves.keys.first ?? 0 >= acknowledged.last ?? 0, "\(place)")
    case .saves, .imports, .migrates, .contents, .switches:
      #expect(Set(acknowledged).isSubset(of: stored.halves.keys), "\(place): acknowledged work is lost")
    }
    #expect(!stored.isMixed, "\(place): a file has saves of two accounts")
    if kind != .imports, kind != .resets { #expect(stored.outboxCount == stored.halves.count, "\(place)") }
    #expect(stored.pictures.count == (kind == .contents ? 2 * stored.halves.count : 0), "\(place)")
    for text in stored.pictures {
      let name = try #require(ContentName(text))
      let path = "\(store)-contents/\(name.checksum)"
      #expect((try? ContentFile.measure(path)) == name, "\(place): the content of \(text) is lost")
    }
  }
}
