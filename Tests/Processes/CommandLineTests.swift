// The CLI against a real installation: its output and its exit codes.

import Foundation
import Testing

@Suite(.serialized) struct OperatorTests {
  private let container = "iCloud.org.example.cli"

  /// Runs a command with `--json`, which must succeed and print exactly one object.
  private func json(_ installation: Installation, _ words: String...) throws -> Value {
    let environment = [
      "AQUIFER_SERVER": installation.ready.gateway, "AQUIFER_OPERATOR_TOKEN": installation.ready.operatorToken,
    ]
    let (code, output, problem) = try CommandLineTool.run(["--json"] + words, environment: environment)
    guard code == 0 else { throw Unexpected("aquifer \(words.joined(separator: " ")): \(code) \(problem)") }
    let value = try Value(json: Array(output.utf8))
    guard case .object = value else {
      throw Unexpected("aquifer \(words.joined(separator: " ")) prints no object: \(output)")
    }
    return value
  }

  @Test(.timeLimit(.minutes(1))) func `an operator's day`() async throws {
    try await Installation.run { installation in
      #expect(try json(installation, "container", "create", container) == ["container": .string(container)])
      #expect(
        try json(installation, "container", "list")["containers"].elements.map { $0["container"].string } == [container]
      )

      let made = try json(
        installation, "user", "create", "alice", "--given-name", "Alice", "--email", "alice@example.org")
      let name = try #require(made["userRecordName"].string)
      #expect(name.hasPrefix("_") && name.count == 33)
      #expect((made["webAuthToken"].string?.count ?? 0) >= 100)
      let further = try json(installation, "user", "token", "alice")
      #expect(further["userRecordName"].string == name)
      #expect(further["webAuthToken"] != made["webAuthToken"])
      #expect(try json(installation, "user", "list")["users"].elements.map { $0["name"].string } == ["alice"])

      let token = try json(
        installation, "token", "create", "--container", container, "--environment", "development", "--allowed-origin",
        "https://app.example")
      let apiToken = try #require(token["apiToken"].string)
      #expect(apiToken.count == 64 && apiToken.allSatisfy(\.isHexDigit))
      #expect(try json(installation, "token", "list")["tokens"].elements.count == 1)

      let caller = { (user: Value, origin: String) in
        let query = "ckAPIToken=\(apiToken)&ckWebAuthToken=\(user["webAuthToken"].string ?? "")"
        let url = "\(installation.ready.gateway)/database/1/\(container)/development/public/users/caller?\(query)"
        return try await installation.send("GET", url, headers: [("Origin", origin)])
      }
      for user in [made, further] {
        let answer = try await caller(user, "https://app.example")
        #expect(answer.status == 200)
        #expect(answer.header("Access-Control-Allow-Origin") == "https://app.example")
        #expect(try answer.json["userRecordName"].string == name)
        #expect(try answer.json["users"][0]["nameComponents"]["givenName"] == "Alice")
      }
      let evil = try await caller(made, "https://evil.example")
      #expect(evil.status == 403 && evil.header("Access-Control-Allow-Origin") == nil)

      // Revoked and disabled at once, also where the credentials were cached.
      _ = try json(installation, "user", "disable", "alice")
      #expect(try await caller(made, "https://app.example").status == 401)
      _ = try json(installation, "token", "revoke", apiToken)
      #expect(try await caller(made, "https://app.example").status == 401)

      let status = try json(installation, "status")
      #expect(status["members"].elements.count == 4)
      #expect(try json(installation, "workers")["workers"].elements.count == 1)
      let shards = try json(installation, "shards")["shards"].elements
      #expect(!shards.isEmpty && shards.allSatisfy { $0["worker"] == "worker-1" })
      while try json(installation, "shards")["shards"].elements.contains(where: { $0["bytes"].integer == nil }) {
        try await Task.sleep(for: .milliseconds(50))
      }
      for noun in ["status", "workers", "shards", "stores", "zones"] {
        let text = try await installation.aquifer(noun)
        #expect(text.code == 0, "\(noun): \(text.problem)")
        #expect(!text.output.hasPrefix("{"), "\(noun) is for people without --json")
      }

      let refused = try await installation.aquifer("container", "create", container)
      #expect(refused.code == 1 && refused.problem.contains(container))
      #expect(try await installation.aquifer("container", "delete", container).code == 2)
      _ = try json(installation, "container", "delete", container, "--yes")
      #expect(try json(installation, "container", "list")["containers"] == [])
      #expect(
        try CommandLineTool.run(
          ["status"], environment: ["AQUIFER_SERVER": installation.ready.gateway, "AQUIFER_OPERATOR_TOKEN": "wrong"]
        ).code == 1)
    }
  }

  @Test(.timeLimit(.minutes(1))) func `a model goes to development and its schema to production`() async throws {
    try await Installation.run { installation in
      let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
      _ = try json(installation, "container", "create", container)
      let offline = try json(installation, "model", "validate", model)
      let dry = try json(
        installation, "model", "push", model, "--container", container, "--environment", "development", "--dry-run",
        "--print-schema")
      #expect(dry["modelHash"] == offline["modelHash"])
      #expect(dry["entities"] == offline["entities"])
      #expect(dry["schema"].string?.contains("RECORD TYPE CD_Post") == true)
      #expect(
        try json(installation, "schema", "export", "--container", container)["schema"].string?.contains("CD_Post")
          == false)

      let pushed = try json(
        installation, "model", "push", model, "--container", container, "--environment", "development")
      #expect(pushed["added"] == dry["added"])
      #expect(pushed["added"].elements.contains(["recordType": "CD_Post", "field": "CD_title"]))
      #expect(
        try json(installation, "model", "push", model, "--container", container, "--environment", "development")[
          "added"] == [])
      let schema = try json(installation, "schema", "export", "--container", container)["schema"].string ?? ""
      #expect(schema == dry["schema"].string)

      let file = installation.folder.appending(path: "schema.ckdb")
      try schema.write(to: file, atomically: true, encoding: .utf8)
      #expect(try json(installation, "schema", "import", file.path, "--container", container)["added"] == [])
      let diff = try await installation.aquifer("schema", "diff", "--container", container)
      #expect(diff.code == 0 && diff.output.contains("CD_Post"))
      #expect(
        try json(installation, "schema", "promote", "--container", container)["added"].elements.count
          == pushed["added"].elements.count)
      #expect(
        try json(installation, "schema", "export", "--container", container, "--environment", "production")["schema"]
          .string == schema)
    }
  }

  @Test func `dev offers every option of the services that it does not set itself`() throws {
    func options(_ executable: String) throws -> Set<String> {
      let help = try CommandLineTool.run(["--help"], executable: Checkout.products.appending(path: executable))
      #expect(help.code == 0, "\(help.problem)")
      return Set(help.output.matches(of: /(?m)^ +--([a-z-]+)/).map { String($0.output.1) })
    }
    let dev = try CommandLineTool.run(["dev", "--help"])
    let offered = Set(dev.output.matches(of: /(?m)^ +--([a-z-]+)/).map { String($0.output.1) })
    // Options that follow from the processes' places, and options without a meaning on one machine.
    let own: Set<String> = [
      "name", "bus", "share", "admin", "ready-file", "data", "http", "notifier-url", "assets", "log-format",
      "operator-token", "bus-key", "bus-peers", "epoch", "directory", "directory-from", "version",
      "help",
    ]
    var known: Set<String> = []
    for service in ["gateway", "worker", "share", "notifier"] {
      let found = try options("aquifer-\(service)")
      #expect(found.count > 8)
      #expect(found.subtracting(own).subtracting(offered) == [], "aquifer-\(service)")
      known.formUnion(found)
    }
    let devs: Set<String> = ["http-port", "ping-port", "workers", "restart-pause", "server", "json"]
    #expect(offered.subtracting(known).subtracting(devs) == [], "an option that no service has")
  }

  @Test func `validation needs no server and exits with 1 on an invalid model`() throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let contents = folder.appending(path: "contents")
    try """
    <?xml version="1.0"?><model><entity name="A"><attribute name="x" attributeType="ObjectID"/>
    <relationship name="b" toMany="YES" ordered="YES" destinationEntity="A"/></entity></model>
    """.write(to: contents, atomically: true, encoding: .utf8)
    let (code, output, problem) = try CommandLineTool.run(["--json", "model", "validate", contents.path])
    #expect(code == 1)
    let answer = try Value(json: Array(output.utf8))
    #expect(answer["cocoaErrorCode"] == 134060)
    #expect(answer["problems"].elements.count >= 3)
    #expect(problem.contains("A.b"))
    #expect(
      try CommandLineTool.run([
        "model", "validate", Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path,
      ]).code == 0)
  }
}
