// Checks that ThreadSanitizer reports a race, and that runtime.c prevents false reports; `run thread` starts with it.
// usage: check race|mutex|continuation|copy   The sanitizer's exit code, 66, is for a report.

import Glibc
import Synchronization

final class Box: @unchecked Sendable { var value = 0 }

/// Starts a thread that nobody waits for.
func start(_ body: @escaping @Sendable () -> Void) {
  final class Start: Sendable {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
  var thread = pthread_t()
  pthread_create(
    &thread, nil,
    {
      Unmanaged<Start>.fromOpaque($0!).takeRetainedValue().body()
      return nil
    }, Unmanaged.passRetained(Start(body)).toOpaque())
  pthread_detach(thread)
}

@main struct Check {
  static let pause: useconds_t = 200_000
  static let mutex = Mutex(())
  static let numbers = Mutex<[Int]>([])

  static func main() async {
    let box = Box()
    switch CommandLine.arguments.last {
    case "race":
      start { box.value += 1 }
      usleep(pause)
      box.value += 1
    case "mutex":
      // One thread waits for the other in the kernel.
      start {
        mutex.withLock { _ in
          usleep(2 * pause)
          box.value += 1
        }
      }
      usleep(pause)
      mutex.withLock { _ in box.value += 1 }
    case "continuation":
      // Resumed before its task waits.
      let made: Box = await withCheckedContinuation { continuation in
        start {
          let made = Box()
          made.value += 1
          continuation.resume(returning: made)
        }
        usleep(pause)
      }
      made.value += 1
    case "copy":
      // Read without the lock, and changed in place when no copy is left.
      numbers.withLock { numbers in
        numbers.reserveCapacity(100)
        numbers.append(1)
      }
      start {
        let copy = numbers.withLock { $0 }
        guard copy.count == 1, copy[0] == 1 else { exit(65) }
      }
      usleep(pause)
      numbers.withLock { $0.append(2) }
    default: exit(64)
    }
  }
}
