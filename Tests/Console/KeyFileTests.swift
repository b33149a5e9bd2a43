import Foundation
import Glibc
import Testing

@testable import Console

struct KeyFileTests {
  private let path = FileManager.default.temporaryDirectory.appending(path: "aquifer-keys-\(UUID().uuidString)").path

  /// Owner, group and mode.
  private func rights() throws -> [Int?] {
    let attributes = try FileManager.default.attributesOfItem(atPath: path)
    let keys: [FileAttributeKey] = [.ownerAccountID, .groupOwnerAccountID, .posixPermissions]
    return keys.map { (attributes[$0] as? NSNumber)?.intValue }
  }

  @Test func `another key leaves its file to the owner, the group and the mode that it had`() throws {
    defer { unlink(path) }
    #expect(try KeyFile.addKey(to: path, unlessPresent: true))
    #expect(try rights()[2] == 0o600)
    // Others than root can give away no file.
    let (owner, group) = geteuid() == 0 ? (4711, 4712) : (Int(geteuid()), Int(getegid()))
    #expect(chown(path, uid_t(owner), gid_t(group)) == 0 && chmod(path, 0o640) == 0)
    #expect(try KeyFile.addKey(to: path, unlessPresent: false))
    #expect(try rights() == [owner, group, 0o640])
    #expect(try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").count == 2)
  }
}
