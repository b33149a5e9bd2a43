// The journal of conflicts on the wire, and the requests to settle them.

import History
public import JSON
public import Mirroring
public import Records

/// An entry of the journal.
public struct ConflictEntry: Sendable {
  public let number: Int64
  public let loss: ConflictLoss
  public let state: ConflictState
  public let zoneID: Zone.ID
  /// Milliseconds since 1970: the times when the conflict was noted and when it was settled.
  public let at: Int64
  public let settledAt: Int64?

  public init(number: Int64, loss: ConflictLoss, state: ConflictState, zoneID: Zone.ID, at: Int64, settledAt: Int64?) {
    self.number = number
    self.loss = loss
    self.state = state
    self.zoneID = zoneID
    self.at = at
    self.settledAt = settledAt
  }

  public func json(values: MirrorValueWriter) -> [UInt8] {
    StoreAnswer.object { writer in
      writer.member("number", number)
      writer.member("kind", loss.kind.name)
      writer.member("state", state.name)
      writer.member("objectID", loss.objectID)
      writer.member("entity", loss.entity)
      writer.key("zoneID")
      writer.raw(zoneID.json)
      writer.member("date", MirrorDate.text(at))
      writer.nullable("settledDate", settledAt.map(MirrorDate.text))
      writer.key("lostBy")
      writer.beginObject()
      writer.member("userRecordName", loss.edit.userRecordName)
      writer.member("deviceID", loss.edit.deviceID)
      writer.member("date", MirrorDate.text(loss.edit.timestamp))
      writer.endObject()
      switch loss.kind {
      case .undecided:
        for (name, change) in [("client", loss.lost.first), ("server", loss.kept), ("ancestor", loss.ancestor)] {
          values.write(name, change, to: &writer)
        }
      case .lostValue:
        for (name, change) in [("lost", loss.lost.first), ("kept", loss.kept), ("ancestor", loss.ancestor)] {
          values.write(name, change, to: &writer)
        }
      case .lostObject, .unexported, .reverted:
        writer.key("changes")
        writer.beginArray()
        for change in loss.lost {
          writer.beginObject()
          values.writeMembers(of: change, to: &writer)
          writer.endObject()
        }
        writer.endArray()
      }
    }
  }
}

extension MirrorValueWriter {
  /// Writes a change's properties as one dictionary; null without a change.
  fileprivate func write(_ name: String, _ change: HistoryChange?, to writer: inout JSONWriter) {
    writer.key(name)
    guard let change else { return writer.null() }
    writer.beginObject()
    for attribute in change.attributes {
      writer.key(attribute.name)
      write(attribute.value, to: &writer)
    }
    for relationship in change.relationships { write(relationship, to: &writer) }
    writer.endObject()
  }
}

extension StoreAnswer {
  /// `GET conflicts`
  /// - Parameters:
  ///   - entries: entries as JSON.
  ///   - last: the number of the last entry, for the next `after`.
  ///   - evicted: the number of the caller's entries that were dropped because there were too many.
  public static func conflicts(_ entries: [[UInt8]], last: Int64, moreComing: Bool, evicted: Int) -> [UInt8] {
    object { writer in
      writer.key("conflicts")
      writer.beginArray()
      for entry in entries { writer.raw(entry) }
      writer.endArray()
      writer.member("lastConflict", String(last))
      writer.member("moreComing", moreComing)
      writer.member("evicted", evicted)
    }
  }
}

/// `POST conflicts/{n}/resolve`
public struct ResolveConflictRequest: Sendable {
  public enum Pick: String, Sendable, CaseIterable {
    case client, server, ancestor
  }

  public enum Decision: Sendable {
    case pick(Pick)
    case value(JSONValue)
  }

  public let decision: Decision

  /// - Throws: `BAD_REQUEST` with the key.
  public init(_ body: JSONValue) throws(RecordError) {
    // null is a value too.
    if let value = body["value"] {
      guard body.member("pick") == nil else { throw RecordError(.badRequest, "send pick or value, not both") }
      decision = .value(value)
      return
    }
    guard let pick = Pick(rawValue: try body.requiredString("pick")) else {
      throw RecordError(.badRequest, "pick must be client, server or ancestor")
    }
    decision = .pick(pick)
  }
}

/// `POST zones/{zone}/conflicts`
public struct SettleConflictRequest: Sendable {
  public let number: Int64
  /// nil restores the loss.
  public let resolution: ResolveConflictRequest?

  /// - Throws: `BAD_REQUEST` with the key.
  public init(_ body: JSONValue) throws(RecordError) {
    guard let number = try body.optionalInteger("number") else { throw RecordError(.badRequest, "number is missing") }
    self.number = number
    switch try body.requiredString("action") {
    case "restore": resolution = nil
    case "resolve": resolution = try ResolveConflictRequest(body)
    default: throw RecordError(.badRequest, "action must be restore or resolve")
    }
  }
}
