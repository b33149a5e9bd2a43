// The frames that links carry, and the bytes of their headers.

/// One message between two processes: a header, then arguments and an opaque body if it has them.
package struct Frame: Sendable, Equatable {
  enum Kind: UInt8, Sendable {
    /// Hello, heartbeat and notice of draining in one; the arguments are an `Announcement`.
    case announce = 1
    /// Answers a request of a process that is not known here; the request was not executed.
    case whoAreYou = 2
    /// Answers the announcement of a process whose name belongs to a greater incarnation.
    case superseded = 3
    case request = 4
    case reply = 5
    /// The name is the error's code; the arguments are its reason in UTF-8.
    case failure = 6
    /// The caller no longer waits.
    case cancel = 7
    /// Acknowledges a drain: the peer sends no calls after this frame.
    case drainAcknowledged = 8
    /// The process leaves.
    case goodbye = 9
  }

  var kind: Kind
  var correlation: UInt64 = 0
  /// Of requests: the milliseconds for which the caller still waits.
  var budget: UInt32 = 0
  /// A request's message name, or a failure's code.
  var name = ""
  /// A request's ordering key; empty for none.
  var key = ""
  var arguments: [UInt8] = []
  var body: [UInt8] = []
}

extension Frame {
  /// The header is `41 71`, version, kind, correlation (8 bytes), budget (4), length of name (2), length of key (2),
  /// name, key; integers are little-endian. Readers skip further bytes, which a later version may add.
  static let fixedHeaderByteCount = 20
  static let magic: UInt16 = 0x7141
  static let version: UInt8 = 1
  /// The byte limit of a name, and of a key.
  static let textByteLimit = 4096

  var byteCount: Int { arguments.count + body.count }
  var headerByteCount: Int { Self.fixedHeaderByteCount + name.utf8.count + key.utf8.count }

  /// Writes the header into exactly `headerByteCount` bytes.
  func writeHeader(into bytes: UnsafeMutableRawBufferPointer) {
    var name = name
    var key = key
    name.withUTF8 { name in
      key.withUTF8 { key in
        precondition(
          name.count <= Self.textByteLimit && key.count <= Self.textByteLimit
            && bytes.count == Self.fixedHeaderByteCount + name.count + key.count)
        bytes.storeBytes(of: Self.magic.littleEndian, toByteOffset: 0, as: UInt16.self)
        bytes[2] = Self.version
        bytes[3] = kind.rawValue
        bytes.storeBytes(of: correlation.littleEndian, toByteOffset: 4, as: UInt64.self)
        bytes.storeBytes(of: budget.littleEndian, toByteOffset: 12, as: UInt32.self)
        bytes.storeBytes(of: UInt16(name.count).littleEndian, toByteOffset: 16, as: UInt16.self)
        bytes.storeBytes(of: UInt16(key.count).littleEndian, toByteOffset: 18, as: UInt16.self)
        UnsafeMutableRawBufferPointer(rebasing: bytes[Self.fixedHeaderByteCount...]).copyBytes(from: name)
        UnsafeMutableRawBufferPointer(rebasing: bytes[(Self.fixedHeaderByteCount + name.count)...]).copyBytes(from: key)
      }
    }
  }

  /// Reads a header from outside; nil if it is no header of this protocol.
  init?(header bytes: UnsafeRawBufferPointer) {
    guard bytes.count >= Self.fixedHeaderByteCount,
      UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: 0, as: UInt16.self)) == Self.magic,
      bytes[2] == Self.version, let kind = Kind(rawValue: bytes[3])
    else { return nil }
    let nameByteCount = Int(UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: 16, as: UInt16.self)))
    let keyByteCount = Int(UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: 18, as: UInt16.self)))
    guard nameByteCount <= Self.textByteLimit, keyByteCount <= Self.textByteLimit,
      bytes.count >= Self.fixedHeaderByteCount + nameByteCount + keyByteCount
    else { return nil }
    let nameEnd = Self.fixedHeaderByteCount + nameByteCount
    self.init(
      kind: kind, correlation: UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 4, as: UInt64.self)),
      budget: UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 12, as: UInt32.self)),
      name: String(decoding: bytes[Self.fixedHeaderByteCount..<nameEnd], as: UTF8.self),
      key: keyByteCount == 0 ? "" : String(decoding: bytes[nameEnd..<nameEnd + keyByteCount], as: UTF8.self))
  }
}

/// A process's description of itself for its peers.
struct Announcement: Codable, Equatable, Sendable {
  let peer: Peer
  /// The process accepts no new calls and will say goodbye; nil: false.
  let isDraining: Bool?
}
