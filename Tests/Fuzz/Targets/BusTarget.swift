// Messages from other processes: a frame's header, and the arguments of every message and reply.

import MessagePack
import RecordStore
@testable import ServiceBus

extension FuzzTarget {
  /// Input: a header as on the wire, then the arguments. The header of a reply names the message, too.
  static let bus = FuzzTarget(name: "bus", seeds: { try seeds() }) { bytes in
    guard let frame = bytes.withUnsafeBytes(Frame.init(header:)) else { return }
    try hold(frame.headerByteCount <= bytes.count || frame.isRepaired, "a header is longer than the frame")
    var header = [UInt8](repeating: 0, count: frame.headerByteCount)
    header.withUnsafeMutableBytes { frame.writeHeader(into: $0) }
    let again = header.withUnsafeBytes(Frame.init(header:))
    try holdEqual(again, frame, "a header is read as another")
    let end = 20 + (Int(bytes[16]) | Int(bytes[17]) << 8) + (Int(bytes[18]) | Int(bytes[19]) << 8)
    let arguments = Array(bytes[end...])
    switch frame.kind {
    case .announce, .superseded:
      guard let news = try taken({ try MessagePackDecoder().decode(Announcement.self, from: arguments) }) else {
        return
      }
      try holdEqual(
        try MessagePackDecoder().decode(Announcement.self, from: MessagePackEncoder().encode(news)), news,
        "an announcement is read as another")
    case .request: try contracts.first { $0.name == frame.name }?.readRequest(arguments)
    case .reply: try contracts.first { $0.name == frame.name }?.readReply(arguments)
    case .failure: _ = String(decoding: arguments, as: UTF8.self)
    case .whoAreYou, .cancel, .drainAcknowledged, .goodbye: break
    }
  }

  /// A message with its type erased.
  private struct Contract: Sendable {
    let name: String
    /// Decodes a request; encoding the result and decoding that must give the same.
    let readRequest: @Sendable ([UInt8]) throws -> Void
    let readReply: @Sendable ([UInt8]) throws -> Void
    let request: @Sendable () throws -> [UInt8]
    let reply: @Sendable () throws -> [UInt8]

    init<Request: Message>(_ type: Request.Type) {
      name = Request.name
      readRequest = { bytes in
        guard let message = try taken({ try Request.decoded(from: bytes) }) else { return }
        _ = (message.orderingKey, message.party)
        let encoded = try message.encoded()
        try holdEqual(
          try tree(try Request.decoded(from: encoded).encoded()), try tree(encoded),
          "\(Request.name) is sent on as another")
      }
      readReply = { bytes in
        guard let reply = try taken({ try Request.decodedReply(from: bytes) }) else { return }
        let encoded = try Request.encoded(reply)
        try holdEqual(
          try tree(try Request.encoded(try Request.decodedReply(from: encoded))), try tree(encoded),
          "the reply of \(Request.name) is sent on as another")
      }
      request = { try Sampler.sample(Request.self).encoded() }
      reply = { try Request.encoded(try Sampler.sample(Request.Reply.self)) }
    }

    /// The body of an answer for a process, read as if it were a message's arguments.
    init<Body: Codable & Sendable>(body: Body.Type, _ name: String) {
      self.name = name
      let read: @Sendable ([UInt8]) throws -> Void = { bytes in
        guard let value = try taken({ try MessagePackDecoder().decode(Body.self, from: bytes) }) else { return }
        let encoded = try MessagePackEncoder().encode(value)
        let again = try MessagePackEncoder().encode(try MessagePackDecoder().decode(Body.self, from: encoded))
        try holdEqual(try tree(again), try tree(encoded), "\(name) is read as another")
      }
      (readRequest, readReply) = (read, read)
      let sample: @Sendable () throws -> [UInt8] = { try MessagePackEncoder().encode(try Sampler.sample(Body.self)) }
      (request, reply) = (sample, sample)
    }
  }

  private static let contracts: [Contract] = [
    Contract(DatabaseRequest.self), Contract(WorkerReport.self), Contract(WorkerCommand.self),
    Contract(Authenticate.self), Contract(LookUpUser.self),
    Contract(FetchSchema.self), Contract(ExtendSchema.self), Contract(OperatorRequest.self),
    Contract(FetchSecrets.self), Contract(DirectoryChanged.self),
    Contract(PublishDirectoryVersion.self), Contract(NoteSharedZones.self), Contract(BeginComparison.self),
    Contract(CompareSharedZones.self), Contract(NoteInvitations.self),
    Contract(FetchSharedZones.self), Contract(IdentifyUsers.self), Contract(SignIn.self), Contract(CheckPassword.self),
    Contract(RotateSession.self),
    Contract(VerifyGrant.self), Contract(VerifyVisit.self), Contract(ClaimSignature.self), Contract(DiscoverUsers.self),
    Contract(SignInByIdentityOnce.self),
    Contract(LocateShortGUID.self), Contract(ResolveShortGUIDs.self),
    Contract(GuestRequest.self), Contract(GuestResolve.self), Contract(OpenCourier.self),
    Contract(NotificationsDelivered.self), Contract(PushStoreChanges.self),
    Contract(PushZoneChanges.self), Contract(PushNotifications.self), Contract(CopyShard.self),
    Contract(ScrubShard.self), Contract(PublishClusterMap.self),
    Contract(FetchStanding.self), Contract(body: AnswerParts.self, "AnswerParts"),
    Contract(body: StoreEventPage.self, "StoreEventPage"),
  ]

  private static func seeds() throws -> [[UInt8]] {
    func frame(_ kind: Frame.Kind, _ name: String, _ arguments: [UInt8]) -> [UInt8] {
      let frame = Frame(kind: kind, correlation: 7, budget: 1000, name: name, key: "key")
      var header = [UInt8](repeating: 0, count: frame.headerByteCount)
      header.withUnsafeMutableBytes { frame.writeHeader(into: $0) }
      return header + arguments
    }
    let news = Announcement(peer: try Sampler.sample(Peer.self), isDraining: true)
    return [
      frame(.announce, "", try MessagePackEncoder().encode(news)), frame(.failure, "timedOut", Array("late".utf8)),
      frame(.cancel, "", []),
    ]
      + (try contracts.flatMap { [frame(.request, $0.name, try $0.request()), frame(.reply, $0.name, try $0.reply())] })
  }

  /// A map's pairs have no order.
  private indirect enum Tree: Hashable {
    case leaf(String), array([Tree])
    case map(Set<[Tree]>)
  }

  private static func tree(_ bytes: [UInt8]) throws -> Tree { tree(try MessagePackValue(parsing: bytes)) }

  private static func tree(_ value: MessagePackValue) -> Tree {
    switch value.kind {
    case .array: .array(value.elements.map(tree))
    case .map: .map(Set(value.pairs.map { [tree($0.key), tree($0.value)] }))
    case .string: .leaf("text \(value.string ?? "")")
    case .bytes: .leaf("bytes \(value.bytes ?? [])")
    case .integer: .leaf("integer \(value.int64.map(String.init) ?? value.uint64.map(String.init) ?? "")")
    case .double: .leaf("double \(value.double ?? 0)")
    case .bool: .leaf("bool \(value.bool ?? false)")
    case .null, .extension: .leaf("\(value.kind)")
    }
  }
}

extension Frame {
  /// A name or key that was not valid UTF-8 has become longer.
  fileprivate var isRepaired: Bool { name.contains("\u{FFFD}") || key.contains("\u{FFFD}") }
}
