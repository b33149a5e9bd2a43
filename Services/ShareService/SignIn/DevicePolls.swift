// The pace at which devices may ask whether somebody has allowed their code. The caller passes the time.

import ServiceBus

/// The latest questions of devices (RFC 8628, 3.5).
struct DevicePolls: Sendable {
  /// Beyond this number the older half of the rows is forgotten.
  static let rowLimit = 20_000
  /// A device may ask this much early, because networks delay its questions differently. Unit: milliseconds.
  static let tolerance: Int64 = 500
  private static let longestInterval: Int64 = 60_000

  private var rows: [[UInt8]: (latest: Int64, interval: Int64)] = [:]

  /// Counts a question. One that comes too early makes the interval longer for all that follow.
  /// - Parameters:
  ///   - device: names the device.
  ///   - now: milliseconds since 1970.
  mutating func isEarly(_ device: [UInt8], now: Int64) -> Bool {
    var row = rows[device] ?? (latest: 0, interval: BeginDeviceSignIn.interval)
    let isEarly = now - row.latest < row.interval - Self.tolerance && now >= row.latest
    if isEarly { row.interval = min(row.interval + BeginDeviceSignIn.interval, Self.longestInterval) }
    row.latest = now
    if rows.count >= Self.rowLimit { makeRoom() }
    rows[device] = row
    return isEarly
  }

  private mutating func makeRoom() {
    let middle = rows.values.map(\.latest).sorted()[rows.count / 2]
    rows = rows.filter { $0.value.latest > middle }
  }
}
