// subscriptions/… of the shared database: those of a zone live with the zone's owner, those of the whole database with the caller.

import JSON
import Records
import ServiceBus
import WebServices

extension SharedDatabase {
  /// The caller first, then everybody whose zones he has access to.
  private func places() async throws(RecordError) -> [String] {
    try await [caller] + sharedZones().filter { $0.zones.contains(where: \.isActive) }.map(\.owner)
  }

  func listSubscriptions() async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    // Nothing in the request says anything of the subscriptions that are wanted.
    _ = try document()
    let ask = Array("{}".utf8)
    let outcomes = await outcomes(of: try await places()) { _ in ask }
    if let answer = try wholeAnswer(outcomes) { return answer }
    // The list has no place for what is not known: a client would take it for deleted.
    for case .away(let error) in outcomes { throw error }
    var output = JSONWriter(reservingByteCount: 1024)
    output.beginObject()
    output.array("subscriptions", of: outcomes) { outcome, output in
      guard case .answered(let answer) = outcome else { return }
      for item in answer.items { output.raw(item.json) }
    }
    output.endObject()
    return Self.answer(output)
  }

  func lookUpSubscriptions() async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    let identifiers = try LookupSubscriptionsRequest.identifiers(of: try document())
    let ask = LookupSubscriptionsRequest.body(of: identifiers)
    let outcomes = await outcomes(of: try await places()) { _ in ask }
    if let answer = try wholeAnswer(outcomes) { return answer }
    return Self.answer(merged(outcomes.map { ($0, Array(identifiers.indices)) }, identifiers: identifiers, count: identifiers.count))
  }

  func modifySubscriptions() async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    let json = try document()
    let operations = json["operations"]?.elements ?? []
    guard json["operations"]?.kind == .array, operations.count <= Limit.operationsPerRequest, Self.namesEachOnce(operations) else {
      // What is wrong with the request as a whole the caller's own worker says.
      return try await forwarding.forward(request, body: body)
    }
    // Where a subscription is that is to be deleted, or made anew elsewhere, nobody knows but who has it.
    let everywhere = try await places()
    var made: [(owner: String, indices: [Int])] = []
    var deleted: [(index: Int, identifier: String)] = []
    for (index, operation) in operations.enumerated() {
      if operation["operationType"]?.string == "delete", let identifier = Self.identifier(of: operation) {
        deleted.append((index, identifier))
        continue
      }
      let owner = try owner(of: operation)
      if let part = made.firstIndex(where: { $0.owner == owner }) { made[part].indices.append(index) } else { made.append((owner, [index])) }
    }
    // Each part is the same however the others are, so that a repetition of the request is one of its parts, too.
    let places = made.map(\.indices)
    var parts = zip(await outcomes(of: made.map(\.owner)) { Self.body(of: places[$0], in: operations) }, places).map { ($0, $1) }
    if !deleted.isEmpty {
      let body = SubscriptionOperation.deletions(of: deleted.map(\.identifier))
      parts += await outcomes(of: everywhere, suffix: ":delete") { _ in body }.map { ($0, deleted.map(\.index)) }
    }
    if let answer = try wholeAnswer(parts.map(\.0)) { return answer }
    for part in made { await deleteElsewhere(part.indices.compactMap { operations[$0]["subscription"]?["subscriptionID"]?.string }, butAt: part.owner, everywhere) }
    let identifiers = operations.map { $0["subscription"]?["subscriptionID"]?.string }
    return Self.answer(merged(parts, identifiers: identifiers, count: operations.count))
  }

  /// nil where a worker would refuse the operation: the caller's own says so.
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

  /// A subscription that watches a zone of somebody else's now watches nothing where it was. Who can't be reached has one too many until it is deleted.
  private func deleteElsewhere(_ identifiers: [String], butAt owner: String, _ everywhere: [String]) async {
    let others = everywhere.filter { $0 != owner }
    if identifiers.isEmpty || others.isEmpty { return }
    let body = SubscriptionOperation.deletions(of: identifiers)
    _ = await outcomes(of: others, suffix: ":elsewhere") { _ in body }
  }

  /// The database's own are the caller's; the others live where their zone is.
  private func owner(of operation: JSONValue) throws(RecordError) -> String {
    guard let subscription = operation["subscription"], subscription.kind == .object, subscription["subscriptionType"]?.string?.lowercased() != "database"
    else { return caller }
    return owner(of: try ZoneReference(of: subscription))
  }

  /// Operations on one subscription could be parted; a worker refuses them together.
  private static func namesEachOnce(_ operations: [JSONValue]) -> Bool {
    let names = operations.compactMap { $0["subscription"]?["subscriptionID"]?.string }
    return Set(names).count == names.count
  }

  /// One item for each of the request's: of several workers' the first that is no error; what one that is away may have is not said to be missing.
  private func merged(_ outcomes: [(Outcome, indices: [Int])], identifiers: [String?], count: Int) -> JSONWriter {
    var items: [Int: PartAnswer.Item] = [:]
    var failures: [Int: RecordError] = [:]
    for (outcome, indices) in outcomes {
      switch outcome {
      case .refused: continue
      case .away(let error): for index in indices { failures[index] = error }
      case .answered(let answer):
        for (index, item) in zip(indices, answer.items) where items[index]?.serverErrorCode != nil || items[index] == nil { items[index] = item }
      }
    }
    var output = JSONWriter(reservingByteCount: 1024)
    output.beginObject()
    output.array("subscriptions", of: 0..<count) { index, output in
      if let error = failures[index], items[index].map({ $0.serverErrorCode == ServerErrorCode.notFound.rawValue }) ?? true {
        Subscription.writeError(error, of: (index < identifiers.count ? identifiers[index] : nil) ?? "", to: &output)
      } else if let item = items[index] {
        output.raw(item.json)
      }
    }
    output.endObject()
    return output
  }
}
