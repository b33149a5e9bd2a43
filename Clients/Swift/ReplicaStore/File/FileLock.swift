// One process writes to a store (K16): a lock beside its file, which the kernel ends with the process.

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

final class FileLock: Sendable {
  private let file: Int32

  /// - Throws: `inUse` with the process that has the lock.
  init(_ path: String) throws(StoreError) {
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    // Everything below may throw: the file is closed by `deinit` then, too.
    guard file >= 0 else { throw ContentFile.failure(path) }
    guard flock(file, LOCK_EX | LOCK_NB) == 0 else {
      var text = [UInt8](repeating: 0, count: 20)
      let count = pread(file, &text, text.count, 0)
      throw .inUse(processID: Int32(String(decoding: text.prefix(max(count, 0)), as: UTF8.self)) ?? 0)
    }
    let text = Array("\(getpid())".utf8)
    guard ftruncate(file, 0) == 0, pwrite(file, text, text.count, 0) == text.count else {
      throw ContentFile.failure(path)
    }
  }

  deinit {
    guard file >= 0 else { return }
    // A process that is being started has a copy of the file until it runs, and the lock would stay as long.
    flock(file, LOCK_UN)
    close(file)
  }
}

/// What tells a file from a copy of it (K15).
enum FileIdentity {
  /// - Returns: nil when the file is not there.
  static func read(_ path: String, machine: String) -> String? {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    return "\(machine)/\(status.st_dev)/\(status.st_ino)"
  }
}
