// A bucket for tests: moto's server behind a proxy with faults (Tests/Clients/bucket.py).

import Foundation

/// Runs until the value is gone or the test process ends.
public final class BucketServer: @unchecked Sendable {
  /// A fault of the proxy. Each is used for as many requests as `times` says.
  public struct Fault: Codable, Sendable {
    public enum Kind: String, Codable, Sendable, CaseIterable {
      /// Answers with a status instead of asking the store.
      case refuse
      /// Answers as a proxy does that shows a page of its own: with status 200, instead of asking the store.
      case show
      /// Waits a number of seconds.
      case slow
      /// Waits until the faults are replaced.
      case hold
      /// Hangs up in the middle of the request.
      case half
      /// Alters a byte of the request.
      case damage
      /// Asks the store, and hangs up without an answer.
      case lose
      /// Answers another checksum than the store's.
      case forget
      /// Hangs up after a number of bytes of the answer's body.
      case cut
      /// Compares times with a clock that is a number of seconds ahead.
      case skew
      /// Lists a number of uploads at a time, as Amazon's server does and moto does not.
      case page
    }

    let method: String
    public let match: String
    let `do`: Kind
    let times: Int
    let value: Int

    /// - Parameters:
    ///   - method: `*` for any.
    ///   - match: a part of the request's target.
    public init(_ kind: Kind, _ method: String = "*", match: String = "", times: Int = 1, value: Int = 0) {
      self.do = kind
      self.method = method
      self.match = match
      self.times = times
      self.value = value
    }
  }

  private struct Ports: Decodable {
    let proxy: Int
    let store: Int
  }

  struct Failure: Error {
    let reason: String
  }

  private let process = Process()
  private let input = Pipe()
  private let ports: Ports

  /// The addresses of the proxy and of the store behind it.
  public var endpoint: String { "http://127.0.0.1:\(ports.proxy)" }
  public var soundEndpoint: String { "http://127.0.0.1:\(ports.store)" }

  public init() throws {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    let python = try Self.line(of: root.appending(path: "Tests/Clients/environment"), [])
    let output = Pipe()
    process.executableURL = URL(filePath: python)
    process.arguments = [root.appending(path: "Tests/Clients/bucket.py").path]
    process.standardInput = input
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    try process.run()
    var text = Data()
    while !text.contains(UInt8(ascii: "\n")) {
      let piece = output.fileHandleForReading.availableData
      if piece.isEmpty { throw Failure(reason: "the bucket's server did not start") }
      text += piece
    }
    ports = try JSONDecoder().decode(Ports.self, from: text)
  }

  deinit {
    try? input.fileHandleForWriting.close()
    process.waitUntilExit()
  }

  /// Replaces the faults.
  public func set(_ faults: [Fault]) async throws {
    guard let url = URL(string: endpoint + "/-/faults") else { throw Failure(reason: "no address") }
    let (process, body) = (Process(), try JSONEncoder().encode(faults))
    process.executableURL = URL(filePath: "/usr/bin/curl")
    process.arguments = ["-sSf", "-X", "POST", "-d", String(decoding: body, as: UTF8.self), url.absoluteString]
    try process.run()
    process.waitUntilExit()
    if process.terminationStatus != 0 { throw Failure(reason: "the proxy does not answer") }
  }

  private static func line(of program: URL, _ arguments: [String]) throws -> String {
    let (process, output) = (Process(), Pipe())
    process.executableURL = program
    process.arguments = arguments
    process.standardOutput = output
    try process.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return String(decoding: data, as: UTF8.self).split(separator: "\n").last.map(String.init) ?? ""
  }
}
