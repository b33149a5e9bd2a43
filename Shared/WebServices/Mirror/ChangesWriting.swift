// The import batch (`GET changes`) as JSON.

import History
import ObjectModel
public import JSON
public import Mirroring
public import Records

/// The state of an import, as each of its pages reports it.
public struct ImportState: Sendable {
  /// The run's progress and its goal, in steps of the database rather than records.
  public var done: Int64
  public var total: Int64
  /// The store has been up to date at least once.
  public var isInitialImportDone: Bool
  /// The reset under way, and whether the client's new copy is complete with this page; nil without a reset.
  public var reset: (reason: ResetReason, isDone: Bool)?
  /// Conflicts of the database that wait for a decision.
  public var openConflictCount: Int

  public init(
    done: Int64, total: Int64, isInitialImportDone: Bool, reset: (reason: ResetReason, isDone: Bool)? = nil,
    openConflictCount: Int = 0
  ) {
    self.done = done
    self.total = total
    self.isInitialImportDone = isInitialImportDone
    self.reset = reset
    self.openConflictCount = openConflictCount
  }

  func writeMembers(to writer: inout JSONWriter) {
    writer.key("progress")
    writer.beginObject()
    writer.member("done", done)
    writer.member("total", total)
    writer.endObject()
    writer.key("initialImport")
    writer.beginObject()
    writer.member("done", isInitialImportDone)
    writer.endObject()
    if openConflictCount > 0 { writer.member("openConflicts", openConflictCount) }
    guard let reset else { return }
    writer.key("reset")
    writer.beginObject()
    writer.member("reason", reset.reason.name)
    writer.member("done", reset.isDone)
    writer.endObject()
  }
}

/// Collects the changes of an import batch.
public struct ImportBatchWriter {
  private var writer: JSONWriter
  private let values: MirrorValueWriter
  private var quarantined: [MirroringProblem] = []
  private var changeCount = 0

  public init(values: MirrorValueWriter) {
    self.values = values
    writer = JSONWriter(reservingByteCount: 16 * 1024)
    writer.beginObject()
    writer.key("changes")
    writer.beginArray()
  }

  /// The number of bytes written so far.
  public var byteCount: Int { writer.bytes.count }

  /// A change as JSON, which the caller adds if there is room for it.
  /// - Parameters:
  ///   - zone: the zone ID as JSON (`Zone.ID.json`).
  ///   - isAgain: the client got this state before, with an earlier model or before a reset.
  public func encoded(_ change: ImportChange, tag: RecordChangeTag, zone: [UInt8], isAgain: Bool = false) -> [UInt8] {
    StoreAnswer.object { writer in
      if isAgain { writer.member("redelivered", true) }
      switch change {
      case .save(let object, let record):
        writer.member("changeType", "save")
        writer.member("entity", object.entity)
        writer.member("objectID", record.recordName)
        writer.key("zoneID")
        writer.raw(zone)
        writer.key("attributes")
        values.write(object.attributes, to: &writer)
        writer.key("relationships")
        writer.beginObject()
        for relationship in object.relationships { writer.nullable(relationship.name, relationship.value) }
        writer.endObject()
        writer.member("recordChangeTag", tag.text)
        writer.key("modified")
        writer.stamp(record.modified)
      case .delete(let entity, let objectID):
        writer.member("changeType", "delete")
        writer.member("entity", entity)
        writer.member("objectID", objectID)
        writer.key("zoneID")
        writer.raw(zone)
      case .link(let link): Self.write("link", link, to: &writer)
      case .unlink(let link): Self.write("unlink", link, to: &writer)
      }
    }
  }

  /// A change that an object lies in another zone than the store knows. The object's present state follows as a change
  /// of its own.
  public func encodedMove(of objectID: String, from origin: Zone.ID, to zone: Zone.ID) -> [UInt8] {
    StoreAnswer.object { writer in
      writer.member("changeType", "move")
      writer.member("objectID", objectID)
      writer.key("from")
      origin.write(to: &writer)
      writer.key("to")
      zone.write(to: &writer)
    }
  }

  /// A change that a zone's share is new, changed or ended; `shares` has its present state.
  public static func encodedShare(zone: [UInt8]) -> [UInt8] {
    StoreAnswer.object { writer in
      writer.member("changeType", "share")
      writer.key("zoneID")
      writer.raw(zone)
    }
  }

  private static func write(_ changeType: String, _ link: MirroredLink, to writer: inout JSONWriter) {
    writer.member("changeType", changeType)
    writer.member("relationship", link.relationship.name)
    writer.member("entity", link.entity.name)
    writer.member("objectID", link.objectID)
    writer.key("target")
    writer.beginObject()
    writer.member("entity", link.targetEntity.name)
    writer.member("objectID", link.targetID)
    writer.endObject()
  }

  public mutating func add(_ encoded: [UInt8]) {
    writer.raw(encoded)
    changeCount += 1
  }

  /// Adds a zone that ended, and the client's action for its objects.
  public mutating func addZone(_ zone: Zone.ID, end: ZoneEnd, policy: ZonePolicy) {
    changeCount += 1
    writer.beginObject()
    writer.member("changeType", "zone")
    writer.key("zoneID")
    zone.write(to: &writer)
    writer.member("reason", end.name)
    writer.member("action", policy.action)
    writer.member("recovery", policy.recovery.rawValue)
    writer.endObject()
  }

  /// Adds another owner's zone that ended for the client: deleted, or (nil) left.
  public mutating func addZone(_ zone: Zone.ID, reason end: ZoneEnd?) {
    changeCount += 1
    writer.beginObject()
    writer.member("changeType", "zone")
    writer.key("zoneID")
    zone.write(to: &writer)
    writer.member("reason", end?.name ?? Self.left)
    writer.member("action", ZonePolicy.delete.action)
    // The recovery for zones of other owners.
    let step = RecoveryTable.step(for: end?.signal ?? .zoneNotFound, in: .shared)
    if case .recover(let action) = step { writer.member("recovery", action.rawValue) }
    writer.endObject()
  }

  private static let left = "left"

  /// A record that was left out (R10).
  public mutating func add(_ problem: MirroringProblem) { quarantined.append(problem) }

  public consuming func finish(importToken: String, moreComing: Bool, state: ImportState) -> WrittenImportBatch {
    WrittenImportBatch(
      writer: writer, changeCount: changeCount, quarantined: quarantined, importToken: importToken,
      moreComing: moreComing, state: state)
  }

  static let prefixByteCount = #"{"changes":["#.utf8.count
}

/// The changes of a page, and what there is to say of it.
public struct WrittenImportBatch: Sendable {
  /// Open behind the last change.
  fileprivate var writer: JSONWriter
  public let changeCount: Int
  /// Records that were left out.
  public let quarantined: [MirroringProblem]
  public let importToken: String
  public let moreComing: Bool
  public let state: ImportState

  /// The changes as JSON, divided by commas.
  public var changes: [UInt8] { Array(writer.bytes[ImportBatchWriter.prefixByteCount...]) }

  /// The whole body for a client. `quarantined` is present only if a record was left out.
  public consuming func json() -> [UInt8] {
    writer.endArray()
    if !quarantined.isEmpty {
      writer.key("quarantined")
      writer.problems(quarantined)
    }
    writer.member("importToken", importToken)
    writer.member("moreComing", moreComing)
    writer.member("caughtUp", !moreComing)
    state.writeMembers(to: &writer)
    writer.endObject()
    return writer.bytes
  }
}

extension JSONWriter {
  mutating func stamp(_ stamp: Stamp) {
    beginObject()
    member("timestamp", stamp.timestamp)
    member("userRecordName", stamp.userRecordName)
    member("deviceID", stamp.deviceID)
    endObject()
  }

  /// Writes a list of records with the problem of each.
  public mutating func problems(_ problems: [MirroringProblem]) {
    beginArray()
    for problem in problems { self.problem(problem) }
    endArray()
  }

  mutating func problem(_ problem: MirroringProblem) {
    beginObject()
    problemMembers(problem)
    endObject()
  }

  mutating func problemMembers(_ problem: MirroringProblem) {
    member("objectID", problem.recordName)
    member("entity", problem.entity)
    member("ckErrorCode", problem.ckErrorCode)
    member("serverErrorCode", problem.code.rawValue)
    if let code = problem.cocoaErrorCode { member("cocoaErrorCode", code.rawValue) }
    member("reason", problem.reason)
  }
}
