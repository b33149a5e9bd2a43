// The user's token in a file that only the user can read.

import AquiferClient
import FoundationEssentials

/// Keeps the web-auth token of a telephone's user.
struct TokenFile: Account.TokenStore {
  let path: String

  func load() throws -> String? {
    guard let data = FileManager.default.contents(atPath: path) else { return nil }
    return String(decoding: data, as: UTF8.self).split(separator: "\n").first.map(String.init)
  }

  func store(_ token: String?) throws {
    guard let token else { return try FileManager.default.removeItem(atPath: path) }
    try Data(token.utf8).write(to: URL(filePath: path), options: .atomic)
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
  }
}
