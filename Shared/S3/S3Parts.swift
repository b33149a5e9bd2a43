// Cuts content that arrives in pieces into the parts that a bucket takes.

/// Collects bytes until a part is full.
public struct S3Parts: Sendable {
  /// The least length of a part that is not the last, so that memory is least, too.
  public static let partByteCount = 5 << 20
  /// The longest content: a server takes at most 10,000 parts of one.
  public static let contentByteLimit = Int64(partByteCount) * 10_000

  private var waiting: [UInt8] = []

  public init() {}

  /// - Returns: the parts that are full now, in order. The last part is never among them.
  public mutating func add(_ bytes: [UInt8]) -> [[UInt8]] {
    var full: [[UInt8]] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      if waiting.count == Self.partByteCount { full.append(finish()) }
      let piece = rest.prefix(Self.partByteCount - waiting.count)
      reserve(piece.count)
      waiting += piece
      rest = rest.dropFirst(piece.count)
    }
    return full
  }

  /// Makes room for further bytes. An array that grows by itself takes up to twice the memory of a part.
  private mutating func reserve(_ count: Int) {
    let needed = waiting.count + count
    guard needed > waiting.capacity else { return }
    waiting.reserveCapacity(min(max(needed, 2 * waiting.capacity), Self.partByteCount))
  }

  /// The last part, or the whole content if `add` returned none; may be empty then.
  public mutating func finish() -> [UInt8] {
    defer { waiting = [] }
    return waiting
  }
}
