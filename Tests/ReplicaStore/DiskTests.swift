// A disk that is full, or fails at its n-th step: a save is refused whole, and reads go on.

import FaultyDisk
import FoundationEssentials
import MirrorWire
import Synchronization
import Testing

@testable import ReplicaStore

/// Fails steps of the files in a folder.
private final class Disk: Sendable {
  private struct State {
    var stepsToFault: Int?
    var code: Int32 = 0
    var isLasting = false
  }

  private let state = Mutex(State())
  private let number = Mutex<Int32>(-1)

  init(_ folder: String) {
    let number = faulty_disk_watch(
      folder,
      { context, step, _, _, _, _, _ in
        guard let context, step == FAULTY_DISK_WRITE.rawValue || step == FAULTY_DISK_SYNC.rawValue else { return 0 }
        return Unmanaged<Disk>.fromOpaque(context).takeUnretainedValue().answer(
          isSync: step == FAULTY_DISK_SYNC.rawValue)
      }, Unmanaged.passUnretained(self).toOpaque())
    self.number.withLock { $0 = number }
  }

  func end() { faulty_disk_unwatch(number.withLock { $0 }) }

  /// Fails the n-th step from now on, or all from it on.
  func fail(at count: Int?, _ code: Int32, isLasting: Bool) {
    state.withLock { $0 = State(stepsToFault: count, code: code, isLasting: isLasting) }
  }
  var hasFailed: Bool { state.withLock { $0.stepsToFault.map { $0 <= 0 } ?? false } }

  private func answer(isSync: Bool) -> Int32 {
    state.withLock { state in
      guard let steps = state.stepsToFault else { return 0 }
      state.stepsToFault = steps - 1
      let fails = steps == 1 || steps < 1 && state.isLasting
      guard fails else { return 0 }
      return isSync && state.code == 13 ? 0 : isSync ? 10 | 4 << 8 : state.code
    }
  }
}

private func open(_ folder: Folder) async throws -> TestStore {
  var configuration = World.configuration("\(folder.path)/store.sqlite")
  configuration.fileSystem = "unix-excl"
  return TestStore(folder: folder, replica: try await Replica.open(configuration, Photos.model))
}

/// SQLITE_FULL, and SQLITE_IOERR_WRITE.
@Test(arguments: [13, 778] as [Int32]) func `a save that the disk refuses leaves nothing behind, and reads go on`(
  code: Int32
) async throws {
  let folder = try World.folder()
  let disk = Disk(folder.path)
  var isDone = false
  for step in Array(1...8) + [12, 20, 40, 80, 160, 320, 640, 1280, 5000] where !isDone {
    let store = try await open(folder)
    let before = try await store.names(Query("Tag"))
    let name = "T\(step)"
    disk.fail(at: step, code, isLasting: true)
    let error: (any Error)?
    do {
      try await store.save { save in
        for place in 0..<200 {
          try save.insert("Tag", "\(name)-\(place)", ["name": .text(String(repeating: "x", count: 500))])
        }
      }
      error = nil
    } catch let thrown { error = thrown }
    #expect(try await store.names(Query("Tag")).count == (error == nil ? before.count + 200 : before.count))
    if code == 13, let error { #expect(error as? StoreError == .full) }
    isDone = !disk.hasFailed
    disk.fail(at: nil, 0, isLasting: false)
    // A disk that has room again takes saves again, unless a sync failed.
    if code == 13 { try await store.save { try $0.insert("Tag", "after-\(name)") } }
    await store.replica.close()
    let again = try await open(folder)
    #expect(try await again.outbox().flatMap(\.changes).count == again.names(Query("Tag")).count)
    await again.replica.close()
  }
  #expect(isDone)
  disk.end()
}

/// The n-th step of the disk fails once, for each n: a pulled cable, a bad sector.
@Test(arguments: [13, 778] as [Int32]) func `an import whose n-th step fails changes nothing, and comes again`(
  code: Int32
) async throws {
  let folder = try World.folder()
  let disk = Disk(folder.path)
  var store = try await open(folder)
  // Few pages of the disk, and each of their steps.
  let changes = (0..<4).map { saved("Tag", "T\($0)", ["name": .string(String(repeating: "x", count: 900))]) }
  var step = 1
  while true {
    let (names, token) = (try await store.names(Query("Tag")), try await store.replica.position().importToken)
    let page = ImportPage(changes: changes + [saved("Tag", "S\(step)")], importToken: "t\(step)")
    disk.fail(at: step, code, isLasting: false)
    let error: StoreError?
    do {
      try await store.replica.apply(page, event: nil)
      error = nil
    } catch let thrown { error = thrown }
    let hasFailed = disk.hasFailed
    disk.fail(at: nil, 0, isLasting: false)
    if error == nil {
      #expect(try await store.names(Query("Tag")).contains("S\(step)"))
      if !hasFailed { break }
    } else {
      #expect(try await store.names(Query("Tag")) == names)
      #expect(try await store.replica.position().importToken == token)
      // After a sync that failed only another opening knows what is on the disk.
      await store.replica.close()
      store = try await open(folder)
      try await store.replica.apply(page, event: nil)
      #expect(try await store.names(Query("Tag")).contains("S\(step)"))
    }
    step += 1
  }
  #expect(step > 4)
  await store.replica.close()
  disk.end()
}
