// What became of the pushes to each device, since this notifier began. A pure value.

import JSON

struct PushRecords: Sendable {
  private struct Record: Sendable {
    /// Of the latest attempt, and of the latest that the vendor took. Milliseconds since 1970.
    var at: Int64 = 0
    var lastPush: Int64?
    var delivered = 0
    var failed = 0
    var lastFailure: String?
  }

  /// Beyond this number the half of the devices that was not woken for longest is forgotten.
  static let limit = 20_000
  private static let reasonCharacterLimit = 200

  /// Milliseconds since 1970.
  private let since: Int64
  private var records: [Int64: Record] = [:]

  init(since: Int64) { self.since = since }

  /// - Parameters:
  ///   - registration: `PushRegistration.id`
  ///   - now: milliseconds since 1970.
  mutating func note(_ outcome: PushOutcome, of registration: Int64, at now: Int64) {
    var record = records[registration] ?? Record()
    record.at = now
    switch outcome {
    case .delivered:
      record.delivered += 1
      record.lastPush = now
    case .gone: return forget(registration)
    case .later(_, _, let reason), .refused(let reason):
      record.failed += 1
      record.lastFailure = String(reason.prefix(Self.reasonCharacterLimit))
    }
    if records.count >= Self.limit, records[registration] == nil { makeRoom() }
    records[registration] = record
  }

  mutating func forget(_ registration: Int64) { records[registration] = nil }

  private mutating func makeRoom() {
    let middle = records.values.map(\.at).sorted()[records.count / 2]
    let kept = records.filter { $0.value.at > middle }
    // All of one moment are as old as each other.
    records = kept.count < records.count ? kept : [:]
  }

  /// The body of an answer to `FetchPushRecords`.
  func json(of registrations: some Sequence<Int64>) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("since", since)
    writer.key("pushes")
    writer.beginArray()
    for registration in registrations {
      guard let record = records[registration] else { continue }
      writer.beginObject()
      writer.member("registration", registration)
      if let last = record.lastPush { writer.member("lastPush", last) }
      writer.member("delivered", record.delivered)
      writer.member("failed", record.failed)
      if let reason = record.lastFailure { writer.member("lastFailure", reason) }
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }
}
