// Single objects and errors of the mirror API as JSON.

import History
import JSON
public import Mirroring
public import Records

/// `GET objects/{objectID}`
public struct ObjectAnswer: Sendable {
  public var object: ObjectValues
  public var objectID: String
  public var zoneID: Zone.ID
  /// The raw value of a `SyncState`.
  public var syncState: String
  public var lastError: MirroringProblem?
  /// To-many relationships and their objects, both ascending.
  public var sets: [(name: String, objectIDs: [String])]
  /// The stored record and its tag; nil before the first export.
  public var record: (Record, RecordChangeTag)?

  public init(
    object: ObjectValues, objectID: String, zoneID: Zone.ID, syncState: String, lastError: MirroringProblem?,
    sets: [(name: String, objectIDs: [String])], record: (Record, RecordChangeTag)?
  ) {
    self.object = object
    self.objectID = objectID
    self.zoneID = zoneID
    self.syncState = syncState
    self.lastError = lastError
    self.sets = sets
    self.record = record
  }

  public func json(values: MirrorValueWriter, records: RecordDictionaryWriter) -> [UInt8] {
    StoreAnswer.object { writer in
      writer.member("entity", object.entity)
      writer.member("objectID", objectID)
      writer.key("zoneID")
      zoneID.write(to: &writer)
      writer.key("attributes")
      values.write(object.attributes, to: &writer)
      writer.key("relationships")
      writer.beginObject()
      for relationship in object.relationships { writer.nullable(relationship.name, relationship.value) }
      for set in sets { writer.strings(set.name, set.objectIDs) }
      writer.endObject()
      writer.member("syncState", syncState)
      writer.key("lastError")
      if let lastError { writer.problem(lastError) } else { writer.null() }
      writer.key("record")
      if let record { records.write(record.0, tag: record.1, as: .complete, to: &writer) } else { writer.null() }
    }
  }
}

/// Error dictionaries of the object plane.
public enum MirrorErrors {
  /// An event's error for an export or import that left records out: one entry a record, nothing folded (V1).
  public static func partialFailure(_ problems: [MirroringProblem]) -> [UInt8] {
    StoreAnswer.object { writer in
      writer.member("ckErrorCode", partialFailureCode)
      writer.member("reason", problems.count == 1 ? "1 record was left out" : "\(problems.count) records were left out")
      writer.key("partialErrors")
      writer.problems(problems)
    }
  }

  /// CKError.partialFailure
  private static let partialFailureCode = 2

  /// The number of records in an event's error.
  public static func problemCount(_ errorJSON: [UInt8]?) -> Int { entries(errorJSON).count }

  /// The problem of one object in an event's error; nil if there is none.
  public static func problem(of objectID: String, in errorJSON: [UInt8]?) -> MirroringProblem? {
    entries(errorJSON).lazy.filter { $0["objectID"]?.isString(objectID) == true }.compactMap(problem).first
  }

  /// All problems in an event's error, in its order.
  public static func problems(in errorJSON: [UInt8]?) -> [MirroringProblem] { entries(errorJSON).compactMap(problem) }

  private static func problem(_ entry: JSONValue) -> MirroringProblem? {
    guard let objectID = entry["objectID"]?.string, let entity = entry["entity"]?.string,
      let code = (entry["serverErrorCode"]?.string).flatMap(ServerErrorCode.init(rawValue:))
    else { return nil }
    return MirroringProblem(
      recordName: objectID, entity: entity, code: code,
      cocoaErrorCode: (entry["cocoaErrorCode"]?.int64).flatMap { CocoaErrorCode(rawValue: Int($0)) },
      reason: entry["reason"]?.string ?? "")
  }

  static func entries(_ errorJSON: [UInt8]?) -> [JSONValue] {
    // Dropped because stored errors are always those written above.
    guard let errorJSON, let error = try? JSONValue(parsing: errorJSON) else { return [] }
    return error["partialErrors"]?.elements ?? []
  }
}

extension RecordError {
  /// The body of a failed request to the object plane: the record plane's dictionary and CKError's number.
  public func mirrorDictionary(uuid: String) -> [UInt8] {
    StoreAnswer.object { writer in
      writer.member("uuid", uuid)
      writeMirrorMembers(to: &writer)
    }
  }

  func writeMirrorMembers(to writer: inout JSONWriter) {
    writeMembers(to: &writer)
    if specialCKErrorCode == nil { writer.member("ckErrorCode", ckErrorCode) }
    if let recovery { writer.member("recovery", recovery.rawValue) }
  }

  /// The client's steps, where the recovery table has some (P6).
  private var recovery: RecoveryAction? {
    guard specialCKErrorCode == 21, case .recover(let action) = RecoveryTable.step(for: .databaseTokenExpired, in: .own)
    else { return nil }
    return action
  }
}
