// The record plane's shared database: requests about zones of others go to the owners' workers, and their answers come back as one.

import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

/// One request of a participant to his shared database. His own worker has the part that names no other owner; it finds no zones there.
struct SharedDatabase: Sendable {
  /// As it would be asked of the caller's own worker.
  let request: DatabaseRequest
  let body: [UInt8]
  let caller: String
  let forwarding: Forwarding
  let owners: SharedOwners
  /// What this request keeps in memory beside its body.
  let holding: PartBudget.Holding

  /// Owners asked at a time.
  static let parallelCount = 8
  /// What an owner's answer counts before it is there.
  private static let expectedByteCount = 128 * 1024
  /// Memory of a parsed document for each byte of its text, at worst.
  private static let documentFactor = 9
  /// Bytes of answers after which the owners that are still to be asked answer as little as they can.
  static let pageByteCount = 3_000_000

  /// - Throws: what is wrong with the whole request, or that none of its owners' workers answered.
  func answer() async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    switch request.path.joined(separator: "/") {
    case "zones/list": try await listZones()
    case "zones/lookup": try await lookUpZones()
    case "changes/zone": try await fetchZoneChanges()
    case "changes/database": try await fetchDatabaseChanges(tokenKeys: ["syncToken"])
    case "zones/changes": try await fetchDatabaseChanges(tokenKeys: ["metaSyncToken", "syncToken"])
    case "subscriptions/list": try await listSubscriptions()
    case "subscriptions/lookup": try await lookUpSubscriptions()
    case "subscriptions/modify": try await modifySubscriptions()
    case "records/modify", "records/query", "records/lookup", "records/changes", "assets/rereference": try await askOwner()
    // What is not offered here the caller's own worker says.
    default: try await forwarding.forward(request, body: body)
    }
  }

  /// A request about one zone, passed on as it came.
  private func askOwner() async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    let json = try JSONValue.request(body)
    // No records would be told from none that match.
    if request.path.last == "query", json["zoneID"]?.isNull ?? true, json["zoneWide"]?.bool == true {
      throw RecordError(.badRequest, "A query of the shared database names its zone")
    }
    return try await forwarding.forward(asked(of: owner(of: try ZoneReference(of: json))), body: body)
  }

  // MARK: Owners

  /// Whom a zone is asked of: its owner, or the caller, who has no zone of that name here.
  func owner(of zone: ZoneReference) -> String {
    guard let owner = zone.ownerRecordName, (1...Limit.nameByteCount).contains(owner.utf8.count), owner != DatabaseID.publicOwner else { return caller }
    return owner
  }

  /// - Parameter suffix: of the request's identifier: tells several requests to one owner apart.
  func asked(of owner: String, suffix: String = "") -> DatabaseRequest {
    let database = DatabaseID(container: request.database.container, environment: request.database.environment, owner: owner)
    return DatabaseRequest(
      plane: request.plane, method: request.method, path: request.path, query: request.query, database: database, scope: .shared, caller: request.caller,
      requestID: request.requestID + suffix, baseURL: request.baseURL)
  }

  func sharedZones() async throws(RecordError) -> [FetchSharedZones.Reply.Owner] {
    try await owners.zones(of: caller, request.database.container, request.database.environment)
  }

  // MARK: Asking

  /// The request's body, parsed, as long as the request is answered.
  /// - Throws: `badRequest`; `throttled` or `tryAgainLater` when there is no room for it.
  func document() throws(RecordError) -> JSONValue {
    try holding.grow(by: Self.documentFactor * body.count)
    return try JSONValue.request(body)
  }

  /// What became of one owner's part.
  enum Outcome: Sendable {
    case answered(PartAnswer)
    /// The worker refused the request: what it says is the answer.
    case refused(Answer<DatabaseRequest.Reply>)
    /// The owner's shard is away for now, or can't answer: the others' answers are good without it.
    case away(RecordError)
  }

  /// Asks some owners at once.
  /// - Parameter body: of the part with an index in `owners`; made when its owner is asked, and gone when he has answered.
  /// - Returns: in the order of the owners.
  func outcomes(of owners: [String], suffix: String = "", body: @escaping @Sendable (_ index: Int) -> [UInt8]) async -> [Outcome] {
    await withTaskGroup(of: (index: Int, outcome: Outcome).self) { group in
      var next = 0
      func ask() {
        guard next < owners.count else { return }
        let (index, owner) = (next, owners[next])
        next += 1
        group.addTask {
          let outcome = await outcome(of: owner, body(index), suffix)
          return (index, outcome)
        }
      }
      for _ in 0..<Self.parallelCount { ask() }
      var outcomes: [Int: Outcome] = [:]
      while let (index, outcome) = await group.next() {
        outcomes[index] = outcome
        ask()
      }
      return owners.indices.map { outcomes[$0] ?? .away(RecordError(.internalError, "An owner was not asked")) }
    }
  }

  private func outcome(of owner: String, _ body: [UInt8], _ suffix: String) async -> Outcome {
    do throws(RecordError) {
      // Its bytes once here and once on the bus.
      let expected = Self.expectedByteCount + 2 * body.count
      try holding.grow(by: expected)
      defer { holding.shrink(by: expected) }
      let answer = try await forwarding.forward(asked(of: owner, suffix: suffix), body: body)
      // What is wrong with one owner's data is not wrong with the request.
      if answer.reply.status >= 500 || answer.reply.status == RecordError(.throttled, "").status { return .away(Self.error(of: answer)) }
      guard (200..<300).contains(answer.reply.status) else { return .refused(answer) }
      try holding.grow(by: answer.body.count)
      // Dropped because a worker whose answer can't be read is as good as away.
      guard let json = try? JSONValue(parsing: answer.body) else { return .away(RecordError(.internalError, "A worker's answer can't be read")) }
      return .answered(PartAnswer(json, byteCount: answer.body.count))
    } catch {
      return .away(error)
    }
  }

  private static func error(of answer: Answer<DatabaseRequest.Reply>) -> RecordError {
    let dictionary = try? JSONValue(parsing: answer.body)
    return RecordError(
      dictionary?["serverErrorCode"]?.string.flatMap(ServerErrorCode.init(rawValue:)) ?? .tryAgainLater,
      dictionary?["reason"]?.string ?? "The owner's data can't be reached at the moment", retryAfter: answer.reply.retryAfter)
  }

  /// What stands for the whole request: a refusal; or that nobody answered.
  /// - Throws: the first failure when all failed.
  func wholeAnswer(_ outcomes: [Outcome]) throws(RecordError) -> Answer<DatabaseRequest.Reply>? {
    for case .refused(let answer) in outcomes { return answer }
    let failures = outcomes.compactMap { if case .away(let error) = $0 { error } else { nil } }
    if let failure = failures.first, failures.count == outcomes.count { throw failure }
    return nil
  }

  static func answer(_ output: JSONWriter) -> Answer<DatabaseRequest.Reply> { Answer(DatabaseRequest.Reply(status: 200), body: output.bytes) }
}

/// What one owner's worker answered. The items' bytes, and not the parsed document, which takes many times their memory.
struct PartAnswer: Sendable {
  struct Item: Sendable {
    let json: [UInt8]
    /// Of an item that is an error.
    let serverErrorCode: String?
  }

  /// Of `zones` or `subscriptions`.
  let items: [Item]
  let syncToken: String?
  let moreComing: Bool
  /// Of the answer as it came.
  let byteCount: Int

  init(_ answer: JSONValue, byteCount: Int) {
    items =
      (answer["zones"] ?? answer["subscriptions"])?.elements.map { item in
        var output = JSONWriter()
        output.value(item)
        return Item(json: output.bytes, serverErrorCode: item["serverErrorCode"]?.string)
      } ?? []
    syncToken = answer["syncToken"]?.string
    moreComing = answer["moreComing"]?.bool == true
    self.byteCount = byteCount
  }
}

extension JSONWriter {
  /// An object's member that is an array.
  mutating func array<Elements: Sequence>(_ name: String, of elements: Elements, write: (Elements.Element, inout JSONWriter) -> Void) {
    key(name)
    beginArray()
    for element in elements { write(element, &self) }
    endArray()
  }
}
