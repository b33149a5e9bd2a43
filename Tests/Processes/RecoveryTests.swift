// Recoveries over real processes: a store that begins anew, and zones that end while devices are away.

import Foundation
import Testing

@Suite(.serialized) struct RecoveryTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private static let zone = "com.apple.coredata.cloudkit.zone"

  private static func tag(_ id: String, _ name: String) -> Value { MainJob.insert("Tag", id, ["name": .string(name)]) }

  private static func restartWorker(of installation: Installation) async throws {
    let before = try installation.now()
    #expect(kill(try #require(before.pids["worker"]?.first), SIGKILL) == 0)
    _ = try await installation.waitForReadyFile {
      $0.pids["worker"]?.count == 1 && $0.pids["worker"] != before.pids["worker"]
    }
  }

  private static func encoded(_ token: Value) -> String {
    token.string?.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
  }

  @Test(.timeLimit(.minutes(2)))
  func
    `T-R06 T-R09 a device starts over beside its copy, though a worker dies, and is stopped when it never ends`()
    async throws
  {
    try await Installation.run { installation in
      let user = try await App(installation, model: Self.model).user("alice")
      let (phone, laptop) = (try await user.device("phone"), try await user.device("laptop"))
      for number in 0..<30 {
        try await (number % 2 == 0 ? phone : laptop).save([Self.tag("T\(number)", "tag \(number)")])
      }
      _ = try await phone.changes()

      let reset = try await phone.call("POST", "/reset", ["reason": "ServerChangeTokenExpired"])
      #expect(reset["importToken"] == .null && reset["reset"]["reason"] == "ServerChangeTokenExpired")
      var shadow = Graph()
      var token = Value.null
      var isDone = false
      var pages = 0
      while !isDone, pages < 20 {
        let page = try await phone.call(
          "GET", "/changes?limit=7" + (token == .null ? "" : "&after=" + Self.encoded(token)))
        for change in page["changes"].elements { try shadow.apply(change) }
        token = page["importToken"]
        isDone = page["reset"]["done"].bool == true
        pages += 1
        // The user's copy is complete until the new one is; a worker's death in between has no effect.
        if pages == 2 {
          try await Self.restartWorker(of: installation)
          try await phone.save([MainJob.update("Tag", "T0", ["name": "edited meanwhile"])])
        }
      }
      #expect(isDone && pages >= 5)
      #expect(
        Set(shadow.objects.keys) == Set((0..<30).map { "T\($0)" })
          && shadow.objects["T0"]?.attributes["name"] == "edited meanwhile")
      #expect(try await phone.call("GET", "/status")["reset"] == "ServerChangeTokenExpired")
      #expect(try await phone.call("GET", "/changes?after=" + Self.encoded(token))["changes"] == [])
      #expect(try await phone.call("GET", "/status")["reset"] == .null)

      for _ in 0..<2 { try await phone.call("POST", "/reset", [:]) }
      let refused = try await phone.send("POST", "/reset", [:])
      #expect(refused.status == 409)
      #expect(try refused.json["cocoaErrorCode"] == 134410)
      #expect(try await phone.changes().changes.count == 30, "what it has to do is to import to the end")
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `T-R01 T-R02 a zone that is purged goes from every device for good, and one that is lost comes back from any`()
    async throws
  {
    try await Installation.run { installation in
      let user = try await App(installation, model: Self.model).user("alice")
      let (phone, laptop) = (try await user.device("phone"), try await user.device("laptop"))
      try await phone.save([Self.tag("A", "a"), Self.tag("B", "b")])
      var phoneToken = try await phone.changes().token
      var (graph, laptopToken) = try await laptop.importedGraph()
      func aquifer(_ verb: String) throws -> (code: Int32, output: String, problem: String) {
        try CommandLineTool.run(
          [
            "--json", "zone", verb, "--container", user.app.container, "--owner", user.recordName, "--zone", Self.zone,
            "--yes",
          ],
          environment: [
            "AQUIFER_SERVER": installation.ready.gateway, "AQUIFER_OPERATOR_TOKEN": installation.ready.operatorToken,
          ])
      }
      func ends(_ changes: [Value]) -> [String] {
        changes.filter { $0["changeType"] == "zone" }.map {
          "\($0["reason"].string ?? "") \($0["action"].string ?? "") \($0["recovery"].integer ?? 0)"
        }
      }

      // Lost: every device keeps its data and sends them again.
      let lost = try aquifer("reset-encrypted")
      #expect(lost.code == 0, "\(lost.problem)")
      #expect(try Value(json: Array(lost.output.utf8)) == ["deleted": 2])
      var news = try await laptop.changes(after: laptopToken)
      #expect(ends(news.changes) == ["encryptedDataReset reupload 298"])
      laptopToken = news.token
      try await laptop.save(graph.objects.map { Self.tag($0.key, $0.value.attributes["name"]?.string ?? "") })
      news = try await phone.changes(after: phoneToken)
      phoneToken = news.token
      #expect(ends(news.changes) == ["encryptedDataReset reupload 298"] && news.changes.count == 3)
      #expect(try await user.allRecords().records.count == 2)

      // Purged: the laptop's later saves stay visible to operators, also after a worker's death, and bring nothing
      // back.
      #expect(try await phone.call("POST", "/purge", ["zoneID": ["zoneName": .string(Self.zone)]]) == ["purged": 2])
      try await laptop.save([MainJob.update("Tag", "A", ["name": "late"]), Self.tag("C", "late")])
      try await Self.restartWorker(of: installation)
      await #expect(throws: Unexpected.self) { _ = try await user.allRecords() }
      news = try await laptop.changes(after: laptopToken)
      #expect(ends(news.changes) == ["purged delete 9"])
      for change in news.changes where change["changeType"] == "zone" { graph = Graph() }
      laptopToken = news.token
      #expect(try await laptop.changes(after: laptopToken).changes.isEmpty && graph.objects.isEmpty)
      try await laptop.save([Self.tag("D", "new")])
      #expect(try await user.allRecords().records.keys.sorted() == ["D"])
      let phoneNews = try await phone.changes(after: phoneToken).changes
      #expect(ends(phoneNews) == ["purged delete 9"] && phoneNews.last?["objectID"] == "D")
    }
  }
}
