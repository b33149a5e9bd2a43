// Whole zones through real processes and the CLI: exported to a folder, imported elsewhere, restored to an earlier
// state.

import Foundation
import Testing

@Suite(.serialized) struct ZoneTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private static let zone = "com.apple.coredata.cloudkit.zone"

  /// Runs a zone command with `--json` on a user's mirror zone.
  private static func aquifer(_ words: [String], _ user: User) throws -> (code: Int32, answer: Value, problem: String) {
    let ready = user.app.installation.ready
    let (code, output, problem) = try CommandLineTool.run(
      ["--json"] + words + ["--container", user.app.container, "--owner", user.recordName, "--zone", zone],
      environment: ["AQUIFER_SERVER": ready.gateway, "AQUIFER_OPERATOR_TOKEN": ready.operatorToken])
    return (code, code == 0 ? try Value(json: Array(output.utf8)) : .null, problem)
  }

  private static func insert(_ entity: String, _ id: String, _ attributes: Value, _ relationships: Value = [:]) -> Value
  {
    [
      "changeType": "insert", "entity": .string(entity), "objectID": .string(id), "attributes": attributes,
      "relationships": relationships,
    ]
  }

  /// A post with two tags, and an attachment whose content is too large for its record.
  private static func save(to device: Device, _ content: [UInt8]) async throws {
    try await device.save([
      insert("Tag", "T1", ["name": "sea"]), insert("Tag", "T2", ["name": "sand"]),
      insert("VideoPost", "P", ["title": "Waves", "duration": 12.5], ["tags": ["T1", "T2"], "attachments": ["A"]]),
      insert("Attachment", "A", ["fileName": "waves.mov"], ["imageData": "D"]),
      insert("ImageData", "D", ["data": .string(Data(content).base64EncodedString())]),
    ])
  }

  /// A record without the values that every server sets anew.
  private static func comparable(_ records: [String: Value]) -> [String: [String: Value]] {
    records.mapValues { record in
      var members = record.members
      members["recordChangeTag"] = nil
      var fields = record["fields"].members
      for (name, field) in fields where field["type"] == "ASSETID" { fields[name] = field["value"]["fileChecksum"] }
      members["fields"] = .object(fields)
      return members
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `T-X04 a zone goes through a folder into an empty container, with its graph, names and contents`() async throws {
    try await Installation.run(workers: 2) { installation in
      let user = try await App(installation, model: Self.model).user("alice")
      let twin = User(
        app: try await App(installation, container: "iCloud.org.example.copy", model: Self.model),
        recordName: user.recordName, token: user.token)
      try await Self.save(
        to: try await user.device("A"), (0..<800_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) })
      let folder = installation.folder.appending(path: "export").path
      let exported = try Self.aquifer(["zone", "export", folder], user)
      #expect(exported.code == 0, "\(exported.problem)")
      #expect(exported.answer["records"].integer == 7 && exported.answer["assets"].integer == 1)
      #expect(try Self.aquifer(["zone", "export", folder], user).problem.contains("is not empty"))

      // A truncated or altered export is not sent at all.
      let path = folder + "/zone.jsonl"
      let lines = try Data(contentsOf: URL(filePath: path))
      for broken in [
        lines.dropLast(40), lines + lines,
        Data(String(decoding: lines, as: UTF8.self).replacing("Waves", with: "Wines").utf8),
      ] {
        try broken.write(to: URL(filePath: path))
        #expect(try Self.aquifer(["zone", "import", folder], twin).code == 1)
      }
      try lines.write(to: URL(filePath: path))
      await #expect(throws: Unexpected.self) { _ = try await twin.allRecords() }

      let imported = try Self.aquifer(["zone", "import", folder], twin)
      #expect(imported.code == 0, "\(imported.problem)")
      #expect(imported.answer == ["imported": 7, "unchanged": 0, "assets": 1])
      #expect(
        Self.comparable(try await twin.allRecords().records) == Self.comparable(try await user.allRecords().records))
      let graph = try await user.device("B").importedGraph().graph
      #expect(try await twin.device("C").importedGraph().graph == graph)
      #expect(graph.pairs.count == 2 && graph.objects["D"]?.attributes["data"]?.string?.count == 1_066_668)
      #expect(try Self.aquifer(["zone", "import", folder], twin).answer["unchanged"].integer == 7)
      try await user.device("D").save([Self.insert("Tag", "T3", ["name": "sky"])])
      #expect(
        try Self.aquifer(["zone", "import", folder], user).answer["unchanged"].integer == nil,
        "there is a record that the export has not")
      #expect(try Self.aquifer(["zone", "import", folder, "--merge"], user).answer["unchanged"].integer == 7)
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `T-X03 a zone is brought back by the CLI, also after a worker was killed, and devices follow`() async throws {
    try await Installation.run { installation in
      let user = try await App(installation, model: Self.model).user("alice")
      let (writer, reader) = (try await user.device("A"), try await user.device("B"))
      try await Self.save(to: writer, [1, 2, 3])
      var (graph, token) = try await reader.importedGraph()
      let wanted = graph
      let exported = try Self.aquifer(["zone", "export", installation.folder.appending(path: "before").path], user)
      let sequence = try #require(exported.answer["sequence"].integer)
      try await writer.save([
        MainJob.delete("Tag", "T1"),
        MainJob.update("VideoPost", "P", ["title": "Storm"], ["tags": ["remove": ["T2"]], "attachments": []]),
        MainJob.delete("ImageData", "D"), Self.insert("Tag", "T9", ["name": "new"]),
      ])
      // Past states are as durable as present ones.
      let before = try installation.now()
      #expect(kill(try #require(before.pids["worker"]?.first), SIGKILL) == 0)
      _ = try await installation.waitForReadyFile {
        $0.pids["worker"]?.count == 1 && $0.pids["worker"] != before.pids["worker"]
      }

      #expect(try Self.aquifer(["zone", "restore"], user).code == 2)
      #expect(try Self.aquifer(["zone", "restore", "--to", "0"], user).problem.contains("is not known"))
      let restored = try Self.aquifer(["zone", "restore", "--to", String(sequence)], user)
      #expect(restored.code == 0, "\(restored.problem)")
      #expect((restored.answer["restored"].integer ?? 0) > 0 && (restored.answer["deleted"].integer ?? 0) > 0)
      for change in try await reader.changes(after: token).changes { try graph.apply(change) }
      try await graph.resolveAssets(installation)
      #expect(graph == wanted)
      #expect(try await user.device("C").importedGraph().graph == wanted)
      token = .null
      let again = try Self.aquifer(["zone", "restore", "--to", String(sequence)], user)
      #expect(again.answer["restored"].integer == 0 && again.answer["deleted"].integer == 0)
    }
  }
}
