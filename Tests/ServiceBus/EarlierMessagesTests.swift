import Foundation
import MessagePack
import Testing

@testable import ServiceBus

/// Messages of the earliest release that can be upgraded (deploy/upgrades-from), recorded from its sockets
/// (`earlier-messages.json`). This release must read them, and that release must be able to read this one's.
struct EarlierMessagesTests {
  private struct Recording: Decodable {
    struct Message: Decodable {
      let name: String
      let arguments: String
      let reply: String?
    }

    /// By role.
    let announcements: [String: String]
    let messages: [Message]
  }

  private static let types: [any Message.Type] = [
    PublishClusterMap.self, DatabaseRequest.self, Authenticate.self, DirectoryChanged.self, ExtendSchema.self,
    OperatorRequest.self, FetchSchema.self,
    FetchSecrets.self, LookUpUser.self, PublishDirectoryVersion.self, BeginComparison.self, CompareSharedZones.self,
    PushZoneChanges.self,
  ]

  private static func recording() throws -> Recording {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "earlier-messages.json")
    return try JSONDecoder().decode(Recording.self, from: Data(contentsOf: file))
  }

  private static func bytes(_ text: String) throws -> [UInt8] {
    let digits = Array(text.utf8)
    return try stride(from: 0, to: digits.count, by: 2).map {
      try #require(UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16))
    }
  }

  /// True when a reader of `old` finds every expected field in `new`: fields may be added, but not removed or changed.
  private static func reads(_ new: MessagePackValue?, as old: MessagePackValue) -> Bool {
    guard let new, new.kind == old.kind else { return false }
    switch old.kind {
    case .map: return old.pairs.allSatisfy { pair in pair.key.string.map { reads(new[$0], as: pair.value) } ?? false }
    case .array: return new.count == old.count && (0..<old.count).allSatisfy { reads(new[$0], as: old[$0]) }
    default:
      return new.string == old.string && new.bytes == old.bytes && new.int64 == old.int64 && new.uint64 == old.uint64
        && new.double == old.double && new.bool == old.bool
    }
  }

  private static func check<M: Message>(_ type: M.Type, _ recorded: Recording.Message) throws {
    let arguments = try bytes(recorded.arguments)
    let message = try M.decoded(from: arguments)
    #expect(
      reads(try MessagePackValue(parsing: message.encoded()), as: try MessagePackValue(parsing: arguments)),
      "\(recorded.name): \(message)")
    guard let reply = try recorded.reply.map(bytes) else { return }
    let decoded = try M.decodedReply(from: reply)
    #expect(
      reads(try MessagePackValue(parsing: M.encoded(decoded)), as: try MessagePackValue(parsing: reply)),
      "the reply of \(recorded.name): \(decoded)")
  }

  @Test func `every message of the earliest release is read, and is said so that it could read it`() throws {
    let recording = try Self.recording()
    #expect(Set(recording.messages.map(\.name)) == Set(Self.types.map { $0.name }))
    for recorded in recording.messages {
      let type = try #require(Self.types.first { $0.name == recorded.name }, "\(recorded.name) is known")
      try Self.check(type, recorded)
    }
  }

  @Test func `its processes are known by what they say of themselves, and know nothing of formats`() throws {
    let announcements = try Self.recording().announcements
    #expect(Set(announcements.keys) == Set(Role.allCases.map(\.rawValue)))
    for (role, text) in announcements {
      let bytes = try Self.bytes(text)
      let announcement = try MessagePackDecoder().decode(Announcement.self, from: bytes)
      #expect(announcement.peer.role.rawValue == role && announcement.peer.shardFormat == nil)
      #expect(
        Self.reads(
          try MessagePackValue(parsing: MessagePackEncoder().encode(announcement)),
          as: try MessagePackValue(parsing: bytes)))
    }
  }
}
