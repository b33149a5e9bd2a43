// Keeps registered consumers, which read a store's history at their own pace, and the low-water mark they hold (H8).

import JSON
import Mirroring
package import RecordStore
package import Records
import ServiceBus
import WebServices
package import ZoneCommit

/// The number up to which a store's history may be purged without loss for any consumer.
package struct LowWaterMark: Sendable {
  package let transactionNumber: Int64
  /// The consumer at that number; nil for the export.
  let consumer: String?

  /// Takes the lowest of the positions of the export and the consumers. A consumer whose place was purged has to start
  /// over and holds nothing.
  package init(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws {
    var number = mirror.exportedTransactionNumber
    var holder: String?
    for consumer in try snapshot.consumers(of: mirror.key)
    where !consumer.isExpired(in: mirror) && consumer.transactionNumber < number {
      (number, holder) = (consumer.transactionNumber, consumer.name)
    }
    transactionNumber = number
    consumer = holder
  }

  /// The refusal of a purge beyond the mark.
  func refusal(of mirror: StoredMirror) -> RecordError {
    let reason =
      consumer.map { "consumer '\($0)' has not processed all transactions up to there" }
      ?? "some transactions up to there are not exported yet"
    return RecordError(
      .badRequest,
      "before: \(reason); the low-water mark is \(mirror.historyToken(transactionNumber)), force=true goes beyond it")
  }
}

extension StoredConsumer {
  func isExpired(in mirror: StoredMirror) -> Bool { transactionNumber < mirror.purgedTransactionNumber }

  fileprivate func answer(in mirror: StoredMirror) -> ConsumerAnswer {
    ConsumerAnswer(
      name: name, historyToken: mirror.historyToken(transactionNumber), seenAt: seenAt, isExpired: isExpired(in: mirror)
    )
  }
}

extension StoreCall {
  /// Consumers of one store, each of which holds its history.
  private static let consumerLimit = 100
  /// Milliseconds by which a consumer's last visit may be out of date, so that reading history seldom writes.
  private static let seenPrecision: Int64 = 3_600_000

  package func fetchConsumers() async throws(RecordError) -> PlaneAnswer {
    let (mirror, consumers, mark) = try await read { snapshot -> (StoredMirror, [StoredConsumer], LowWaterMark) in
      let mirror = try self.mirror(in: snapshot)
      return (mirror, try snapshot.consumers(of: mirror.key), try LowWaterMark(of: mirror, in: snapshot))
    }
    return PlaneAnswer(
      body: ConsumerAnswer.list(
        consumers.map { $0.answer(in: mirror) }, lowWaterMark: mirror.historyToken(mark.transactionNumber)))
  }

  /// Registers a consumer or moves it to the body's position, also backwards: a consumer may start over.
  package func registerConsumer(_ name: String, startNext: @Sendable () -> Void) async throws(RecordError)
    -> PlaneAnswer
  {
    if let problem = RecordName.problem(name, kind: "the consumer's name") { throw RecordError(.badRequest, problem) }
    let position = try RegisterConsumerRequest(try JSONValue.request(body)).position
    let at = now
    let commit = store.enqueue { transaction -> ConsumerAnswer in
      let mirror = try self.mirror(in: transaction)
      let number = try position?.number(.after, of: mirror, in: transaction) ?? mirror.lastTransactionNumber
      let known = try transaction.consumers(of: mirror.key)
      guard known.count < Self.consumerLimit || known.contains(where: { $0.name == name }) else {
        throw RecordError(.badRequest, "The store has \(known.count) consumers already: remove one first")
      }
      let consumer = StoredConsumer(name: name, transactionNumber: number, seenAt: at)
      try transaction.put(consumer, of: mirror.key)
      return consumer.answer(in: mirror)
    }
    startNext()
    return PlaneAnswer(body: try await value(of: commit).json)
  }

  package func removeConsumer(_ name: String, startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer
  {
    let commit = store.enqueue { transaction in
      let mirror = try self.mirror(in: transaction)
      _ = try Self.consumer(name, of: mirror, in: transaction)
      try transaction.deleteConsumer(named: name, of: mirror.key)
    }
    startNext()
    try await value(of: commit)
    return PlaneAnswer(body: StoreAnswer.empty)
  }

  /// Notes a consumer's position and its visit. A late request does not move it back.
  func acknowledge(_ position: HistoryPosition?, by name: String) async throws(RecordError) {
    let at = now
    let mustWrite = try await read { snapshot in
      let mirror = try self.mirror(in: snapshot)
      return try Self.progress(of: name, to: position, mirror, at: at, in: snapshot) != nil
    }
    guard mustWrite else { return }
    try await value(
      of: store.enqueue { transaction in
        let mirror = try self.mirror(in: transaction)
        if let consumer = try Self.progress(of: name, to: position, mirror, at: at, in: transaction) {
          try transaction.put(consumer, of: mirror.key)
        }
      })
  }

  /// The consumer's row to store; nil when it does not change.
  private static func progress(
    of name: String, to position: HistoryPosition?, _ mirror: StoredMirror, at: Int64, in snapshot: any ShardSnapshot
  ) throws -> StoredConsumer? {
    var consumer = try consumer(name, of: mirror, in: snapshot)
    let number = try position?.number(.after, of: mirror, in: snapshot) ?? consumer.transactionNumber
    guard number > consumer.transactionNumber || at - consumer.seenAt > seenPrecision else { return nil }
    consumer.transactionNumber = max(number, consumer.transactionNumber)
    consumer.seenAt = at
    return consumer
  }

  static func consumer(_ name: String, of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws -> StoredConsumer
  {
    guard let found = try snapshot.consumers(of: mirror.key).first(where: { $0.name == name }) else {
      throw RecordError(.notFound, "The store has no consumer '\(name.prefix(Limit.nameByteCount))': register it first")
    }
    return found
  }
}
