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
    waiting += bytes
    var full: [[UInt8]] = []
    while waiting.count > Self.partByteCount {
      full.append(Array(waiting.prefix(Self.partByteCount)))
      waiting.removeFirst(Self.partByteCount)
    }
    return full
  }

  /// The last part, or the whole content if `add` returned none; may be empty then.
  public mutating func finish() -> [UInt8] {
    defer { waiting = [] }
    return waiting
  }
}
