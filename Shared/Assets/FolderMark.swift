// The file that says whose a folder is: a folder that was not mounted, an older copy or another installation's must not pass for the one with the data.

import Crypto
import Glibc

/// Names an installation: 16 hexadecimal digits, the same for as long as its directory exists, restored or not.
public struct InstallationID: Hashable, Sendable, CustomStringConvertible {
  public let text: String
  public var description: String { text }

  /// - Parameter signingKey: the directory's, made with the installation.
  public init(signingKey: [UInt8]) { text = Hex.encode(Array(SHA256.hash(Array("aquifer installation".utf8) + signingKey).prefix(8))) }

  /// nil for what is no identifier.
  public init?(text: String) {
    guard text.utf8.count == 16, Hex.decode(text) != nil else { return nil }
    self.text = text
  }
}

/// What the file `installation` of a folder says: whose the folder is, and who used it last.
///
/// Whoever begins to use the folder raises `epoch` and draws a `nonce`, and the directory keeps both. So a copy that stayed behind has a lower epoch, and
/// of two copies one has another nonce than the directory. `next` is the nonce of a use that the directory may have heard of and the file not yet.
public struct FolderMark: Hashable, Sendable {
  public static let fileName = "installation"
  /// Hexadecimal digits of a nonce.
  public static let nonceLength = 16

  public let installation: InstallationID
  /// 0: nobody has used the folder.
  public var epoch: Int64
  public var nonce: String
  public var next: String

  public init(installation: InstallationID, epoch: Int64 = 0, nonce: String? = nil, next: String? = nil) {
    self.installation = installation
    self.epoch = epoch
    self.nonce = nonce ?? Self.none
    self.next = next ?? Self.none
  }

  /// No nonce.
  public static let none = String(repeating: "0", count: nonceLength)

  /// The use that `next` stands for has begun.
  public var advanced: FolderMark { FolderMark(installation: installation, epoch: epoch + 1, nonce: next) }

  /// One line, always of the same length: it is replaced in place, which needs no space on a full disk and is one sector.
  var line: String {
    let digits = String(epoch)
    return "aquifer \(installation.text) \(String(repeating: "0", count: max(19 - digits.utf8.count, 0)))\(digits) \(nonce) \(next)\n"
  }

  /// nil for what is no such line.
  init?(line: String) {
    let words = line.split(separator: "\n", omittingEmptySubsequences: false).first?.split(separator: " ").map(String.init) ?? []
    guard words.count == 5, words[0] == "aquifer", let installation = InstallationID(text: words[1]), let epoch = Int64(words[2]), epoch >= 0,
      words[3].utf8.count == Self.nonceLength, words[4].utf8.count == Self.nonceLength
    else { return nil }
    self.init(installation: installation, epoch: epoch, nonce: words[3], next: words[4])
  }
}

/// The file itself, locked against others on this machine for as long as the value lives.
public final class FolderMarkFile {
  private let path: String
  private let descriptor: Int32
  /// Why it was opened for reading only; 0: it was not.
  private let obstacle: Int32

  private init(path: String, descriptor: Int32, obstacle: Int32) {
    self.path = path
    self.obstacle = obstacle
    self.descriptor = descriptor
  }

  deinit { _ = close(descriptor) }

  /// Opens the folder's file, and waits for its lock.
  /// - Parameter makes: makes folder and file when they are missing.
  /// - Returns: nil when there is none.
  public static func open(in folder: String, makes: Bool = false) throws(AssetError) -> FolderMarkFile? {
    let path = folder + "/" + FolderMark.fileName
    if makes { try Folder.make(folder) }
    var descriptor = Glibc.open(path, O_RDWR | O_CLOEXEC | (makes ? O_CREAT : 0), 0o600)
    // Read-only folders are looked at, too: whoever writes then is told.
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

  /// - Returns: nil of an empty file, whose maker has not come to write it.
  /// - Throws: `corrupt` of any other content.
  public func read() throws(AssetError) -> FolderMark? {
    var buffer = [UInt8](repeating: 0, count: 256)
    let count = pread(descriptor, &buffer, buffer.count, 0)
    guard count >= 0 else { throw Folder.failure("read", path) }
    if count == 0 { return nil }
    guard let mark = FolderMark(line: String(decoding: buffer[..<count], as: UTF8.self)) else {
      throw .corrupt("\(path) is not what was written there; see docs/operating/OPERATING.md")
    }
    return mark
  }

  /// Durable when it returns.
  public func write(_ mark: FolderMark) throws(AssetError) {
    let bytes = Array(mark.line.utf8)
    errno = obstacle
    if obstacle != 0 { throw Folder.failure("write", path) }
    guard pwrite(descriptor, bytes, bytes.count, 0) == bytes.count, fsync(descriptor) == 0 else { throw Folder.failure("write", path) }
    try Folder.sync(Folder.parent(of: path))
  }
}
