// A minimal HTTP/1.1 reader: it tells when an answer is complete, and whether it is a success.

import CLinux
import Glibc

/// Collects the bytes of one answer, with a length or in chunks.
struct ResponseReader {
  enum Outcome: Equatable {
    case incomplete
    /// A whole answer. `isSuccess`: a status from 200 on, below 210, and no error item inside.
    case complete(isSuccess: Bool, closes: Bool)
    case malformed
  }

  private(set) var bytes: [UInt8] = []
  /// True for a stream, whose answer has no end unless it is a failure.
  private(set) var isStream = false
  private var headByteCount: Int?
  private var bodyByteCount: Int?
  private var closes = false
  /// The value of Retry-After. Unit: seconds.
  private(set) var retryAfter: Int?
  private var chunkPosition = 0
  /// Grows with the size of arrivals, so that quiet connections need little memory.
  private var receiveByteCount = 4096

  private static let errorMark = Array(#""serverErrorCode""#.utf8)

  private static let headEnd = Array("\r\n\r\n".utf8)

  mutating func reset(isStream: Bool = false) {
    self.isStream = isStream
    bytes.removeAll(keepingCapacity: true)
    headByteCount = nil
    bodyByteCount = nil
    closes = false
    retryAfter = nil
  }

  /// Reads the available bytes of a socket.
  /// - Returns: the result of `recv`.
  mutating func receive(from socket: Int32) -> Int {
    var received = 0
    bytes.append(addingCapacity: receiveByteCount) { (span: inout OutputSpan<UInt8>) in
      span.withUnsafeMutableBufferPointer { buffer, count in
        guard let base = buffer.baseAddress else { return }
        received = recv(socket, base + count, min(buffer.count - count, receiveByteCount), 0)
        count += max(0, received)
      }
    }
    if received == receiveByteCount { receiveByteCount = min(receiveByteCount * 4, 256 * 1024) }
    return received
  }

  mutating func append(_ more: some Sequence<UInt8>) { bytes.append(contentsOf: more) }

  mutating func outcome() -> Outcome {
    if headByteCount == nil, !readHead() {
      return bytes.count > 64 * 1024 || bodyByteCount == -1 ? .malformed : .incomplete
    }
    guard let headByteCount else { return .incomplete }
    if isStream, isOK { return .incomplete }
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
    return .complete(isSuccess: isOK && !hasErrorItem(after: headByteCount), closes: closes)
  }

  /// Other systems answer what they created with 201 or 202.
  private var isOK: Bool { bytes.starts(with: "HTTP/1.1 20".utf8) }

  /// The body of an answer whose head is complete, without chunk framing.
  var body: [UInt8] {
    var content: [UInt8] = []
    appendBody(to: &content)
    return content
  }

  /// Appends the body of an answer whose head is complete.
  func appendBody(to content: inout [UInt8]) {
    guard let headByteCount else { return }
    guard bodyByteCount == nil else { return content.append(contentsOf: bytes[headByteCount...]) }
    var position = headByteCount
    while let lineEnd = bytes[position...].firstIndex(of: UInt8(ascii: "\n")),
      let count = Self.chunkByteCount(bytes[position..<lineEnd]), count > 0
    {
      content += bytes[(lineEnd + 1)...].prefix(count)
      position = min(lineEnd + 1 + count + 2, bytes.count)
    }
  }

  /// Status and body of a failure, for people.
  var beginning: String {
    let status = String(decoding: bytes.prefix(200).prefix { $0 != UInt8(ascii: "\r") }, as: UTF8.self)
    return "\(status) \(String(decoding: body.prefix(600), as: UTF8.self))"
  }

  /// True when the received part of the body contains the text.
  func contains(_ text: String) -> Bool {
    headByteCount.map { bytes.position(of: Array(text.utf8), from: $0) != nil } ?? false
  }

  /// True when a stream's head has arrived.
  var hasBegun: Bool { headByteCount != nil }

  /// True when the received part of a chunked stream ends with an event or a comment.
  var endsWithEvent: Bool { bytes.count > (headByteCount ?? .max) && bytes.suffix(4).elementsEqual("\n\n\r\n".utf8) }

  /// Drops the received part of a stream.
  mutating func dropBody() {
    if let headByteCount { bytes.removeLast(bytes.count - headByteCount) }
  }

  private func hasErrorItem(after start: Int) -> Bool { bytes.position(of: Self.errorMark, from: start) != nil }

  /// - Returns: true when the head is complete.
  private mutating func readHead() -> Bool {
    guard let headEnd = bytes.position(of: Self.headEnd, from: 0) else { return false }
    let end = headEnd + Self.headEnd.count
    guard bytes.starts(with: "HTTP/1.1 ".utf8) else {
      bodyByteCount = -1
      return false
    }
    var start = 9
    while start < end - 2, let lineEnd = bytes[start..<end].firstIndex(of: UInt8(ascii: "\r")) {
      if let value = Self.value(of: "content-length:", in: bytes[start..<lineEnd]) { bodyByteCount = Int(value) ?? -1 }
      if let value = Self.value(of: "retry-after:", in: bytes[start..<lineEnd]) { retryAfter = Int(value) }
      if let value = Self.value(of: "connection:", in: bytes[start..<lineEnd]) { closes = value == "close" }
      start = lineEnd + 2
    }
    headByteCount = end
    chunkPosition = end
    return true
  }

  /// A header's value when the line has that name, which includes the colon.
  private static func value(of name: StaticString, in line: ArraySlice<UInt8>) -> Substring? {
    guard line.count > name.utf8CodeUnitCount,
      (0..<name.utf8CodeUnitCount).allSatisfy({ line[line.startIndex + $0] | 0x20 == name.utf8Start[$0] | 0x20 })
    else { return nil }
    return String(decoding: line.dropFirst(name.utf8CodeUnitCount), as: UTF8.self)[...].drop { $0 == " " }
  }

  private static func chunkByteCount(_ line: ArraySlice<UInt8>) -> Int? {
    let size = String(decoding: line.prefix { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: ";") }, as: UTF8.self)
    return Int(size, radix: 16).flatMap { $0 >= 0 ? $0 : nil }
  }

  /// - Returns: true when all chunks are there, false when malformed, nil when incomplete.
  private mutating func skipChunks() -> Bool? {
    while true {
      guard let lineEnd = bytes[chunkPosition...].firstIndex(of: UInt8(ascii: "\n")) else { return nil }
      guard let count = Self.chunkByteCount(bytes[chunkPosition..<lineEnd]) else { return false }
      let next = lineEnd + 1 + count + 2
      guard bytes.count >= next else { return nil }
      chunkPosition = next
      if count == 0 { return true }
    }
  }
}

extension [UInt8] {
  /// The position of `text` at or after `start`.
  func position(of text: [UInt8], from start: Int) -> Int? {
    withUnsafeBytes { all in
      guard let base = all.baseAddress, start <= all.count,
        let found = memmem(base + start, all.count - start, text, text.count)
      else { return nil }
      return UnsafeRawPointer(found) - base
    }
  }

  /// The last position of `text`; fast when it is near the end.
  func lastPosition(of text: [UInt8]) -> Int? {
    var place = count - text.count
    while place >= 0 {
      if self[place] == text.first, self[place...].starts(with: text) { return place }
      place -= 1
    }
    return nil
  }
}
