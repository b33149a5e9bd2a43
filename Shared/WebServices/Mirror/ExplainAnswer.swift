// `GET objects/{objectID}/explain` as JSON.

public import JSON
public import Mirroring
public import Records

/// An object's state, and the reasons for it.
public struct ExplainAnswer: Sendable {
  public let objectID: String
  /// The object's zone, or the one it would go to; nil in a shared database that does not know it.
  public let zoneID: Zone.ID?
  public let facts: SyncFacts
  /// The change tag of its record or tombstone; nil without one.
  public let tag: RecordChangeTag?
  public let lastExport: MirrorEvent?

  public init(objectID: String, zoneID: Zone.ID?, facts: SyncFacts, tag: RecordChangeTag?, lastExport: MirrorEvent?) {
    self.objectID = objectID
    self.zoneID = zoneID
    self.facts = facts
    self.tag = tag
    self.lastExport = lastExport
  }

  public var json: [UInt8] { StoreAnswer.object { write(to: &$0) } }

  /// Writes the members into an object that the caller began.
  public func write(to writer: inout JSONWriter) {
    writer.member("objectID", objectID)
    writer.member("syncState", facts.state.rawValue)
    writer.key("reasons")
    writer.beginArray()
    for reason in facts.reasons {
      writer.beginObject()
      writer.member("code", reason.code)
      writer.member("text", reason.text)
      writer.endObject()
    }
    writer.endArray()
    for (name, numbers) in [("pendingTransactions", facts.pendingTransactions), ("conflicts", facts.conflicts)] {
      writer.key(name)
      writer.beginArray()
      for number in numbers { writer.integer(number) }
      writer.endArray()
    }
    writer.key("zoneID")
    if let zoneID { zoneID.write(to: &writer) } else { writer.null() }
    writer.nullable("recordChangeTag", tag?.text)
    writer.member("isDeleted", facts.stored == .tombstone)
    writer.key("lastError")
    if let problem = facts.problem { writer.problem(problem) } else { writer.null() }
    writer.nullable("throttledUntil", facts.store.throttledUntil.map(MirrorDate.text))
    writer.key("lastExport")
    if let lastExport { lastExport.write(to: &writer) } else { writer.null() }
  }
}
