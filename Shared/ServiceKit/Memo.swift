// Caches values that are made once for each key.

public import Synchronization

/// A cache for hot paths on which building a value costs more than using it. It never drops a value, so keys must be
/// few. Inlinable because a call into an opaque generic looks its types up each time.
public final class Memo<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  @usableFromInline let values = Mutex<[Key: Value]>([:])

  @inlinable public init() {}

  /// The key's value. The first call makes it.
  @inlinable public func value(of key: Key, make: () -> Value) -> Value {
    values.withLock { values in
      if let value = values[key] { return value }
      let value = make()
      values[key] = value
      return value
    }
  }
}
