// Simulates a power cut: takes back all unsynced writes, files and names (noted by powerloss.c).

import Glibc

/// Takes back the unsynced work of processes after they were killed.
package struct PowerLoss: Sendable {
  /// An absolute path without symbolic links.
  let root: String
  let notes: String
  let library: String
  /// True for the control run, whose databases use synchronous=NORMAL.
  let isControl: Bool

  package init(root: String, notes: String, library: String, isControl: Bool) {
    (self.root, self.notes, self.library, self.isControl) = (root, notes, library, isControl)
  }

  /// Of the processes that lose power.
  package var environment: [String: String] {
    var environment = ["LD_PRELOAD": library, "POWERLOSS_ROOT": root, "POWERLOSS_NOTES": notes]
    if isControl { environment["POWERLOSS_NORMAL"] = "1" }
    return environment
  }

  /// An operation on a file or a name, oldest first.
  enum Note: Hashable, Sendable {
    /// `old` has the earlier bytes from `offset` on, up to the file's end; `size` is the file's earlier length in
    /// bytes.
    case written(inode: UInt64, offset: Int64, size: Int64, old: [UInt8])
    case truncated(inode: UInt64, offset: Int64, size: Int64, old: [UInt8])
    case synced(inode: UInt64)
    case made(path: String)
    case named(from: String, to: String, replaced: Bool)
    case folderSynced(path: String)
    case removed(inode: UInt64)
  }

  package struct Failure: Error, CustomStringConvertible {
    package let description: String
  }

  static let sectorByteCount = 512

  /// To be called while no process runs that writes notes.
  /// - Parameter isLost: tells of each unsynced sector or name whether it is taken back; the others are on the disk.
  /// - Returns: the number of writes and names that were taken back, at least in part.
  package func strike(_ isLost: () -> Bool) throws -> Int {
    guard let bytes = Self.contents(notes) else { return 0 }
    var count = 0
    let pending = Self.pending(Self.parse(bytes))
    let paths = Self.paths(below: root)
    for note in pending.reversed() where try takeBack(note, isLost, paths) { count += 1 }
    guard truncate(notes, 0) == 0 else { throw Failure(description: "\(notes) can't be emptied") }
    return count
  }

  /// Compiles the library that notes writes; a C compiler is there, because the build needs one.
  package static func compile(_ source: String, to library: String) throws {
    let words = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library, source, "-ldl"]
    var pointers: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    defer { for pointer in pointers { free(pointer) } }
    var (process, status) = (pid_t(), Int32(0))
    guard posix_spawnp(&process, "cc", nil, nil, &pointers, environ) == 0, waitpid(process, &status, 0) == process,
      status == 0
    else { throw Failure(description: "\(source) can't be compiled") }
  }

  /// The notes that no sync has made durable.
  static func pending(_ notes: [Note]) -> [Note] {
    // From the end, because a sync covers the notes before it.
    var syncedFiles: Set<UInt64> = []
    var syncedFolders: Set<String> = []
    var pending: [Note] = []
    for note in notes.reversed() {
      switch note {
      case .synced(let inode), .removed(let inode): syncedFiles.insert(inode)
      case .folderSynced(let path): syncedFolders.insert(path)
      case .written(let inode, _, _, _), .truncated(let inode, _, _, _):
        if !syncedFiles.contains(inode) { pending.append(note) }
      case .made(let path): if !syncedFolders.contains(folder(of: path)) { pending.append(note) }
      case .named(_, let path, _): if !syncedFolders.contains(folder(of: path)) { pending.append(note) }
      }
    }
    return pending.reversed()
  }

  static func folder(of path: String) -> String { String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)]) }

  // MARK: Taking back

  /// - Returns: true when anything was taken back.
  private func takeBack(_ note: Note, _ isLost: () -> Bool, _ paths: [UInt64: String]) throws -> Bool {
    switch note {
    case .written(let inode, let offset, let size, let old), .truncated(let inode, let offset, let size, let old):
      guard let path = paths[inode] else { return false }
      return try restore(path, offset, size, old, isWrite: note.isWrite, isLost)
    case .made(let path):
      // A folder whose name was not synced is gone with all that was synced in it.
      return isLost() && Self.removeAll(path)
    case .named(let from, let to, let replaced):
      guard !replaced, isLost() else { return false }
      return rename(to, from) == 0
    case .synced, .folderSynced, .removed: return false
    }
  }

  private func restore(
    _ path: String, _ offset: Int64, _ size: Int64, _ old: [UInt8], isWrite: Bool, _ isLost: () -> Bool
  ) throws -> Bool {
    let descriptor = open(path, O_WRONLY)
    // The file's name was taken back already.
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var isHit = false
    // A truncation is taken back as a whole or not at all.
    let step = isWrite ? Self.sectorByteCount : max(old.count, 1)
    for start in stride(from: 0, to: old.count, by: step) where isLost() {
      isHit = true
      let part = old[start..<min(start + step, old.count)]
      let count = part.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(offset) + off_t(start)) }
      guard count == part.count else {
        throw Failure(description: "\(path) can't be written back: \(String(cString: strerror(errno)))")
      }
    }
    // A file that had grown gets its earlier length back.
    if lseek(descriptor, 0, SEEK_END) > size, isLost() {
      isHit = true
      guard ftruncate(descriptor, off_t(size)) == 0 else {
        throw Failure(description: "\(path) can't be cut: \(String(cString: strerror(errno)))")
      }
    }
    return isHit
  }

  private static func removeAll(_ path: String) -> Bool {
    for path in entries(of: path) { _ = removeAll(path) }
    return remove(path) == 0
  }

  /// Paths of what is in a folder; none for a file.
  private static func entries(of folder: String) -> [String] {
    guard let stream = opendir(folder) else { return [] }
    defer { closedir(stream) }
    var paths: [String] = []
    while let entry = readdir(stream) {
      let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if name != ".", name != ".." { paths.append(folder + "/" + name) }
    }
    return paths
  }

  /// The files below a folder by their inodes.
  private static func paths(below folder: String) -> [UInt64: String] {
    var paths: [UInt64: String] = [:]
    for path in entries(of: folder) {
      var status = stat()
      guard lstat(path, &status) == 0 else { continue }
      if status.st_mode & S_IFMT == S_IFDIR {
        paths.merge(Self.paths(below: path)) { one, _ in one }
      } else {
        paths[UInt64(status.st_ino)] = path
      }
    }
    return paths
  }

  // MARK: Reading notes

  private static func contents(_ path: String) -> [UInt8]? {
    guard let file = fopen(path, "r") else { return nil }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let count = fread(&buffer, 1, buffer.count, file)
      if count == 0 { return bytes }
      bytes += buffer[..<count]
    }
  }

  static let mark: UInt64 = 0x9b1f_63c2_e5a8_d741
  static let headerByteCount = 56

  /// Reads notes as `struct note` lays them out.
  ///
  /// A process that is killed may leave a part of its last note, and others go on behind it. Its write was not made yet
  /// then, and nobody was told of its sync, so the part counts for nothing.
  static func parse(_ bytes: [UInt8]) -> [Note] {
    var notes: [Note] = []
    bytes.withUnsafeBytes { bytes in
      var place = 0
      while place + headerByteCount < bytes.count {
        if let (note, end) = note(at: place, in: bytes) {
          notes.append(note)
          place = end
        } else {
          place += 1
        }
      }
    }
    return notes
  }

  /// - Returns: nil where no whole note begins.
  private static func note(at place: Int, in bytes: UnsafeRawBufferPointer) -> (note: Note, end: Int)? {
    func number<T: FixedWidthInteger>(_ offset: Int, _ type: T.Type) -> T {
      bytes.loadUnaligned(fromByteOffset: place + offset, as: type)
    }
    guard number(0, UInt64.self) == mark else { return nil }
    let (firstCount, secondCount) = (Int(number(20, UInt32.self)), Int(number(24, UInt32.self)))
    let (inode, offset, size) = (number(32, UInt64.self), number(40, Int64.self), number(48, Int64.self))
    let start = place + headerByteCount
    let (middle, end) = (start + firstCount, start + firstCount + secondCount)
    guard end + 8 <= bytes.count, number(end - place, UInt64.self) == number(8, UInt64.self) else { return nil }
    let first = Array(bytes[start..<middle])
    func path(_ bytes: some Collection<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
    let note: Note =
      switch number(16, UInt32.self) {
      case 1: .written(inode: inode, offset: offset, size: size, old: first)
      case 2: .truncated(inode: inode, offset: offset, size: size, old: first)
      case 3: .synced(inode: inode)
      case 4: .made(path: path(first))
      case 5: .named(from: path(first), to: path(bytes[middle..<end]), replaced: number(28, UInt32.self) != 0)
      case 6: .folderSynced(path: path(first))
      default: .removed(inode: inode)
      }
    return (note, end + 8)
  }
}

extension PowerLoss.Note {
  fileprivate var isWrite: Bool { if case .written = self { true } else { false } }
}
