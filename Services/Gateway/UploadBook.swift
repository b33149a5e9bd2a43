// Accounts for uploads per user, so that one user neither takes every slot nor fills the spool.

/// Uploads under way and recently uploaded bytes, by user. It has no clock: the caller passes the time.
struct UploadBook: Sendable {
  struct Limits: Hashable, Sendable {
    /// Uploads of one user at a time.
    var countPerUser = 16
    /// Bytes that one user may upload within the lifetime of a receipt; nil: no limit.
    var byteCountPerUser: Int64? = 10_000_000_000
  }

  enum Refusal: Hashable, Sendable {
    /// Too many uploads at a time.
    case slots
    /// Too many bytes; `retryAfter`: seconds until the oldest of them no longer count, ≥ 1.
    case bytes(retryAfter: Int)
  }

  private struct Row {
    var activeCount = 0
    /// Bytes that arrived, by hours since 1970, ascending.
    var hours: [(hour: Int64, byteCount: Int64)] = []
  }

  /// Beyond this number, users without an upload under way are forgotten.
  static let userLimit = 20_000

  private let limits: Limits
  /// How long bytes count. Unit: hours.
  private let memory: Int64
  private var rows: [String: Row] = [:]

  /// - Parameter memory: how long uploaded bytes count. Unit: hours.
  init(limits: Limits, memory: Int64) {
    self.limits = limits
    self.memory = memory
  }

  var userCount: Int { rows.count }

  /// Takes a slot.
  /// - Parameter now: seconds since 1970.
  /// - Returns: nil when the user has the slot.
  mutating func begin(_ user: String, now: Int64) -> Refusal? {
    if rows[user] == nil, rows.count >= Self.userLimit { rows = rows.filter { $0.value.activeCount > 0 } }
    var row = rows[user] ?? Row()
    row.hours.removeAll { $0.hour <= now / 3600 - memory }
    guard row.activeCount < limits.countPerUser else { return .slots }
    if let limit = limits.byteCountPerUser, row.hours.reduce(0, { $0 + $1.byteCount }) >= limit,
      let oldest = row.hours.first
    {
      return .bytes(retryAfter: Int(max(1, (oldest.hour + memory) * 3600 - now)))
    }
    row.activeCount += 1
    rows[user] = row
    return nil
  }

  /// Gives the slot back.
  /// - Parameter byteCount: the bytes that this upload left in the spool.
  mutating func end(_ user: String, byteCount: Int64, now: Int64) {
    guard var row = rows[user] else { return }
    row.activeCount -= 1
    let hour = now / 3600
    if byteCount > 0 {
      if row.hours.last?.hour == hour {
        row.hours[row.hours.count - 1].byteCount += byteCount
      } else {
        row.hours.append((hour, byteCount))
      }
    }
    rows[user] = row.activeCount == 0 && row.hours.isEmpty ? nil : row
  }
}
