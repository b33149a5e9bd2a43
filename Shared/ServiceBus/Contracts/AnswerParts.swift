// The answers that one process puts into answers of its own: elements that only the client reads, and beside them the
// facts that the process acts on.

import MessagePack
public import Records

/// The answer to a `DatabaseRequest` that `takesParts`: a list of zones, records, subscriptions or held-back changes.
public struct AnswerParts: Codable, Sendable {
  public struct Part: Codable, Sendable {
    /// The element as its client gets it.
    public let json: [UInt8]
    private let refusal: Refusal?

    /// - Parameter error: of which the element is the text; nil for an element that is none.
    public init(json: [UInt8], error: RecordError? = nil) {
      self.json = json
      refusal = error.map(Refusal.init)
    }

    public var error: RecordError? { refusal?.error(retryAfter: nil) }
  }

  public let parts: [Part]
  /// The position after the list; nil for a list without positions.
  public let syncToken: String?
  public let moreComing: Bool

  public init(_ parts: [Part], syncToken: String? = nil, moreComing: Bool = false) {
    self.parts = parts
    self.syncToken = syncToken
    self.moreComing = moreComing
  }
}

/// The events of a store, in the order of their last change, for a stream. Answers `fetchEvents` of a `DatabaseRequest`
/// that `takesParts`.
public struct StoreEventPage: Codable, Sendable, Hashable {
  public struct Event: Codable, Sendable, Hashable {
    public let identifier: String
    /// The event as it was when it began, in JSON.
    public let begun: [UInt8]
    /// The event as it ended, in JSON; nil while it goes on.
    public let ended: [UInt8]?

    public init(identifier: String, begun: [UInt8], ended: [UInt8]?) {
      self.identifier = identifier
      self.begun = begun
      self.ended = ended
    }
  }

  public let events: [Event]
  /// The number of the last event that was read.
  public let lastEvent: String
  public let moreComing: Bool

  public init(_ events: [Event], lastEvent: String, moreComing: Bool) {
    self.events = events
    self.lastEvent = lastEvent
    self.moreComing = moreComing
  }
}

/// The form of the bodies that processes read: values in MessagePack, and not a client's JSON.
public enum AnswerForm {
  /// The content type of such a body. Workers of releases before `takesParts` answer in JSON.
  public static let contentType = "application/msgpack"

  public static func encoded(_ value: some Encodable) throws(RecordError) -> [UInt8] {
    do {
      return try MessagePackEncoder().encode(value)
    } catch {
      throw RecordError(.internalError, "the answer can't be written")
    }
  }

  public static func decoded<Value: Decodable>(_ type: Value.Type, from body: [UInt8]) throws(RecordError) -> Value {
    do {
      return try MessagePackDecoder().decode(type, from: body)
    } catch {
      throw unreadable
    }
  }

  public static let unreadable = RecordError(.internalError, "A worker's answer can't be read")
}
