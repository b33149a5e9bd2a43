// A key that is hashed once and looked up several times.

/// A value with its hash. Hashing four strings costs more than the rest of a look-up.
@frozen public struct Hashed<Value: Hashable>: Hashable {
  public let value: Value
  @usableFromInline let hash: Int

  @inlinable public init(_ value: Value) {
    self.value = value
    hash = value.hashValue
  }

  @inlinable public static func == (left: Self, right: Self) -> Bool {
    left.hash == right.hash && left.value == right.value
  }

  @inlinable public func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}

extension Hashed: Sendable where Value: Sendable {}
