// A server's TLS certificate, read from files that can be renewed while the server runs.

internal import CLinux
internal import CMicroHTTPD
internal import Glibc
internal import Synchronization

/// A certificate and its private key, read from two PEM files. When the files change, later connections get the new
/// ones. The server compares the files when a connection begins, at most once in `lookInterval`. Files that it refused
/// are read again, also without a change, in ten times that: a permission or the clock may be set right.
public final class TLSCertificate: Sendable {
  /// One sentence that names the file and its defect.
  public struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String
  }

  /// The outcome of a change of the files.
  public enum Renewal: Hashable, Sendable {
    case renewed
    /// The files are unusable. Connections still get the earlier certificate.
    case refused(Problem)
  }

  private struct State {
    var credentials: TLSCredentials
    /// Of the files that `credentials` are from.
    var stamp: [FileStamp]
    var refused: Refused?
    /// The time of the latest look, on the clock of `monotonicMilliseconds`.
    var lookedAt: Int64
  }

  /// The latest files that can't serve.
  private struct Refused {
    let stamp: [FileStamp]
    let problem: Problem
    let readAt: Int64
  }

  public let certificatePath: String
  public let keyPath: String
  private let seconds: @Sendable () -> Int64
  private let lookInterval: Int64
  private let observe: @Sendable (Renewal) -> Void
  private let state: Mutex<State>

  /// - Parameters:
  ///   - certificate: a PEM file with the server's certificate, followed by the intermediate authorities, if any.
  ///   - key: a PEM file with the private key, without a password.
  ///   - lookInterval: the shortest time between two looks at the files.
  ///   - seconds: the current time in seconds since 1970.
  ///   - observe: called on a thread of the server after the files have changed, or are refused for another reason. It
  ///     must not block.
  /// - Throws: `Problem` when a file is unreadable or malformed, when key and certificate do not match, or when the
  ///   certificate is not valid now.
  public init(
    certificate: String, key: String, lookInterval: Duration = .seconds(1),
    seconds: @escaping @Sendable () -> Int64 = TLSCertificate.systemSeconds,
    observe: @escaping @Sendable (Renewal) -> Void = { _ in }
  ) throws(Problem) {
    certificatePath = certificate
    keyPath = key
    self.seconds = seconds
    self.lookInterval = lookInterval.milliseconds
    self.observe = observe
    // Taken before the files are read, so that a change in between counts as a change.
    let stamp = Self.stamp(certificate, key)
    let credentials = try Self.load(certificate, key, at: seconds())
    state = Mutex(State(credentials: credentials, stamp: stamp, lookedAt: monotonicMilliseconds()))
  }

  public static let systemSeconds: @Sendable () -> Int64 = { Int64(time(nil)) }

  /// True when every account of this machine may read the key.
  public var isKeyExposed: Bool {
    var status = stat()
    return stat(keyPath, &status) == 0 && status.st_mode & S_IROTH != 0
  }

  /// The expiry of the current certificate in seconds since 1970.
  public var expiry: Int64 { state.withLock { $0.credentials.expiry } }

  /// The credentials for a connection that begins now.
  func current() -> TLSCredentials {
    let now = monotonicMilliseconds()
    let (credentials, renewal): (TLSCredentials, Renewal?) = state.withLock { state in
      guard now - state.lookedAt >= lookInterval else { return (state.credentials, nil) }
      state.lookedAt = now
      let stamp = Self.stamp(certificatePath, keyPath)
      guard stamp != state.stamp else { return (state.credentials, nil) }
      let known = state.refused.flatMap { $0.stamp == stamp ? $0 : nil }
      if let known, now - known.readAt < 10 * lookInterval { return (state.credentials, nil) }
      do throws(Problem) {
        state.credentials = try Self.load(certificatePath, keyPath, at: seconds())
        state.stamp = stamp
        state.refused = nil
        return (state.credentials, .renewed)
      } catch {
        // The two files are replaced one after the other. The second replacement changes the stamp again.
        state.refused = Refused(stamp: stamp, problem: error, readAt: now)
        return (state.credentials, known?.problem == error ? nil : .refused(error))
      }
    }
    if let renewal { observe(renewal) }
    return credentials
  }

  private static func load(_ certificate: String, _ key: String, at now: Int64) throws(Problem) -> TLSCredentials {
    try TLSCredentials(
      chain: try content(of: certificate, "certificate"), key: try content(of: key, "key"), paths: (certificate, key),
      now: now)
  }

  // MARK: Files

  private struct FileStamp: Equatable {
    let file: UInt64
    let byteCount: Int64
    let seconds: Int
    let nanoseconds: Int
  }

  /// The stamps of the files that exist.
  private static func stamp(_ paths: String...) -> [FileStamp] {
    paths.compactMap { path in
      var status = stat()
      guard stat(path, &status) == 0 else { return nil }
      return FileStamp(
        file: UInt64(status.st_ino), byteCount: Int64(status.st_size), seconds: status.st_mtim.tv_sec,
        nanoseconds: status.st_mtim.tv_nsec)
    }
  }

  private static let fileByteLimit = 1 << 20

  private static func content(of path: String, _ what: String) throws(Problem) -> [UInt8] {
    let fd = open(path, O_RDONLY | O_CLOEXEC)
    guard fd >= 0 else {
      throw Problem(description: "The TLS \(what) file \(path) can't be read: \(String(cString: strerror(errno))).")
    }
    defer { close(fd) }
    var bytes = [UInt8](repeating: 0, count: fileByteLimit)
    var filled = 0
    while filled < bytes.count {
      let count = bytes[filled...].withUnsafeMutableBytes { read(fd, $0.baseAddress, $0.count) }
      if count < 0 {
        throw Problem(description: "The TLS \(what) file \(path) can't be read: \(String(cString: strerror(errno))).")
      }
      if count == 0 { break }
      filled += count
    }
    guard filled < fileByteLimit else { throw Problem(description: "The TLS \(what) file \(path) is too large.") }
    return Array(bytes[..<filled])
  }
}
