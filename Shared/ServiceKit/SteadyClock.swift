// A clock that nobody sets, for what is promised for a span of time and has to outlive its process.

internal import Glibc

/// Milliseconds since 1970 as the wall clock had them when the machine was first asked, and what has passed since: setting the wall clock changes
/// nothing of it.
///
/// The processes of a folder share it as long as the machine is not started anew, because a file keeps what is to be added to the time since
/// the machine's start. Without such a file, and after a start of the machine, it begins by the wall clock.
public struct SteadyClock: WallClock {
  /// To be added to the time since the machine's start.
  private let offset: Int64

  /// - Parameter path: of the file. One that can't be read or written keeps nothing.
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

  /// Milliseconds, with those for which the machine slept.
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
    // Dropped because whoever comes next begins by the wall clock, as this one did.
    if !isWritten || rename(temporary, path) != 0 { unlink(temporary) }
  }
}
