// The zones that a record was in before it moved: its own field says so, and goes wherever the record goes (R17, A10).

import JSON
public import Records

/// A record's moves, the oldest first.
///
/// The field `CD_moveReceipt` holds them as JSON: `{"database": "<incarnation>", "moves": [{"zoneName", "movedAt",
/// "sequence"}]}`. A record client that reads a receipt for a zone knows that this name's tombstone there is no
/// deletion. Unreadable content is no receipt: other clients write their own.
public struct MoveReceipts: Hashable, Sendable {
  /// The record's departure from a zone.
  public struct Move: Hashable, Sendable {
    /// The zone that the record left.
    public let zoneName: String
    /// Milliseconds since 1970.
    public let movedAt: Int64
    /// The database's first sequence number of the commit that moved the record.
    public let sequence: Int64

    public init(zoneName: String, movedAt: Int64, sequence: Int64) {
      self.zoneName = zoneName
      self.movedAt = movedAt
      self.sequence = sequence
    }
  }

  /// The number of moves that a record keeps; the oldest are dropped first.
  static let limit = 16

  public private(set) var moves: [Move]

  /// - Parameter database: the database's incarnation. Receipts of another database, or from before this one began
  ///   anew, do not count.
  public init(of record: Record, in database: UInt64) {
    guard case .bytes(let payload)? = record.fields[ReservedName.moveReceipt]?.value else {
      moves = []
      return
    }
    moves = Self.moves(payload, database) ?? []
  }

  private static func moves(_ payload: [UInt8], _ database: UInt64) -> [Move]? {
    // Dropped because content of another client cannot be repaired here.
    guard let json = try? JSONValue(parsing: payload), json["database"]?.string == String(database) else { return nil }
    let moves = (json["moves"]?.elements ?? []).compactMap { json -> Move? in
      guard let zoneName = json["zoneName"]?.string, RecordName.problem(zoneName, kind: "zoneName") == nil,
        let movedAt = json["movedAt"]?.int64,
        let sequence = json["sequence"]?.int64
      else { return nil }
      return Move(zoneName: zoneName, movedAt: movedAt, sequence: sequence)
    }
    return moves.suffix(limit).sorted { $0.sequence < $1.sequence }
  }

  /// Adds a move to the record of an object; links and records of other programs have no receipts.
  public static func add(_ move: Move, to record: inout Record, in database: UInt64) {
    guard record.recordType.hasPrefix(ReservedName.recordTypePrefix), !LinkRecord.isLink(recordType: record.recordType)
    else { return }
    let receipts = MoveReceipts(of: record, in: database)
    record.fields[ReservedName.moveReceipt] = Field(.bytes(json((receipts.moves + [move]).suffix(limit), database)))
  }

  private static func json(_ moves: some Sequence<Move>, _ database: UInt64) -> [UInt8] {
    var writer = JSONWriter(reservingByteCount: 160)
    writer.beginObject()
    writer.member("database", String(database))
    writer.key("moves")
    writer.beginArray()
    for move in moves {
      writer.beginObject()
      writer.member("zoneName", move.zoneName)
      writer.member("movedAt", move.movedAt)
      writer.member("sequence", move.sequence)
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }
}

/// One store's knowledge of records' moves, which decides how an import shows them (T-P02).
public struct MoveView: Hashable, Sendable {
  /// The sequence number up to which the store has imported; 0 for a store that begins anew.
  public let told: Int64
  /// The store has been up to date at least once.
  public let hasBeenComplete: Bool
  /// The store's identifier: it knows its own objects without importing them.
  public let store: String

  public init(told: Int64, hasBeenComplete: Bool, store: String) {
    self.told = told
    self.hasBeenComplete = hasBeenComplete
    self.store = store
  }

  /// The zone in which the store knows an object that lies in another zone now; nil if the store has imported the move,
  /// or imports the object for the first time. An object made and moved since the last import also counts as moved,
  /// which does no harm to a store without it.
  ///
  /// The record in its new zone tells the move alone, so that the feeds of both zones may be read in any order. Of
  /// several moves, the first one that the store has not imported left the zone it knows.
  /// - Parameters:
  ///   - mayBeUnknown: true also reports objects that the store may know from a page of its first run, or not at all.
  ///   - sees: whether the store may know a zone.
  public func origin(
    of record: Record, _ receipts: MoveReceipts, in zoneName: String, mayBeUnknown: Bool = false, sees: (String) -> Bool
  ) -> String? {
    guard let move = receipts.moves.first(where: { $0.sequence > told && sees($0.zoneName) }), move.zoneName != zoneName
    else { return nil }
    return mayBeUnknown || hasBeenComplete || record.created.deviceID == store ? move.zoneName : nil
  }
}
