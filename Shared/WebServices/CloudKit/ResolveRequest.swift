// The bodies of `records/resolve` and `records/accept` (docs/protocol/record-plane.md#records-resolve).

public import JSON
public import Records

/// One short GUID that is asked about.
public struct ShortGUIDReference: Hashable, Sendable {
  public let value: String
  /// As sent; nil: not mentioned.
  public let shouldFetchRootRecord: Bool?
  /// As sent; nil: all.
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

  /// As results repeat it.
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
