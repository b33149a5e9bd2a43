// The lock beside a shard's file. The process that owns the shard holds it, and its end releases it.

import Assets
import CLinux
import Glibc

/// An exclusive `flock` on `shard-<n>.lock`. The kernel releases it when the process ends, however it ends.
struct ShardLock: Sendable {
  private let descriptor: Int32

  /// The time between two attempts, because a blocking wait for the lock could not be cancelled.
  private static let pause = Duration.milliseconds(10)

  /// Waits until the lock is free, and takes it.
  /// - Throws: `CancellationError`, `StoreError.io`; nothing is held then.
  static func acquire(_ path: String) async throws -> ShardLock {
    while true {
      if let lock = try take(path) { return lock }
      try await Task.sleep(for: pause)
    }
  }

  /// Takes the lock.
  /// - Returns: nil while another process or owner has it.
  static func take(_ path: String) throws(StoreError) -> ShardLock? {
    // Not inherited by child processes, because the lock lives as long as any copy of its descriptor.
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw StoreError(Folder.failure("open lock", path)) }
    if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return ShardLock(descriptor: descriptor) }
    let isTaken = errno == EWOULDBLOCK || errno == EINTR
    let failure = StoreError(Folder.failure("lock", path))
    _ = Glibc.close(descriptor)
    if isTaken { return nil }
    throw failure
  }

  /// The process that holds the lock of a file; nil when none does or the kernel does not tell. Processes in other
  /// containers have no number here.
  static func holder(of path: String) -> pid_t? {
    var status = stat()
    guard stat(path, &status) == 0, let file = fopen("/proc/locks", "re") else { return nil }
    defer { fclose(file) }
    var buffer = [UInt8](repeating: 0, count: 1 << 20)
    let text = String(decoding: buffer[..<fread(&buffer, 1, buffer.count, file)], as: UTF8.self)
    return holder(ofFile: Self.name(device: UInt64(status.st_dev), inode: UInt64(status.st_ino)), in: text)
  }

  /// The kernel's spelling of a file in /proc/locks: the device's major and minor numbers in hexadecimal, and the
  /// inode.
  static func name(device: UInt64, inode: UInt64) -> String {
    let (major, minor) = (device >> 8 & 0xfff | device >> 32 & ~0xfff, device & 0xff | device >> 12 & ~0xff)
    func hexadecimal(_ number: UInt64) -> String { (number < 16 ? "0" : "") + String(number, radix: 16) }
    return "\(hexadecimal(major)):\(hexadecimal(minor)):\(inode)"
  }

  /// - Parameter locks: lines such as `12: FLOCK ADVISORY WRITE 4711 08:01:131 0 EOF`. Waiting locks have an arrow
  ///   after the number.
  static func holder(ofFile name: String, in locks: String) -> pid_t? {
    for line in locks.split(separator: "\n") {
      let words = line.split(separator: " ")
      guard words.count >= 6, words[1] == "FLOCK", words[5] == name, let pid = pid_t(words[4]), pid > 0 else {
        continue
      }
      return pid
    }
    return nil
  }

  /// Releases the lock. Called once.
  func release() { _ = Glibc.close(descriptor) }
}
