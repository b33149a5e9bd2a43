// One exchange between a store and the server at a time: what `SyncMachine` asks for, done.

package import MirrorWire
package import ReplicaStore
import FoundationEssentials

/// How a store is mirrored.
package struct MirrorOptions: Sendable {
  package var deviceName: String?
  /// By the way a zone ends: `delete`, `keep-and-pause` or `keep-and-reupload`.
  package var zonePolicy: [String: String]?
  /// Seconds of the lease on the server; nil: none.
  package var lease: Int? = 3600
  /// Large values that are fetched with their objects.
  package var eagerAssetByteCount: Int64 = 256 * 1024
  /// Changes of a page, at most 1000.
  package var pageLimit = 1000
  /// Transactions of a request, at most 1000.
  package var batchLimit = 1000
  package var hooks = MirrorHooks()

  package init() {}
}

/// What an app decides. Each has the default that loses nothing.
package struct MirrorHooks: Sendable {
  package enum RejectionDecision: Sendable { case revert, keepForLater, adoptWinner }

  package var saveRejected: (@Sendable (Rejected) async -> RejectionDecision)?
  /// A zone ended: `delete`, `pause` or `reupload` of the store's own choice; nil: what the server says.
  package var zoneEnded: (@Sendable (EndedZone, _ cached: CachedZone?) async -> EndedZone.Action)?
  /// Somebody else is signed in than the user whose objects the store has, by record names. Answers their store, which
  /// mirroring goes on with; nil: nothing is sent and imported until the former user is back.
  package var accountChanged: (@Sendable (_ former: String, _ user: String) async -> Successor?)?

  package init() {}
}

/// A store that takes the place of another user's.
package struct Successor: Sendable {
  package let store: any MirroredStore
  /// Lets go of the former store, once mirroring has.
  package let release: @Sendable () async -> Void

  package init(_ store: any MirroredStore, release: @escaping @Sendable () async -> Void) {
    self.store = store
    self.release = release
  }
}

/// What an exchange came to.
struct ExchangeResult: Sendable {
  var answer: SyncAnswer
  var savedCount = 0
  var deletedCount = 0
  var errors: [MirrorEvent.ObjectError] = []
  var progress: ImportPage.Progress?
  var openConflictCount = 0
  /// The page made something to be sent.
  var hasExports = false
  /// What to go on with in place of the store.
  var successor: Successor?
}

/// Does what the machine says. What a success tells is in the file before it answers (K2).
struct Exchange: Sendable {
  let store: any MirroredStore
  let plane: ObjectPlane
  let options: MirrorOptions
  let surroundings: Surroundings

  private static let batchByteCount = 2 * 1024 * 1024

  /// - Parameter body: throws `StoreError` of the file, or `SyncFailure` of the server.
  static func result(_ body: () async throws -> ExchangeResult) async -> ExchangeResult {
    do {
      return try await body()
    } catch let failure as SyncFailure {
      return ExchangeResult(answer: .failed(failure))
    } catch let error as StoreError {
      return ExchangeResult(answer: .failed(SyncFailure(error)))
    } catch {
      return ExchangeResult(answer: .failed(.damaged("\(error)")))
    }
  }

  // MARK: Export

  func export() async throws -> ExchangeResult {
    try await decide()
    guard var batch = try await nextBatch() else { return ExchangeResult(answer: .nothing) }
    let contents = try await store.contentsToUpload(for: batch, validAt: surroundings.now() + Contents.margin)
    if !contents.isEmpty {
      for content in contents { try await self.contents.upload(content) }
      guard let filled = try await nextBatch() else { return ExchangeResult(answer: .nothing) }
      batch = filled
    }
    let answer: SaveAnswer
    do {
      answer = try await plane.save(SaveRequest.body(try batch.bodies()))
    } catch let failure as SyncFailure {
      guard case .server(let error) = failure else { throw failure }
      if error.isAboutReceipt, !batch.receipts.isEmpty {
        try await self.contents.forgetReceipts(of: batch)
        // The save is no worse for it: the contents go again, and then the same batch.
        throw SyncFailure.transport("the server does not take the receipts of contents any more")
      }
      if error.isTooLargeForProxy, batch.transactions.count > 1 {
        // Makes it smaller, and takes none of its saves out of the outbox.
        _ = try await store.refuse(batch, at: nil, error: error)
      }
      throw failure
    }
    try await store.acknowledge(batch, historyToken: answer.historyToken)
    let figures = try await store.figures()
    let hasMore = figures.pendingTransactions > 0
    // Dropped because the list is durable, and the next import asks again.
    if !hasMore, figures.objectsToReread > 0 { _ = try? await reread() }
    return ExchangeResult(
      answer: .exported(hasMore: hasMore), savedCount: batch.savedCount, deletedCount: batch.deletedCount)
  }

  /// Sets the refused save aside, or makes the batch smaller.
  func setAside(_ error: ServerError) async throws -> ExchangeResult {
    guard let batch = try await nextBatch() else { return ExchangeResult(answer: .nothing) }
    var result = ExchangeResult(answer: .nothing)
    for rejected in try await store.refuse(batch, at: error.refusedTransaction, error: error) {
      result.errors += rejected.objects.map { MirrorEvent.ObjectError(object: $0, error: error) }
    }
    try await decide()
    // All of them, because nothing may be imported for long, and what was refused is shown until then.
    while try await reread() {}
    result.answer = .setAside(hasMore: try await hasMore())
    return result
  }

  /// Asks the app about refused saves, also about those before whose answer a process ended. Comes before anything is
  /// imported or read anew, so that a save that is kept is there as it was.
  private func decide() async throws {
    var adopting: [Rejected] = []
    for rejected in try await store.undecided() {
      switch await options.hooks.saveRejected?(rejected) ?? .revert {
      case .revert: try await store.revert(rejected.identifier)
      case .keepForLater: try await store.keep(rejected.identifier)
      case .adoptWinner: adopting.append(rejected)
      }
    }
    try await adoptWinners(of: adopting)
  }

  private func adoptWinners(of rejected: [Rejected]) async throws {
    var winners: [AnyObjectID: String] = [:]
    for duplicate in rejected.first?.error.duplicates ?? [] {
      winners[AnyObjectID(entityName: duplicate.entity, recordName: duplicate.objectID)] = duplicate.winner
    }
    // Sent again as it is, the save would be refused again.
    if winners.isEmpty {
      for one in rejected { try await store.revert(one.identifier) }
    } else {
      try await store.adopt(winners, for: rejected.map(\.identifier))
    }
  }

  private func nextBatch() async throws -> ExportBatch? {
    try await store.nextBatch(transactionLimit: options.batchLimit, byteLimit: Self.batchByteCount)
  }

  private func hasMore() async throws -> Bool { try await store.figures().pendingTransactions > 0 }

  // MARK: Import

  /// - Parameter event: of the run of pages.
  func importPage(waits: Bool, event: UUID?) async throws -> ExchangeResult {
    try await decide()
    let position = try await store.position()
    try await prolongLease(position)
    let page = try await plane.changes(after: position.importToken, limit: options.pageLimit, waits: waits)
    // The process ended between the server's reset and the file's.
    if let reset = page.reset, position.resetReason == nil {
      try await store.beginReset(reason: reset.reason)
      return ExchangeResult(answer: .imported(hasMore: true, isCaughtUp: false))
    }
    let decided = try await decided(page)
    let applied = try await store.apply(decided.page, event: event)
    var result = ExchangeResult(
      answer: .imported(hasMore: page.moreComing || decided.isResumed, isCaughtUp: page.caughtUp),
      savedCount: applied.savedCount, deletedCount: applied.deletedCount,
      errors: page.quarantined.map(MirrorEvent.ObjectError.init) + applied.errors, progress: page.progress,
      openConflictCount: page.openConflictCount, hasExports: applied.sendsAgain)
    // The page is in the file, also if a request that follows it fails.
    result.answer = await Self.result { [result] in
      try await fetchShares()
      try await reread()
      return result
    }.answer
    return result
  }

  /// Asks the app about zones that ended. The server waits for a decision if set-ups asked it to, and the next page
  /// tells what it comes to. It does not wait for zones of other people, whose objects the app may go on showing.
  private func decided(_ page: ImportPage) async throws -> (page: ImportPage, isResumed: Bool) {
    guard let decide = options.hooks.zoneEnded else { return (page, false) }
    var (page, isResumed) = (page, false)
    var cached: [CachedZone]?
    for (index, change) in page.changes.enumerated() {
      guard case .zone(var zone) = change else { continue }
      let zones = if let cached { cached } else { try await store.zones() }
      cached = zones
      let known = zones.first { $0.zoneID.isSame(as: zone.zoneID) }
      // An earlier page asked, and this one tells what was decided.
      if zone.action != .pause, known?.isPaused == true { continue }
      let decision = await decide(zone, known)
      if zone.action == .pause, decision != .pause {
        try await plane.resume(zone.zoneID, action: decision)
        isResumed = true
      } else if plane.scope == "shared", decision == .pause {
        zone.action = .pause
        page.changes[index] = .zone(zone)
      }
    }
    return (page, isResumed)
  }

  /// Fetches the shares that this page or an earlier one told to be others.
  private func fetchShares() async throws {
    guard let zones = try await store.position().staleShares else { return }
    let shares = try await plane.shares().shares
    for zone in zones {
      let share = shares.first { $0.zoneID.isSame(as: zone) }
      try await store.cacheShare(
        try share.map { share throws(WireError) in Data(try share.json()) }, permission: permission(share), of: zone)
    }
    try await store.updatePosition { $0.staleShares = nil }
  }

  private func permission(_ share: ShareRecord?) -> ZonePermission {
    guard plane.scope == "shared" else { return .owner }
    return share?.currentUserParticipant?.permission == "READ_WRITE" ? .readWrite : .readOnly
  }

  /// Asks for some objects anew, so that exports and pages go on between.
  /// - Returns: whether there were any.
  @discardableResult private func reread() async throws -> Bool {
    let objects = try await store.objectsToReread(limit: 100)
    for object in objects { try await store.reread(object, as: try await plane.object(object.recordName)) }
    return !objects.isEmpty
  }

  /// The server forgets what it told, and the file begins a second copy (K13).
  func reset() async throws -> ExchangeResult {
    let answer = try await plane.reset(reason: "ServerChangeTokenExpired")
    try await store.beginReset(reason: answer.reset.reason)
    return ExchangeResult(answer: .reset)
  }

  /// The server was restored from a backup. It is sent what it may have lost before it tells anything.
  func restore() async throws -> ExchangeResult {
    try await store.sendAgain()
    return ExchangeResult(answer: .restored)
  }

  var contents: Contents { Contents(store: store, plane: plane, surroundings: surroundings) }
}

extension ServerError {
  /// A proxy takes smaller requests than the server does.
  fileprivate var isTooLargeForProxy: Bool { status == 413 && !isOfServer }
}

extension ZoneID {
  func isSame(as other: ZoneID) -> Bool {
    zoneName == other.zoneName
      && (ownerRecordName == nil || other.ownerRecordName == nil || ownerRecordName == other.ownerRecordName)
  }
}

extension MirrorEvent.ObjectError {
  init(_ problem: ObjectProblem) {
    self.init(
      object: AnyObjectID(entityName: problem.entity, recordName: problem.objectID),
      error: ServerError(
        status: 200, serverErrorCode: problem.serverErrorCode, reason: problem.reason,
        ckErrorCode: problem.ckErrorCode, cocoaErrorCode: problem.cocoaErrorCode))
  }
}
