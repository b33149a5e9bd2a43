// Threads of the store's own: SQLite and fsync block, and Swift's cooperative threads must not.

import CLinux
import Glibc

enum WorkerThread {
  private final class Body: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }

  /// Starts a detached thread that ends with `body`.
  static func start(_ body: @escaping @Sendable () -> Void) throws(StoreError) {
    let box = Unmanaged.passRetained(Body(body))
    var thread = pthread_t()
    let code = pthread_create(
      &thread, nil,
      { argument in
        if let argument { Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run() }
        return nil
      }, box.toOpaque())
    guard code == 0 else {
      box.release()
      throw .io("no thread could be started: \(String(cString: strerror(code)))")
    }
    pthread_detach(thread)
  }
}
