// A store as an app names it.

public import FoundationEssentials
import Synchronization

public enum DatabaseScope: String, Sendable, Codable { case `private`, shared, `public` }

/// One store of a container; equal to itself alone.
public final class PersistentStore: Sendable, Hashable, CustomStringConvertible {
  /// The file's, as the server knows it. Another account's file has another one.
  public var identifier: UUID { current.withLock { $0 } }
  private let current: Mutex<UUID>
  /// nil: the store is local only.
  public let scope: DatabaseScope?

  init(identifier: UUID, scope: DatabaseScope?) {
    current = Mutex(identifier)
    self.scope = scope
  }

  func become(_ identifier: UUID) { current.withLock { $0 = identifier } }

  /// The database and the identifier: `private 2F…`, or `local 2F…`.
  public var description: String { "\(scope?.rawValue ?? "local") \(identifier)" }

  public static func == (one: PersistentStore, other: PersistentStore) -> Bool { one === other }
  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
