// Exports a zone's state at one sequence as lines of JSON, in pages, while writes go on.

import ObjectPlane
import RecordStore
import Records
import ServiceBus
import WebServices
import ZoneCommit

extension ZoneCall {
  /// `GET export`: `sequence` or `date` (default: the present one), and `after` with the `sequence` from the last line
  /// of the page before.
  ///
  /// Records come in the order of their names, which never change, so other writes make none come twice or be missed.
  /// A record that changed since comes in its earlier state.
  func export() async throws(RecordError) -> PlaneAnswer {
    let (after, wanted, date) = (request.query["after"], try number("sequence"), try date())
    if after == nil, wanted != nil, date != nil { throw RecordError(.badRequest, "send either a sequence or a date") }
    if after != nil, wanted == nil { throw RecordError(.badRequest, "after needs the sequence of the page before") }
    let limit = try limit(maximum: Self.exportLimit)
    let (database, zoneID) = (request.database, zoneID)
    let links = context.signing.links(for: request, shard: store.shard)
    let bytes = try await read { snapshot -> [UInt8] in
      let zone = try zone(in: snapshot)
      let sequence = try wanted ?? date.map { try Self.sequence(of: zone, at: $0, in: snapshot) } ?? zone.sequence
      if after == nil { try check(sequence, of: zone, through: zone.sequence, in: snapshot) }
      var page = ExportPage(
        zone: zone, sequence: sequence, horizon: try snapshot.horizon(of: zone.key) ?? zone.sequence, links: links)
      if after == nil { page.lines.header(zone: zoneID, of: database, sequence: sequence) }
      try page.fill(after: after, limit: limit, from: snapshot)
      return page.lines.bytes
    }
    return PlaneAnswer(contentType: ZoneLineWriter.contentType, body: bytes)
  }

  /// The query's `date` in milliseconds since 1970; nil if it is missing.
  private func date() throws(RecordError) -> Int64? {
    guard let text = request.query["date"] else { return nil }
    guard let milliseconds = MirrorDate.milliseconds(text) else {
      throw RecordError(.badRequest, "date must be a date like 2026-11-20T07:33:24.123Z")
    }
    return milliseconds
  }

  /// Records that a page looks at, tombstones included.
  private static let exportLimit = 2000
}

private struct ExportPage {
  let zone: StoredZone
  let sequence: Int64
  let horizon: Int64
  let links: RecordDictionaryWriter.AssetLinks
  var lines = ZoneLineWriter()
  /// By hash: a page shows the same content once.
  private var shown: Set<[UInt8]> = []

  init(zone: StoredZone, sequence: Int64, horizon: Int64, links: RecordDictionaryWriter.AssetLinks) {
    self.zone = zone
    self.sequence = sequence
    self.horizon = horizon
    self.links = links
  }

  /// Records of one read. Large ones end it earlier.
  private static let readCount = 200

  mutating func fill(after recordName: String?, limit: Int, from snapshot: any ShardSnapshot) throws {
    var last = recordName
    var looked = 0
    while looked < limit {
      let count = min(Self.readCount, limit - looked)
      let found = try snapshot.records(
        in: zone.key, afterName: last, limit: count, byteLimit: StoreCall.pageByteCount)
      for row in found.rows {
        try add(row, from: snapshot)
        last = row.record.recordName
        if let last, lines.bytes.count > StoreCall.pageByteCount { return lines.more(after: last, sequence: sequence) }
      }
      looked += found.rows.count
      if found.isAtEnd { return lines.end() }
    }
    if let last { lines.more(after: last, sequence: sequence) }
  }

  private mutating func add(_ row: StoredRecord, from snapshot: any ShardSnapshot) throws {
    var state: StoredRecord? = row
    if row.sequence > sequence {
      guard horizon <= sequence else {
        throw RecordError(
          .conflict,
          """
          The zone has changed since sequence \(sequence), and its earlier state is no longer kept: begin the export \
          again
          """
        )
      }
      state = try snapshot.state(of: row.record.recordName, in: zone.key, at: sequence)
    }
    // Shares are left out: a share is made, not copied.
    guard let state, !state.isDeleted, state.record.recordType != ReservedName.shareRecordType else { return }
    for asset in state.record.assets where shown.insert(asset.hash).inserted { lines.asset(asset, links: links) }
    lines.record(state.record)
  }
}
