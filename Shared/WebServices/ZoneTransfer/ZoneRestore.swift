// `POST zones/{zone}/restore`: the time to restore, and the progress of a restore in pages.

public import JSON
public import Records

public struct ZoneRestoreRequest: Hashable, Sendable {
  public enum Target: Hashable, Sendable {
    /// A sequence number of the database, from an export's header or from an answer of this call.
    case sequence(Int64)
    /// The last sequence number at that time, in milliseconds since 1970.
    case date(Int64)
  }

  public let target: Target
  /// The value in the first answer: changes after it are left alone.
  public let through: Int64?
  /// The value in the last answer.
  public let after: Int64?

  /// - Throws: `BAD_REQUEST` with the key.
  public init(_ body: JSONValue) throws(RecordError) {
    let (sequence, text) = (try body.optionalInteger("sequence"), try body.optionalString("date"))
    switch (sequence, text) {
    case (let sequence?, nil): target = .sequence(sequence)
    case (nil, let text?):
      guard let milliseconds = MirrorDate.milliseconds(text) else {
        throw RecordError(.badRequest, "date must be a date like 2026-11-20T07:33:24.123Z")
      }
      target = .date(milliseconds)
    default: throw RecordError(.badRequest, "the time is missing: send either a sequence or a date")
    }
    through = try body.optionalInteger("through")
    after = try body.optionalInteger("after")
    // A date could mean another sequence number on the second page than on the first.
    if after != nil, through == nil || sequence == nil {
      throw RecordError(.badRequest, "after needs the sequence and through of the answer before")
    }
  }
}

/// The result of one page of a restore.
public struct ZoneRestoreAnswer: Hashable, Sendable {
  /// The sequence number to which the zone is restored.
  public var sequence: Int64
  public var through: Int64
  /// The position up to which the restore has come.
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
