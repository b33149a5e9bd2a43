// Registered consumers of a store's history on the wire (H8).

public import JSON
public import Records

/// `PUT consumers/{name}`
public struct RegisterConsumerRequest: Hashable, Sendable {
  /// The position up to which the consumer has processed the history; nil: its present end.
  public let position: HistoryPosition?

  public init(_ body: JSONValue) throws(RecordError) {
    position = try body.optionalString("historyToken").map { text throws(RecordError) in
      .token(try HistoryPosition.token(text))
    }
  }
}

/// A consumer in answers.
public struct ConsumerAnswer: Hashable, Sendable {
  public let name: String
  public let historyToken: String
  /// Milliseconds since 1970.
  public let seenAt: Int64
  /// A forced purge removed the history at its position: it holds nothing back any more and must start over.
  public let isExpired: Bool

  public init(name: String, historyToken: String, seenAt: Int64, isExpired: Bool) {
    self.name = name
    self.historyToken = historyToken
    self.seenAt = seenAt
    self.isExpired = isExpired
  }

  private func writeMembers(to writer: inout JSONWriter) {
    writer.member("name", name)
    writer.member("historyToken", historyToken)
    writer.member("lastSeen", MirrorDate.text(seenAt))
    writer.member("expired", isExpired)
  }

  public var json: [UInt8] { StoreAnswer.object { writeMembers(to: &$0) } }

  /// `GET consumers`
  /// - Parameter lowWaterMark: the token up to which the history may be purged.
  public static func list(_ consumers: [ConsumerAnswer], lowWaterMark: String) -> [UInt8] {
    StoreAnswer.object { writer in
      writer.key("consumers")
      writer.beginArray()
      for consumer in consumers {
        writer.beginObject()
        consumer.writeMembers(to: &writer)
        writer.endObject()
      }
      writer.endArray()
      writer.member("lowWaterMark", lowWaterMark)
    }
  }
}
