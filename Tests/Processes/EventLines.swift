// Reads event streams for these tests.

import Foundation
import HTTPClient

/// An event stream read line by line.
struct EventLines: ~Copyable {
  private var iterator: AsyncThrowingStream<[UInt8], any Error>.AsyncIterator
  private var rest: [UInt8] = []

  init(_ stream: HTTPClient.Stream) { iterator = stream.chunks.makeAsyncIterator() }

  /// The next `data:` line's content; nil at the end.
  mutating func next() async throws -> Value? {
    while true {
      while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
        let line = String(decoding: rest[..<end], as: UTF8.self)
        rest.removeSubrange(...end)
        if line.hasPrefix("data:") { return try Value(json: Array(line.dropFirst(5).utf8)) }
      }
      guard let chunk = try await iterator.next(isolation: nil) else { return nil }
      rest += chunk
    }
  }
}
