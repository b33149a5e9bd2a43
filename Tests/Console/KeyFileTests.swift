import Crypto
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
    try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").count { !$0.hasPrefix("#") }
  }

  @Test func `another key leaves its file to the owner, the group and the mode that it had`() throws {
    defer { unlink(path) }
    #expect(try KeyFile.addKey(to: path, unlessPresent: true) == .first)
    #expect(try rights()[2] == 0o600)
    // Others than root can give away no file.
    let (owner, group) = geteuid() == 0 ? (4711, 4712) : (Int(geteuid()), Int(getegid()))
    #expect(chown(path, uid_t(owner), gid_t(group)) == 0 && chmod(path, 0o640) == 0)
    #expect(try KeyFile.addKey(to: path, unlessPresent: false) == .waiting)
    #expect(try rights() == [owner, group, 0o640])
    #expect(try keyCount() == 2)
    try KeyFile.useKeys(of: path)
    #expect(try rights() == [owner, group, 0o640])
    #expect(try keyCount() == 2)
  }

  private func keys() throws -> KeyRing { try KeyRing(parsing: String(contentsOfFile: path, encoding: .utf8)) }

  @Test(arguments: [1, 2]) func `an added key opens at once, and seals once it is used`(count: Int) throws {
    defer { unlink(path) }
    #expect(throws: SystemProblem.self) { try KeyFile.useKeys(of: path) }
    #expect(try KeyFile.addKey(to: path, unlessPresent: false) == .first)
    let first = try #require(try keys().newest)
    #expect(throws: SystemProblem.self) { try KeyFile.useKeys(of: path) }
    #expect(try keys().newest == first)
    // An operator's editor may end the file without an end of its line.
    try Data("# of spring\n\(String(contentsOfFile: path, encoding: .utf8).dropLast())".utf8)
      .write(to: URL(filePath: path))
    var newest = ""
    for _ in 0..<count {
      let earlier = Set(try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n"))
      #expect(try KeyFile.addKey(to: path, unlessPresent: false) == .waiting)
      #expect(try KeyFile.addKey(to: path, unlessPresent: true) == .none)
      let added = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
      newest = String(try #require(added.first { !$0.hasPrefix("#") && !earlier.contains($0) }))
      #expect(try keys().newest == first)
    }
    let id = try #require(try KeyRing(parsing: newest).newest)
    #expect(try keys().contains(id))
    try KeyFile.useKeys(of: path)
    #expect(try keys().newest == id && keys().contains(first) && keyCount() == count + 1)
    #expect(try String(contentsOfFile: path, encoding: .utf8).hasPrefix("# of spring\n"))
    #expect(throws: SystemProblem.self) { try KeyFile.useKeys(of: path) }
    #expect(try keys().newest == id)
  }

  @Test func `keys that are added at the same time are all there, and of first keys there is one`() async throws {
    defer { unlink(path) }
    for isFirst in [true, false] {
      let added = try await withThrowingTaskGroup(of: Bool.self) { [path] group in
        for _ in 0..<16 { group.addTask { try KeyFile.addKey(to: path, unlessPresent: isFirst) != .none } }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(added == (isFirst ? 1 : 16))
      #expect(try keyCount() == (isFirst ? 1 : 17))
    }
  }
}
