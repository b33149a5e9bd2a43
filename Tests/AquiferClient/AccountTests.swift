// Accounts that follow each other on one device: each has files of its own.

import FoundationEssentials
import ReplicaStore
import Testing

@Test func `an account that comes back finds its file as it left it`() throws {
  let folder = FileManager.default.temporaryDirectory.appending(path: "accounts-\(UUID().uuidString)").path
  try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(atPath: folder) }
  let files = AccountFiles("\(folder)/store.sqlite")
  let first = try files.current()
  #expect(first == "\(folder)/store.sqlite")
  try files.select("_b", former: "_a")
  let second = try files.current()
  #expect(second != first)
  try files.select("_c", former: "_b")
  let third = try files.current()
  #expect(Set([first, second, third]).count == 3)
  try files.select("_a", former: "_c")
  #expect(try files.current() == first)
  try files.select("_c", former: "_a")
  #expect(try files.current() == third)
  try files.select("_b", former: "_c")
  #expect(try files.current() == second)
}
