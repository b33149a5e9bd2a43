// The record plane's shared database: sends the parts of a request to the owners' workers, and merges their answers.

import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

/// One request of a participant to the shared database. The participant's own worker answers parts that name no other
/// owner, and has no zones for them.
struct SharedDatabase: Sendable {
  let call: RecordRoute
  /// As it would go to the caller's own worker.
  let request: DatabaseRequest
  let body: [UInt8]
  let caller: String
  let forwarding: Forwarding
  let owners: SharedOwners
  /// Memory that this request uses beside its body.
  let holding: PartBudget.Holding

  /// Owners asked at a time.
  static let parallelCount = 8
  /// Bytes reserved for an owner's answer before it has come.
  private static let expectedByteCount = 128 * 1024
  /// Once answers have this many bytes, the owners still to be asked answer with as little as possible.
  static let pageByteCount = 3_000_000

  /// - Throws: a fault of the whole request, or the first failure when no owner's worker answered.
  func answer() async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    switch call {
    case .listZones, .listZonesAsDocumented: try await listZones()
    case .lookUpZones: try await lookUpZones()
    case .fetchZoneChanges: try await fetchZoneChanges()
    case .fetchDatabaseChanges: try await fetchDatabaseChanges(tokenKeys: ["syncToken"])
    case .fetchChangedZones: try await fetchDatabaseChanges(tokenKeys: ["metaSyncToken", "syncToken"])
    case .listSubscriptions, .listSubscriptionsAsDocumented: try await listSubscriptions()
    case .lookUpSubscriptions: try await lookUpSubscriptions()
    case .modifySubscriptions: try await modifySubscriptions()
    case .modifyRecords, .queryRecords, .lookUpRecords, .fetchRecordChanges, .rereferenceAssets: try await askOwner()
    // The caller's own worker refuses calls that the shared database does not offer.
    case .modifyZones, .prepareZip, .startCopy, .checkCopy: try await forwarding.forward(request, body: body)
    }
  }

  /// Passes a request about one zone on unchanged.
  private func askOwner() async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    let zoneOwner = try holding.reading(body) { body throws(RecordError) in
      let json = try JSONValue.request(body)
      // Without a zone, an empty result could not be told from one without matching records.
      if call == .queryRecords, json["zoneID"]?.isNull ?? true, json["zoneWide"]?.bool == true {
        throw RecordError(.badRequest, "A query of the shared database must name its zone")
      }
      return owner(of: try ZoneReference(of: json))
    }
    return try await forwarding.forward(asked(of: zoneOwner), body: body)
  }

  // MARK: Owners

  /// The owner to ask about a zone; the caller when the zone names no valid owner: the caller has no zone of that name
  /// here.
  func owner(of zone: ZoneReference) -> String {
    guard let owner = zone.ownerRecordName, (1...Limit.nameByteCount).contains(owner.utf8.count),
      owner != DatabaseID.publicOwner
    else { return caller }
    return owner
  }

  /// - Parameter suffix: of the request's identifier; tells several requests to one owner apart.
  func asked(of owner: String, suffix: String = "") -> DatabaseRequest {
    let database = DatabaseID(
      container: request.database.container, environment: request.database.environment, owner: owner)
    return DatabaseRequest(
      request.route, query: request.query, database: database, scope: .shared, caller: request.caller,
      requestID: request.requestID + suffix, baseURL: request.baseURL)
  }

  func sharedZones() async throws(RecordError) -> [FetchSharedZones.Reply.Owner] {
    try await owners.zones(of: caller, request.database.container, request.database.environment)
  }

  // MARK: Asking

  /// The parsed body. Its memory counts until the request is answered.
  /// - Throws: `badRequest`; `throttled` or `tryAgainLater` when there is no room for it.
  func document() throws(RecordError) -> JSONValue {
    try holding.grow(by: PartBudget.Holding.documentFactor * body.count)
    return try JSONValue.request(body)
  }

  /// The outcome of one owner's part.
  enum Outcome: Sendable {
    case answered(AnswerParts, byteCount: Int)
    /// The worker refused the request; its answer becomes the answer of the whole request.
    case refused(Answer<DatabaseRequest.Reply>)
    /// The owner's shard is away or can't answer; the other answers count without it.
    case away(RecordError)
  }

  /// Asks several owners, at most `parallelCount` at a time.
  /// - Parameter body: makes the part for the owner at an index, only when that owner is asked.
  /// - Returns: one outcome per owner, in the owners' order.
  func outcomes(of owners: [String], suffix: String = "", body: @escaping @Sendable (_ index: Int) -> [UInt8]) async
    -> [Outcome]
  {
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
      return owners.indices.map {
        outcomes[$0] ?? .away(RecordError(.internalError, "The gateway asked no worker for an owner"))
      }
    }
  }

  private func outcome(of owner: String, _ body: [UInt8], _ suffix: String) async -> Outcome {
    do throws(RecordError) {
      // The part's bytes exist twice: here and on the bus.
      let expected = Self.expectedByteCount + 2 * body.count
      try holding.grow(by: expected)
      defer { holding.shrink(by: expected) }
      let answer = try await forwarding.forward(asked(of: owner, suffix: suffix).inParts, body: body)
      // A fault of one owner's data is no fault of the request.
      if answer.reply.status >= 500 || answer.reply.status == RecordError(.throttled, "").status {
        return .away(answer.reply.error ?? Self.silence)
      }
      guard (200..<300).contains(answer.reply.status) else { return .refused(answer) }
      try holding.grow(by: answer.body.count)
      return .answered(
        try AnswerParts(answer.body, contentType: answer.reply.contentType), byteCount: answer.body.count)
    } catch {
      return .away(error)
    }
  }

  private static let silence = RecordError(.tryAgainLater, "The owner's data can't be reached at the moment")

  /// The answer that stands for the whole request, if a worker refused it; nil when the parts are to be merged.
  /// - Throws: the first failure when all failed.
  func wholeAnswer(_ outcomes: [Outcome]) throws(RecordError) -> Answer<DatabaseRequest.Reply>? {
    for case .refused(let answer) in outcomes { return answer }
    let failures = outcomes.compactMap { if case .away(let error) = $0 { error } else { nil } }
    if let failure = failures.first, failures.count == outcomes.count { throw failure }
    return nil
  }

  static func answer(_ output: JSONWriter) -> Answer<DatabaseRequest.Reply> {
    Answer(DatabaseRequest.Reply(status: 200), body: output.bytes)
  }
}

extension JSONWriter {
  /// Writes an object's member that is an array.
  mutating func array<Elements: Sequence>(
    _ name: String, of elements: Elements, write: (Elements.Element, inout JSONWriter) -> Void
  ) {
    key(name)
    beginArray()
    for element in elements { write(element, &self) }
    endArray()
  }
}
