// Compresses answers on a few lanes, so that compression takes a bounded part of the processor and of the memory.

import CDeflate
import HTTPServer
import Synchronization

/// Compresses answers for clients that accept it. No answer waits for it: without a free lane an answer goes out plain.
final class AnswerCompression: Sendable {
  /// Answers that are compressed at a time.
  static let laneCount = 2

  private struct Lanes {
    var idle: [GzipCompressor] = []
    /// The parties whose answers are being compressed: one lane each, so that no party keeps the others from it.
    var parties: Set<String> = []
  }

  private let lanes = Mutex(Lanes())
  private let metrics: GatewayMetrics

  init(_ metrics: GatewayMetrics) { self.metrics = metrics }

  /// Compresses an answer's body, away from the caller's executor.
  /// - Parameter party: takes one lane at a time.
  func compress(_ response: inout HTTPResponse, party: String) async {
    guard case .bytes(let body) = response.body else { return }
    guard let compressor = take(party) else { return metrics.countCompressible(isCompressed: false) }
    let compressed = await withTaskExecutorPreference(globalConcurrentExecutor) { await compressor.compressed(body) }
    give(compressor, back: party)
    guard let compressed else { return }
    metrics.countCompressible(isCompressed: true)
    response.headers.append(("Content-Encoding", "gzip"))
    response.body = .bytes(compressed)
  }

  /// - Returns: nil when no lane is free, or the party has one.
  func take(_ party: String) -> GzipCompressor? {
    lanes.withLock { lanes in
      guard lanes.parties.count < Self.laneCount, lanes.parties.insert(party).inserted else { return nil }
      return lanes.idle.popLast() ?? GzipCompressor()
    }
  }

  func give(_ compressor: GzipCompressor, back party: String) {
    lanes.withLock { lanes in
      lanes.parties.remove(party)
      lanes.idle.append(compressor)
    }
  }
}

/// libdeflate's compressor, whose tables are used again.
///
/// Unchecked because its lane has one user at a time.
final class GzipCompressor: @unchecked Sendable {
  /// The fastest level: level 6 makes a page a sixth smaller and takes three times as long.
  private static let level: Int32 = 1

  private let pointer: OpaquePointer?

  /// - Parameter level: 1 (fast) to 12 (small).
  init(level: Int32 = GzipCompressor.level) { pointer = libdeflate_alloc_compressor(level) }

  deinit { libdeflate_free_compressor(pointer) }

  /// - Returns: nil unless the result is shorter.
  @concurrent func compressed(_ bytes: [UInt8]) async -> [UInt8]? {
    guard let pointer else { return nil }
    let result = [UInt8](unsafeUninitializedCapacity: bytes.count) { room, count in
      count = bytes.withUnsafeBytes {
        libdeflate_gzip_compress(pointer, $0.baseAddress, $0.count, room.baseAddress, room.count)
      }
    }
    // Copied, because an answer that waits to be sent must hold no more than it is counted for.
    return result.isEmpty ? nil : Array(result[...])
  }
}
