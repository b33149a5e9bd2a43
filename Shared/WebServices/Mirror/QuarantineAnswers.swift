// Held-back exports, as clients see them (E9): the object and the reason, never its values.

public import JSON
public import Mirroring
public import Records

/// An object whose changes wait for another attempt.
public struct QuarantinedObject: Sendable {
  public let problem: MirroringProblem
  /// Milliseconds since 1970: the first and the last attempt, and the next one (nil if none is planned).
  public let firstAt: Int64
  public let lastAt: Int64
  public let attempts: Int
  public let dueAt: Int64?
  /// The zone of a record that an import left out; nil for an object that an export left out.
  public let zoneID: Zone.ID?

  public init(
    problem: MirroringProblem, firstAt: Int64, lastAt: Int64, attempts: Int, dueAt: Int64?, zoneID: Zone.ID? = nil
  ) {
    self.problem = problem
    self.firstAt = firstAt
    self.lastAt = lastAt
    self.attempts = attempts
    self.dueAt = dueAt
    self.zoneID = zoneID
  }

  public func writeMembers(to writer: inout JSONWriter) {
    writer.problemMembers(problem)
    writer.member("cause", problem.cause.name)
    writer.member("firstDate", MirrorDate.text(firstAt))
    writer.member("lastDate", MirrorDate.text(lastAt))
    writer.member("attempts", attempts)
    writer.nullable("retryDate", dueAt.map(MirrorDate.text))
    guard let zoneID else { return }
    writer.key("zoneID")
    zoneID.write(to: &writer)
  }
}

extension StoreAnswer {
  /// `POST quarantine/retry`
  public static func retried(_ count: Int) -> [UInt8] { object { $0.member("retried", count) } }
}

/// `POST quarantine/retry`
public struct RetryQuarantineRequest: Hashable, Sendable {
  /// nil for everything that is held back.
  public let objectIDs: [String]?

  public init(_ body: JSONValue?) throws(RecordError) {
    objectIDs = try body.flatMap { body throws(RecordError) in try body.optionalStrings("objectIDs") }
    if let count = objectIDs?.count, count > Limit.operationsPerRequest {
      throw RecordError(.badRequest, "objectIDs has \(count) items, the limit is \(Limit.operationsPerRequest)")
    }
  }
}
