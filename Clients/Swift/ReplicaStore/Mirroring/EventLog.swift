// The events of mirroring, kept in the store.

import FoundationEssentials
import MirrorWire
import SQLite

struct EventLog {
  /// Older events are forgotten.
  private static let limit: Int64 = 10_000
  private let connection: Connection

  init(_ connection: Connection) { self.connection = connection }

  func keep(_ event: MirrorEvent) throws {
    let body = [UInt8](try JSONEncoder().encode(event))
    try connection.statement(Self.upsert).binding(
      event.identifier.uuidString, event.kind.rawValue, event.startDate.milliseconds, body
    ).run()
    try connection.statement(Self.trim).binding(Self.limit).run()
  }

  /// Ends the events whose process ended before them.
  func endInterrupted(at date: Date) throws {
    for bytes in try connection.statement(Self.unended).all({ $0.blob(0) }) {
      var event = try JSONDecoder().decode(MirrorEvent.self, from: Data(bytes))
      event.endDate = date
      event.errors.append(MirrorEvent.ObjectError(object: nil, error: Self.interruption))
      try keep(event)
    }
  }

  private static let interruption = ServerError(
    status: 0, serverErrorCode: "", reason: "the process ended before it was done", ckErrorCode: 20)

  /// Adds to the counts of an event, if it is kept.
  func count(_ identifier: UUID, saved: Int, deleted: Int) throws {
    guard saved + deleted > 0,
      let bytes = try connection.statement(Self.find).binding(identifier.uuidString).first({ $0.blob(0) })
    else { return }
    var event = try JSONDecoder().decode(MirrorEvent.self, from: Data(bytes))
    event.savedCount += saved
    event.deletedCount += deleted
    try keep(event)
  }

  func events(after date: Date?, afterEvent: UUID?, kind: MirrorEvent.Kind?) throws -> [MirrorEvent] {
    let number =
      try afterEvent.flatMap { try connection.statement(Self.number).binding($0.uuidString).first { $0.int64(0) } } ?? 0
    let bodies = try connection.statement(Self.select).binding(
      number, date?.milliseconds ?? .min, kind.map { Int64($0.rawValue) }
    ).all { $0.blob(0) }
    return try bodies.map { try JSONDecoder().decode(MirrorEvent.self, from: Data($0)) }
  }

  private static let upsert = SQL(
    "keep event",
    "INSERT INTO event(identifier, kind, startDate, body) VALUES (?1, ?2, ?3, ?4) ON CONFLICT(identifier) DO UPDATE "
      + "SET body = ?4"
  )
  private static let trim = SQL("trim events", "DELETE FROM event WHERE number <= (SELECT max(number) FROM event) - ?")
  private static let find = SQL("find event", "SELECT body FROM event WHERE identifier = ?")
  private static let unended = SQL(
    "events without an end", "SELECT body FROM event WHERE instr(body, CAST('\"endDate\"' AS BLOB)) = 0")
  private static let number = SQL("event number", "SELECT number FROM event WHERE identifier = ?")
  private static let select = SQL(
    "events",
    "SELECT body FROM event WHERE number > ?1 AND startDate > ?2 AND (?3 IS NULL OR kind = ?3) ORDER BY number")
}
