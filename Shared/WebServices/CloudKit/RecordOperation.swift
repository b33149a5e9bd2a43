// One operation of `records/modify` (docs/protocol/record-plane.md#records-modify), and its effect on a record.

public import Records

/// What a record dictionary of a request says about its record.
public struct RecordPatch: Hashable, Sendable {
  /// A field that is mentioned; nil removes it.
  public struct Change: Hashable, Sendable {
    public let name: String
    public let field: Field?
    /// Whether the schema has it with which the request was read.
    public let isDeclared: Bool

    public init(name: String, field: Field?, isDeclared: Bool) {
      self.name = name
      self.field = field
      self.isDeclared = isDeclared
    }
  }

  /// What is said of a share. Large and seldom there: kept apart, as a patch is as long as its longest case.
  public indirect enum Share: Hashable, Sendable {
    case unmentioned
    case request(ShareRequest)
  }

  /// What is said about `parent`.
  public enum Parent: Hashable, Sendable {
    case unmentioned
    case set(String?)
  }

  /// nil: not mentioned; the record's own type is meant.
  public var recordType: String?
  /// In the order they were sent, each name once.
  public var changes: [Change]
  public var parent: Parent
  /// For a record that has none; nil: it is not asked for.
  public var shortGUID: String?
  /// Of a share's record only.
  public var share: Share

  public init(recordType: String? = nil, changes: [Change] = [], parent: Parent = .unmentioned, shortGUID: String? = nil, share: Share = .unmentioned) {
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
    /// The record must be there, with the tag the client saw.
    public var needsTag: Bool { self == .update || self == .replace || self == .delete }
    /// Fields that are not mentioned are kept.
    public var merges: Bool { self == .update || self == .forceUpdate }
  }

  public let kind: Kind
  public let recordName: String
  /// nil when none was sent, or one this server never made.
  public let recordChangeTag: RecordChangeTag?
  /// Why the operation can't be executed whatever the record is; else what it says.
  public let patch: Result<RecordPatch, RecordError>
  public let presentation: RecordPresentation

  public init(
    kind: Kind, recordName: String, recordChangeTag: RecordChangeTag? = nil, patch: Result<RecordPatch, RecordError> = .success(RecordPatch()),
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
  /// What it says of the share whose record it saves; nil for any other record.
  public var shareRequest: ShareRequest? {
    if case .success(let patch) = patch, case .request(let request) = patch.share { request } else { nil }
  }

  /// The same operation, refused.
  public func refused(_ error: RecordError) -> RecordOperation {
    RecordOperation(kind: kind, recordName: recordName, recordChangeTag: recordChangeTag, patch: .failure(error), presentation: presentation)
  }
}

/// What an operation does to the record it meets.
public enum OperationDecision: Hashable, Sendable {
  case save(Record)
  case delete
  /// Deleting what is not there.
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
  ///   - existing: nil for a record that never was or was deleted.
  ///   - stamp: who asks, and when.
  /// - Throws: the item's error.
  public func decision(meeting existing: Existing?, stamp: Stamp) throws(RecordError) -> OperationDecision {
    let patch = try patch.get()
    if let existing {
      if kind == .create { throw RecordError(.conflict, "record to insert already exists") }
      if kind.needsTag {
        guard let tag = recordChangeTag else { throw RecordError(.conflict, "record to update already exists with a different change tag") }
        guard tag.sequence == existing.sequence else { throw RecordError(.conflict, "client oplock error updating record") }
      }
      if kind.isDelete { return .delete }
      if let recordType = patch.recordType, recordType != existing.record.recordType {
        throw RecordError(.badRequest, "record '\(recordName)' is of type \(existing.record.recordType), not \(recordType)")
      }
      return .save(try patch.applied(to: existing.record, merging: kind.merges, stamp: stamp))
    }
    if kind.needsTag { throw RecordError(.notFound, "Record not found") }
    if kind == .forceDelete { return .nothing }
    guard let recordType = patch.recordType else { throw RecordError(.badRequest, "recordType is missing for the new record '\(recordName)'") }
    let blank = Record(recordName: recordName, recordType: recordType, fields: Fields(), created: stamp, modified: stamp)
    return .save(try patch.applied(to: blank, merging: false, stamp: stamp))
  }
}

extension RecordPatch {
  /// The record with the patch applied.
  /// - Parameter merging: whether what is not mentioned is kept.
  /// - Throws: `QUOTA_EXCEEDED` for a record over the limit, `BAD_REQUEST` for an asset without a receipt that the field has not.
  public func applied(to record: Record, merging: Bool, stamp: Stamp) throws(RecordError) -> Record {
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
        if let value = field?.value, value.hasShownAsset { field?.value = try value.resolvingShownAssets(in: record.fields[change.name]?.value) }
      } catch {
        throw error.within("\(record.recordType).\(change.name)")
      }
      result.fields[change.name] = field
    }
    if case .set(let parent) = parent { result.parent = parent }
    if result.shortGUID == nil { result.shortGUID = shortGUID }
    let byteCount = result.fields.byteCount
    guard byteCount <= Limit.recordByteCount else {
      throw RecordError(.quotaExceeded, "record '\(record.recordName)' has \(byteCount) bytes, the limit is \(Limit.recordByteCount)")
    }
    return result
  }
}
