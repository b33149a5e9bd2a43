// Reads the JSON with which workers of earlier releases answer other processes. It goes when `deploy/upgrades-from`
// names a commit whose workers know `DatabaseRequest.takesParts`.

public import JSON
public import Records
public import ServiceBus

/// An answer for a process. Workers of earlier releases give their clients' answer in its place.
public protocol ProcessAnswer: Decodable {
  /// - Throws: when the JSON lacks what no answer lacks.
  init(earlier json: JSONValue) throws(RecordError)
}

extension ProcessAnswer {
  /// Reads either form; the content type tells which one came.
  public init(_ body: [UInt8], contentType: String?) throws(RecordError) {
    if contentType == AnswerForm.contentType {
      self = try AnswerForm.decoded(Self.self, from: body)
      return
    }
    let json: JSONValue
    do {
      json = try JSONValue(parsing: body)
    } catch {
      throw AnswerForm.unreadable
    }
    try self.init(earlier: json)
  }
}

extension AnswerParts: ProcessAnswer {
  public init(earlier json: JSONValue) {
    let names = ["zones", "records", "subscriptions", "quarantined"]
    self.init(
      (names.lazy.compactMap { json[$0] }.first?.elements ?? []).map { element in
        Part(json: element.written, error: RecordError(earlier: element))
      },
      syncToken: json["syncToken"]?.string, moreComing: json["moreComing"]?.bool == true)
  }
}

extension StoreEventPage: ProcessAnswer {
  public init(earlier json: JSONValue) throws(RecordError) {
    guard json["events"]?.kind == .array, let lastEvent = json["lastEvent"]?.string else {
      throw AnswerForm.unreadable
    }
    self.init(
      (json["events"]?.elements ?? []).map { event in
        Event(
          identifier: event["identifier"]?.string ?? "", begun: Self.start(of: event),
          ended: event["endDate"]?.isNull == false ? event.written : nil)
      },
      lastEvent: lastEvent, moreComing: json["moreComing"]?.bool == true)
  }

  /// The event as it was posted when it began: without an end and an error.
  private static func start(of event: JSONValue) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    for (name, value) in event.members {
      writer.key(name)
      switch name {
      case "endDate", "error": writer.null()
      case "succeeded": writer.bool(false)
      case "counts":
        writer.beginObject()
        for (name, _) in value.members { writer.member(name, 0) }
        writer.endObject()
      default: writer.value(value)
      }
    }
    writer.endObject()
    return writer.bytes
  }
}

extension RecordError {
  /// nil for an element that is no error.
  fileprivate init?(earlier element: JSONValue) {
    guard let code = element["serverErrorCode"]?.string else { return nil }
    self.init(ServerErrorCode(rawValue: code) ?? .internalError, element["reason"]?.string ?? "")
  }
}

extension JSONValue {
  /// The value without white space.
  public var written: [UInt8] {
    var writer = JSONWriter()
    writer.value(self)
    return writer.bytes
  }
}
