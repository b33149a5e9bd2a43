// Persistent history as values: what happened to a store, by whom, and who has read how far.

package import FoundationEssentials

/// How far somebody has read, in each store (`NSPersistentHistoryToken`), to be kept by the reader.
public struct HistoryToken: Hashable, Sendable, Codable {
  /// Numbers of transactions by store.
  package var numbers: [UUID: Int64]

  package init(_ numbers: [UUID: Int64] = [:]) { self.numbers = numbers }
}

/// One object's change (`NSPersistentHistoryChange`).
public struct HistoryChange: Sendable, Equatable {
  public enum Kind: Int, Sendable { case insert, update, delete }

  public let kind: Kind
  public let object: AnyObjectID
  /// Attributes, to-one relationships, and many-to-many relationships edited from this end.
  public let updatedProperties: Set<String>
  /// Of a deletion: the attributes that the model preserves.
  public let tombstone: [String: Literal]
}

/// What history to read (`NSPersistentHistoryChangeRequest`), in one store.
package struct HistoryQuery: Sendable {
  package var after: Int64?
  package var afterDate: Date?
  package var authors: [String]?
  package var excludedAuthors: [String] = []
  package var contextNames: [String]?
  package var entityNames: [String]?
  package var changeTypes: Set<HistoryChange.Kind> = [.insert, .update, .delete]
  /// Updates count only if they touch one of these.
  package var updatedProperties: Set<String>?
  package var limit = 200

  package init() {}
}

/// A transaction of one store.
package struct StoredTransaction: Sendable, Equatable {
  package let number: Int64
  package let timestamp: Date
  package let author: String?
  package let contextName: String?
  package let bundleID: String?
  package let processID: String?
  package let changes: [HistoryChange]
}

package struct StoredHistory: Sendable, Equatable {
  /// Transactions without a change that counts are left out.
  package let transactions: [StoredTransaction]
  /// How far the page has come, transactions that were left out included.
  package let number: Int64
  package let moreComing: Bool
}

/// Authors of what mirroring does itself. The server takes nothing from an author whose name begins with
/// `NSCloudKitMirroringDelegate.`, so saves that are to be sent have other ones.
public enum MirroringAuthor {
  public static let importing = "NSCloudKitMirroringDelegate.import"
  public static let reset = "NSCloudKitMirroringDelegate.reset"
  public static let migration = "migration"
  /// Of a save that makes what led to a refused duplicate lead to the object that the server prefers.
  public static let adoption = "adoption"
  /// Of transactions that send objects again: those of a zone that ended, and of a save that copies a former account's
  /// objects into the file of the user who signed in. The server takes of them what it lacks.
  public static let reupload = "reupload"
}
