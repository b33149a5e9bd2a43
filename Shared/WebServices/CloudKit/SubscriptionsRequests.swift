// The bodies of `subscriptions/modify` and `subscriptions/lookup` (docs/protocol/record-plane.md#subscriptions).

public import JSON
public import Records

/// An operation on a subscription; operations of a request are independent.
public struct SubscriptionOperation: Sendable {
  /// The raw value is `operationType`.
  public enum Kind: String, Hashable, Sendable, CaseIterable {
    case create, update, delete
  }

  public let kind: Kind
  /// The client's identifier, or the one made for it.
  public let subscriptionID: String
  /// The subscription to store, or the error that forbids it; nil for a deletion.
  public let subscription: Result<Subscription, RecordError>?

  /// Reads `operations`. An invalid subscription becomes its operation's error; an operation without a clear kind or
  /// identifier fails the request.
  /// - Parameter makeIdentifier: makes the identifier for the operation at an index.
  public static func operations(
    of request: JSONValue, owner: String, schema: SchemaIndex, makeIdentifier: (_ index: Int) -> String
  ) throws(RecordError) -> [SubscriptionOperation] {
    var index = 0
    let operations = try request.requiredList("operations", limit: Limit.operationsPerRequest) {
      json throws(RecordError) in
      defer { index += 1 }
      return try SubscriptionOperation(json, owner: owner, schema: schema) { makeIdentifier(index) }
    }
    var identifiers: Set<String> = []
    for operation in operations where !identifiers.insert(operation.subscriptionID).inserted {
      throw RecordError(
        .badRequest, "You can't modify the subscription '\(operation.subscriptionID)' twice in one request")
    }
    return operations
  }

  private init(_ json: JSONValue, owner: String, schema: SchemaIndex, makeIdentifier: () -> String) throws(RecordError)
  {
    let text = try json.requiredString("operationType")
    guard let kind = Kind(rawValue: text) else {
      throw RecordError(.badRequest, "unknown operationType '\(text.prefix(40))'")
    }
    let dictionary = try json.requiredObject("subscription")
    let named = try Subscription.identifier(of: dictionary)
    if kind != .create, named == nil { throw RecordError(.badRequest, "subscription.subscriptionID is missing") }
    let subscriptionID = named ?? makeIdentifier()
    self.kind = kind
    self.subscriptionID = subscriptionID
    subscription =
      kind == .delete
      ? nil
      : Result { () throws(RecordError) in
        let subscription = try Subscription(dictionary, owner: owner, schema: schema) { subscriptionID }
        let byteCount = subscription.json(owner: owner).count
        guard byteCount <= Limit.subscriptionByteCount else {
          throw RecordError(
            .badRequest, "the subscription has \(byteCount) bytes, the limit is \(Limit.subscriptionByteCount)")
        }
        return subscription
      }
  }
}

/// Reads `subscriptions/lookup`.
public enum LookupSubscriptionsRequest {
  /// The identifiers, in the order of the answer.
  public static func identifiers(of request: JSONValue) throws(RecordError) -> [String] {
    try request.requiredList("subscriptions", limit: Limit.recordsPerResponse) { json throws(RecordError) in
      guard let identifier = try Subscription.identifier(of: json) else {
        throw RecordError(.badRequest, "subscriptionID is missing")
      }
      return identifier
    }
  }
  /// The body of a request for some subscriptions.
  public static func body(of identifiers: [String]) -> [UInt8] {
    var output = JSONWriter()
    output.beginObject()
    output.key("subscriptions")
    output.beginArray()
    for identifier in identifiers {
      output.beginObject()
      output.member("subscriptionID", identifier)
      output.endObject()
    }
    output.endArray()
    output.endObject()
    return output.bytes
  }
}

extension SubscriptionOperation {
  /// The body of a `subscriptions/modify` that deletes some subscriptions.
  public static func deletions(of identifiers: [String]) -> [UInt8] {
    var output = JSONWriter(reservingByteCount: 1024)
    output.beginObject()
    output.key("operations")
    output.beginArray()
    for identifier in identifiers {
      output.beginObject()
      output.member("operationType", "delete")
      output.key("subscription")
      output.beginObject()
      output.member("subscriptionID", identifier)
      output.endObject()
      output.endObject()
    }
    output.endArray()
    output.endObject()
    return output.bytes
  }
}
