// Just enough HTTP/1.1 to know when an answer is complete and whether it is a success.

import Glibc

/// Collects one answer's bytes; lengths and chunks both.
struct ResponseReader {
  enum Outcome: Equatable {
    case incomplete
    /// A whole answer. `isSuccess`: 200, and no error item inside.
    case complete(isSuccess: Bool, closes: Bool)
    case malformed
  }

  private(set) var bytes: [UInt8] = []
  private var headByteCount: Int?
  private var bodyByteCount: Int?
  private var closes = false
  private var chunkPosition = 0

  private static let errorMark = Array(#""serverErrorCode""#.utf8)

  private static let headEnd = Array("\r\n\r\n".utf8)

  mutating func reset() {
    bytes.removeAll(keepingCapacity: true)
    headByteCount = nil
    bodyByteCount = nil
    closes = false
  }

  /// Reads what has arrived on a socket.
  /// - Returns: what `recv` says.
  mutating func receive(from socket: Int32) -> Int {
    var received = 0
    bytes.append(addingCapacity: 256 * 1024) { (span: inout OutputSpan<UInt8>) in
      span.withUnsafeMutableBufferPointer { buffer, count in
        guard let base = buffer.baseAddress else { return }
        received = recv(socket, base + count, buffer.count - count, 0)
        count += max(0, received)
      }
    }
    return received
  }

  mutating func append(_ more: some Sequence<UInt8>) { bytes.append(contentsOf: more) }

  mutating func outcome() -> Outcome {
    if headByteCount == nil, !readHead() { return bytes.count > 64 * 1024 || bodyByteCount == -1 ? .malformed : .incomplete }
    guard let headByteCount else { return .incomplete }
    if let bodyByteCount {
      guard bodyByteCount >= 0 else { return .malformed }
      guard bytes.count >= headByteCount + bodyByteCount else { return .incomplete }
    } else {
      switch skipChunks() {
      case .some(true): break
      case .some(false): return .malformed
      case .none: return .incomplete
      }
    }
    return .complete(isSuccess: bytes.starts(with: "HTTP/1.1 200".utf8) && !hasErrorItem(after: headByteCount), closes: closes)
  }

  private func hasErrorItem(after start: Int) -> Bool { position(of: Self.errorMark, from: start) != nil }

  /// The place of `text`, looked for by its first byte.
  private func position(of text: [UInt8], from start: Int) -> Int? {
    bytes.withUnsafeBytes { all in
      guard let base = all.baseAddress else { return nil }
      var place = start
      while place + text.count <= all.count, let found = memchr(base + place, Int32(text[0]), all.count - text.count + 1 - place) {
        place = UnsafeRawPointer(found) - base
        if memcmp(base + place, text, text.count) == 0 { return place }
        place += 1
      }
      return nil
    }
  }

  /// - Returns: whether the head is complete.
  private mutating func readHead() -> Bool {
    guard let headEnd = position(of: Self.headEnd, from: 0) else { return false }
    let end = headEnd + Self.headEnd.count
    guard bytes.starts(with: "HTTP/1.1 ".utf8) else {
      bodyByteCount = -1
      return false
    }
    var start = 9
    while start < end - 2, let lineEnd = bytes[start..<end].firstIndex(of: UInt8(ascii: "\r")) {
      if let value = Self.value(of: "content-length:", in: bytes[start..<lineEnd]) { bodyByteCount = Int(value) ?? -1 }
      if let value = Self.value(of: "connection:", in: bytes[start..<lineEnd]) { closes = value == "close" }
      start = lineEnd + 2
    }
    headByteCount = end
    chunkPosition = end
    return true
  }

  /// A header's value when the line is of that name, which ends with its colon.
  private static func value(of name: StaticString, in line: ArraySlice<UInt8>) -> Substring? {
    guard line.count > name.utf8CodeUnitCount, (0..<name.utf8CodeUnitCount).allSatisfy({ line[line.startIndex + $0] | 0x20 == name.utf8Start[$0] | 0x20 })
    else { return nil }
    return String(decoding: line.dropFirst(name.utf8CodeUnitCount), as: UTF8.self)[...].drop { $0 == " " }
  }

  /// - Returns: whether all chunks are there; false is malformed, nil incomplete.
  private mutating func skipChunks() -> Bool? {
    while true {
      guard let lineEnd = bytes[chunkPosition...].firstIndex(of: UInt8(ascii: "\n")) else { return nil }
      let size = String(decoding: bytes[chunkPosition..<lineEnd].prefix { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: ";") }, as: UTF8.self)
      guard let count = Int(size, radix: 16), count >= 0 else { return false }
      let next = lineEnd + 1 + count + 2
      guard bytes.count >= next else { return nil }
      chunkPosition = next
      if count == 0 { return true }
    }
  }
}
