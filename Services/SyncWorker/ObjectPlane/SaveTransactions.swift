// Handles a client's save: checks it, makes it durable and answers it; the export is queued right behind it.

package import Assets
package import History
import JSON
import Mirroring
package import RecordStore
package import Records
import ServiceBus
package import ServiceKit
import WebServices
package import ZoneCommit

extension StoreCall {
  package func saveTransactions(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let waitsForExport: Bool
    switch request.query["wait"] {
    case nil: waitsForExport = false
    case "export": waitsForExport = true
    default: throw RecordError(.badRequest, "wait must be export")
    }
    let mirror = try await locate()
    guard mirror.defaultZoneName != nil else {
      throw RecordError(
        .badRequest, "Failed to assign an object to a record zone: a shared store needs a zone that was shared",
        cocoaErrorCode: .noZoneAssigned)
    }
    let (model, schema) = try await model(of: mirror)
    let reader = TransactionReader(
      model: model.index, entityNames: model.entityNames(inConfiguration: mirror.configuration), now: now,
      assets: assetReader)
    var large = LargeValues(
      assets: context.assets, expiry: AssetLifetime.uploadExpiry(at: now),
      thresholdByteCount: context.assetThresholdByteCount)
    let json = try JSONValue.request(body)
    var transactions = try reader.transactions(json)
    try await date(&transactions, json, of: mirror)
    if PreservedValues.areAsked(by: transactions, model) {
      let saved = transactions
      let run = try await exportRun(for: mirror)
      transactions = try await read { snapshot in
        let added = try PreservedValues.added(to: saved, of: try self.mirror(in: snapshot), run, in: snapshot)
        try run.contents.complete()
        return added
      }
    }
    transactions = try await large.moved(out: transactions, into: store.shard, of: request.party, log: context.log)

    let rows = transactions.map {
      SavedRow(
        transactionID: $0.transactionID, author: $0.author, payload: $0.encoded(),
        isEncrypted: model.index.isEncrypted($0.changes), assets: $0.assets)
    }
    let at = now
    let quota = StorageQuota(of: request.caller, in: request.database, standard: context.commits.userQuota)
    let changes = quota == nil ? [] : transactions.map { (id: $0.transactionID, changes: $0.changes) }
    // In the append's group commit, unless that is full. A refused append leaves it nothing to do.
    let run = ExportRun(
      mirrorKey: mirror.key, shard: store.shard, database: request.database, model: model, schema: schema,
      context: context, quota: quota,
      recent: Dictionary(
        zip(transactions, rows).map { ($0.transactionID, RecentTransaction(transaction: $0, payload: $1.payload)) },
        uniquingKeysWith: { first, _ in first }),
      contents: large.contents)
    // The permissions that the export will judge by.
    let check = SaveCheck(
      transactions, run: run,
      permissions: request.database.isPublic ? schema.permissions(ofAbsentUser: mirror.userRecordName) : nil)
    let lookups = { @Sendable in rows.map { ExpectedLookup.transaction($0.transactionID, mirror: mirror.key) } }
    let appending = AnnouncedBody(expecting: lookups) { transaction in
      try check.callAsFunction(of: mirror, in: transaction)
      // A repeated save counted against the quota when it was new.
      let new = try changes.filter { try transaction.transactionNumber(of: $0.id, in: mirror.key) == nil }
      try quota?.check(new.flatMap(\.changes), of: mirror, in: transaction)
      return try Self.append(rows, to: mirror, at: at, in: transaction)
    }
    // While a store's exports have to wait, only a call that waits for the export runs one.
    let exporting = AnnouncedBody(expecting: { run.lookups(of: mirror) }) { try run.callAsFunction($0) }
    let append: PendingCommit<(numbers: [Int64], last: Int64)>
    let export: PendingCommit<ExportOutcome>?
    if throttledUntil(mirror) == nil {
      (append, export) = store.enqueue(appending, followedBy: exporting)
    } else {
      (append, export) = (store.enqueue(appending), nil)
    }
    startNext()
    let followed = await follow(export, of: mirror, waits: waitsForExport)
    let appended: (numbers: [Int64], last: Int64)
    do {
      appended = try await append.value
    } catch let violation as UniquenessViolation {
      return PlaneAnswer(
        status: ServerErrorCode.uniqueFieldError.row.httpStatus,
        body: StoreAnswer.uniquenessRefusal(
          violation.conflicts.map { ($0.recordName, $0.entity, $0.reason, $0.winner) }, uuid: request.uuid))
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
    // The append had to wait for contents, and its export did not.
    if append.wasQueuedAgain { exports.signal(.backlog(mirrorKey: mirror.key), on: store.shard) }
    let exported =
      waitsForExport
      ? try await exported(through: appended.last, of: appended.numbers.max(), mirror, run, after: followed) : nil
    return PlaneAnswer(
      body: StoreAnswer.saved(
        zip(rows, appended.numbers).map { ($0.transactionID, $1) }, historyToken: mirror.historyToken(appended.last),
        event: exported?.event.map { self.event($0) },
        syncToken: exported?.syncToken))
  }

  /// Notes in each transaction which changes of others its edits knew of: those before the import token that comes
  /// with it, or else those that the store had been sent by then.
  private func date(_ transactions: inout [HistoryTransaction], _ body: JSONValue, of mirror: StoredMirror)
    async throws(RecordError)
  {
    let tokens = try TransactionReader.importTokens(body)
    if !tokens.isEmpty {
      try await read { snapshot in
        guard let database = try snapshot.database(request.database) else { throw missing }
        for token in tokens.values { _ = try ImportPosition(token, of: database) }
      }
    }
    let progress = await imports.delivery(to: held(mirror))
    for index in transactions.indices {
      let timestamp = transactions[index].timestamp
      let base =
        tokens[index]?.positions.first?.sequence ?? progress?.position(at: timestamp, storeSetUpAt: mirror.createdAt)
        ?? mirror.importedSequence
      // What is sent again is older than every edit.
      let time = transactions[index].isSentAgain ? 0 : timestamp
      transactions[index].edit = EditTime.edit(time, savedAt: now, base: base)
    }
  }

  /// A transaction as it is stored.
  package struct SavedRow: Sendable {
    package let transactionID: String
    package let author: String?
    package let payload: [UInt8]
    package let isEncrypted: Bool
    package let assets: [Asset]

    package init(transactionID: String, author: String?, payload: [UInt8], isEncrypted: Bool, assets: [Asset]) {
      self.transactionID = transactionID
      self.author = author
      self.payload = payload
      self.isEncrypted = isEncrypted
      self.assets = assets
    }
  }

  /// Appends all rows or none. A transaction that was saved before keeps its first number and is not stored again.
  /// - Returns: the number of each transaction, and the last number of the store.
  package static func append(
    _ rows: [SavedRow], to mirror: StoredMirror, at: Int64, in transaction: any ShardTransaction
  ) throws -> (numbers: [Int64], last: Int64) {
    // The store was reset or forgotten since it was looked up; its successor is for the next request.
    guard let current = try transaction.mirror(key: mirror.key), current.incarnation == mirror.incarnation else {
      throw RecordError(.notFound, "The store was reset or removed while the request was under way")
    }
    guard current.lease == mirror.lease else { throw Self.fenced(until: 0, at: at) }
    var last = current.lastTransactionNumber
    let numbers = try rows.map { row in
      if let earlier = try transaction.transactionNumber(of: row.transactionID, in: mirror.key) { return earlier }
      last += 1
      try transaction.append(
        StoredTransaction(
          number: last, transactionID: row.transactionID, author: row.author, appendedAt: at, payload: row.payload,
          isEncrypted: row.isEncrypted),
        assets: row.assets, to: mirror.key)
      return last
    }
    return (numbers, last)
  }

  /// Follows an export that was queued right behind a save: in this call if it waits, else in the shard's loop.
  /// - Returns: the outcome; nil when the call does not wait or the export failed. A retry meets the same failure.
  package func follow(_ export: PendingCommit<ExportOutcome>?, of mirror: StoredMirror, waits: Bool) async
    -> ExportOutcome?
  {
    guard let export = export.map({ ExportStart(mirrorKey: mirror.key, commit: $0) }) else { return nil }
    if waits { return await ExportReport(store: store, context: context, exports: exports).follow(export) }
    exports.started(export, on: store.shard)
    return nil
  }

  /// Waits until the export of a store's transactions up to `number` is committed.
  /// - Parameters:
  ///   - own: the transaction whose event is returned.
  ///   - followed: the outcome of the batch queued with the save: mostly nothing else is to do.
  /// - Returns: the event of the run that exported `own` (nil when that wrote nothing or is forgotten), and a token
  ///   that covers its writes; nil when the export did not end within 30 s.
  package func exported(
    through number: Int64, of own: Int64?, _ mirror: StoredMirror, _ run: ExportRun, after followed: ExportOutcome?
  ) async throws(RecordError) -> (event: StoredEvent?, syncToken: String?)? {
    let deadline = now + Self.exportWait
    if let followed, let own, followed.hasExported(own), followed.exportedNumber >= number {
      return (followed.event, followed.syncToken?.text)
    }
    var run = run
    while now <= deadline {
      if let until = throttledUntil(mirror) {
        if until > deadline { return nil }
        await context.pause(.milliseconds(until - now))
        continue
      }
      // Runs behind the batch queued with the save, and mostly finds that done.
      let outcome = try await export(run)
      outcome.publish(by: context)
      run.advance(after: outcome)
      if outcome.exportedNumber >= number, outcome.running == nil {
        return try await read { snapshot in
          let token = try snapshot.database(key: mirror.databaseKey).map {
            SyncToken(.database, incarnation: $0.incarnation, sequence: $0.sequence).text
          }
          if let own, outcome.hasExported(own) { return (outcome.event, token) }
          return (try own.flatMap { try context.recentExports.event(of: $0, id(of: mirror), in: snapshot) }, token)
        }
      }
    }
    return nil
  }

  /// Milliseconds that a call waits for its export.
  private static let exportWait: Int64 = 30_000

  /// Commits a batch. A failure is signalled to the shard's loop, which sets the pause for the store.
  func export(_ run: ExportRun) async throws(RecordError) -> ExportOutcome {
    do {
      return try await run.commit(to: store)
    } catch {
      exports.signal(
        .failed(mirrorKey: run.mirrorKey, ExportFailure(error), running: run.running, isDrain: false), on: store.shard)
      throw RecordError(storing: error, log: context.log)
    }
  }

  /// Until when the store's exports have to wait, in milliseconds since 1970; nil when they need not.
  package func throttledUntil(_ mirror: StoredMirror) -> Int64? {
    exports.throttledUntil(mirror.key, on: store.shard, at: now)
  }

  /// - Throws: `TRY_AGAIN_LATER` while the store's exports have to wait.
  func checkThrottle(of mirror: StoredMirror) throws(RecordError) {
    guard let until = throttledUntil(mirror) else { return }
    throw RecordError(
      .tryAgainLater, "The store's changes can't be exported yet", retryAfter: Int((until - now + 999) / 1000))
  }

  /// An export from stored transactions alone, as a drain or a reset runs it.
  func exportRun(for mirror: StoredMirror) async throws(RecordError) -> ExportRun {
    let (model, schema) = try await model(of: mirror)
    let quota =
      isGuest
      ? await ownersQuota()
      : StorageQuota(of: request.caller, in: request.database, standard: context.commits.userQuota)
    return ExportRun(
      mirrorKey: mirror.key, shard: store.shard, database: request.database, model: model, schema: schema,
      context: context, quota: quota)
  }
}

/// Moves large values of transactions into assets before anything is queued: history rows stay small, and the writer's
/// thread neither hashes nor syncs the values.
///
/// The export knows the record, so it decides between field and asset (R8). It takes the bytes of an inline value from
/// `contents`, or from the asset's file after a restart.
package struct LargeValues {
  private let assets: any AssetStore
  /// When a written asset without a transaction expires: seconds since 1970.
  private let expiry: Int64
  /// Contents that may still become inline fields, by hash.
  private(set) var contents: [[UInt8]: [UInt8]] = [:]

  /// - Parameter thresholdByteCount: the size that always makes an asset (`ObjectContext.assetThresholdByteCount`).
  package init(assets: any AssetStore, expiry: Int64, thresholdByteCount: Int?) {
    self.assets = assets
    self.expiry = expiry
    valueByteCount = min(Self.valueByteCount, (thresholdByteCount ?? .max) - 1)
  }

  /// A value of more bytes is moved on its own account.
  private let valueByteCount: Int
  private static let valueByteCount = 100_000
  /// A change of more bytes is likely to fill its record: all but its small values are moved.
  private static let changeByteCount = 600_000
  private static let smallByteCount = 1_000

  /// - Parameters:
  ///   - shard: the shard whose writer uses the assets next.
  ///   - party: whose turn the calls take.
  package mutating func moved(out transactions: [HistoryTransaction], into shard: Int, of party: String, log: Log)
    async throws(RecordError) -> [HistoryTransaction]
  {
    var moved = transactions
    if hasLarge(transactions) {
      let unmoved = self
      do throws(AssetError) {
        (moved, contents) = try await assets.apart(of: party) { _ throws(AssetError) in
          var values = unmoved
          return (try values.moved(out: transactions), values.contents)
        }
      } catch {
        throw RecordError(storing: error, log: log)
      }
    }
    try await assets.prepare(moved.flatMap(\.assets), for: shard, of: party, log: log)
    return moved
  }

  private func hasLarge(_ transactions: [HistoryTransaction]) -> Bool {
    transactions.contains { $0.changes.contains { byteCount(of: $0) > valueByteCount } }
  }

  private func byteCount(of change: HistoryChange) -> Int {
    change.attributes.reduce(0) { $0 + $1.value.contentByteCount }
  }

  private mutating func moved(out transactions: [HistoryTransaction]) throws(AssetError) -> [HistoryTransaction] {
    var moved = transactions
    for (index, transaction) in transactions.enumerated() {
      for (position, change) in transaction.changes.enumerated() {
        let byteCount = byteCount(of: change)
        guard byteCount > valueByteCount else { continue }
        let limit = byteCount > Self.changeByteCount ? min(Self.smallByteCount, valueByteCount) : valueByteCount
        moved[index].changes[position] = try self.moved(out: change, above: limit)
      }
    }
    return moved
  }

  private mutating func moved(out change: HistoryChange, above limit: Int) throws(AssetError) -> HistoryChange {
    var attributes: [NamedValue<AttributeValue>] = []
    attributes.reserveCapacity(change.attributes.count)
    for attribute in change.attributes {
      guard let content = attribute.value.content, content.count > limit else {
        attributes.append(attribute)
        continue
      }
      let asset = try assets.put(content, until: expiry)
      if content.count <= Limit.inlineRecordByteCount { contents[asset.hash] = content }
      attributes.append(NamedValue(name: attribute.name, value: .asset(asset)))
    }
    return HistoryChange(
      changeType: change.changeType, entity: change.entity, objectID: change.objectID, attributes: attributes,
      relationships: change.relationships,
      tombstone: change.tombstone)
  }
}

extension AttributeValue {
  /// Bytes of a value that could be an asset; 0 for others.
  fileprivate var contentByteCount: Int {
    switch self {
    case .string(let text), .uri(let text): text.utf8.count
    case .binary(let bytes): bytes.count
    default: 0
    }
  }

  fileprivate var content: [UInt8]? {
    switch self {
    case .string(let text), .uri(let text): Array(text.utf8)
    case .binary(let bytes): bytes
    default: nil
    }
  }
}
