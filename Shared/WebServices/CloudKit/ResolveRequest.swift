// The bodies of `records/resolve` and `records/accept` (docs/protocol/record-plane.md#records-resolve).

public import JSON
public import Records

/// A short GUID in a request.
public struct ShortGUIDReference: Hashable, Sendable {
  public let value: String
  /// The value in the request; nil if it has none.
  public let shouldFetchRootRecord: Bool?
  /// The value in the request; nil means all.
  public let rootRecordDesiredKeys: [String]?

  public init(value: String, shouldFetchRootRecord: Bool? = nil, rootRecordDesiredKeys: [String]? = nil) {
    self.value = value
    self.shouldFetchRootRecord = shouldFetchRootRecord
    self.rootRecordDesiredKeys = rootRecordDesiredKeys
  }

  /// - Throws: `BAD_REQUEST` naming the place.
  public static func references(of request: JSONValue) throws(RecordError) -> [ShortGUIDReference] {
    try request.requiredList("shortGUIDs", limit: Limit.operationsPerRequest) { json throws(RecordError) in
      ShortGUIDReference(
        value: try json.requiredString("value"), shouldFetchRootRecord: try json.optionalBool("shouldFetchRootRecord"),
        rootRecordDesiredKeys: try json.optionalStrings("rootRecordDesiredKeys"))
    }
  }

  /// Writes the reference as results repeat it.
  public func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("value", value)
    if let shouldFetchRootRecord { writer.member("shouldFetchRootRecord", shouldFetchRootRecord) }
    if let rootRecordDesiredKeys {
      writer.key("rootRecordDesiredKeys")
      writer.beginArray()
      for key in rootRecordDesiredKeys { writer.string(key) }
      writer.endArray()
    }
    writer.endObject()
  }
}
