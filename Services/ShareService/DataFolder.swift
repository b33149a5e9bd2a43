// The share service's files: the data folder, and the operator's token in it.

import Crypto
import FoundationEssentials
import Glibc
import ServiceKit

/// The folder of all durable files.
struct DataFolder {
  let path: String

  var directoryPath: String { path + "/directory.sqlite" }
  var operatorTokenPath: String { path + "/operator-token" }

  private static let minimumTokenCharacterCount = 16

  /// Creates the folder when it is missing.
  /// - Throws: `InstallationProblem`.
  init(_ path: String) throws(InstallationProblem) {
    do {
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    } catch {
      throw InstallationProblem("The data folder \(path) can't be made (\(Self.reason)): choose another with --data.")
    }
    self.path = path
  }

  /// Creates the directory's file before SQLite does, readable by its owner only: it holds the signing key. SQLite
  /// gives its other files the same permissions.
  /// - Returns: its path.
  func protectedDirectory() throws(InstallationProblem) -> String {
    let file = open(directoryPath, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard file >= 0 else {
      throw InstallationProblem(
        "\(directoryPath) can't be written (\(Self.reason)): check the folder's owner and its free space.")
    }
    defer { Glibc.close(file) }
    guard fchmod(file, 0o600) == 0 else {
      throw InstallationProblem("\(directoryPath) belongs to somebody else (\(Self.reason)): check its owner.")
    }
    return directoryPath
  }

  /// - Throws: when the folder has a directory, which a start with another one would leave behind.
  func refuseDirectory() throws(InstallationProblem) {
    guard FileManager.default.fileExists(atPath: directoryPath) else { return }
    throw InstallationProblem(
      "\(directoryPath) is a directory, and --directory names another place: choose another folder with --data.")
  }

  /// The token that operators present: the given one, or the folder's, which is made at the first start.
  /// - Parameters:
  ///   - given: replaces the folder's token, which stays as it is.
  ///   - isShared: several share services need the same token, so none is made.
  /// - Throws: `InstallationProblem` for a token that is too short, or a file that can't be read or written.
  func operatorToken(
    given: String?, isShared: Bool, random: any RandomSource
  ) throws(InstallationProblem) -> String {
    if let given { return try Self.check(given, from: "The operator token") }
    if FileManager.default.fileExists(atPath: operatorTokenPath) {
      guard let content = FileManager.default.contents(atPath: operatorTokenPath) else {
        throw InstallationProblem("\(operatorTokenPath) can't be read (\(Self.reason)): check its owner.")
      }
      return try Self.check(String(decoding: content, as: UTF8.self), from: operatorTokenPath)
    }
    if isShared {
      throw InstallationProblem(
        "Share services of one directory need one operator token: pass --operator-token, or copy \(operatorTokenPath)."
      )
    }
    let token = random.hex(byteCount: 32)
    guard Self.write(token + "\n", to: operatorTokenPath) else {
      throw InstallationProblem(
        "\(operatorTokenPath) can't be written (\(Self.reason)): check the folder's owner and its free space.")
    }
    return token
  }

  private static func check(_ text: String, from source: String) throws(InstallationProblem) -> String {
    let token = text.trimmingCharacters(in: [" ", "\t", "\r", "\n"])
    guard token.utf8.count >= minimumTokenCharacterCount else {
      throw InstallationProblem(
        "\(source) has \(token.utf8.count) characters: an operator token has at least \(minimumTokenCharacterCount).")
    }
    return token
  }

  /// Writes the file atomically and durably, readable by its owner only.
  /// - Returns: false when any step failed.
  private static func write(_ text: String, to path: String) -> Bool {
    let draft = path + ".new"
    let file = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard file >= 0 else { return false }
    let bytes = Array(text.utf8)
    let isWritten = Glibc.write(file, bytes, bytes.count) == bytes.count && fchmod(file, 0o600) == 0 && fsync(file) == 0
    return Glibc.close(file) == 0 && isWritten && rename(draft, path) == 0 && sync(folderOf: path)
  }

  /// Makes the folder's entries durable: without this a power cut can lose a file whose content was synced.
  private static func sync(folderOf path: String) -> Bool {
    let parent = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
    let folder = open(parent.isEmpty ? "/" : parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard folder >= 0 else { return false }
    defer { Glibc.close(folder) }
    return fsync(folder) == 0
  }

  private static var reason: String { String(cString: strerror(errno)) }
}

extension String {
  fileprivate func trimmingCharacters(in characters: Set<Character>) -> String {
    String(drop { characters.contains($0) }.reversed().drop { characters.contains($0) }.reversed())
  }
}
