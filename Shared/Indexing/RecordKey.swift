// What of a record can be filtered, sorted and indexed: its fields, and what every record has besides.

public import Records

/// What every record has besides its fields. The raw value is `systemFieldName`.
public enum SystemField: String, Hashable, Sendable, CaseIterable {
  case recordName, share, parent
  case createdUserRecordName, createdTimestamp, modifiedTimestamp, modifiedUserRecordName

  /// The same under the name that schemas and `fieldName` use.
  public init?(fieldName: String) {
    // Clients spell this one in two ways.
    if fieldName == "___recordId" {
      self = .recordName
      return
    }
    guard let field = Self.allCases.first(where: { $0.fieldName == fieldName }) else { return nil }
    self = field
  }

  /// As schemas spell it.
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

  /// How values of the field are compared; names are compared as strings, whatever dictionary they came in.
  public var type: FieldType { self == .createdTimestamp || self == .modifiedTimestamp ? .timestamp : .string }
}

/// A field of a record, or a system field.
public enum RecordKey: Hashable, Sendable {
  case field(String)
  case system(SystemField)

  /// As requests spell it, for refusals.
  public var name: String {
    switch self {
    case .field(let name): name
    case .system(let field): field.rawValue
    }
  }

  /// As schemas spell it: no field's name begins with an underscore.
  public var schemaName: String {
    switch self {
    case .field(let name): name
    case .system(let field): field.fieldName
    }
  }

  /// What `schemaName` stands for.
  public init(schemaName: String) {
    self = SystemField(fieldName: schemaName).map { .system($0) } ?? .field(schemaName)
  }

  public func value(in record: Record) -> FieldValue? {
    switch self {
    case .field(let name): record.fields[name]?.value
    case .system(.recordName): .string(record.recordName)
    case .system(.parent): record.parent.map { .string($0) }
    // A record knows its share only through the zone's share record, which queries don't reach.
    case .system(.share): nil
    case .system(.createdUserRecordName): .string(record.created.userRecordName)
    case .system(.createdTimestamp): .timestamp(record.created.timestamp)
    case .system(.modifiedUserRecordName): .string(record.modified.userRecordName)
    case .system(.modifiedTimestamp): .timestamp(record.modified.timestamp)
    }
  }
}
