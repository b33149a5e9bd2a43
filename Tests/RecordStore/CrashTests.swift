import Foundation
import RecordStore
import Testing

/// Acknowledged bodies survive every end of the process or the machine.
@Suite(.serialized)
struct CrashTests {
  @Test func `killed in the middle of saving, again and again, no acknowledged body is lost and none is torn`()
    async throws
  {
    let rig = try CrashRig()
    for round in 0..<6 {
      #expect(try rig.run(seed: round, acknowledged: 100 + 57 * round) == 9)
      #expect(try await rig.check() == CrashRig.Findings(), "round \(round)")
    }
    #expect(try rig.acknowledgedKeys().count > 1000)
  }

  @Test func `a power cut loses no acknowledged body, and would if commits were not synced`() async throws {
    guard let library = try PowerFailure.library() else { return }
    for (round, mode) in ["all", "torn", "all", "torn", "torn"].enumerated() {
      let rig = try CrashRig()
      for cut in 0..<2 {
        #expect(
          try rig.run(seed: round, acknowledged: 150 + 40 * cut, environment: library.environment(rig, fails: [:])) == 9
        )
        try library.cutPower(rig, seed: round * 2 + cut, mode: mode)
        #expect(try await rig.check() == CrashRig.Findings(), "round \(round), cut \(cut), \(mode)")
      }
    }
    // The control: the same test setup must notice the losses of synchronous=NORMAL.
    let rig = try CrashRig()
    #expect(
      try rig.run(
        seed: 0, acknowledged: 250, synchronous: "NORMAL", environment: library.environment(rig, fails: [:])) == 9)
    try library.cutPower(rig, seed: 0, mode: "all")
    do {
      #expect(try await !rig.check().lost.isEmpty)
    } catch {
      // A file that can't be opened has lost everything.
      #expect(try !rig.acknowledgedKeys().isEmpty)
    }
  }

  @Test(arguments: [3, 8, 20, 41, 77])
  func `after a sync that failed nothing more is acknowledged, and nothing acknowledged is lost`(_ count: Int)
    async throws
  {
    guard let library = try PowerFailure.library() else { return }
    let rig = try CrashRig()
    let status = try rig.run(
      seed: count, acknowledged: 1_000_000, environment: library.environment(rig, fails: ["PF_FAIL_SYNC": "\(count)"]))
    #expect(status == 74)
    try library.cutPower(rig, seed: count, mode: "all")
    #expect(try await rig.check() == CrashRig.Findings())
  }

  @Test(arguments: [5, 30, 90, 300])
  func `after a write that failed nothing of its group is acknowledged, and nothing acknowledged is lost`(_ count: Int)
    async throws
  {
    guard let library = try PowerFailure.library() else { return }
    let rig = try CrashRig()
    let status = try rig.run(
      seed: count, acknowledged: 1_000_000, environment: library.environment(rig, fails: ["PF_FAIL_WRITE": "\(count)"]))
    #expect(status == 74)
    try library.cutPower(rig, seed: count, mode: "torn")
    #expect(try await rig.check() == CrashRig.Findings())
  }
}

/// The shim that drops unsynced writes, built from the shared tools.
struct PowerFailure {
  private let tools: String
  private let folder: TemporaryFolder
  private var shim: String { folder.path + "/libpowerfail.so" }

  /// nil, with a printed reason, where something is missing.
  static func library() throws -> PowerFailure? {
    guard let tools = CrashRig.sharedTools else {
      return skip("the shared tools (powerfail.c) are not beside the project")
    }
    guard FileManager.default.isExecutableFile(atPath: "/usr/bin/cc") else { return skip("there is no C compiler") }
    guard FileManager.default.isExecutableFile(atPath: "/usr/bin/python3") else { return skip("there is no python3") }
    let library = PowerFailure(tools: tools, folder: try TemporaryFolder())
    let status = try ChildProcess(
      "cc", ["-shared", "-fPIC", "-O1", "-w", "-o", library.shim, tools + "/powerfail.c", "-ldl", "-lpthread"]
    ).wait()
    return status == 0 ? library : skip("powerfail.c does not compile")
  }

  private static func skip(_ reason: String) -> PowerFailure? {
    print("skipped: \(reason)")
    return nil
  }

  /// Like the other environment, but names are lost, too.
  func environment(_ rig: CrashRig, _ names: NameLoss, syncsFolders: Bool) -> [String: String] {
    var environment = environment(rig, fails: [:])
    environment["LD_PRELOAD"] = names.shim + ":" + (environment["LD_PRELOAD"] ?? shim)
    environment["NL_LOG"] = rig.nameLog
    if !syncsFolders { environment["NL_NO_FOLDERS"] = "1" }
    return environment
  }

  func environment(_ rig: CrashRig, fails: [String: String]) -> [String: String] {
    // A sanitizer that is preloaded into the tests is also preloaded into their child processes.
    let preloaded = [shim] + [ProcessInfo.processInfo.environment["LD_PRELOAD"]].compactMap(\.self)
    return [
      "LD_PRELOAD": preloaded.joined(separator: ":"), "PF_ROOT": rig.data, "PF_LOG": rig.powerLog, "PF_NOSYNC": "1",
    ].merging(fails) { $1 }
  }

  /// Undoes writes after each file's last sync; in mode `torn` only some of their sectors.
  func cutPower(_ rig: CrashRig, seed: Int, mode: String) throws {
    guard try ChildProcess("python3", [tools + "/pfapply.py", rig.powerLog, "\(seed)", mode]).wait() == 0 else {
      Issue.record("pfapply.py failed")
      return
    }
    try FileManager.default.removeItem(atPath: rig.powerLog)
  }
}
