import Foundation
import Records
import ServiceKit
import Testing

@testable import ShareService

/// Backups that can't begin.
struct StorageJobsTests {
  @Test(arguments: ["monday/yesterday", "monday.partial/archive"])
  func `a backup that is refused removes nothing`(name: String) async throws {
    let world = try World()
    let folder = TemporaryFolder()
    let file = URL(filePath: folder.path + "/" + name)
    let draft = URL(filePath: folder.path + "/monday.partial/kept")
    for file in [file, draft] {
      try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data("kept".utf8).write(to: file)
    }
    let jobs = world.service.jobs
    _ = try await jobs.backUp(to: folder.path + "/monday")
    await jobs.close()
    #expect(await jobs.job(.backup)?.state == .failed)
    for file in [file, draft] { #expect(try String(contentsOf: file, encoding: .utf8) == "kept") }
    await world.service.close()
  }
}
