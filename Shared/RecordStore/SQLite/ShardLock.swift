// The lock beside a shard's file: held by the process that owns the shard, gone with it.

import Assets
import CLinux
import Glibc

/// An exclusive `flock` on `shard-<n>.lock`. The kernel drops it when the process ends, however it ends.
struct ShardLock: Sendable {
  private let descriptor: Int32

  /// How long between attempts: there is no way to wait for a lock that a cancelled task could leave.
  private static let pause = Duration.milliseconds(10)

  /// Waits until nobody holds the lock.
  /// - Throws: `CancellationError`, `StoreError.io`; nothing is held then.
  static func acquire(_ path: String) async throws -> ShardLock {
    // Not inherited by child processes: a lock lives as long as any copy of its descriptor.
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw StoreError(Folder.failure("open lock", path)) }
    do {
      while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
        guard errno == EWOULDBLOCK || errno == EINTR else { throw StoreError(Folder.failure("lock", path)) }
        try await Task.sleep(for: pause)
      }
      return ShardLock(descriptor: descriptor)
    } catch {
      _ = Glibc.close(descriptor)
      throw error
    }
  }

  /// Lets go; to be called once.
  func release() { _ = Glibc.close(descriptor) }
}
