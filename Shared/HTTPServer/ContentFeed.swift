// Content of known length that is read while it is sent.

internal import CMicroHTTPD

/// Connects content to the library's content reader.
final class ContentFeed: Sendable {
  private let content: any HTTPContent
  /// The position in the content at which the answer begins.
  private let offset: UInt64
  /// Goes with the library's response.
  private let room: AnswerRoom?

  private init(_ content: any HTTPContent, offset: UInt64, _ room: AnswerRoom?) {
    self.content = content
    self.offset = offset
    self.room = room
  }

  /// The most bytes that the library asks for at a time. It holds that much memory for each answer.
  static func blockByteCount(_ byteCount: UInt64) -> Int { Int(min(max(byteCount, 1), 65_536)) }

  /// The library's response, which reads from the content and retains it; nil when the library has no memory.
  static func response(_ content: any HTTPContent, _ offset: UInt64, _ byteCount: UInt64, _ room: AnswerRoom?)
    -> OpaquePointer?
  {
    let retained = Unmanaged.passRetained(ContentFeed(content, offset: offset, room))
    let response = MHD_create_response_from_callback(
      byteCount, blockByteCount(byteCount), readContent, retained.toOpaque(), releaseContent)
    if response == nil { retained.release() }
    return response
  }

  /// - Returns: the number of bytes written, or the library's mark for a failure.
  fileprivate func read(at position: UInt64, into buffer: UnsafeMutableRawBufferPointer) -> Int {
    guard let bytes = content.read(at: offset + position, limit: buffer.count), !bytes.isEmpty,
      bytes.count <= buffer.count
    else {
      return BodyFeed.endWithError
    }
    buffer.copyBytes(from: bytes)
    return bytes.count
  }
}

private func readContent(
  _ context: UnsafeMutableRawPointer?, _ position: UInt64, _ buffer: UnsafeMutablePointer<CChar>?, _ byteCount: Int
) -> Int {
  guard let context else { return BodyFeed.endWithError }
  return Unmanaged<ContentFeed>.fromOpaque(context).takeUnretainedValue().read(
    at: position, into: UnsafeMutableRawBufferPointer(start: buffer, count: byteCount))
}

private func releaseContent(_ context: UnsafeMutableRawPointer?) {
  guard let context else { return }
  Unmanaged<ContentFeed>.fromOpaque(context).release()
}
