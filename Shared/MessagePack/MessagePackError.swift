// Why MessagePack was refused, in one type for all ways to read it.

import CMessagePack

/// What is wrong with MessagePack bytes, and where. Never holds a value from them.
public struct MessagePackError: Error, Hashable, Sendable {
  public let reason: String

  public init(_ reason: String) { self.reason = reason }
}

/// What readers accept.
public enum MessagePackLimit {
  /// Of one encoded value, unless the caller says otherwise.
  public static let byteCount = 64 * 1024 * 1024
  /// Arrays and maps inside each other. This is the height of libmsgpack's own stack: what is deeper is refused by the library.
  public static let depth = 32
}

extension MessagePackError {
  /// Unpacks exactly one value that fills `bytes`.
  /// - Parameter unpacked: initialized before, and destroyed by the caller whatever the outcome. Its text and bytes point into `bytes`.
  static func unpack(_ bytes: UnsafeRawBufferPointer, into unpacked: inout msgpack_unpacked, maximumByteCount: Int) throws(MessagePackError) {
    guard bytes.count <= maximumByteCount else { throw MessagePackError("\(bytes.count) bytes of MessagePack, the limit is \(maximumByteCount)") }
    guard let base = bytes.bindMemory(to: CChar.self).baseAddress, !bytes.isEmpty else { throw MessagePackError("no bytes where MessagePack is expected") }
    guard !MessagePackClaims.exceed(bytes) else { throw MessagePackError("the MessagePack announces more values than its \(bytes.count) bytes can hold") }
    var offset = 0
    switch msgpack_unpack_next(&unpacked, base, bytes.count, &offset) {
    case MSGPACK_UNPACK_SUCCESS, MSGPACK_UNPACK_EXTRA_BYTES:
      guard offset == bytes.count else { throw MessagePackError("\(bytes.count - offset) bytes follow the MessagePack value") }
    case MSGPACK_UNPACK_CONTINUE: throw MessagePackError("the MessagePack ends after \(bytes.count) bytes, in the middle of a value")
    case MSGPACK_UNPACK_NOMEM_ERROR:
      throw MessagePackError("the MessagePack nests deeper than \(MessagePackLimit.depth) levels, or announces more than memory holds")
    default: throw MessagePackError("the MessagePack has a byte that starts no value")
    }
  }
}
