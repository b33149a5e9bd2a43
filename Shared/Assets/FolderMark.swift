// The file that names a folder's owner. It exposes an unmounted folder, an older copy, and another installation's
// folder.

import Crypto
import Glibc

/// Names an installation: 16 hexadecimal digits that stay the same as long as its directory exists, restored or not.
public struct InstallationID: Hashable, Sendable, CustomStringConvertible {
  public let text: String
  public var description: String { text }

  /// - Parameter signingKey: the key that the directory keeps and that was made with the installation.
  public init(signingKey: [UInt8]) {
    text = Hex.encode(Array(SHA256.hash(Array("aquifer installation".utf8) + signingKey).prefix(8)))
  }

  /// Fails unless the text has 16 hexadecimal digits.
  public init?(text: String) {
    guard text.utf8.count == 16, Hex.decode(text) != nil else { return nil }
    self.text = text
  }
}

/// The content of a folder's file `installation`: the installation that owns the folder, and the latest use of it.
///
/// Each use of the folder begins with a raised `epoch` and a random `nonce`, and the directory keeps both. An outdated
/// copy has a lower epoch. Of two copies, at most one has the nonce that the directory knows. `next` is the nonce of a
/// use that the directory may know already while the file does not.
public struct FolderMark: Hashable, Sendable {
  public static let fileName = "installation"
  /// Hexadecimal digits of a nonce.
  public static let nonceLength = 16

  public let installation: InstallationID
  /// 0 when the folder was never used.
  public var epoch: Int64
  public var nonce: String
  public var next: String

  public init(installation: InstallationID, epoch: Int64 = 0, nonce: String? = nil, next: String? = nil) {
    self.installation = installation
    self.epoch = epoch
    self.nonce = nonce ?? Self.none
    self.next = next ?? Self.none
  }

  /// Stands for a missing nonce.
  public static let none = String(repeating: "0", count: nonceLength)

  /// The mark after the use that `next` names has begun.
  public var advanced: FolderMark { FolderMark(installation: installation, epoch: epoch + 1, nonce: next) }

  /// One line of constant length. It is replaced in place, within one sector, which needs no space on a full disk.
  var line: String {
    let digits = String(epoch)
    return
      """
      aquifer \(installation.text) \(String(repeating: "0", count: max(19 - digits.utf8.count, 0)))\(digits) \(nonce) \
      \(next)\n
      """
  }

  /// Fails unless the text begins with such a line.
  init?(line: String) {
    let words =
      line.split(separator: "\n", omittingEmptySubsequences: false).first?.split(separator: " ").map(String.init) ?? []
    guard words.count == 5, words[0] == "aquifer", let installation = InstallationID(text: words[1]),
      let epoch = Int64(words[2]), epoch >= 0,
      words[3].utf8.count == Self.nonceLength, words[4].utf8.count == Self.nonceLength
    else { return nil }
    self.init(installation: installation, epoch: epoch, nonce: words[3], next: words[4])
  }
}

/// The open file. It is locked against other processes on this machine as long as the value lives.
public final class FolderMarkFile {
  private let path: String
  private let descriptor: Int32
  /// The `errno` that forced the file to be opened for reading only; 0 when it is writable.
  private let obstacle: Int32

  private init(path: String, descriptor: Int32, obstacle: Int32) {
    self.path = path
    self.obstacle = obstacle
    self.descriptor = descriptor
  }

  deinit { _ = close(descriptor) }

  /// Opens the folder's file and waits for its lock.
  /// - Parameter makes: whether to make a missing folder and file.
  /// - Returns: nil when the file is missing and `makes` is false.
  public static func open(in folder: String, makes: Bool = false) throws(AssetError) -> FolderMarkFile? {
    let path = folder + "/" + FolderMark.fileName
    if makes { try Folder.make(folder) }
    var descriptor = Glibc.open(path, O_RDWR | O_CLOEXEC | (makes ? O_CREAT : 0), 0o600)
    // A read-only folder can still be inspected; `write` throws then.
    let obstacle = descriptor < 0 ? errno : 0
    if obstacle == EROFS || obstacle == EACCES { descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC) }
    guard descriptor >= 0 else {
      if errno == ENOENT, !makes { return nil }
      throw Folder.failure("open", path)
    }
    let file = FolderMarkFile(path: path, descriptor: descriptor, obstacle: obstacle)
    while flock(descriptor, LOCK_EX) != 0 { guard errno == EINTR else { throw Folder.failure("lock", path) } }
    return file
  }

  /// - Returns: nil for an empty file, which its maker has not written yet.
  /// - Throws: `corrupt` for any other content; `io`.
  public func read() throws(AssetError) -> FolderMark? {
    var buffer = [UInt8](repeating: 0, count: 256)
    let count = pread(descriptor, &buffer, buffer.count, 0)
    guard count >= 0 else { throw Folder.failure("read", path) }
    if count == 0 { return nil }
    guard let mark = FolderMark(line: String(decoding: buffer[..<count], as: UTF8.self)) else {
      throw .corrupt("\(path) is damaged; see docs/operating/OPERATING.md")
    }
    return mark
  }

  /// Writes the mark; durable on return.
  public func write(_ mark: FolderMark) throws(AssetError) {
    let bytes = Array(mark.line.utf8)
    errno = obstacle
    if obstacle != 0 { throw Folder.failure("write", path) }
    guard pwrite(descriptor, bytes, bytes.count, 0) == bytes.count, fsync(descriptor) == 0 else {
      throw Folder.failure("write", path)
    }
    try Folder.sync(Folder.parent(of: path))
  }
}
