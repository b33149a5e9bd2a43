// One type of error for all readers of MessagePack.

import CMessagePack

/// Describes the defect of MessagePack bytes and its position. Never contains a value from the bytes.
public struct MessagePackError: Error, Hashable, Sendable {
  public let reason: String

  public init(_ reason: String) { self.reason = reason }
}

/// The limits of all readers.
public enum MessagePackLimit {
  /// The default limit of one encoded value, in bytes.
  public static let byteCount = 64 * 1024 * 1024
  /// The deepest nesting of arrays and maps: the height of libmsgpack's own stack, which refuses deeper values.
  public static let depth = 32
}

extension MessagePackError {
  /// Unpacks exactly one value that fills `bytes`.
  /// - Parameter unpacked: an initialized object, which the caller destroys whatever the outcome. Its text and bytes
  ///   point into `bytes`.
  static func unpack(_ bytes: UnsafeRawBufferPointer, into unpacked: inout msgpack_unpacked, maximumByteCount: Int)
    throws(MessagePackError)
  {
    guard bytes.count <= maximumByteCount else {
      throw MessagePackError("\(bytes.count) bytes of MessagePack, the limit is \(maximumByteCount)")
    }
    guard let base = bytes.bindMemory(to: CChar.self).baseAddress, !bytes.isEmpty else {
      throw MessagePackError("no bytes where MessagePack is expected")
    }
    guard !MessagePackClaims.exceed(bytes) else {
      throw MessagePackError("the MessagePack announces more values than its \(bytes.count) bytes can hold")
    }
    var offset = 0
    switch msgpack_unpack_next(&unpacked, base, bytes.count, &offset) {
    case MSGPACK_UNPACK_SUCCESS, MSGPACK_UNPACK_EXTRA_BYTES:
      guard offset == bytes.count else {
        throw MessagePackError("\(bytes.count - offset) bytes follow the MessagePack value")
      }
    case MSGPACK_UNPACK_CONTINUE:
      throw MessagePackError("the MessagePack ends after \(bytes.count) bytes, in the middle of a value")
    case MSGPACK_UNPACK_NOMEM_ERROR:
      throw MessagePackError(
        "the MessagePack nests deeper than \(MessagePackLimit.depth) levels, or announces more than memory holds")
    default: throw MessagePackError("the MessagePack has a byte that starts no value")
    }
  }
}
