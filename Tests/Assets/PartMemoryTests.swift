import Crypto
import Foundation
import Records
import S3
import Synchronization
import Testing

@testable import Assets

extension AssetUpload {
  fileprivate func send(_ piece: [UInt8], resume: @escaping @Sendable () -> Void = {}) -> Bool {
    piece.withUnsafeBytes { take($0, resume: resume) }
  }
}

private final class Counter: Sendable {
  let value = Atomic(0)
  var count: Int { value.load(ordering: .relaxed) }
}

/// The memory for parts, by itself and with uploads on one writer's thread.
struct PartMemoryTests {
  /// Who was given room later than they asked for it.
  private final class Given: Sendable {
    private let users = Mutex<[String]>([])
    var all: [String] { users.withLock(\.self) }
    func note(_ user: String) { users.withLock { $0.append(user) } }
  }

  private let given = Given()

  /// - Returns: the room, and whether it is given at once.
  private func take(_ memory: PartMemory, _ user: String, _ byteCount: Int64) -> (room: PartRoom, isGiven: Bool) {
    let room = memory.room(for: user, atMost: byteCount)
    let isGiven = room.take { [given] in given.note(user) }
    return (room, isGiven)
  }

  @Test func `a user has a sixth of the memory, the rest is left to others, and those that wait take turns`() {
    let memory = PartMemory(byteCount: 12, partByteCount: 1)
    var rooms = (0..<4).map { _ in take(memory, "alice", 9) }
    #expect(rooms.map(\.isGiven) == [true, true, false, false], "a part is at most 1")
    for user in ["bob", "carol", "dave", "erin", "frank"] {
      rooms += (0..<2).map { _ in take(memory, user, 1) }
    }
    #expect(rooms[4...].map(\.isGiven) == Array(repeating: true, count: 10))
    rooms += ["grace", "grace", "heidi"].map { take(memory, $0, 1) }
    #expect(memory.waitingCount == 5 && given.all.isEmpty)
    for place in 4...6 { rooms[place].room.giveBack() }
    #expect(given.all == ["grace", "heidi", "grace"])
    rooms[0].room.giveBack()
    #expect(given.all == ["grace", "heidi", "grace", "alice"])
    #expect(memory.waitingCount == 1)
    rooms = []
    #expect(memory.waitingCount == 0)
  }

  @Test func `a user has a part even if it is larger than a sixth, or than the memory`() {
    let memory = PartMemory(byteCount: 5, partByteCount: 8)
    let first = take(memory, "alice", 8)
    let second = take(memory, "alice", 1)
    #expect(first.isGiven && !second.isGiven)
    first.room.giveBack()
    #expect(given.all == ["alice"])
  }

  @Test func `shorter parts do not pass a long one, unless it stops waiting`() {
    let memory = PartMemory(byteCount: 10, partByteCount: 6)
    let first = take(memory, "alice", 6)
    let long = take(memory, "bob", 6)
    let short = take(memory, "carol", 2)
    #expect(first.isGiven && !long.isGiven && !short.isGiven)
    first.room.giveBack()
    #expect(given.all == ["bob", "carol"])
    var waiting: PartRoom? = take(memory, "dave", 6).room
    let other = take(memory, "erin", 2)
    #expect(waiting != nil && !other.isGiven)
    waiting = nil
    #expect(given.all == ["bob", "carol", "erin"])
    withExtendedLifetime((first, long, short, other)) {}
  }

  /// Returns once the writer has done what it was asked for before.
  private func settle(_ writers: AssetWriters, _ store: any AssetStore) async throws {
    _ = try await AssetUpload(into: store, until: 36_000, writers: writers).finish()
  }

  @Test func `an upload that ends while it waits for room leaves its place, and is stored if it is whole`() async throws
  {
    let folder = try TemporaryFolder()
    let (store, writers) = (AssetFolder(directory: folder.path), AssetWriters(count: 1))
    let memory = PartMemory(byteCount: 10, partByteCount: 10)
    let piece = [UInt8](repeating: 7, count: 70_000)
    /// An upload of one piece.
    func begin(_ user: String) async throws -> AssetUpload {
      let upload = AssetUpload(into: store, until: 36_000, writers: writers, room: memory.room(for: user, atMost: 10))
      #expect(upload.send(piece))
      try await settle(writers, store)
      return upload
    }
    let first = try await begin("alice")
    #expect(memory.waitingCount == 0)
    let whole = try await begin("bob")
    #expect(memory.waitingCount == 1)
    #expect(try await whole.finish() == Asset(hash: SHA256.hash(piece), byteCount: 70_000))
    #expect(memory.waitingCount == 0)
    let aborted = try await begin("carol")
    var released: AssetUpload? = try await begin("dave")
    #expect(memory.waitingCount == 2 && released != nil)
    aborted.abort()
    released = nil
    try await settle(writers, store)
    #expect(memory.waitingCount == 0)
    let last = try await begin("erin")
    #expect(memory.waitingCount == 1)
    first.abort()
    try await settle(writers, store)
    #expect(memory.waitingCount == 0)
    let next = try await begin("frank")
    #expect(memory.waitingCount == 1, "the room is another one's now")
    for upload in [last, next] { upload.abort() }
    try await settle(writers, store)
    #expect(memory.waitingCount == 0 && writers.uploadCount == 0)
  }
}

extension BucketFaultTests {
  @Test func `a sender without room for a part is held back until another upload has sent its part`() async throws {
    let writers = AssetWriters(count: 1)
    let memory = PartMemory(byteCount: Int64(S3Parts.partByteCount), partByteCount: S3Parts.partByteCount)
    func upload(_ user: String) -> AssetUpload {
      AssetUpload(
        into: behind, until: Self.expiry, writers: writers,
        room: memory.room(for: user, atMost: Int64(Self.long.count)))
    }
    func settle() async throws {
      _ = try await AssetUpload(into: behind, until: Self.expiry, writers: writers).finish()
    }
    let goesOn = Counter()
    let (first, second) = (upload("alice"), upload("bob"))
    let piece = Array(Self.long.prefix(100_000))
    #expect(first.send(piece))
    try await settle()
    #expect(second.send(piece))
    try await settle()
    #expect(memory.waitingCount == 1)
    #expect(!second.send(piece) { goesOn.value.add(1, ordering: .relaxed) })
    try await settle()
    #expect(goesOn.count == 0)
    // With it the first part is full.
    _ = first.send(Array(Self.long.prefix(S3Parts.partByteCount)))
    for _ in 0..<2 { try await settle() }
    #expect(goesOn.count == 1 && memory.waitingCount == 0)
    #expect(first.send(piece))
    try await settle()
    #expect(memory.waitingCount == 1, "its next part waits for the other upload's")
    #expect(try await second.finish() == Asset(hash: SHA256.hash(piece + piece), byteCount: 200_000))
    try await settle()
    #expect(memory.waitingCount == 0)
    let content = piece + Self.long.prefix(S3Parts.partByteCount) + piece
    #expect(try await first.finish() == Asset(hash: SHA256.hash(content), byteCount: Int64(content.count)))
  }
}
