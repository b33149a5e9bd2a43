// The thread of a transfer loop, and the end of a process beside it: the one place of the client that names the
// platform's C library.

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

enum LoopThread {
  typealias Body = @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?

  /// Starts a thread that nobody joins.
  /// - Returns: 0, or the error of `pthread_create`; no thread runs then.
  static func start(_ body: @escaping Body, with context: UnsafeMutableRawPointer) -> Int32 {
    var thread = pthread_t()
    let error = pthread_create(&thread, nil, body, context)
    if error == 0 { pthread_detach(thread) }
    return error
  }
}

extension HTTPClient {
  /// Ends this process after a use of clients, with everything written that `print` and streams of C hold. The threads
  /// of clients may still run, and `exit` would let libraries free what they hold: libcrypto frees the state of each
  /// thread, which a thread that ends just then frees, too.
  public static func endProcess(_ code: Int32) -> Never {
    fflush(nil)
    _exit(code)
  }
}
