// `POST zones/{zone}/restore` on the wire: to when, and how far a restore of many pages has come.

public import JSON
public import Records

public struct ZoneRestoreRequest: Hashable, Sendable {
  public enum Target: Hashable, Sendable {
    /// A sequence of the database, as an export's header or an answer of this call shows it.
    case sequence(Int64)
    /// The last one at that time: milliseconds since 1970.
    case date(Int64)
  }

  public let target: Target
  /// What the first answer said: changes after it are left alone.
  public let through: Int64?
  /// What the last answer said.
  public let after: Int64?

  /// - Throws: `BAD_REQUEST` naming the key.
  public init(_ body: JSONValue) throws(RecordError) {
    let (sequence, text) = (try body.optionalInteger("sequence"), try body.optionalString("date"))
    switch (sequence, text) {
    case (let sequence?, nil): target = .sequence(sequence)
    case (nil, let text?):
      guard let milliseconds = MirrorDate.milliseconds(text) else { throw RecordError(.badRequest, "date must be a date like 2026-11-20T07:33:24.123Z") }
      target = .date(milliseconds)
    default: throw RecordError(.badRequest, "say to when: either a sequence or a date")
    }
    through = try body.optionalInteger("through")
    after = try body.optionalInteger("after")
    // By a date the second page could mean another sequence than the first.
    if after != nil, through == nil || sequence == nil { throw RecordError(.badRequest, "after goes with the sequence and through of the answer before") }
  }
}

/// What a page of a restore did.
public struct ZoneRestoreAnswer: Hashable, Sendable {
  /// To where.
  public var sequence: Int64
  public var through: Int64
  /// How far it has come.
  public var after: Int64
  public var restoredCount = 0
  public var deletedCount = 0
  public var moreComing = false

  public init(sequence: Int64, through: Int64, after: Int64) {
    self.sequence = sequence
    self.through = through
    self.after = after
  }

  public var json: [UInt8] {
    StoreAnswer.object { writer in
      writer.member("restored", restoredCount)
      writer.member("deleted", deletedCount)
      writer.member("sequence", sequence)
      writer.member("through", through)
      writer.member("after", after)
      writer.member("moreComing", moreComing)
    }
  }
}
