// What notifiers tell of the pushes to devices, beside the registrations that the directory has.

import JSON

struct PushRecordList: Sendable {
  /// The members of each registration's record.
  private var records: [Int64: JSONValue] = [:]
  /// The time from which all notifiers that answered count, in milliseconds since 1970; nil when none did.
  private(set) var since: Int64?
  private(set) var silent: [String] = []

  init() {}

  init(_ reports: [ProcessReport]) {
    // A device that another notifier wakes by now has two records: the latest push tells which one goes on.
    for (_, record) in reports.elements(of: "pushes") {
      guard let registration = record["registration"]?.int64 else { continue }
      let isLater = Self.lastPush(record) >= (records[registration].map(Self.lastPush) ?? .min)
      if isLater { records[registration] = record }
    }
    since = reports.compactMap { $0.content?["since"]?.int64 }.max()
    silent = reports.silent
  }

  private static func lastPush(_ record: JSONValue) -> Int64 { record["lastPush"]?.int64 ?? 0 }

  /// Within the registration's object.
  func write(_ registration: Int64, to writer: inout JSONWriter) {
    guard let record = records[registration] else { return }
    for name in ["lastPush", "delivered", "failed", "lastFailure"] {
      guard let value = record[name] else { continue }
      writer.key(name)
      writer.value(value)
    }
  }
}
