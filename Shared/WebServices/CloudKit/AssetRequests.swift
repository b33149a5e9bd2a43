// The bodies of `assets/upload` and `assets/rereference` (docs/protocol/record-plane.md#assets).

public import JSON
public import Records

/// Content that a client is going to upload.
public struct UploadAssetsRequest: Sendable {
  public struct Token: Hashable, Sendable {
    public let recordName: String
    public let fieldName: String
  }

  /// In the order of the answer.
  public let tokens: [Token]

  /// - Parameter newRecordName: makes a name for records whose name the server chooses.
  public init(_ request: JSONValue, newRecordName: () -> String) throws(RecordError) {
    if let zone = request.member("zoneID") { _ = try ZoneReference(zone) }
    tokens = try request.requiredList("tokens", limit: Limit.operationsPerRequest) { json throws(RecordError) in
      // The record itself will name its type; this request must only have one.
      _ = try json.requiredString("recordType")
      let name = try json.optionalString("recordName") ?? newRecordName()
      if let problem = RecordName.problem(name, kind: "recordName") { throw RecordError(.badRequest, problem) }
      return Token(recordName: name, fieldName: try json.requiredString("fieldName"))
    }
  }

  /// - Parameter url: makes an upload URL; called for each token.
  public func answer(url: () -> String) -> [UInt8] {
    var writer = JSONWriter(reservingByteCount: 512 * (tokens.count + 1))
    writer.beginObject()
    writer.key("tokens")
    writer.beginArray()
    for token in tokens {
      writer.beginObject()
      writer.member("recordName", token.recordName)
      writer.member("fieldName", token.fieldName)
      writer.member("url", url())
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }
}

/// Assets of records that other records are to use.
public struct RereferenceAssetsRequest: Sendable {
  public struct Item: Hashable, Sendable {
    public let recordName: String
    public let fieldName: String
  }

  /// In the order of the answer.
  public let items: [Item]

  public init(_ request: JSONValue) throws(RecordError) {
    if let zone = request.member("targetZoneID") { _ = try ZoneReference(zone) }
    items = try request.requiredList("assets", limit: Limit.operationsPerRequest) { json throws(RecordError) in
      Item(recordName: try json.requiredString("recordName"), fieldName: try json.requiredString("fieldName"))
    }
  }
}
