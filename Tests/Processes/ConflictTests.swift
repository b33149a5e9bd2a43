// Conflicts of two devices through real processes: the results of the model's policies, and the journal's restores.

import Foundation
import Testing

@Suite(.serialized) struct ConflictTests {
  private static let zone = "com.apple.coredata.cloudkit.zone"

  /// The sample model with policies: widths are counters, edits bring deleted posts back, conflicts of content are
  /// decided by a user.
  private static func model(in folder: URL) throws -> String {
    let source = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld/Sample.xcdatamodel/contents")
    func entry(_ key: String, _ value: String) -> String {
      #"<userInfo><entry key="\#(key)" value="\#(value)"/></userInfo>"#
    }
    let text = try String(contentsOf: source, encoding: .utf8)
      .replacing(
        #"<attribute name="width" attributeType="Integer 32" defaultValueString="0" usesScalarValueType="YES"/>"#,
        with:
          #"""
          <attribute name="width" attributeType="Integer 32" defaultValueString="0" \#
          usesScalarValueType="YES">\#(entry("AquiferConflictPolicy", "counter"))</attribute>
          """#
      )
      .replacing(
        #"<attribute name="content" optional="YES" attributeType="String"/>"#,
        with:
          #"""
          <attribute name="content" optional="YES" \#
          attributeType="String">\#(entry("AquiferConflictPolicy", "manual"))</attribute>
          """#
      )
      .replacing(
        #"""
        <entity name="ImagePost" representedClassName="ImagePost" parentEntity="Post" syncable="YES" \#
        codeGenerationType="class">
        """#,
        with:
          #"""
          <entity name="ImagePost" representedClassName="ImagePost" parentEntity="Post" syncable="YES" \#
          codeGenerationType="class">\#(entry("AquiferDeletePolicy", "editWins"))
          """#
      )
    let bundle = folder.appending(path: "Policies.xcdatamodel")
    try FileManager.default.createDirectory(at: bundle, withIntermediateDirectories: true)
    try Data(text.utf8).write(to: bundle.appending(path: "contents"))
    return bundle.path
  }

  private static func aquifer(_ words: [String], _ user: User) throws -> (code: Int32, answer: Value, problem: String) {
    let ready = user.app.installation.ready
    let (code, output, problem) = try CommandLineTool.run(
      ["--json"] + words + ["--container", user.app.container, "--owner", user.recordName, "--zone", zone],
      environment: ["AQUIFER_SERVER": ready.gateway, "AQUIFER_OPERATOR_TOKEN": ready.operatorToken])
    return (code, code == 0 ? try Value(json: Array(output.utf8)) : .null, problem)
  }

  @Test(.timeLimit(.minutes(2)))
  func
    `T-C02 T-C06 T-C13 two devices at odds agree in the end, nothing is lost for good, and the CLI settles what waits`()
    async throws
  {
    try await Installation.run { installation in
      let user = try await App(installation, model: Self.model(in: installation.folder)).user("alice")
      let (a, b) = (try await user.device("A"), try await user.device("B"))
      try await a.save([
        MainJob.insert("ImagePost", "P", ["title": "start", "content": "start", "width": 10]),
        MainJob.insert("ImagePost", "Q", ["title": "start"]),
      ])
      var graphs: [Graph] = []
      var tokens: [Value] = []
      for device in [a, b] {
        let (graph, token) = try await device.importedGraph()
        graphs.append(graph)
        tokens.append(token)
      }
      func pull() async throws {
        for (index, device) in [a, b].enumerated() {
          let (changes, token) = try await device.changes(after: tokens[index])
          for change in changes { try graphs[index].apply(change) }
          tokens[index] = token
        }
      }
      // Neither device knows the other's edit. The worker that judges the second edit is not the one that stored the
      // first.
      try await a.save([
        MainJob.update("ImagePost", "P", ["title": "A's", "content": "A's", "width": 11]),
        MainJob.delete("ImagePost", "Q"),
      ])
      let before = try installation.now()
      #expect(kill(try #require(before.pids["worker"]?.first), SIGKILL) == 0)
      _ = try await installation.waitForReadyFile {
        $0.pids["worker"]?.count == 1 && $0.pids["worker"] != before.pids["worker"]
      }
      let transaction: Value = [
        "transactionID": "B1", "importToken": tokens[1],
        "changes": [
          MainJob.update("ImagePost", "P", ["title": "B's", "content": "B's", "width": 11]),
          MainJob.update("ImagePost", "Q", ["title": "B's"]),
        ],
      ]
      try await b.call("POST", "/transactions?wait=export", ["transactions": [transaction]])
      try await pull()
      try await pull()
      for graph in graphs {
        #expect(graph.objects["P"]?.attributes["title"] == "B's" && graph.objects["P"]?.attributes["content"] == "A's")
        #expect(graph.objects["P"]?.attributes["width"] == 12)
        #expect(graph.objects["Q"]?.attributes["title"] == "B's", "an edit brought it back")
      }
      #expect(graphs[0] == graphs[1])

      let listed = try Self.aquifer(["conflicts", "list"], user)
      #expect(listed.code == 0, "\(listed.problem)")
      let entries = listed.answer["conflicts"].elements
      #expect(Set(entries.compactMap { $0["kind"].string }) == ["lostValue", "undecided"])
      let open = try #require(entries.first { $0["state"].string == "open" }?["number"].integer)
      let lost = try #require(entries.first { $0["lost"]["title"].string == "A's" }?["number"].integer)
      #expect(try Self.aquifer(["conflicts", "resolve", String(open)], user).problem.contains("pick"))
      #expect(
        try Self.aquifer(["conflicts", "resolve", String(open), "--value", "A's and B's"], user).answer["state"].string
          == "resolved")
      for _ in 0..<2 {
        #expect(try Self.aquifer(["conflicts", "restore", String(lost)], user).answer["state"].string == "restored")
      }
      #expect(try Self.aquifer(["conflicts", "restore", "999"], user).code == 1)
      #expect(try Self.aquifer(["conflicts", "list", "--state", "open"], user).answer["conflicts"].elements.isEmpty)
      try await pull()
      for graph in graphs {
        #expect(
          graph.objects["P"]?.attributes["title"] == "A's" && graph.objects["P"]?.attributes["content"] == "A's and B's"
        )
      }
    }
  }
}
