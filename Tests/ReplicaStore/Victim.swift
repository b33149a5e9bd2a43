// A store that one process after another works on, each of which is killed.

import Foundation
import MirrorWire
import PowerLoss
import Sanitizers
import Testing

@testable import ReplicaStore

struct Victim {
  enum Kind: String, CaseIterable, Sendable {
    case saves, imports, migrates, resets, contents, switches, reuploads, tracks, consumes, zoneEnds
  }

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

  /// That of the release where there is one, because it starts much faster. Sanitizers watch the one for debugging.
  private static let tool: URL = {
    let products = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
    let release = ProcessInfo.processInfo.environment["AQUIFER_BIN"].map { URL(filePath: $0) }
    let folders = Sanitizer.isOn ? [products] : [release, products].compactMap { $0 }
    let tools = folders.map { $0.appending(path: "replica-tool") }
    return tools.first { FileManager.default.isExecutableFile(atPath: $0.path) } ?? tools[0]
  }()

  private var root: String { "\(folder.path)/store" }
  var store: String { "\(root)/store.sqlite" }
  var ledger: String { "\(folder.path)/ledger" }

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
    process.executableURL = Self.tool
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
    for path in [root, ledger] { try FileManager.default.copyItem(atPath: path, toPath: path + "-begun") }
  }

  /// Makes the store what it was after `begin`, in the same files: another one would be a copy, which begins anew.
  func goBack() throws {
    for path in [root, ledger] { try Self.restore(path, from: path + "-begun") }
  }

  private static func restore(_ path: String, from kept: String) throws {
    let files = FileManager.default
    guard let names = try? files.contentsOfDirectory(atPath: kept) else {
      guard let file = FileHandle(forWritingAtPath: path) else { return try files.copyItem(atPath: kept, toPath: path) }
      defer { try? file.close() }
      try file.truncate(atOffset: 0)
      return try file.write(contentsOf: Data(contentsOf: URL(filePath: kept)))
    }
    try files.createDirectory(atPath: path, withIntermediateDirectories: true)
    for name in try files.contentsOfDirectory(atPath: path) where !names.contains(name) {
      try files.removeItem(atPath: "\(path)/\(name)")
    }
    for name in names { try restore("\(path)/\(name)", from: "\(kept)/\(name)") }
  }
}
