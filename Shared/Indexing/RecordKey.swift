// The keys that a record can be filtered, sorted and indexed by: its fields and its system fields.

public import Records

/// An attribute that every record has besides its fields. The raw value is the name that requests use.
public enum SystemField: String, Hashable, Sendable, CaseIterable {
  case recordName, share, parent
  case createdUserRecordName, createdTimestamp, modifiedTimestamp, modifiedUserRecordName

  /// Reads the name that schemas and `fieldName` use.
  public init?(fieldName: String) {
    // Clients use two spellings of this name.
    if fieldName == "___recordId" {
      self = .recordName
      return
    }
    guard let field = Self.allCases.first(where: { $0.fieldName == fieldName }) else { return nil }
    self = field
  }

  /// The name that schemas use.
  public var fieldName: String {
    switch self {
    case .recordName: "___recordID"
    case .share: "___share"
    case .parent: "___parent"
    case .createdUserRecordName: "___createdBy"
    case .createdTimestamp: "___createTime"
    case .modifiedTimestamp: "___modTime"
    case .modifiedUserRecordName: "___modifiedBy"
    }
  }

  /// The type that values of the field compare as. Names compare as strings, whatever dictionary they came in.
  public var type: FieldType { self == .createdTimestamp || self == .modifiedTimestamp ? .timestamp : .string }
}

/// A field of a record, or a system field.
public enum RecordKey: Hashable, Sendable {
  case field(String)
  case system(SystemField)

  /// The name that requests use, for error messages.
  public var name: String {
    switch self {
    case .field(let name): name
    case .system(let field): field.rawValue
    }
  }

  /// The name that schemas use. No name of an ordinary field begins with an underscore.
  public var schemaName: String {
    switch self {
    case .field(let name): name
    case .system(let field): field.fieldName
    }
  }

  /// Reads a name that `schemaName` returned.
  public init(schemaName: String) {
    self = SystemField(fieldName: schemaName).map { .system($0) } ?? .field(schemaName)
  }

  public func value(in record: Record) -> FieldValue? {
    switch self {
    case .field(let name): record.fields[name]?.value
    case .system(.recordName): .string(record.recordName)
    case .system(.parent): record.parent.map { .string($0) }
    // A record knows its share only through the zone's share record, which queries do not reach.
    case .system(.share): nil
    case .system(.createdUserRecordName): .string(record.created.userRecordName)
    case .system(.createdTimestamp): .timestamp(record.created.timestamp)
    case .system(.modifiedUserRecordName): .string(record.modified.userRecordName)
    case .system(.modifiedTimestamp): .timestamp(record.modified.timestamp)
    }
  }
}
