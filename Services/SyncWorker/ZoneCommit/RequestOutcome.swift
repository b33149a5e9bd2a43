// The outcome of a writing request, stored in the commit that executed it, so that its repetition changes nothing.

import Crypto
import MessagePack
package import RecordStore
package import Records
package import ServiceBus
import ServiceKit

/// The outcome of a request, without what can be read again: a repetition is answered from the records as they are.
package struct RequestOutcome: Hashable, Sendable {
  package enum Item: Hashable, Sendable {
    /// The sequence is 0 for a zone, which has none of its own.
    case saved(sequence: Int64)
    /// Deleted, or already absent.
    case deleted
    case failed(RecordError)
  }

  /// Milliseconds since 1970.
  package let at: Int64
  /// One per operation, in order.
  package let items: [Item]
  /// Names of the objects that the request moved or copied, in order.
  package var objectIDs: [String] = []

  package init(at: Int64, items: [Item], objectIDs: [String] = []) {
    self.at = at
    self.items = items
    self.objectIDs = objectIDs
  }
}

/// A request as the store remembers it.
package struct IdempotencyKey: Sendable {
  private let text: String
  /// Distinguishes a repetition from another request with the same identifier.
  private let fingerprint: [UInt8]
  /// True for one key in 64: storing such an outcome also deletes some that are over a day old, so no timer is needed.
  private let isForgettingDue: Bool

  private static let textByteCount = 18
  private static let fingerprintByteCount = 8
  private static let forgottenAtOnce = 128
  /// Milliseconds.
  private static let lifetime: Int64 = 24 * 60 * 60 * 1000

  package init(request: DatabaseRequest, body: [UInt8]) {
    var name: [UInt8] = []
    name.reserveCapacity(256)
    let (database, path) = (request.database, request.route.path)
    for part in [
      database.container.rawValue, database.environment.rawValue, database.owner, request.scope.rawValue,
      request.caller.userRecordName ?? "",
    ] {
      name += part.utf8
      name.append(0)
    }
    for index in path.indices {
      if index > 0 { name.append(UInt8(ascii: "/")) }
      name += path[index].utf8
    }
    name.append(0)
    name += request.requestID.utf8
    let digest = SHA256.hash(name)
    text = "r" + Base64.encode(Array(digest.prefix(Self.textByteCount)))
    isForgettingDue = digest[Self.textByteCount] < 4
    fingerprint = Array(SHA256.hash(body).prefix(Self.fingerprintByteCount))
  }

  /// The row that `outcome(in:)` looks up.
  package var lookup: ExpectedLookup { .outcome(text) }

  /// A name for the record that the operation at `index` makes: the same in every repetition of the request.
  package func recordName(at index: Int) -> String {
    DigestSource(digest: SHA256.hash(Array(text.utf8) + fingerprint + Array(String(index).utf8))).uuid()
  }

  /// Lends a digest the random source's spelling of a UUID.
  private struct DigestSource: RandomSource {
    let digest: [UInt8]
    func bytes(_ count: Int) -> [UInt8] { Array(digest.prefix(count)) }
  }

  /// The outcome of the request's first execution.
  /// - Throws: `BAD_REQUEST` when another request had the same identifier.
  package func outcome(in snapshot: any ShardSnapshot) throws -> RequestOutcome? {
    guard let payload = try snapshot.outcome(of: text) else { return nil }
    let (fingerprint, outcome) = try RequestOutcome.decode(payload)
    guard fingerprint == self.fingerprint else {
      throw RecordError(.badRequest, "The request identifier was used for another request")
    }
    return outcome
  }

  package func put(_ outcome: RequestOutcome, in transaction: any ShardTransaction) throws {
    try transaction.putOutcome(outcome.encoded(fingerprint: fingerprint), of: text, at: outcome.at)
    if isForgettingDue {
      _ = try transaction.forgetOutcomes(before: outcome.at - Self.lifetime, limit: Self.forgottenAtOnce)
    }
  }
}

extension RequestOutcome {
  /// `[format, fingerprint, at, [item…], [name…]]`. An item is a sequence, nil for a deletion, or `[code, reason]` with
  /// the CKError number behind them when the code does not imply it. Without object names their list is left out.
  private static let format: Int64 = 1

  fileprivate func encoded(fingerprint: [UInt8]) -> [UInt8] {
    var writer = MessagePackWriter(reservingByteCount: 32 + 8 * items.count + 40 * objectIDs.count)
    writer.arrayHeader(objectIDs.isEmpty ? 4 : 5)
    writer.integer(Self.format)
    writer.bytes(fingerprint)
    writer.integer(at)
    writer.arrayHeader(items.count)
    for item in items {
      switch item {
      case .saved(let sequence): writer.integer(sequence)
      case .deleted: writer.null()
      case .failed(let error):
        writer.arrayHeader(error.specialCKErrorCode == nil ? 2 : 3)
        writer.string(error.code.rawValue)
        writer.string(error.reason)
        if let number = error.specialCKErrorCode { writer.integer(Int64(number)) }
      }
    }
    if !objectIDs.isEmpty {
      writer.arrayHeader(objectIDs.count)
      for name in objectIDs { writer.string(name) }
    }
    return writer.bytes
  }

  fileprivate static func decode(_ payload: [UInt8]) throws -> (fingerprint: [UInt8], outcome: RequestOutcome) {
    let parts = try MessagePackValue(parsing: payload).elements
    guard (4...5).contains(parts.count), parts[0].int64 == format, let fingerprint = parts[1].bytes,
      let at = parts[2].int64
    else { throw damaged }
    return (
      fingerprint,
      RequestOutcome(
        at: at, items: try parts[3].elements.map(item),
        objectIDs: parts.count == 5 ? parts[4].elements.compactMap(\.string) : [])
    )
  }

  private static func item(_ value: MessagePackValue) throws -> Item {
    if value.isNull { return .deleted }
    if let sequence = value.int64 { return .saved(sequence: sequence) }
    let error = value.elements
    guard (2...3).contains(error.count), let code = error[0].string, let reason = error[1].string else { throw damaged }
    // A newer release's code is retryable to this one.
    return .failed(
      RecordError(
        ServerErrorCode(rawValue: code) ?? .internalError, reason,
        specialCKErrorCode: error.count == 3 ? error[2].int64.map { Int($0) } : nil))
  }

  private static var damaged: StoreError { .corrupt("a request's outcome is damaged") }
}
