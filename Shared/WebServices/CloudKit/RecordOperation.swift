// One operation of `records/modify` (docs/protocol/record-plane.md#records-modify), and its effect on a record.

public import Records

/// The content of a record dictionary in a request.
public struct RecordPatch: Hashable, Sendable {
  /// A field that the request mentions; nil removes it.
  public struct Change: Hashable, Sendable {
    public let name: String
    public let field: Field?
    /// True if the schema with which the request was read has the field.
    public let isDeclared: Bool

    public init(name: String, field: Field?, isDeclared: Bool) {
      self.name = name
      self.field = field
      self.isDeclared = isDeclared
    }
  }

  /// The part about a share. Indirect, because it is large and rare, and every patch takes the memory of the largest
  /// case.
  public indirect enum Share: Hashable, Sendable {
    case unmentioned
    case request(ShareRequest)
  }

  /// The part about `parent`.
  public enum Parent: Hashable, Sendable {
    case unmentioned
    case set(String?)
  }

  /// nil if the request names none: the record keeps its type.
  public var recordType: String?
  /// In the order of the request, each name once.
  public var changes: [Change]
  public var parent: Parent
  /// The short GUID for a record without one; nil if the request asks for none.
  public var shortGUID: String?
  /// Set only for a share's record.
  public var share: Share

  public init(
    recordType: String? = nil, changes: [Change] = [], parent: Parent = .unmentioned, shortGUID: String? = nil,
    share: Share = .unmentioned
  ) {
    self.share = share
    self.recordType = recordType
    self.changes = changes
    self.parent = parent
    self.shortGUID = shortGUID
  }
}

/// An operation on one record.
public struct RecordOperation: Hashable, Sendable {
  /// The raw value is `operationType`.
  public enum Kind: String, Hashable, Sendable, CaseIterable {
    case create, update, forceUpdate, replace, forceReplace, delete, forceDelete

    public var isDelete: Bool { self == .delete || self == .forceDelete }
    /// The record must exist, with the tag that the client sent.
    public var needsTag: Bool { self == .update || self == .replace || self == .delete }
    /// Fields that the request does not mention stay.
    public var merges: Bool { self == .update || self == .forceUpdate }
  }

  public let kind: Kind
  public let recordName: String
  /// nil if the request has none, or one that this server cannot have made.
  public let recordChangeTag: RecordChangeTag?
  /// The operation's content, or the error for which it fails whatever the record is.
  public let patch: Result<RecordPatch, RecordError>
  public let presentation: RecordPresentation

  public init(
    kind: Kind, recordName: String, recordChangeTag: RecordChangeTag? = nil,
    patch: Result<RecordPatch, RecordError> = .success(RecordPatch()),
    presentation: RecordPresentation = .complete
  ) {
    self.kind = kind
    self.recordName = recordName
    self.recordChangeTag = recordChangeTag
    self.patch = patch
    self.presentation = presentation
  }
}

extension RecordOperation {
  /// The request about a share, if the operation saves a share's record; nil for other records.
  public var shareRequest: ShareRequest? {
    if case .success(let patch) = patch, case .request(let request) = patch.share { request } else { nil }
  }

  /// The operation with an error in place of its content.
  public func refused(_ error: RecordError) -> RecordOperation {
    RecordOperation(
      kind: kind, recordName: recordName, recordChangeTag: recordChangeTag, patch: .failure(error),
      presentation: presentation)
  }
}

/// The effect of an operation on its record.
public enum OperationDecision: Hashable, Sendable {
  case save(Record)
  case delete
  /// A deletion of a record that does not exist.
  case nothing
}

extension RecordOperation {
  /// The live record of that name, as the store has it.
  public struct Existing: Hashable, Sendable {
    public let record: Record
    public let sequence: Int64

    public init(record: Record, sequence: Int64) {
      self.record = record
      self.sequence = sequence
    }
  }

  /// Decides the operation's effect: the table of docs/protocol/record-plane.md#records-modify.
  /// - Parameters:
  ///   - existing: nil for a record that never existed or was deleted.
  ///   - stamp: the user who asks, the time and the device.
  /// - Throws: the item's error.
  public func decision(meeting existing: Existing?, stamp: Stamp) throws(RecordError) -> OperationDecision {
    let patch = try patch.get()
    if let existing {
      if kind == .create { throw RecordError(.conflict, "record to insert already exists") }
      if kind.needsTag {
        guard let tag = recordChangeTag else {
          throw RecordError(.conflict, "record to update already exists with a different change tag")
        }
        guard tag.sequence == existing.sequence else {
          throw RecordError(.conflict, "client oplock error updating record")
        }
      }
      if kind.isDelete { return .delete }
      if let recordType = patch.recordType, recordType != existing.record.recordType {
        throw RecordError(
          .badRequest, "record '\(recordName)' is of type \(existing.record.recordType), not \(recordType)")
      }
      return .save(try patch.applied(to: existing.record, merging: kind.merges, stamp: stamp))
    }
    if kind.needsTag { throw RecordError(.notFound, "Record not found") }
    if kind == .forceDelete { return .nothing }
    guard let recordType = patch.recordType else {
      throw RecordError(.badRequest, "recordType is missing for the new record '\(recordName)'")
    }
    let blank = Record(
      recordName: recordName, recordType: recordType, fields: Fields(), created: stamp, modified: stamp)
    return .save(try patch.applied(to: blank, merging: false, stamp: stamp))
  }
}

extension RecordPatch {
  /// The record with the patch applied.
  /// - Parameter merging: true keeps the fields that the patch does not mention.
  /// - Throws: `QUOTA_EXCEEDED` for a record above the limit; `BAD_REQUEST` for an asset that has no receipt and is not
  ///   in the field.
  public func applied(to record: Record, merging: Bool, stamp: Stamp) throws(RecordError) -> Record {
    let result = try merged(into: record, merging: merging, stamp: stamp) { error throws(RecordError) in throw error }
    let byteCount = result.fields.byteCount
    guard byteCount <= Limit.recordByteCount else {
      throw RecordError(
        .quotaExceeded, "record '\(record.recordName)' has \(byteCount) bytes, the limit is \(Limit.recordByteCount)")
    }
    return result
  }

  /// The record with as much of the patch as it can take, whatever its size: a repeated request was stored when the
  /// record was another one. A field whose asset can't be found stays as it is, or away.
  public func shown(in record: Record, merging: Bool, stamp: Stamp) -> Record {
    merged(into: record, merging: merging, stamp: stamp) { _ in }
  }

  /// - Parameter unresolved: told the error of a field that is left out.
  private func merged<Refusal: Error>(
    into record: Record, merging: Bool, stamp: Stamp, _ unresolved: (RecordError) throws(Refusal) -> Void
  ) throws(Refusal) -> Record {
    var result = record
    result.modified = stamp
    if !merging {
      result.fields = Fields()
      result.fields.reserveCapacity(changes.count)
      result.parent = nil
    }
    for change in changes {
      var field = change.field
      do throws(RecordError) {
        if let value = field?.value, value.hasShownAsset {
          field?.value = try value.resolvingShownAssets(in: record.fields[change.name]?.value)
        }
      } catch {
        try unresolved(error.within("\(record.recordType).\(change.name)"))
        continue
      }
      result.fields[change.name] = field
    }
    if case .set(let parent) = parent { result.parent = parent }
    if result.shortGUID == nil { result.shortGUID = shortGUID }
    return result
  }
}
