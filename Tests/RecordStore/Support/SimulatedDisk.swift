// A disk that loses unsynced writes, and whose steps fail on request.

import CSQLite
import FaultyDisk
import Foundation
import Synchronization
import Testing

/// The content of SQLite files below a folder: what is on the disk, and what the kernel shows.
///
/// A sync makes earlier writes durable. A failed sync makes nothing durable and leaves its pages clean, as Linux does:
/// only another write brings them to the disk. Names are durable at once; `NameLoss` covers names.
final class SimulatedDisk: Sendable {
  /// A step to fail: the `count`th of its kind, or every one from it on.
  struct Fault: Sendable {
    enum Kind: String, CaseIterable, Sendable { case open, write, halfWrite, sync, truncate }
    let kind: Kind
    let count: Int
    var isLasting = false
    /// The error code of failing writes.
    var writeError: Int32 = SQLITE_IOERR | 3 << 8

    fileprivate var step: UInt32 {
      switch kind {
      case .open: FAULTY_DISK_OPEN.rawValue
      case .write, .halfWrite: FAULTY_DISK_WRITE.rawValue
      case .sync: FAULTY_DISK_SYNC.rawValue
      case .truncate: FAULTY_DISK_TRUNCATE.rawValue
      }
    }

    fileprivate var code: Int32 {
      switch kind {
      case .open: SQLITE_CANTOPEN
      case .write, .halfWrite: writeError
      case .sync: SQLITE_IOERR | 4 << 8
      case .truncate: SQLITE_IOERR | 6 << 8
      }
    }
  }

  private struct File {
    var seen: [UInt8]
    var durable: [UInt8]
    /// Sectors that differ from `durable` in the kernel's view.
    var dirty: Set<Int> = []

    mutating func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
      let start = min(offset, seen.count)
      if seen.count < offset + bytes.count { seen = Self.bytes(seen, count: offset + bytes.count) }
      guard let source = bytes.baseAddress, !bytes.isEmpty else { return }
      seen.withUnsafeMutableBytes { _ = memcpy($0.baseAddress! + offset, source, bytes.count) }
      dirty.formUnion(start / sectorSize...(offset + bytes.count - 1) / sectorSize)
    }

    mutating func truncate(to count: Int) {
      seen.removeLast(max(seen.count - count, 0))
      dirty = dirty.filter { $0 * sectorSize < count }
    }

    mutating func sync() { durable = content(with: dirty, count: seen.count) }

    /// The disk's content after these sectors were also written.
    func content(with sectors: some Sequence<Int>, count: Int) -> [UInt8] {
      var content = durable.count == count ? durable : Self.bytes(durable, count: count)
      for sector in sectors {
        let range = sector * sectorSize..<min((sector + 1) * sectorSize, min(seen.count, count))
        guard !range.isEmpty else { continue }
        content.withUnsafeMutableBytes { target in
          seen.withUnsafeBytes {
            _ = memcpy(target.baseAddress! + range.lowerBound, $0.baseAddress! + range.lowerBound, range.count)
          }
        }
      }
      return content
    }

    /// The bytes cut off, or with zeros behind them, in two calls: a log grows by half a megabyte, which a loop that is
    /// built for debugging takes a second to write.
    private static func bytes(_ bytes: [UInt8], count: Int) -> [UInt8] {
      [UInt8](unsafeUninitializedCapacity: count) { target, initializedCount in
        if let start = target.baseAddress, count > 0 {
          memset(start, 0, count)
          bytes.withUnsafeBytes { _ = $0.baseAddress.map { memcpy(start, $0, min(bytes.count, count)) } }
        }
        initializedCount = count
      }
    }
  }

  private struct State {
    var files: [String: File] = [:]
    var fault: Fault?
    var count = 0
    var hasFailed = false
    var syncs: [String: Int] = [:]
    var problems: [String] = []
  }

  private let state = Mutex(State())
  private let number: Atomic<Int32> = Atomic(-1)

  /// - Parameter folder: its files are watched; none may be open.
  init(_ folder: String) {
    let watcher: faulty_disk_watcher = { context, step, path, bytes, count, offset, done in
      guard let context, let path else { return 0 }
      let disk = Unmanaged<SimulatedDisk>.fromOpaque(context).takeUnretainedValue()
      var written: Int32 = 0
      let code = disk.decide(
        UInt32(step), String(cString: path), UnsafeRawBufferPointer(start: bytes, count: Int(count)), Int(offset),
        &written)
      done?.pointee = written
      return code
    }
    number.store(faulty_disk_watch(folder, watcher, Unmanaged.passUnretained(self).toOpaque()), ordering: .relaxed)
  }

  deinit { faulty_disk_unwatch(number.load(ordering: .relaxed)) }

  /// Makes a step fail from now on; nil: none fails.
  func set(_ fault: Fault?) {
    state.withLock { state in
      state.fault = fault
      state.count = 0
      state.hasFailed = false
    }
  }

  /// True when a step has failed since `set`.
  var hasFailed: Bool { state.withLock { $0.hasFailed } }

  /// The number of syncs of a file.
  func syncCount(of path: String) -> Int { state.withLock { $0.syncs[path, default: 0] } }

  /// The number of sectors of a file that a power cut at this moment could lose.
  func unsyncedSectorCount(of path: String) -> Int { state.withLock { $0.files[path]?.dirty.count ?? 0 } }

  /// Logs that were restarted or emptied while their files had unsynced pages, which only the logs had.
  var problems: [String] { state.withLock { $0.problems } }

  private static func noteLoss(of log: String, in state: inout State) {
    guard log.hasSuffix("-wal"), let file = state.files[String(log.dropLast(4))], !file.dirty.isEmpty else { return }
    state.problems.append("\(log) went while \(file.dirty.count) sectors of its file were not synced")
  }

  private func decide(
    _ step: UInt32, _ path: String, _ bytes: UnsafeRawBufferPointer, _ offset: Int, _ written: inout Int32
  ) -> Int32 {
    state.withLock { state in
      var failure: Fault?
      if let fault = state.fault, fault.step == step {
        state.count += 1
        if state.count == fault.count || fault.isLasting && state.count > fault.count { failure = fault }
      }
      if failure != nil { state.hasFailed = true }
      switch step {
      case FAULTY_DISK_OPEN.rawValue:
        if failure == nil, state.files[path] == nil {
          let content = [UInt8](FileManager.default.contents(atPath: path) ?? Data())
          state.files[path] = File(seen: content, durable: content)
        }
      case FAULTY_DISK_WRITE.rawValue:
        let count = failure == nil ? bytes.count : failure?.kind == .halfWrite ? bytes.count / 2 : 0
        // Writing the same header again loses nothing.
        if offset == 0, count > 0, let file = state.files[path], !file.seen.prefix(32).elementsEqual(bytes.prefix(32)) {
          Self.noteLoss(of: path, in: &state)
        }
        state.files[path]?.write(UnsafeRawBufferPointer(rebasing: bytes[..<count]), at: offset)
        written = Int32(count)
      case FAULTY_DISK_SYNC.rawValue:
        state.syncs[path, default: 0] += 1
        if failure == nil { state.files[path]?.sync() }
        state.files[path]?.dirty = []
      case FAULTY_DISK_TRUNCATE.rawValue:
        if failure == nil {
          Self.noteLoss(of: path, in: &state)
          state.files[path]?.truncate(to: offset)
        }
      default: if failure == nil { state.files[path] = nil }
      }
      return failure?.code ?? 0
    }
  }

  /// The files after a power cut at this moment: the durable content and, with a seed, some of the other sectors.
  func contentAfterPowerCut(seed: UInt64?) -> [String: [UInt8]] { contentsAfterPowerCut(seeds: [seed])[0] }

  /// The files after several different power cuts at the same moment.
  func contentsAfterPowerCut(seeds: [UInt64?]) -> [[String: [UInt8]]] {
    state.withLock { state in
      seeds.map { seed in
        var random = SeededGenerator(seed: seed ?? 0)
        var contents: [String: [UInt8]] = [:]
        for (path, file) in state.files.sorted(by: { $0.key < $1.key }) {
          let sectors = seed == nil ? [] : file.dirty.sorted().filter { _ in Bool.random(using: &random) }
          let end = sectors.last.map { min(($0 + 1) * sectorSize, file.seen.count) } ?? 0
          contents[path] = file.content(with: sectors, count: max(file.durable.count, end))
        }
        return contents
      }
    }
  }

  /// Replaces the files, none of which may be open.
  func restart(with contents: [String: [UInt8]]) throws {
    try state.withLock { state in
      state.files = [:]
      for (path, content) in contents {
        try Data(content).write(to: URL(filePath: path))
        state.files[path] = File(seen: content, durable: content)
      }
    }
  }
}

private let sectorSize = 512
