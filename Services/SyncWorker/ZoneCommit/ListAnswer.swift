// Writes an answer that is a list, for a client or for a process that joins several lists.

package import JSON
package import Records
package import ServiceBus
import WebServices

/// A list on its way into an answer: one JSON object with the list as a member, or `AnswerParts`.
package struct ListAnswer: ~Copyable {
  private var writer: JSONWriter
  /// Where each element ends in the writer's bytes, and its error; unused for a client.
  private var ends: [(place: Int, error: RecordError?)] = []
  /// Where the first element begins.
  private let start: Int
  private let takesParts: Bool

  /// - Parameter head: writes members that precede the list.
  package init(
    _ name: String, of request: DatabaseRequest, reservingByteCount count: Int,
    head: (inout JSONWriter) -> Void = { _ in }
  ) {
    writer = JSONWriter(reservingByteCount: count)
    writer.beginObject()
    head(&writer)
    writer.key(name)
    writer.beginArray()
    start = writer.bytes.count
    takesParts = request.takesParts
  }

  /// The number of bytes written so far.
  package var byteCount: Int { writer.bytes.count }

  /// - Parameters:
  ///   - error: of which the element is the text.
  ///   - write: writes one value.
  package mutating func add<Failure>(
    _ error: RecordError? = nil, _ write: (inout JSONWriter) throws(Failure) -> Void
  ) throws(Failure) {
    try write(&writer)
    if takesParts { ends.append((writer.bytes.count, error)) }
  }

  package mutating func add(_ error: RecordError, ofRecord recordName: String) {
    add(error) { RecordDictionaryWriter.writeError(error, of: recordName, to: &$0) }
  }

  /// - Parameter tail: writes the client's members that follow the list.
  package consuming func finish(
    syncToken: String? = nil, moreComing: Bool = false, tail: (inout JSONWriter) -> Void = { _ in }
  ) throws(RecordError) -> PlaneAnswer {
    if takesParts {
      return try PlaneAnswer(forProcess: AnswerParts(parts, syncToken: syncToken, moreComing: moreComing))
    }
    writer.endArray()
    tail(&writer)
    writer.endObject()
    return PlaneAnswer(body: writer.bytes)
  }

  private var parts: [AnswerParts.Part] {
    var start = start
    return ends.map { end in
      // Elements are divided by commas.
      let json = Array(writer.bytes[start..<end.place])
      start = end.place + 1
      return AnswerParts.Part(json: json, error: end.error)
    }
  }
}

extension PlaneAnswer {
  /// An answer that a process reads.
  package init(forProcess value: some Encodable, mayWait: Bool = false) throws(RecordError) {
    self.init(contentType: AnswerForm.contentType, mayWait: mayWait, body: try AnswerForm.encoded(value))
  }
}
