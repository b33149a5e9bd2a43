import Foundation
import RecordStore
import Testing

/// The content of acknowledged bodies survives every end of the process or the machine.
@Suite(.serialized)
struct AssetCrashTests {
  @Test func `killed in the middle of saves with content, again and again, nothing acknowledged is missing`()
    async throws
  {
    let rig = try CrashRig()
    for round in 0..<4 {
      #expect(try rig.run(seed: round, acknowledged: 90 + 40 * round, usesAssets: true) == 9)
      #expect(try await rig.check() == CrashRig.Findings(), "round \(round)")
    }
    #expect(!Self.files(rig).isEmpty)
  }

  @Test func `a power cut loses no acknowledged body's content, and would if folders were not synced`() async throws {
    guard let library = try PowerFailure.library(), let names = try NameLoss.library() else { return }
    for round in 0..<4 {
      let rig = try CrashRig()
      for cut in 0..<2 {
        #expect(
          try rig.run(
            seed: round, acknowledged: 80 + 30 * cut, usesAssets: true,
            environment: library.environment(rig, names, syncsFolders: true)) == 9)
        try library.cutPower(rig, seed: round * 2 + cut, mode: "all")
        _ = try names.cutPower(rig)
        #expect(try await rig.check() == CrashRig.Findings(), "round \(round), cut \(cut)")
      }
      #expect(!Self.files(rig).isEmpty)
    }
    // The control: the same test setup must notice links that were not made durable.
    let rig = try CrashRig()
    #expect(
      try rig.run(
        seed: 9, acknowledged: 80, usesAssets: true, environment: library.environment(rig, names, syncsFolders: false))
        == 9)
    try library.cutPower(rig, seed: 9, mode: "all")
    #expect(try names.cutPower(rig) > 0)
    do {
      #expect(try await rig.check().problems.contains { $0.contains("is missing") })
    } catch {
      // Even the shard's own file lost its name.
    }
  }

  private static func files(_ rig: CrashRig) -> [String] {
    (FileManager.default.enumerator(atPath: rig.data + "/assets/shard-0")?.allObjects as? [String] ?? []).filter {
      $0.contains("/")
    }
  }
}
