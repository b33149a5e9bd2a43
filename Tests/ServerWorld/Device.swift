// A device: its imported objects, its unacknowledged saves, and its requests. It follows the rules of a correct client
// and shares no code with the product's importer.

import Foundation
import JSON
import ObjectModel
import Records
import ServiceBus

final class Device {
  /// A locally saved transaction.
  struct Pending {
    let transactionID: String
    let changes: [Change]
    /// The JSON that is sent, with the same bytes each time.
    let json: String
  }

  let store: String
  let user: String
  let scope: DatabaseScope
  private let server: Server
  private let shape: ModelShape
  /// Imported and acknowledged changes.
  private(set) var base: Replica
  /// The new copy that a reset imports into.
  private var shadow: Replica?
  var isBeginningAnew: Bool { shadow != nil }
  private(set) var token: String?
  private(set) var pending: [Pending] = []
  /// The number of `pending` transactions that were sent and whose fate is unknown.
  private(set) var inFlightCount = 0
  /// This many are sent one by one, because their batch was refused.
  private var singleCount = 0
  private(set) var isSetUp = false
  /// True when the device's latest import reached the end.
  private(set) var isCaughtUp = false
  /// Refused transactions, for reports.
  private(set) var refusals: [String] = []
  /// The bodies of sent requests, for a network that repeats one later.
  private(set) var sentBodies: [String] = []
  /// Plants a flaw.
  var flaw: Flaw?
  /// True when objects are in several zones, so that the device asks for the zones of new ones.
  var asksForZones = false
  /// The latest answer that was neither a page nor an acknowledgement.
  private(set) var trouble = ""
  /// The number of changes in all pages so far.
  private(set) var heardCount = 0
  private var saveCount = 0
  private var resetCount = 0
  /// A reset without an answer yet.
  private var openReset: String?

  enum Flaw: String, CaseIterable, Sendable {
    /// Ignores deletions in pages.
    case ignoresDeletions
    /// Ignores removed links.
    case ignoresUnlinks
    /// Stores a page's token but not the page.
    case losesPages
    /// Sends an unanswered transaction again under another name.
    case renamesTransactions
    /// Treats the two directions of a link as two links.
    case doublesLinks
  }

  init(_ store: String, user: String, scope: DatabaseScope = .private, server: Server, shape: ModelShape) {
    self.store = store
    self.user = user
    self.scope = scope
    self.server = server
    self.shape = shape
    base = Replica(shape)
  }

  /// The user's view.
  var view: Replica {
    var view = base
    for transaction in pending { view.apply(transaction.changes) }
    return view
  }

  // MARK: Saving

  /// Saves locally; nothing is sent.
  @discardableResult
  func save(_ changes: [Change]) -> String? {
    guard !changes.isEmpty else { return nil }
    saveCount += 1
    let id = "\(store)-\(saveCount)"
    pending.append(Pending(transactionID: id, changes: changes, json: json(id, changes)))
    return id
  }

  private func json(_ id: String, _ changes: [Change]) -> String {
    let token = token.map { #","importToken":"\#($0)""# } ?? ""
    return
      #"""
      {"transactionID":"\#(id)","timestamp":"\#(Dates.text(server.time.now))","author":"app"\#(token),\#
      "changes":[\#(changes.map(\.json).joined(separator: ","))]}
      """#
  }

  enum Fate: String, Sendable { case answered, answerLost, requestLost }

  /// Sends pending transactions, or repeats those without an answer.
  /// - Returns: true when an answer decided their fate.
  @discardableResult
  func send(limit: Int = 3, fate: Fate = .answered, waits: Bool = false, _ ledger: inout Ledger) async throws -> Bool {
    guard try await setUpIfNeeded(), try await finishReset(), isSetUp else { return false }
    guard !pending.isEmpty else { return true }
    // A store that begins anew may not send new saves.
    if inFlightCount == 0, isBeginningAnew { return false }
    if inFlightCount == 0 { inFlightCount = singleCount > 0 ? 1 : min(limit, pending.count) }
    if flaw == .renamesTransactions, let first = pending.first, sentBodies.last?.contains(first.json) == true {
      let id = "\(first.transactionID)-again"
      pending[0] = Pending(transactionID: id, changes: first.changes, json: json(id, first.changes))
    }
    if fate == .requestLost { return false }
    let batch = Array(pending.prefix(inFlightCount))
    let body = #"{"transactions":[\#(batch.map(\.json).joined(separator: ","))]}"#
    sentBodies.append(body)
    let reply = try await server.ask(
      .object, "POST", "stores/\(store)/transactions", waits ? ["wait": "export"] : [:], body, user: user, scope: scope)
    guard let reply else {
      ledger.doubt(batch.flatMap(\.changes))
      return false
    }
    if reply.status == 200 {
      for transaction in batch { ledger.accept(transaction.transactionID, transaction.changes) }
    }
    if fate == .answerLost { return false }
    switch reply.status {
    case 200:
      // Also for objects that the device lacks because no device can read them now: pages do not repeat its own
      // relationships.
      for transaction in batch { base.apply(transaction.changes, isAhead: true) }
      shadowSaved(batch)
      pending.removeFirst(batch.count)
      singleCount = max(0, singleCount - batch.count)
      inFlightCount = 0
    case 429, 503:
      trouble = reply.text
      return false
    case 404 where isStoreMissing(reply): beginAnew()
    default:
      // A refused request is forgotten, so that the network does not repeat it later.
      sentBodies.removeAll { $0 == body }
      inFlightCount = 0
      if batch.count > 1 {
        singleCount = batch.count
      } else {
        refusals.append("\(batch[0].transactionID): \(reply.status) \(reply.json["reason"]?.string ?? reply.text)")
        reject(pending.removeFirst())
        singleCount = max(0, singleCount - 1)
      }
    }
    return true
  }

  /// Drops a refused transaction and those that build on it.
  private func reject(_ refused: Pending) {
    let names = Set(refused.changes.filter { $0.kind == .insert }.map(\.objectID))
    while let index = pending.firstIndex(where: { $0.changes.contains { $0.names(names) } }) {
      refusals.append("\(pending[index].transactionID): builds on \(refused.transactionID)")
      reject(pending.remove(at: index))
    }
  }

  /// Transactions acknowledged during a reset are in no page: pages leave out the store's own latest writes, and its
  /// own links of objects that it lacks.
  private func shadowSaved(_ batch: [Pending]) {
    for transaction in batch { shadow?.apply(transaction.changes, isAhead: true) }
  }

  /// Asks for the zones of new objects, because a deleted zone takes its objects along.
  private func askForZones() async throws {
    guard asksForZones else { return }
    for id in base.objects.filter({ $0.value.zone == "" }).keys.sorted() {
      let reply = try await server.ask(.object, "GET", "stores/\(store)/objects/\(id)", user: user, scope: scope)
      var zone = reply?.json["zoneID"]?["zoneName"]?.string
      // An object whose record no device can read has a zone, too.
      if reply?.status == 404 { zone = try await zoneOfRecord(id) }
      if let zone { base.move(id, to: zone) } else if reply?.status == 404 { base.delete(id) }
    }
  }

  /// nil: there is no such record.
  private func zoneOfRecord(_ id: String) async throws -> String? {
    let reply = try await server.ask(
      .object, "POST", "stores/\(store)/records", [:], #"{"objectIDs":["\#(id)"]}"#, user: user, scope: scope)
    return reply?.json["records"]?.elements.first?["zoneID"]?["zoneName"]?.string
  }

  private func isStoreMissing(_ reply: Reply) -> Bool {
    reply.json["reason"]?.string?.hasPrefix("There is no store") ?? false
  }

  // MARK: Life of the store

  private func setUpIfNeeded() async throws -> Bool {
    if isSetUp { return true }
    let policy = #""zonePolicy":{"deleted":"delete","purged":"delete","encryptedDataReset":"delete"}"#
    let body =
      #"{"modelHash":"\#(server.modelHash)","device":{"name":"\#(store)"}\#(scope == .private ? "," + policy : "")}"#
    guard let reply = try await server.ask(.object, "PUT", "stores/\(store)", [:], body, user: user, scope: scope)
    else { return false }
    isSetUp = reply.status == 200
    if !isSetUp { refusals.append("set up: \(reply.text)") }
    return isSetUp
  }

  /// The server does not know the store any more: the device imports everything into a new copy.
  private func beginAnew() {
    isSetUp = false
    startOver()
  }

  private func startOver() {
    token = nil
    shadow = Replica(shape)
    isCaughtUp = false
  }

  /// Asks for a reset, after which everything is imported again.
  func reset(fate: Fate) async throws {
    guard try await setUpIfNeeded() else { return }
    resetCount += 1
    openReset = "\(store):reset \(resetCount)"
    if fate != .requestLost { try await finishReset(hears: fate == .answered) }
  }

  /// Repeats an open reset under the same name until it is answered; nothing else is asked before.
  /// - Returns: true when no reset is open any more.
  @discardableResult
  private func finishReset(hears: Bool = true) async throws -> Bool {
    guard let openReset else { return true }
    let reply = try await server.ask(
      .object, "POST", "stores/\(store)/reset", [:], #"{"reason":"userRequest"}"#, user: user, scope: scope,
      requestID: openReset)
    guard let reply, hears else { return false }
    if reply.status != 200 { trouble = reply.text }
    guard reply.status != 503 else { return false }
    self.openReset = nil
    if reply.status == 200 { startOver() } else if isStoreMissing(reply) { beginAnew() }
    return true
  }

  func purgeHistory(force: Bool) async throws {
    guard isSetUp else { return }
    let date = Dates.text(server.time.now + 1)
    _ = try await server.ask(
      .object, "DELETE", "stores/\(store)/history", ["beforeDate": date, "force": force ? "true" : "false"], user: user,
      scope: scope)
  }

  /// Removes the store on the server; the device notices at its next request.
  func removeStore() async throws {
    _ = try await server.ask(.object, "DELETE", "stores/\(store)", user: user, scope: scope)
  }

  /// Repeats an old request; the answer does not reach the device.
  func repeatRequest(_ body: String, _ ledger: inout Ledger) async throws {
    let reply = try await server.ask(
      .object, "POST", "stores/\(store)/transactions", [:], body, user: user, scope: scope)
    guard reply?.status == 200 else { return }
    for transaction in pending.prefix(inFlightCount) where body.contains(transaction.json) {
      ledger.accept(transaction.transactionID, transaction.changes)
    }
  }

  // MARK: Importing

  enum PageFate: String, Sendable {
    case kept
    /// The answer does not arrive.
    case lost
    /// The device stops between the page and its token.
    case tokenLost
  }

  /// Imports one page.
  /// - Returns: true when there may be another.
  @discardableResult
  func importPage(limit: Int = 200, fate: PageFate = .kept) async throws -> Bool {
    guard inFlightCount == 0, try await setUpIfNeeded(), try await finishReset() else { return false }
    isCaughtUp = false
    try await askForZones()
    var query = ["limit": String(limit)]
    if let token { query["after"] = token }
    guard let reply = try await server.ask(.object, "GET", "stores/\(store)/changes", query, user: user, scope: scope),
      fate != .lost
    else { return false }
    if reply.status != 200 { trouble = reply.text }
    switch reply.status {
    case 200: break
    case 400, 410:
      // A refused token is worthless.
      guard token != nil else { return false }
      startOver()
      return true
    case 404 where isStoreMissing(reply):
      beginAnew()
      return true
    default: return false
    }
    let page = reply.json
    heardCount += page["changes"]?.count ?? 0
    if flaw != .losesPages || (page["changes"]?.count ?? 0) != 1 {
      for change in page["changes"]?.elements ?? [] { apply(change) }
    }
    let isMore = page["moreComing"]?.bool ?? false
    guard fate == .kept else { return true }
    token = page["importToken"]?.string
    if let copy = shadow, page["reset"]?["done"]?.bool ?? !isMore {
      base = copy
      shadow = nil
    }
    isCaughtUp = page["caughtUp"]?.bool ?? false
    return isMore
  }

  private func apply(_ change: JSONValue) {
    if shadow != nil { shadow?.apply(page: change, flaw) } else { base.apply(page: change, flaw) }
  }

  /// Objects of which the server holds relationships back that would lead into other zones (R16): the device keeps
  /// them.
  func heldBack() async throws -> Set<String> {
    let reply = try await server.ask(.object, "GET", "stores/\(store)/quarantine", user: user, scope: scope)
    let rows = reply?.json["quarantined"]?.elements ?? []
    return Set(
      rows.filter { $0["reason"]?.string?.contains("names an object of the zone") ?? false }.compactMap {
        $0["objectID"]?.string
      })
  }

  /// The changes that an up-to-date device would still get: echoes.
  func echoes() async throws -> [String] {
    let reply = try await server.ask(
      .object, "GET", "stores/\(store)/changes", token.map { ["after": $0] } ?? [:], user: user, scope: scope)
    token = reply?.json["importToken"]?.string ?? token
    return (reply?.json["changes"]?.elements ?? []).map(\.line)
  }
}
