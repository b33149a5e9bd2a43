// subscriptions/… of the shared database: a zone's subscriptions live with its owner, the database's with the
// caller.

import Crypto
import JSON
import Records
import ServiceBus
import WebServices

extension SharedDatabase {
  /// The caller first, then every owner whose zones the caller can access.
  private func places() async throws(RecordError) -> [String] {
    try await [caller] + sharedZones().filter { $0.zones.contains(where: \.isActive) }.map(\.owner)
  }

  func listSubscriptions() async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    // The call has no parameters; only the body's syntax is checked.
    _ = try document()
    let ask = Array("{}".utf8)
    let outcomes = await outcomes(of: try await places()) { _ in ask }
    if let answer = try wholeAnswer(outcomes) { return answer }
    // The list can't mark unknown subscriptions as errors: a client would take missing ones for deleted.
    for case .away(let error) in outcomes { throw error }
    var output = JSONWriter(reservingByteCount: 1024)
    output.beginObject()
    output.array("subscriptions", of: outcomes) { outcome, output in
      guard case .answered(let answer, _) = outcome else { return }
      for item in answer.parts { output.raw(item.json) }
    }
    output.endObject()
    return Self.answer(output)
  }

  func lookUpSubscriptions() async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    let identifiers = try LookupSubscriptionsRequest.identifiers(of: try document())
    let ask = LookupSubscriptionsRequest.body(of: identifiers)
    let outcomes = await outcomes(of: try await places()) { _ in ask }
    if let answer = try wholeAnswer(outcomes) { return answer }
    return Self.answer(
      merged(outcomes.map { ($0, Array(identifiers.indices)) }, identifiers: identifiers, count: identifiers.count))
  }

  func modifySubscriptions() async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    let json = try document()
    let operations = json["operations"]?.elements ?? []
    guard json["operations"]?.kind == .array, operations.count <= Limit.operationsPerRequest,
      operations.allSatisfy(Self.isClear), Self.namesEachOnce(operations)
    else {
      // Nothing is changed: the caller's own worker refuses requests that are wrong as a whole.
      return try await forwarding.forward(request, body: body)
    }
    // Only its worker knows a subscription that is to be deleted or moved, so every place is asked.
    let everywhere = try await places()
    var made: [(owner: String, indices: [Int])] = []
    var deleted: [(index: Int, identifier: String)] = []
    for (index, operation) in operations.enumerated() {
      if operation["operationType"]?.string == "delete", let identifier = Self.identifier(of: operation) {
        deleted.append((index, identifier))
        continue
      }
      let owner = try owner(of: operation)
      if let part = made.firstIndex(where: { $0.owner == owner }) {
        made[part].indices.append(index)
      } else {
        made.append((owner, [index]))
      }
    }
    // A part does not depend on the others, so that a repeated request repeats its parts exactly.
    let places = made.map(\.indices)
    var parts = zip(await outcomes(of: made.map(\.owner)) { Self.body(of: places[$0], in: operations) }, places).map {
      ($0, $1)
    }
    if !deleted.isEmpty {
      let body = SubscriptionOperation.deletions(of: deleted.map(\.identifier))
      parts += await outcomes(of: everywhere, suffix: ":delete") { _ in body }.map { ($0, deleted.map(\.index)) }
    }
    for (part, (outcome, indices)) in zip(made, parts) {
      await deleteElsewhere(Self.saved(indices, by: outcome, of: operations), butAt: part.owner, everywhere)
    }
    if let answer = try wholeAnswer(parts.map(\.0)) { return answer }
    let identifiers = operations.map { $0["subscription"]?["subscriptionID"]?.string }
    return Self.answer(merged(parts, identifiers: identifiers, count: operations.count))
  }

  /// False for an operation for which a worker refuses the whole request.
  private static func isClear(_ operation: JSONValue) -> Bool {
    guard let text = operation["operationType"]?.string, let kind = SubscriptionOperation.Kind(rawValue: text),
      let subscription = operation["subscription"], subscription.kind == .object
    else { return false }
    do throws(RecordError) {
      return try Subscription.identifier(of: subscription) != nil || kind == .create
    } catch {
      // The worker tells the error.
      return false
    }
  }

  /// nil for a subscription without a possible name.
  private static func identifier(of operation: JSONValue) -> String? {
    guard let subscription = operation["subscription"], subscription.kind == .object else { return nil }
    return try? Subscription.identifier(of: subscription)
  }

  private static func body(of indices: [Int], in operations: [JSONValue]) -> [UInt8] {
    var output = JSONWriter(reservingByteCount: 1024)
    output.beginObject()
    output.array("operations", of: indices) { $1.value(operations[$0]) }
    output.endObject()
    return output.bytes
  }

  /// The subscriptions of a part that its worker has saved.
  private static func saved(_ indices: [Int], by outcome: Outcome, of operations: [JSONValue]) -> [String] {
    guard case .answered(let answer, _) = outcome else { return [] }
    return zip(indices, answer.parts).compactMap { index, item in
      item.error == nil ? operations[index]["subscription"]?["subscriptionID"]?.string : nil
    }
  }

  /// Deletes subscriptions that moved to another owner's zone from everywhere else. At an owner who can't be reached
  /// they stay until they are deleted.
  private func deleteElsewhere(_ identifiers: [String], butAt owner: String, _ everywhere: [String]) async {
    let others = everywhere.filter { $0 != owner }
    if identifiers.isEmpty || others.isEmpty { return }
    let body = SubscriptionOperation.deletions(of: identifiers)
    // A worker refuses another body under one identifier, and a repetition may find more of its subscriptions saved.
    _ = await outcomes(of: others, suffix: ":elsewhere:" + Hex.encode(SHA256.hash(body).prefix(8))) { _ in body }
  }

  /// Database subscriptions belong to the caller; others live with their zone's owner.
  private func owner(of operation: JSONValue) throws(RecordError) -> String {
    guard let subscription = operation["subscription"], subscription.kind == .object,
      subscription["subscriptionType"]?.string?.lowercased() != "database"
    else { return caller }
    return owner(of: try ZoneReference(of: subscription))
  }

  /// True when no subscription is named twice. Operations on one could go to several workers; one worker refuses them
  /// together.
  private static func namesEachOnce(_ operations: [JSONValue]) -> Bool {
    let names = operations.compactMap { $0["subscription"]?["subscriptionID"]?.string }
    return Set(names).count == names.count
  }

  /// One item for each operation: of several workers' items the first without an error. An item is not reported as
  /// missing while a worker that may have it is away.
  private func merged(_ outcomes: [(Outcome, indices: [Int])], identifiers: [String?], count: Int) -> JSONWriter {
    var items: [Int: AnswerParts.Part] = [:]
    var failures: [Int: RecordError] = [:]
    for (outcome, indices) in outcomes {
      switch outcome {
      case .refused: continue
      case .away(let error): for index in indices { failures[index] = error }
      case .answered(let answer, _):
        for (index, item) in zip(indices, answer.parts) where items[index].map({ $0.error != nil }) ?? true {
          items[index] = item
        }
      }
    }
    var output = JSONWriter(reservingByteCount: 1024)
    output.beginObject()
    output.array("subscriptions", of: 0..<count) { index, output in
      if let error = failures[index],
        items[index].map({ $0.error?.code == .notFound }) ?? true
      {
        Subscription.writeError(error, of: (index < identifiers.count ? identifiers[index] : nil) ?? "", to: &output)
      } else if let item = items[index] {
        output.raw(item.json)
      }
    }
    output.endObject()
    return output
  }
}
