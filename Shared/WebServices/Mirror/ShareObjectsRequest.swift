// `stores/{id}/shares`: the requests and answers about shares in a store.

public import JSON
public import Records
public import Sharing

/// `POST shares`
public struct ShareObjectsRequest: Hashable, Sendable {
  /// Each object once, in the order of the request; at least one.
  public let objectIDs: [String]
  /// The zone of the share that the objects join; nil: the objects' own share, or a new one.
  public let zone: ZoneReference?
  /// nil keeps the present title.
  public let title: String?
  public let patch: SharePatch

  /// - Throws: `BAD_REQUEST` with the key.
  public init(_ body: JSONValue) throws(RecordError) {
    objectIDs = try MoveObjectsRequest.objectIDs(of: body)
    zone = try body.member("to").map { value throws(RecordError) in try ZoneReference(value) }
    title = try body.optionalString("title")
    if let title, title.utf8.count > Self.titleByteCount {
      throw RecordError(.badRequest, "title has more than \(Self.titleByteCount) bytes")
    }
    patch = try ShareReader.request(body).patch
  }

  private static let titleByteCount = 10_000

  /// - Parameter moved: objects that the request moved into the share's zone.
  public static func answer(
    _ share: Record, tag: RecordChangeTag, by records: RecordDictionaryWriter, zone: Zone.ID, moved: [String]
  ) -> [UInt8] {
    StoreAnswer.object { writer in
      writer.key("share")
      records.write(share, tag: tag, as: .complete, to: &writer)
      StoreAnswer.writeMoved(moved, to: zone, &writer)
    }
  }

  /// `GET shares`
  public static func answer(_ shares: [(record: Record, tag: RecordChangeTag, writer: RecordDictionaryWriter)])
    -> [UInt8]
  {
    StoreAnswer.object { writer in
      writer.key("shares")
      writer.beginArray()
      for share in shares { share.writer.write(share.record, tag: share.tag, as: .complete, to: &writer) }
      writer.endArray()
    }
  }
}
