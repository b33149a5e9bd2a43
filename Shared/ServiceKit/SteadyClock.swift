// A clock that ignores changes of the wall clock, for promises about a span of time that outlive the process.

internal import Glibc

/// Milliseconds since 1970, as the wall clock had them when this clock was first used, plus the time that has passed
/// since. Setting the wall clock does not affect it.
///
/// A file keeps the offset between this clock and the time since the machine's start. Processes that use the same file
/// share the clock until the machine restarts. Without a file, and after a restart, the clock begins with the wall
/// clock.
public struct SteadyClock: WallClock {
  /// Added to the time since the machine's start, in milliseconds.
  private let offset: Int64

  /// - Parameter path: the file with the offset. If it is unreadable or unwritable, the offset is not kept.
  public init(keptAt path: String, wall: any WallClock = SystemClock()) {
    let machineStart = readSmallFile("/proc/sys/kernel/random/boot_id")?.prefix { $0 != "\n" }
    let kept = readSmallFile(path)?.split(whereSeparator: \.isWhitespace)
    if let machineStart, let kept, kept.count == 2, kept[0] == machineStart, let offset = Int64(kept[1]) {
      self.offset = offset
      return
    }
    offset = wall.now - Self.sinceStart
    if let machineStart { Self.keep("\(machineStart) \(offset)\n", at: path) }
  }

  public var now: Int64 { Self.sinceStart + offset }

  /// The milliseconds since the machine's start, including the time that it slept.
  private static var sinceStart: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_BOOTTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  private static func keep(_ text: String, at path: String) {
    let temporary = "\(path).\(getpid())"
    let descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { return }
    let bytes = Array(text.utf8)
    let isWritten = write(descriptor, bytes, bytes.count) == bytes.count
    close(descriptor)
    // Dropped because the next clock then begins with the wall clock, as this one did.
    if !isWritten || rename(temporary, path) != 0 { unlink(temporary) }
  }
}
