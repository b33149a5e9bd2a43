// A backup of a busy installation, restored elsewhere; and a scrub that finds damaged files.

import Foundation
import Testing

struct BackupTests {
  @Test(.timeLimit(.minutes(2)))
  func
    `a backup under load, restored elsewhere, has every acknowledged save and refuses tokens of what it lacks`()
    async throws
  {
    let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
    let (folder, other) = (try Installation.makeFolder(), try Installation.makeFolder())
    defer { for folder in [folder, other] { try? FileManager.default.removeItem(at: folder) } }
    let backup = folder.appending(path: "backup").path
    var kept: (app: App, user: User, device: Device, token: Value, zone: Value, names: [String])?
    try await Installation.run(workers: 2, folder: folder) { installation in
      let app = try await App(installation, model: model)
      let user = try await app.user("alice")
      let device = try await user.device("phone")
      func save(_ count: Int) async throws -> [String] {
        var names: [String] = []
        for number in 0..<count {
          let name = UUID().uuidString
          try await device.save(
            [MainJob.insert("Tag", name, ["name": .string("tag \(number)")])], waitsForExport: number == count - 1)
          names.append(name)
        }
        return names
      }
      let before = try await save(20)
      async let later = save(30)
      let made = try await installation.aquifer("--json", "backup", backup)
      #expect(made.code == 0, "\(made.problem)")
      let answer = try Value(json: Array(made.output.utf8))
      #expect(
        (answer["shards"].integer ?? 0) > 0 && (answer["records"].integer ?? 0) >= 20
          && (answer["bytes"].integer ?? 0) > 0, "\(answer)")
      #expect(try await !later.isEmpty)
      let again = try await installation.aquifer("backup", backup)
      #expect(again.code == 1 && again.problem.contains("not empty"), "\(again.problem)")
      let (_, token) = try await device.importedGraph()
      kept = (app, user, device, token, try await user.allRecords().token, before)
      let sound = try await installation.aquifer("--json", "scrub", "--assets")
      #expect(sound.code == 0, "\(sound.problem)")
    }
    let (app, user, device, token, zone, names) = try #require(kept)

    let data = other.appending(path: "data").path
    let restored = try CommandLineTool.run(["--json", "restore", backup, "--data", data])
    #expect(restored.code == 0, "\(restored.problem)")
    // Encrypted values need the key file, which no backup contains.
    try FileManager.default.copyItem(atPath: folder.path + "/data/encryption-key", toPath: data + "/encryption-key")
    try await Installation.run(workers: 1, folder: other) { installation in
      let app = App(installation, container: app.container, apiToken: app.apiToken, modelHash: app.modelHash)
      let user = User(app: app, recordName: user.recordName, token: user.token)
      let device = Device(user: user, store: device.store)
      let records = try await user.allRecords().records
      for name in names { #expect(records[name] != nil, "\(name)") }
      // Tokens from the later state, which is lost.
      let text = token.string?.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
      let refused = try await device.send("GET", "/changes?after=\(text)")
      #expect(refused.status == 410, "\(refused.status) \(refused.text)")
      let feed = try await user.send(
        "changes/zone", ["zones": [["zoneID": ["zoneName": "com.apple.coredata.cloudkit.zone"], "syncToken": zone]]])
      #expect(feed.text.contains("serverErrorCode"), "\(feed.text)")
      // Both devices begin anew, and continue.
      let name = UUID().uuidString
      try await device.save([MainJob.insert("Tag", name, ["name": "after"])])
      let (graph, _) = try await user.device("laptop").importedGraph()
      for name in names + [name] { #expect(graph.objects[name] != nil) }
      let sound = try await installation.aquifer("--json", "scrub", "--assets")
      #expect(sound.code == 0, "\(sound.problem)")
    }
  }
}
