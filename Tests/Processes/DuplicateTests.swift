// Unique attributes through real processes and the CLI: two devices make the same tag, and an installation refuses the
// second.

import Foundation
import Testing

@Suite(.serialized) struct DuplicateTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private static let (low, high) = ("1A000000-0000-4000-8000-000000000001", "FB000000-0000-4000-8000-000000000002")

  /// Runs a command with `--json`.
  private static func aquifer(_ words: String..., in installation: Installation) throws -> Value {
    let (code, output, problem) = try CommandLineTool.run(
      ["--json"] + words,
      environment: [
        "AQUIFER_SERVER": installation.ready.gateway, "AQUIFER_OPERATOR_TOKEN": installation.ready.operatorToken,
      ])
    guard code == 0 else { throw Unexpected("\(words): \(problem)") }
    return try Value(json: Array(output.utf8))
  }

  private static func declare(_ policy: String, of app: App) throws {
    let file = app.installation.folder.appending(path: "rules.json")
    try Data(#"{"unique":[{"entity":"Tag","attributes":["name"],"policy":"\#(policy)"}]}"#.utf8).write(to: file)
    let declared = try aquifer("rules", "import", file.path, "--container", app.container, in: app.installation)
    #expect(declared["unique"][0]["policy"].string == policy)
    #expect(try aquifer("rules", "export", "--container", app.container, in: app.installation) == declared)
  }

  /// Imports into a device's graph.
  private static func pull(_ device: Device, _ graph: inout Graph, _ token: inout Value) async throws {
    let (changes, next) = try await device.changes(after: token)
    for change in changes { try graph.apply(change) }
    token = next
  }

  @Test(.timeLimit(.minutes(2)))
  func
    `T-D01 T-D02 T-D03 two devices make the same tag, and all devices end with one, though the worker is killed`()
    async throws
  {
    try await Installation.run { installation in
      let app = try await App(installation, model: Self.model)
      try Self.declare("merge-lowest-uuid", of: app)
      let user = try await app.user("alice")
      let (a, b) = (try await user.device("A"), try await user.device("B"))
      var (graphA, graphB) = (Graph(), Graph())
      var (tokenA, tokenB) = (Value.null, Value.null)
      // Both devices are offline, each with a tag and a post of its own.
      for (device, tag, post) in [(a, Self.high, "PA"), (b, Self.low, "PB")] {
        try await device.save([
          MainJob.insert("Tag", tag, ["name": "sea"]),
          MainJob.insert("VideoPost", post, ["title": .string(post)], ["tags": [.string(tag)]]),
        ])
      }
      for (tag, post, isA) in [(Self.high, "PA", true), (Self.low, "PB", false)] {
        let own: [Value] = [
          [
            "changeType": "save", "entity": "Tag", "objectID": .string(tag), "attributes": ["name": "sea"],
            "relationships": [:],
          ],
          [
            "changeType": "link", "entity": "Post", "objectID": .string(post), "relationship": "tags",
            "target": ["entity": "Tag", "objectID": .string(tag)],
          ],
        ]
        for change in own { if isA { try graphA.apply(change) } else { try graphB.apply(change) } }
      }
      let before = try installation.now()
      #expect(kill(try #require(before.pids["worker"]?.first), SIGKILL) == 0)
      _ = try await installation.waitForReadyFile {
        $0.pids["worker"]?.count == 1 && $0.pids["worker"] != before.pids["worker"]
      }
      try await Self.pull(a, &graphA, &tokenA)
      try await Self.pull(b, &graphB, &tokenB)
      let pairs: Set = [Graph.Pair("PA", Self.low), Graph.Pair("PB", Self.low)]
      #expect(graphA.pairs == pairs && graphB.pairs == pairs)
      #expect(try await a.importedGraph().graph.pairs == pairs)
      // Edits that still name the duplicate. It is removed once one store has exported and the other imported since the
      // merge.
      try await b.save([MainJob.insert("VideoPost", "late", ["title": "late"], ["tags": [.string(Self.high)]])])
      try await Self.pull(a, &graphA, &tokenA)
      try await a.save([MainJob.insert("VideoPost", "later", ["title": "later"], ["tags": [.string(Self.high)]])])
      for _ in 0..<100 where try await user.allRecords().records[Self.high] != nil {
        try await Task.sleep(for: .milliseconds(100))
        try await Self.pull(b, &graphB, &tokenB)
        try await a.save([MainJob.insert("VideoPost", UUID().uuidString, ["title": "x"])])
      }
      let records = try await user.allRecords().records
      #expect(records[Self.high] == nil && records[Self.low] != nil)
      try await Self.pull(a, &graphA, &tokenA)
      try await Self.pull(b, &graphB, &tokenB)
      let all = pairs.union([Graph.Pair("late", Self.low), Graph.Pair("later", Self.low)])
      #expect(try await user.device("C").importedGraph().graph.pairs == all)
      #expect(graphA.pairs == all && graphA.objects[Self.high] == nil)
      #expect(graphB.pairs == all && graphB.objects[Self.high] == nil)
      #expect(try Self.aquifer("duplicates", "list", in: installation)["duplicates"].elements.isEmpty)
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `T-D06 a second tag is refused with the first one's name, and duplicates from before are listed`() async throws {
    try await Installation.run { installation in
      let app = try await App(installation, model: Self.model)
      let user = try await app.user("alice")
      let device = try await user.device("A")
      try await device.save([
        MainJob.insert("Tag", Self.low, ["name": "sea"]), MainJob.insert("Tag", Self.high, ["name": "sea"]),
      ])
      try Self.declare("reject", of: app)
      var groups: [Value] = []
      for _ in 0..<200 where groups.isEmpty {
        try await Task.sleep(for: .milliseconds(50))
        groups = try Self.aquifer("duplicates", "list", in: installation)["duplicates"].elements
      }
      #expect(groups.first?["records"] == [.string(Self.low), .string(Self.high)])
      #expect(groups.first?["count"].integer == 2)
      let refused = try await device.send(
        "POST", "/transactions", Device.transactions([MainJob.insert("Tag", "T3", ["name": "sea"])], id: "TX"))
      #expect(refused.status == 409)
      let answer = try refused.json
      #expect(answer["serverErrorCode"].string == "UNIQUE_FIELD_ERROR" && answer["ckErrorCode"].integer == 19)
      #expect(answer["conflicts"][0] == ["objectID": "T3", "entity": "Tag", "winner": .string(Self.low)])
      let modified = try await user.records(
        "records/modify",
        [
          "zoneID": ["zoneName": "com.apple.coredata.cloudkit.zone"],
          "operations": [
            [
              "operationType": "create",
              "record": [
                "recordName": "T4", "recordType": "CD_Tag",
                "fields": ["CD_entityName": ["value": "Tag"], "CD_name": ["value": "sea"]],
              ],
            ]
          ],
        ])
      #expect(modified["records"][0]["serverErrorCode"].string == "UNIQUE_FIELD_ERROR")
      #expect(modified["records"][0]["reason"].string?.contains(Self.low) == true)
      try await device.save([MainJob.insert("Tag", "T3", ["name": "sand"])])
    }
  }
}
