// A network of namespaces on this machine whose faults a test controls; network.c is the switch.

import Foundation
import Synchronization

/// Hosts, each a network namespace with one address. They exist as long as this object.
final class FaultyNetwork {
  struct Host: Sendable {
    let address: String
    /// The beginning of a command line that runs there.
    let launcher: [String]
  }

  private let process = Process()
  private let input = Pipe()
  private let output = Pipe()
  private var rest: [UInt8] = []
  private(set) var hosts: [String: Host] = [:]

  private static let count = Atomic<Int>(0)

  /// The first three parts of the addresses, from the range for network tests (RFC 2544). They differ between networks
  /// and between test processes.
  private static func nextPrefix() -> String {
    let number = Int(getpid()) * 31 + count.add(1, ordering: .relaxed).oldValue
    return "198.\(18 + number / 250 % 2).\(number % 250)"
  }

  /// True when this process may make such a network.
  static let isPossible = (try? FaultyNetwork(["clients", "probe"], seed: 0)) != nil

  /// - Parameter names: the first is this process's own namespace.
  init(_ names: [String], seed: UInt64) throws {
    let program = FileManager.default.temporaryDirectory.appending(path: "aq-network-\(UUID().uuidString.prefix(8))")
    defer { try? FileManager.default.removeItem(at: program) }
    let source = Checkout.root.appending(path: "Tests/Processes/network.c").path
    let made = try CommandLineTool.run(
      ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program.path, source],
      executable: URL(filePath: "/usr/bin/env"))
    guard made.code == 0 else { throw Unexpected("cc: \(made.problem)") }
    process.executableURL = program
    process.arguments = ["\(seed)", Self.nextPrefix()] + names
    process.standardInput = input
    process.standardOutput = output
    try process.runUnblocked()
    for name in names {
      let words = try line().split(separator: " ").map(String.init)
      guard words.count == 3, words[0] == name else { throw Unexpected("network: \(words)") }
      hosts[name] = Host(
        address: words[1], launcher: name == names[0] ? [] : ["/usr/bin/nsenter", "--net=\(words[2])"])
    }
  }

  deinit {
    try? input.fileHandleForWriting.close()
    process.waitUntilExit()
  }

  /// Delays packets between two hosts by `delay` plus up to `jitter` milliseconds, and drops `loss` of a thousand.
  func link(_ one: String, _ other: String, delay: Int, jitter: Int, loss: Int) throws {
    try tell("link \(one) \(other) \(delay) \(jitter) \(loss)")
  }

  /// Cuts the connection between two hosts.
  func cut(_ one: String, _ other: String) throws { try tell("cut \(one) \(other)") }

  /// Removes all faults.
  func heal() throws { try tell("heal") }

  private func tell(_ command: String) throws {
    try input.fileHandleForWriting.write(contentsOf: Data("\(command)\n".utf8))
    guard try line() == "ok" else { throw Unexpected("network: \(command)") }
  }

  private func line() throws -> String {
    while true {
      if let end = rest.firstIndex(of: 10) {
        defer { rest.removeFirst(end + 1) }
        return String(decoding: rest[..<end], as: UTF8.self)
      }
      let bytes = output.fileHandleForReading.availableData
      guard !bytes.isEmpty else { throw Unexpected("network ended; its reason is on standard error") }
      rest += bytes
    }
  }
}
