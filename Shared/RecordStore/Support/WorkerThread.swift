// Starts threads for SQLite and fsync, which block and must not run on Swift's cooperative threads.

import CLinux
import Glibc

enum WorkerThread {
  private final class Body: Sendable {
    /// The nice value of threads that give way. Beside a thread of the usual value each has a quarter of a processor.
    private static let givingWay: Int32 = 5

    private let name: String
    private let givesWay: Bool
    private let body: @Sendable () -> Void

    init(_ name: String, givesWay: Bool, _ body: @escaping @Sendable () -> Void) {
      self.name = name
      self.givesWay = givesWay
      self.body = body
    }

    /// Runs the body on the calling thread, which is its own.
    func run() {
      name_this_thread(name)
      // Zero means the calling thread. Where the kernel refuses, the thread competes as the others do.
      if givesWay { _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, Self.givingWay) }
      body()
    }
  }

  /// Starts a detached thread that ends with `body`.
  /// - Parameters:
  ///   - name: the name that operators see, at most 15 bytes.
  ///   - givesWay: whether other threads go first when processors are short.
  static func start(
    _ name: String, givesWay: Bool = false, _ body: @escaping @Sendable () -> Void
  ) throws(StoreError) {
    let box = Unmanaged.passRetained(Body(name, givesWay: givesWay, body))
    var thread = pthread_t()
    let code = pthread_create(
      &thread, nil,
      { argument in
        guard let argument else { return nil }
        Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run()
        return nil
      }, box.toOpaque())
    guard code == 0 else {
      box.release()
      throw .io("no thread could be started: \(String(cString: strerror(code)))")
    }
    pthread_detach(thread)
  }
}
