// Persistent history: reading it, and purging it above a guarded mark (H3, H4, H8).

import History
import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices

extension StoreCall {
  func fetchHistory() async throws(RecordError) -> PlaneAnswer {
    let token = try historyToken("after")
    let limit = try integer("limit", default: Self.historyLimit, maximum: Self.historyLimit)
    let filter = HistoryFilter(author: request.query["author"], excludedAuthor: request.query["excludeAuthor"], entity: request.query["entity"])
    let found = try await read { snapshot -> (mirror: StoredMirror, rows: [StoredTransaction]) in
      let mirror = try mirror(in: snapshot)
      return (mirror, try snapshot.transactions(of: mirror.key, after: try Self.start(token, of: mirror), limit: limit + 1))
    }
    let values = try await inliner(for: found.mirror)
    var page = HistoryWriter(values: MirrorValueWriter(assets: assetLinks), storeIdentifier: storeIdentifier)
    let first = try Self.start(token, of: found.mirror)
    var last = first
    var moreComing = found.rows.count > limit
    for row in found.rows.prefix(limit) {
      if let transaction = filter.apply(to: try decoded(row, of: found.mirror)) {
        let encoded = page.encoded(values.inlined(transaction), number: row.number, token: found.mirror.historyToken(row.number))
        if page.hasRoom(for: encoded) {
          page.add(encoded)
        } else {
          moreComing = true
          break
        }
      }
      last = row.number
    }
    return PlaneAnswer(body: page.finish(historyToken: found.mirror.historyToken(last), moreComing: moreComing))
  }

  private static let historyLimit = 200

  func purgeHistory(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    guard let token = try historyToken("before") else { throw RecordError(.badRequest, "before is missing") }
    let isForced = try flag("force")
    let commit = store.enqueue { transaction -> Int in
      let mirror = try mirror(in: transaction)
      let number = try Self.start(token, of: mirror)
      if number > mirror.exportedTransactionNumber, !isForced {
        throw RecordError(
          .badRequest, "before: transactions up to there are not all exported; the low-water mark is \(mirror.historyToken(mirror.exportedTransactionNumber))")
      }
      return try transaction.purgeTransactions(of: mirror.key, through: number)
    }
    startNext()
    return PlaneAnswer(body: StoreAnswer.purged(try await value(of: commit)))
  }

  /// A history token, if there is one.
  private func historyToken(_ name: String) throws(RecordError) -> SyncToken? {
    guard let token = try token(name, as: .history) else { return nil }
    guard token.positions.count == 1 else { throw SyncToken.Refusal.invalidFormat.recordError }
    return token
  }

  /// The number of the last transaction a token has seen.
  /// - Throws: 410 with 134301 for one that was purged, or belongs to what the store was before a reset (H4).
  private static func start(_ token: SyncToken?, of mirror: StoredMirror) throws(RecordError) -> Int64 {
    guard let position = token?.positions.first else { return mirror.purgedTransactionNumber }
    guard position.incarnation == mirror.incarnation, position.sequence >= mirror.purgedTransactionNumber else {
      throw RecordError(
        .badRequest, "The history token is older than the history that is kept", cocoaErrorCode: .historyTokenExpired, httpStatus: 410)
    }
    guard position.sequence <= mirror.lastTransactionNumber else { throw SyncToken.Refusal.unknownType.recordError }
    return position.sequence
  }

  private func decoded(_ row: StoredTransaction, of mirror: StoredMirror) throws(RecordError) -> HistoryTransaction {
    do {
      return try HistoryTransaction(decoding: row.payload)
    } catch {
      context.log.error("a history transaction can't be read", ["mirror": .integer(mirror.key), "transaction": .integer(row.number)])
      throw RecordError(.internalError, "Transaction \(row.number) of the store can't be read")
    }
  }
}

/// What a history request wants to see.
struct HistoryFilter: Sendable {
  var author: String?
  var excludedAuthor: String?
  var entity: String?

  /// The transaction, without changes of other entities; nil when nothing of it is wanted. The token advances past it all the same (T-H10).
  func apply(to transaction: HistoryTransaction) -> HistoryTransaction? {
    if let author, transaction.author != author { return nil }
    if let excludedAuthor, transaction.author == excludedAuthor { return nil }
    guard let entity else { return transaction }
    var filtered = transaction
    filtered.changes.removeAll { $0.entity != entity }
    return filtered.changes.isEmpty ? nil : filtered
  }
}
