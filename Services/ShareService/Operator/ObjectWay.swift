// An object's way as one line of time: saves, exports and imports as stores tell them, and the pings between them.

import JSON

struct ObjectWay {
  struct Step: Hashable {
    /// `saved`, `exported`, `pinged`, `imported`, `failed`, or `awaited` for a device that has not imported.
    let name: String
    /// Milliseconds since 1970; nil for what has not happened yet.
    let at: Int64?
    let store: String
    /// The store's device by its user's name for it.
    var device: String?
    var transaction: Int64?
    var properties: [String] = []
    var sequence: Int64?
    var recordChangeTag: String?
    var isDeleted = false
    var notifier: String?
    var reason: String?

    /// Steps of the same millisecond stand in the order in which they happen.
    fileprivate var order: (Int64, Int, Int64, String) {
      let rank = ["saved", "exported", "pinged", "imported", "failed"].firstIndex(of: name) ?? .max
      return (at ?? .max, rank, sequence ?? 0, store)
    }
  }

  let steps: [Step]

  /// The longest time from a change to its ping. Pings are never kept for a device that does not listen. Unit:
  /// milliseconds.
  private static let pingTime: Int64 = 60_000

  /// - Parameters:
  ///   - rows: each store's row of the workers' `explain`.
  ///   - pings: those for the object's zone.
  init(_ rows: [JSONValue], _ pings: PingList) {
    var devices: [String: String] = [:]
    for row in rows { if let store = row["store"]?.string { devices[store] = row["device"]?.string } }
    // Each store tells the exports of all others.
    let told = Set(rows.flatMap { $0["way"]?.elements ?? [] }.map { Step($0, devices) })
    let exports = told.filter { $0.name == "exported" }.sorted { $0.order < $1.order }
    let pinged = rows.compactMap { $0["store"]?.string }.flatMap { store in
      exports.compactMap { Self.ping(of: $0, to: store, devices[store], pings) }
    }
    var steps = Set(pinged)
    for var step in told {
      if step.name == "awaited", let export = exports.last {
        step.reason = Self.reason(step.store, export, pinged, pings)
      }
      steps.insert(step)
    }
    self.steps = steps.sorted { $0.order < $1.order }
  }

  private static func ping(of export: Step, to store: String, _ device: String?, _ pings: PingList) -> Step? {
    guard store != export.store, let found = first(in: pings, of: export, where: { $0.contains(store) }) else {
      return nil
    }
    return Step(
      name: "pinged", at: found.ping["at"]?.int64, store: store, device: device, sequence: export.sequence,
      recordChangeTag: export.recordChangeTag, notifier: found.notifier)
  }

  /// The first ping that told of a change.
  private static func first(in pings: PingList, of export: Step, where isTold: ([String]) -> Bool) -> (
    notifier: String, ping: JSONValue
  )? {
    pings.pings.first { _, ping in
      guard let at = ping["at"]?.int64, let sequence = ping["sequence"]?.int64 else { return false }
      return sequence >= export.sequence ?? .max && at <= (export.at ?? 0) + pingTime
        && isTold(ping["devices"]?.elements.compactMap(\.string) ?? [])
    }
  }

  /// nil when no ping of the change is kept.
  private static func reason(_ store: String, _ export: Step, _ pinged: [Step], _ pings: PingList) -> String? {
    if pinged.contains(where: { $0.store == store && $0.sequence == export.sequence }) {
      return "the device was pinged, and has not asked since"
    }
    return first(in: pings, of: export) { _ in true } == nil ? nil : "the device did not listen when the change came"
  }

  func write(to writer: inout JSONWriter) {
    writer.beginArray()
    for step in steps {
      writer.beginObject()
      writer.member("step", step.name)
      if let at = step.at { writer.member("at", at) }
      writer.member("store", step.store)
      if let device = step.device { writer.member("device", device) }
      if let transaction = step.transaction { writer.member("transaction", transaction) }
      if !step.properties.isEmpty { writer.member("properties", step.properties) }
      if let sequence = step.sequence { writer.member("sequence", sequence) }
      if let tag = step.recordChangeTag { writer.member("recordChangeTag", tag) }
      if step.isDeleted { writer.member("isDeleted", true) }
      if let notifier = step.notifier { writer.member("notifier", notifier) }
      if let reason = step.reason { writer.member("reason", reason) }
      writer.endObject()
    }
    writer.endArray()
  }
}

extension ObjectWay.Step {
  /// A step as a worker tells it.
  fileprivate init(_ value: JSONValue, _ devices: [String: String]) {
    let store = value["store"]?.string ?? ""
    self.init(
      name: value["step"]?.string ?? "", at: value["at"]?.int64, store: store, device: devices[store],
      transaction: value["transaction"]?.int64,
      properties: value["properties"]?.elements.compactMap(\.string) ?? [], sequence: value["sequence"]?.int64,
      recordChangeTag: value["recordChangeTag"]?.string, isDeleted: value["isDeleted"]?.bool ?? false,
      reason: value["reason"]?.string)
  }
}
