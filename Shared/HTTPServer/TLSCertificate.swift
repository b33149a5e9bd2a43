// The certificate that a server shows, from files that may be renewed while it runs.

internal import CLinux
internal import CMicroHTTPD
internal import Glibc
internal import Synchronization

/// A certificate and its private key, read from two PEM files. When the files change, connections that come later get the new ones: the
/// files are looked at when a connection begins, at most once a second.
public final class TLSCertificate: Sendable {
  /// One sentence: which file, and what is wrong with it.
  public struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String
  }

  /// What became of files that changed while the server ran.
  public enum Renewal: Hashable, Sendable {
    case renewed
    /// The files can't be used; connections still get the certificate from before.
    case refused(Problem)
  }

  private struct State {
    var credentials: TLSCredentials
    var stamp: [FileStamp]
    /// On `monotonicMilliseconds`.
    var lookedAt: Int64
  }

  public let certificatePath: String
  public let keyPath: String
  private let seconds: @Sendable () -> Int64
  private let lookInterval: Int64
  private let observe: @Sendable (Renewal) -> Void
  private let state: Mutex<State>

  /// - Parameters:
  ///   - certificate: a PEM file: the server's certificate, and the authorities that lead to a root, if any.
  ///   - key: a PEM file: the private key, without a password.
  ///   - lookInterval: the time that passes at least between two looks at the files.
  ///   - seconds: since 1970, now.
  ///   - observe: called on a server's thread after the files have changed; must not block.
  /// - Throws: `Problem` when a file can't be read, is not what it should be, is not for the other one, or is not valid now.
  public init(
    certificate: String, key: String, lookInterval: Duration = .seconds(1), seconds: @escaping @Sendable () -> Int64 = TLSCertificate.systemSeconds,
    observe: @escaping @Sendable (Renewal) -> Void = { _ in }
  ) throws(Problem) {
    certificatePath = certificate
    keyPath = key
    self.seconds = seconds
    self.lookInterval = lookInterval.milliseconds
    self.observe = observe
    // Taken before the files are read: what changes in between is seen as a change.
    let stamp = Self.stamp(certificate, key)
    let credentials = try Self.load(certificate, key, at: seconds())
    state = Mutex(State(credentials: credentials, stamp: stamp, lookedAt: monotonicMilliseconds()))
  }

  public static let systemSeconds: @Sendable () -> Int64 = { Int64(time(nil)) }

  /// Whether everybody on this machine may read the key.
  public var isKeyExposed: Bool {
    var status = stat()
    return stat(keyPath, &status) == 0 && status.st_mode & S_IROTH != 0
  }

  /// When the certificate in use expires: seconds since 1970.
  public var expiry: Int64 { state.withLock { $0.credentials.expiry } }

  /// What a connection that begins now is shown.
  func current() -> TLSCredentials {
    let now = monotonicMilliseconds()
    let (credentials, renewal): (TLSCredentials, Renewal?) = state.withLock { state in
      guard now - state.lookedAt >= lookInterval else { return (state.credentials, nil) }
      state.lookedAt = now
      let stamp = Self.stamp(certificatePath, keyPath)
      guard stamp != state.stamp else { return (state.credentials, nil) }
      state.stamp = stamp
      do throws(Problem) {
        state.credentials = try Self.load(certificatePath, keyPath, at: seconds())
        return (state.credentials, .renewed)
      } catch {
        // The two files are replaced one after the other; the second changes the stamp again.
        return (state.credentials, .refused(error))
      }
    }
    if let renewal { observe(renewal) }
    return credentials
  }

  private static func load(_ certificate: String, _ key: String, at now: Int64) throws(Problem) -> TLSCredentials {
    try TLSCredentials(chain: try content(of: certificate, "certificate"), key: try content(of: key, "key"), paths: (certificate, key), now: now)
  }

  // MARK: Files

  private struct FileStamp: Equatable {
    let file: UInt64
    let byteCount: Int64
    let seconds: Int
    let nanoseconds: Int
  }

  /// Empty for files that aren't there.
  private static func stamp(_ paths: String...) -> [FileStamp] {
    paths.compactMap { path in
      var status = stat()
      guard stat(path, &status) == 0 else { return nil }
      return FileStamp(file: UInt64(status.st_ino), byteCount: Int64(status.st_size), seconds: status.st_mtim.tv_sec, nanoseconds: status.st_mtim.tv_nsec)
    }
  }

  private static let fileByteLimit = 1 << 20

  private static func content(of path: String, _ what: String) throws(Problem) -> [UInt8] {
    let fd = open(path, O_RDONLY | O_CLOEXEC)
    guard fd >= 0 else { throw Problem(description: "The TLS \(what) file \(path) can't be read: \(String(cString: strerror(errno))).") }
    defer { close(fd) }
    var bytes = [UInt8](repeating: 0, count: fileByteLimit)
    var filled = 0
    while filled < bytes.count {
      let count = bytes[filled...].withUnsafeMutableBytes { read(fd, $0.baseAddress, $0.count) }
      if count < 0 { throw Problem(description: "The TLS \(what) file \(path) can't be read: \(String(cString: strerror(errno))).") }
      if count == 0 { break }
      filled += count
    }
    guard filled < fileByteLimit else { throw Problem(description: "The TLS \(what) file \(path) is too large for one.") }
    return Array(bytes[..<filled])
  }
}
