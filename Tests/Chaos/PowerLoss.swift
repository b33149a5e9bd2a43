// What a power cut takes away: everything written, made and named that was not synced (Tests/Processes/powerloss.c noted it).

import Glibc
import Installations

/// Takes back what processes left unsynced when they were killed.
struct PowerLoss: Sendable {
  /// Absolute, without symbolic links.
  let root: String
  let notes: String
  let library: String
  /// Databases are run with synchronous=NORMAL.
  let isControl: Bool

  var environment: [String: String] {
    var environment = ["LD_PRELOAD": library, "POWERLOSS_ROOT": root, "POWERLOSS_NOTES": notes]
    if isControl { environment["POWERLOSS_NORMAL"] = "1" }
    return environment
  }

  enum Extent: Hashable, Sendable {
    /// The disk has nothing that was not synced.
    case everything
    /// It has some sectors of it, and some names.
    case parts(SeededRandom)
  }

  /// What happened to a file or a name, oldest first.
  enum Note: Hashable, Sendable {
    /// `old` is what was there from `offset` on, as far as the file reached, which had `size` bytes.
    case written(inode: UInt64, offset: Int64, size: Int64, old: [UInt8])
    case truncated(inode: UInt64, offset: Int64, size: Int64, old: [UInt8])
    case synced(inode: UInt64)
    case made(path: String)
    case named(from: String, to: String, replaced: Bool)
    case folderSynced(path: String)
    case removed(inode: UInt64)
  }

  static let sectorByteCount = 512

  /// To be called when no process runs that takes notes.
  /// - Returns: how many writes and names were taken back, at least in part.
  func strike(_ extent: Extent) throws -> Int {
    guard let bytes = ServerProcess.contents(notes) else { return 0 }
    var extent = extent
    var count = 0
    let pending = Self.pending(Self.parse(bytes))
    let paths = Self.paths(below: root)
    for note in pending.reversed() where try takeBack(note, &extent, paths) { count += 1 }
    guard truncate(notes, 0) == 0 else { throw RunError("\(notes) can't be emptied") }
    return count
  }

  /// What no sync has made durable.
  static func pending(_ notes: [Note]) -> [Note] {
    // From the end: a sync covers what is before it.
    var syncedFiles: Set<UInt64> = []
    var syncedFolders: Set<String> = []
    var pending: [Note] = []
    for note in notes.reversed() {
      switch note {
      case .synced(let inode), .removed(let inode): syncedFiles.insert(inode)
      case .folderSynced(let path): syncedFolders.insert(path)
      case .written(let inode, _, _, _), .truncated(let inode, _, _, _): if !syncedFiles.contains(inode) { pending.append(note) }
      case .made(let path): if !syncedFolders.contains(folder(of: path)) { pending.append(note) }
      case .named(_, let path, _): if !syncedFolders.contains(folder(of: path)) { pending.append(note) }
      }
    }
    return pending.reversed()
  }

  static func folder(of path: String) -> String { String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)]) }

  // MARK: Taking back

  /// - Returns: whether anything was.
  private func takeBack(_ note: Note, _ extent: inout Extent, _ paths: [UInt64: String]) throws -> Bool {
    switch note {
    case .written(let inode, let offset, let size, let old), .truncated(let inode, let offset, let size, let old):
      guard let path = paths[inode] else { return false }
      return try restore(path, offset, size, old, isWrite: note.isWrite, &extent)
    case .made(let path):
      guard extent.isHit() else { return false }
      return remove(path) == 0
    case .named(let from, let to, let replaced):
      guard !replaced, extent.isHit() else { return false }
      return rename(to, from) == 0
    case .synced, .folderSynced, .removed: return false
    }
  }

  private func restore(_ path: String, _ offset: Int64, _ size: Int64, _ old: [UInt8], isWrite: Bool, _ extent: inout Extent) throws -> Bool {
    let descriptor = open(path, O_WRONLY)
    // Its name was taken back already.
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var isHit = false
    // Of a truncation all or nothing is taken back: what it removed is gone or there.
    let step = isWrite ? Self.sectorByteCount : max(old.count, 1)
    for start in stride(from: 0, to: old.count, by: step) where extent.isHit() {
      isHit = true
      let part = old[start..<min(start + step, old.count)]
      let count = part.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(offset) + off_t(start)) }
      guard count == part.count else { throw RunError("\(path) can't be written back: \(String(cString: strerror(errno)))") }
    }
    // A file that had grown is as long as it was.
    if lseek(descriptor, 0, SEEK_END) > size, extent.isHit() {
      isHit = true
      guard ftruncate(descriptor, off_t(size)) == 0 else { throw RunError("\(path) can't be cut: \(String(cString: strerror(errno)))") }
    }
    return isHit
  }

  /// The files below a folder by their inodes.
  private static func paths(below folder: String) -> [UInt64: String] {
    guard let stream = opendir(folder) else { return [:] }
    defer { closedir(stream) }
    var paths: [UInt64: String] = [:]
    while let entry = readdir(stream) {
      let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if name == "." || name == ".." { continue }
      let path = folder + "/" + name
      var status = stat()
      guard lstat(path, &status) == 0 else { continue }
      if status.st_mode & S_IFMT == S_IFDIR { paths.merge(Self.paths(below: path)) { one, _ in one } } else { paths[UInt64(status.st_ino)] = path }
    }
    return paths
  }

  // MARK: Reading notes

  /// As `struct note` lays them out.
  static func parse(_ bytes: [UInt8]) -> [Note] {
    var notes: [Note] = []
    bytes.withUnsafeBytes { bytes in
      var place = 0
      while place + 40 <= bytes.count {
        func number<T: FixedWidthInteger>(_ offset: Int, _ type: T.Type) -> T { bytes.loadUnaligned(fromByteOffset: place + offset, as: type) }
        let (firstCount, secondCount) = (Int(number(4, UInt32.self)), Int(number(8, UInt32.self)))
        let (inode, offset, size) = (number(16, UInt64.self), number(24, Int64.self), number(32, Int64.self))
        let end = place + 40 + firstCount + secondCount
        // The last one's writer was killed.
        if end > bytes.count { return }
        let first = Array(bytes[place + 40..<place + 40 + firstCount])
        let second = Array(bytes[place + 40 + firstCount..<end])
        switch number(0, UInt32.self) {
        case 1: notes.append(.written(inode: inode, offset: offset, size: size, old: first))
        case 2: notes.append(.truncated(inode: inode, offset: offset, size: size, old: first))
        case 3: notes.append(.synced(inode: inode))
        case 4: notes.append(.made(path: String(decoding: first, as: UTF8.self)))
        case 5:
          notes.append(.named(from: String(decoding: first, as: UTF8.self), to: String(decoding: second, as: UTF8.self), replaced: number(12, UInt32.self) != 0))
        case 6: notes.append(.folderSynced(path: String(decoding: first, as: UTF8.self)))
        default: notes.append(.removed(inode: inode))
        }
        place = end
      }
    }
    return notes
  }
}

extension PowerLoss.Note {
  fileprivate var isWrite: Bool { if case .written = self { true } else { false } }
}

extension PowerLoss.Extent {
  /// Whether the next sector or name is taken back.
  fileprivate mutating func isHit() -> Bool {
    guard case .parts(var random) = self else { return true }
    let isHit = random.chance(50)
    self = .parts(random)
    return isHit
  }
}
