// The zones that a record was in before it moved: its own field says so, and goes wherever the record goes (R17, A10).

import JSON
public import Records

/// A record's moves, the oldest first.
///
/// The field `CD_moveReceipt` has them as JSON:
/// `{"database": "<incarnation>", "moves": [{"zoneName", "movedAt", "sequence"}]}`. A record client that has the receipt for a zone
/// knows that a tombstone of this name there is no deletion. What can't be read is no receipt: other clients write their own.
public struct MoveReceipts: Hashable, Sendable {
  /// That the record left a zone.
  public struct Move: Hashable, Sendable {
    /// The zone that it left.
    public let zoneName: String
    /// Milliseconds since 1970.
    public let movedAt: Int64
    /// The first sequence number of the commit that moved it, of the database.
    public let sequence: Int64

    public init(zoneName: String, movedAt: Int64, sequence: Int64) {
      self.zoneName = zoneName
      self.movedAt = movedAt
      self.sequence = sequence
    }
  }

  /// Of more the oldest are forgotten.
  static let limit = 16

  public private(set) var moves: [Move]

  /// - Parameter database: the database's incarnation: receipts of another one, or of this one before it began anew, mean nothing.
  public init(of record: Record, in database: UInt64) {
    guard case .bytes(let payload)? = record.fields[ReservedName.moveReceipt]?.value else {
      moves = []
      return
    }
    moves = Self.moves(payload, database) ?? []
  }

  private static func moves(_ payload: [UInt8], _ database: UInt64) -> [Move]? {
    // Dropped because what another client wrote there is nothing that could be mended here.
    guard let json = try? JSONValue(parsing: payload), json["database"]?.string == String(database) else { return nil }
    let moves = (json["moves"]?.elements ?? []).compactMap { json -> Move? in
      guard let zoneName = json["zoneName"]?.string, RecordName.problem(zoneName, kind: "zoneName") == nil, let movedAt = json["movedAt"]?.int64,
        let sequence = json["sequence"]?.int64
      else { return nil }
      return Move(zoneName: zoneName, movedAt: movedAt, sequence: sequence)
    }
    return moves.suffix(limit).sorted { $0.sequence < $1.sequence }
  }

  /// Adds a move to a record: objects have receipts, links and other programs' records have none.
  public static func add(_ move: Move, to record: inout Record, in database: UInt64) {
    guard record.recordType.hasPrefix(ReservedName.recordTypePrefix), !LinkRecord.isLink(recordType: record.recordType) else { return }
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

/// What one store knows of records' moves: decides what an import says of them (T-P02).
public struct MoveView: Hashable, Sendable {
  /// Everything up to here the store has been told; 0: it is told everything from the beginning.
  public let told: Int64
  /// The store had everything at least once.
  public let hasBeenComplete: Bool
  /// The store's identifier: what it made itself it knows without having imported it.
  public let store: String

  public init(told: Int64, hasBeenComplete: Bool, store: String) {
    self.told = told
    self.hasBeenComplete = hasBeenComplete
    self.store = store
  }

  /// The zone in which the store has an object that is now in another; nil: it was told, or is told of the object for the first time. One that
  /// was made since then and moved on at once is told of as moved, too, which says nothing to who has no such object.
  ///
  /// Told of by the record in its new zone alone, and so in any order of the two zones' feeds. Of several moves the first one that the store
  /// has not heard of left the zone that it knows.
  /// - Parameters:
  ///   - mayBeUnknown: also of an object that the store may know from a page of its first run, or not at all.
  ///   - sees: whether the store may know of a zone.
  public func origin(of record: Record, _ receipts: MoveReceipts, in zoneName: String, mayBeUnknown: Bool = false, sees: (String) -> Bool) -> String? {
    guard let move = receipts.moves.first(where: { $0.sequence > told && sees($0.zoneName) }), move.zoneName != zoneName else { return nil }
    return mayBeUnknown || hasBeenComplete || record.created.deviceID == store ? move.zoneName : nil
  }
}
