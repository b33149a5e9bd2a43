// What is made once for each key, and looked up from then on.

public import Synchronization

/// For hot paths, where to put together what a value is made of costs more than to use it. Nothing is ever forgotten: keys are few. Inlinable,
/// because what is generic and not to be seen looks its types up with every call.
public final class Memo<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  @usableFromInline let values = Mutex<[Key: Value]>([:])

  @inlinable public init() {}

  /// The key's value, made by whoever asks first.
  @inlinable public func value(of key: Key, make: () -> Value) -> Value {
    values.withLock { values in
      if let value = values[key] { return value }
      let value = make()
      values[key] = value
      return value
    }
  }
}
