// A record, as the store keeps it and answers carry it.

/// The user, the time and the device of a record's creation or modification.
public struct Stamp: Hashable, Sendable {
  /// Milliseconds since 1970.
  public var timestamp: Int64
  public var userRecordName: String
  /// The store identifier of the device on the object plane, free text on the record plane; empty when unknown.
  public var deviceID: String

  public init(timestamp: Int64, userRecordName: String, deviceID: String = "") {
    self.timestamp = timestamp
    self.userRecordName = userRecordName
    self.deviceID = deviceID
  }
}

/// A record of one zone. It does not name its zone: the holder of the record knows it.
public struct Record: Hashable, Sendable {
  public var recordName: String
  public var recordType: String
  public var fields: Fields
  public var created: Stamp
  public var modified: Stamp
  /// The name of the record above it, in a hierarchy that a share may cover.
  public var parent: String?
  /// The last path component of the record's share URL.
  public var shortGUID: String?
  /// The versions of fields with a conflict policy, ascending by field; answers never carry them.
  public var versions: [FieldVersion] = []

  public init(
    recordName: String, recordType: String, fields: Fields, created: Stamp, modified: Stamp, parent: String? = nil,
    shortGUID: String? = nil
  ) {
    self.recordName = recordName
    self.recordType = recordType
    self.fields = fields
    self.created = created
    self.modified = modified
    self.parent = parent
    self.shortGUID = shortGUID
  }
}

/// A record's version: the sequence number of the commit that wrote it, in base 36 (`"1g"`); opaque to clients.
public struct RecordChangeTag: Hashable, Sendable {
  public let sequence: Int64

  public init(sequence: Int64) { self.sequence = sequence }

  /// nil unless `text` is a positive number in the form that `text` writes: lower-case base 36 without leading zeros.
  public init?(_ text: String) {
    guard (1...13).contains(text.utf8.count), let value = Int64(text, radix: 36), value > 0,
      String(value, radix: 36) == text
    else { return nil }
    sequence = value
  }

  public var text: String { String(sequence, radix: 36) }
}
