// What stories do with a replica, naive or real.

package import MirrorWire
package import ReplicaStore

/// What an app does in one save.
package protocol JournalEdit {
  /// Objects of an entity, ascending.
  func names(_ entity: String) -> [String]
  mutating func insert(_ entity: String, _ name: String, _ attributes: [String: AttributeValue])
  mutating func set(_ attribute: String, of name: String, _ value: AttributeValue)
  mutating func point(_ relationship: String, of name: String, to target: String?)
  mutating func pair(_ post: String, _ tag: String, isMade: Bool)
  mutating func delete(_ name: String)
}

/// A replica of a test, with its file.
package protocol JournalReplica: Sendable {
  var store: any MirroredStore { get }
  func save(_ edit: @escaping @Sendable (inout any JournalEdit) -> Void) async throws
  func shown() async throws -> [String]
  /// Another process with the same file, after the former one ended.
  func reopened() async throws -> any JournalReplica
  func close() async
}
