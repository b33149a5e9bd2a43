// Reads the kept states of records one after the other, and counts what it reads: a record may have thousands of large
// ones.

package import RecordStore
import Records

/// Reads past states in pages, for one request or one batch of exports.
package final class PastReader {
  private let snapshot: any ShardSnapshot
  /// The bytes of all records that were read, with a share for each row.
  package private(set) var byteCount = 0

  private static let pageCount = 100
  private static let pageByteCount = 256 << 10
  /// The work for a row beside its fields, in bytes.
  private static let rowByteCount = 256

  package init(_ snapshot: any ShardSnapshot) { self.snapshot = snapshot }

  /// Counts a row that the caller read itself.
  func count(_ stored: StoredRecord) { byteCount += stored.record.fields.byteCount + Self.rowByteCount }

  /// The next past states of a record that were replaced after `sequence`; empty behind the last one.
  fileprivate func page(of recordName: String, in zone: Int64, after sequence: Int64, limit: Int = pageCount) throws
    -> [PastState]
  {
    let page = try snapshot.pastStates(
      of: recordName, in: zone, after: sequence, limit: limit, byteLimit: Self.pageByteCount)
    for state in page { count(state.stored) }
    return page
  }

  /// The present state, which nothing has replaced.
  fileprivate func present(_ recordName: String, in zone: Int64) throws -> PastState? {
    guard let stored = try snapshot.record(named: recordName, in: zone) else { return nil }
    count(stored)
    return PastState(stored: stored, until: .max, replacedAt: .max)
  }

  /// The state of a record at a sequence; nil if there was none, or none is kept.
  package func state(of recordName: String, in zone: Int64, at sequence: Int64) throws -> PastState? {
    let state =
      try page(of: recordName, in: zone, after: sequence, limit: 1).first ?? present(recordName, in: zone)
    return state.flatMap { $0.stored.sequence <= sequence ? $0 : nil }
  }
}

/// The kept states of a record in all zones that it was in, ascending: those that held after a sequence. The first ones
/// may be from before it, and the last one is the present state.
package struct KeptPast {
  /// The states in one zone.
  private struct Part {
    let recordName: String
    let zone: StoredZone
    let reader: PastReader
    private var after: Int64
    /// The page that was read, the last state first.
    private var page: [PastState] = []
    private var isRead = false
    /// nil behind the last state.
    private(set) var next: PastState?

    init(of recordName: String, in zone: StoredZone, after sequence: Int64, by reader: PastReader) throws {
      self.recordName = recordName
      self.zone = zone
      self.reader = reader
      after = sequence
      try advance()
    }

    mutating func advance() throws {
      if page.isEmpty, !isRead {
        page = try reader.page(of: recordName, in: zone.key, after: after).reversed()
        if let last = page.first {
          after = last.until
        } else {
          isRead = true
          page = try [reader.present(recordName, in: zone.key)].compactMap(\.self)
        }
      }
      next = page.popLast()
    }
  }

  private var parts: [Part]

  package init(of recordName: String, in zones: [StoredZone], after sequence: Int64, by reader: PastReader) throws {
    parts = try zones.map { try Part(of: recordName, in: $0, after: sequence, by: reader) }
  }

  package mutating func next() throws -> (zone: StoredZone, state: PastState)? {
    var first: (index: Int, state: PastState)?
    for (index, part) in parts.enumerated() {
      guard let state = part.next else { continue }
      if let known = first, known.state.stored.sequence <= state.stored.sequence { continue }
      first = (index, state)
    }
    guard let (index, state) = first else { return nil }
    try parts[index].advance()
    return (parts[index].zone, state)
  }
}
