// Reads persistent history (H3, H4), for any client with a token and for registered consumers (H8).

import History
import JSON
import Mirroring
import RecordStore
package import Records
import ServiceBus
import ServiceKit
import WebServices
package import ZoneCommit

extension StoreCall {
  package func fetchHistory() async throws(RecordError) -> PlaneAnswer {
    let asked = try HistoryRequest(request.query)
    if let consumer = asked.consumer { try await acknowledge(asked.after, by: consumer) }
    let (mirror, first) = try await read { snapshot -> (StoredMirror, Int64) in
      let mirror = try self.mirror(in: snapshot)
      let standing = try asked.consumer.map { name in
        HistoryPosition.transactionNumber(try Self.consumer(name, of: mirror, in: snapshot).transactionNumber)
      }
      return (
        mirror,
        try (asked.after ?? standing).map { try $0.number(.after, of: mirror, in: snapshot) }
          ?? mirror.purgedTransactionNumber
      )
    }
    let inliner = asked.resultType.hasValues ? try await inliner(for: mirror) : nil
    var page = HistoryWriter(
      values: MirrorValueWriter(assets: assetLinks), storeIdentifier: storeIdentifier, resultType: asked.resultType)
    var last = first
    var looked = 0
    var byteCount = 0
    var moreComing = true
    reading: while looked < asked.limit, byteCount < Self.historyByteLimit, !Task.isCancelled {
      let (rows, end): ([StoredTransaction], Int64)
      do throws(RecordError) {
        (rows, end) = try await self.rows(
          of: mirror, after: last, limit: min(HistoryRequest.pageLimit, asked.limit - looked))
      } catch {
        // Answer the rows found so far; the next request meets the error again.
        if looked > 0 { break }
        throw error
      }
      for row in rows {
        byteCount += row.payload.count
        if var found = asked.filter.apply(to: try decoded(row, of: mirror)) {
          if let inliner { found.transaction = await inliner.inlinedApart(found.transaction, of: request.party) }
          let encoded = page.encoded(found, number: row.number, token: mirror.historyToken(row.number))
          guard page.hasRoom(for: encoded) else { break reading }
          page.add(found, encoded)
        }
        last = row.number
      }
      looked += rows.count
      if rows.isEmpty || last >= end {
        moreComing = false
        break
      }
    }
    return PlaneAnswer(body: page.finish(historyToken: mirror.historyToken(last), moreComing: moreComing))
  }

  /// The payloads that a call looks at, whatever its filter leaves of them. The next call goes on behind them.
  private static let historyByteLimit = 16 << 20

  /// The next transactions, as many as an answer takes, and the number of the last one. If a purge overtakes the call,
  /// the token of the next request is refused.
  private func rows(of mirror: StoredMirror, after number: Int64, limit: Int) async throws(RecordError) -> (
    [StoredTransaction], last: Int64
  ) {
    try await read { snapshot in
      let current = try self.mirror(in: snapshot)
      guard current.incarnation == mirror.incarnation, current.purgedTransactionNumber <= number else {
        throw Self.expired
      }
      let rows = try snapshot.transactions(
        of: mirror.key, after: number, limit: limit, byteLimit: Limit.requestByteCount / 2)
      return (rows, current.lastTransactionNumber)
    }
  }

  func decoded(_ row: StoredTransaction, of mirror: StoredMirror) throws(RecordError) -> HistoryTransaction {
    do {
      return try HistoryTransaction(decoding: row.payload)
    } catch {
      context.log.error(
        "a history transaction can't be read", ["mirror": .integer(mirror.key), "transaction": .integer(row.number)])
      throw RecordError(.internalError, "Transaction \(row.number) of the store can't be read")
    }
  }

  /// The answer to a token older than the kept history (H4).
  static let expired = RecordError(
    .badRequest, "The history token is older than the history that is kept", cocoaErrorCode: .historyTokenExpired,
    httpStatus: 410)
}

extension HistoryPosition {
  /// The number of the last transaction before the position: `after` starts behind it, `before` ends with it.
  /// - Throws: 410 with 134301 for a position that was purged or is older than the store's reset (H4).
  func number(_ side: Side, of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws -> Int64 {
    switch self {
    case .token(let token):
      guard let position = token.positions.first, position.incarnation == mirror.incarnation else {
        throw StoreCall.expired
      }
      return try Self.kept(position.sequence, of: mirror)
    case .date(let date):
      // Clocks may go back: stop before the first transaction of that time, so that none is skipped or purged early.
      let time = side == .after && date < .max ? date + 1 : date
      let next =
        try snapshot.firstTransaction(of: mirror.key, appendedAtOrAfter: time) ?? mirror.lastTransactionNumber + 1
      return max(next - 1, mirror.purgedTransactionNumber)
    case .transactionNumber(let number): return try Self.kept(side == .after ? number : number - 1, of: mirror)
    case .transactionID(let identifier):
      guard let transaction = try snapshot.transaction(withID: identifier, of: mirror.key) else {
        throw StoreCall.expired
      }
      return side == .after ? transaction.number : transaction.number - 1
    }
  }

  private static func kept(_ number: Int64, of mirror: StoredMirror) throws(RecordError) -> Int64 {
    guard number >= mirror.purgedTransactionNumber else { throw StoreCall.expired }
    guard number <= mirror.lastTransactionNumber else { throw SyncToken.Refusal.unknownType.recordError }
    return number
  }
}
