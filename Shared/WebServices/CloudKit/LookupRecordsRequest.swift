// The body of `records/lookup` (docs/protocol/record-plane.md#records-lookup).

public import JSON
public import Records

/// Records to fetch by name, in the order of the answer.
public struct LookupRecordsRequest: Sendable {
  public struct Item: Hashable, Sendable {
    public let recordName: String
    public let presentation: RecordPresentation

    public init(recordName: String, presentation: RecordPresentation) {
      self.recordName = recordName
      self.presentation = presentation
    }
  }

  public let items: [Item]

  public init(_ request: JSONValue) throws(RecordError) {
    let presentation = try RecordPresentation(of: request)
    items = try request.requiredList("records", limit: Limit.recordsPerResponse) { json throws(RecordError) in
      Item(
        recordName: try json.requiredString("recordName"),
        presentation: try RecordPresentation(of: json, otherwise: presentation))
    }
  }
}
