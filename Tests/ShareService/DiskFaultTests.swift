import CSQLite
import FaultyDisk
import JSON
import Records
import ServiceBus
import Synchronization
import Testing

@testable import ShareService

@Suite struct DiskFaultTests {
  /// The directory's disk with failing steps.
  final class Disk: Sendable {
    private struct State {
      var fault: (step: UInt32, code: Int32)?
      var openings = 0
    }
    private let state = Mutex(State())
    private let number = Atomic<Int32>(-1)

    init(_ folder: TemporaryFolder) {
      let watcher: faulty_disk_watcher = { context, step, _, _, _, _, _ in
        guard let context else { return 0 }
        return Unmanaged<Disk>.fromOpaque(context).takeUnretainedValue().state.withLock { state in
          if UInt32(step) == FAULTY_DISK_OPEN.rawValue { state.openings += 1 }
          guard let fault = state.fault, fault.step == UInt32(step) else { return 0 }
          return fault.code
        }
      }
      number.store(
        faulty_disk_watch(folder.path, watcher, Unmanaged.passUnretained(self).toOpaque()), ordering: .relaxed)
    }

    deinit { faulty_disk_unwatch(number.load(ordering: .relaxed)) }

    /// Lets every step of that kind fail from now on; nil: none fails.
    func fail(_ step: faulty_disk_step?, _ code: Int32 = 0) {
      state.withLock { $0.fault = step.map { ($0.rawValue, code) } }
    }
    var openings: Int { state.withLock { $0.openings } }

    static let syncError = SQLITE_IOERR | 4 << 8
  }

  /// Runs a world on such a disk; the world ends before the disk does.
  static func run(_ body: (World, Disk) async throws -> World) async throws {
    let folder = TemporaryFolder()
    let disk = Disk(folder)
    let world = try await body(World.withContainer(in: folder), disk)
    await world.service.close()
    withExtendedLifetime(disk) {}
  }

  private static func addUser(_ name: String, to world: World) async -> OperatorAnswer {
    await world.call("POST", "/admin/1/users", #"{"name":"\#(name)"}"#)
  }

  @Test func `after a sync of the directory that failed its file is opened anew before anything is answered from it`()
    async throws
  {
    try await Self.run { world, disk in
      let alice = try await world.user("alice")
      let before = disk.openings
      disk.fail(FAULTY_DISK_SYNC, Disk.syncError)
      let answer = await Self.addUser("bob", to: world)
      #expect(answer.status == 503 && answer.retryAfter != nil, "\(String(decoding: answer.body, as: UTF8.self))")
      #expect(disk.openings == before)
      disk.fail(nil)
      let carol = try await world.user("carol")
      #expect(disk.openings > before)
      let restarted = try await world.restarted()
      for user in [alice, carol] {
        #expect(try await restarted.authenticate(user: user.token).userRecordName == user.recordName)
      }
      return restarted
    }
  }

  @Test func `while it can't be opened everything is answered later, and then it goes on by itself`() async throws {
    try await Self.run { world, disk in
      let alice = try await world.user("alice")
      disk.fail(FAULTY_DISK_SYNC, Disk.syncError)
      #expect(await Self.addUser("bob", to: world).status == 503)
      // The log can't be made durable, so the file's state is unknown.
      #expect(await world.call("GET", "/admin/1/users").status == 503)
      #expect(await !world.service.directory.isReadable)
      await #expect(throws: (any Error).self) { try await world.authenticate(user: alice.token) }
      disk.fail(nil)
      #expect(await world.service.directory.isReadable)
      #expect(try await world.authenticate(user: alice.token).userRecordName == alice.recordName)
      _ = try await world.user("carol")
      return world
    }
  }

  @Test func `codes that could not be looked up meanwhile do not count as guesses`() async throws {
    try await Self.run { world, disk in
      let asked = LookUpDeviceSignIn(userCode: try #require(UserCode("BBBB-BBBB")), clientAddress: "192.0.2.1")
      disk.fail(FAULTY_DISK_SYNC, Disk.syncError)
      #expect(await Self.addUser("bob", to: world).status == 503)
      for _ in 0..<10 {
        await #expect(throws: (any Error).self) { try await world.service.signIns.lookUp(asked) }
      }
      disk.fail(nil)
      let reply = try await world.service.signIns.lookUp(asked)
      #expect(reply.device == nil && reply.retryAfter == nil)
      return world
    }
  }

  @Test func `on a full disk changes are answered later, reads go on, and nothing is there of what was refused`()
    async throws
  {
    try await Self.run { world, disk in
      let alice = try await world.user("alice")
      disk.fail(FAULTY_DISK_WRITE, SQLITE_FULL)
      for _ in 0..<3 {
        let answer = await Self.addUser("bob", to: world)
        #expect(answer.status == 503 && answer.retryAfter == RecordError.noSpace.retryAfter)
        let body = try JSONValue(parsing: answer.body)
        #expect(
          body["serverErrorCode"]?.string == "TRY_AGAIN_LATER"
            && body["retryAfter"]?.int64 == RecordError.noSpace.retryAfter.map(Int64.init))
      }
      #expect(try await world.authenticate(user: alice.token).userRecordName == alice.recordName)
      #expect(try await world.ok("GET", "/admin/1/users")["users"]?.count == 1)
      disk.fail(nil)
      _ = try await world.user("bob")
      return world
    }
  }
}
