// Starts threads for SQLite and fsync, which block and must not run on Swift's cooperative threads.

import CLinux
import Glibc

enum WorkerThread {
  private final class Body: Sendable {
    let name: String
    let run: @Sendable () -> Void

    init(_ name: String, _ run: @escaping @Sendable () -> Void) {
      self.name = name
      self.run = run
    }
  }

  /// Starts a detached thread that ends with `body`.
  /// - Parameter name: the name that operators see, at most 15 bytes.
  static func start(_ name: String, _ body: @escaping @Sendable () -> Void) throws(StoreError) {
    let box = Unmanaged.passRetained(Body(name, body))
    var thread = pthread_t()
    let code = pthread_create(
      &thread, nil,
      { argument in
        guard let argument else { return nil }
        let body = Unmanaged<Body>.fromOpaque(argument).takeRetainedValue()
        name_this_thread(body.name)
        body.run()
        return nil
      }, box.toOpaque())
    guard code == 0 else {
      box.release()
      throw .io("no thread could be started: \(String(cString: strerror(code)))")
    }
    pthread_detach(thread)
  }
}
