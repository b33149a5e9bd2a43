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

  private func keyCount() throws -> Int {
    try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").count
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
    #expect(try keyCount() == 2)
  }

  @Test func `keys that are added at the same time are all there, and of first keys there is one`() async throws {
    defer { unlink(path) }
    for isFirst in [true, false] {
      let added = try await withThrowingTaskGroup(of: Bool.self) { [path] group in
        for _ in 0..<16 { group.addTask { try KeyFile.addKey(to: path, unlessPresent: isFirst) } }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(added == (isFirst ? 1 : 16))
      #expect(try keyCount() == (isFirst ? 1 : 17))
    }
  }
}
