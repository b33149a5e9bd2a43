// Data of the earliest release that can be upgraded (deploy/upgrades-from), in processes of this release.
// deploy/try-upgrade runs both releases beside each other.

import Foundation
import Testing

struct UpgradeTests {
  /// The known content of the data, stored with them in `earlier.tar.gz`.
  private struct Facts: Codable {
    struct Person: Codable {
      let recordName: String
      let token: String
      let store: String
      let importToken: String
      let zoneToken: String
      /// The title and the change tag by record name.
      let titles: [String: String]
      let tags: [String: String]
    }

    let container: String
    let apiToken: String
    let modelHash: String
    let people: [Person]
  }

  private static let archive = Checkout.root.appending(path: "Tests/Processes/earlier.tar.gz")
  private static let zone: Value = ["zoneName": "com.apple.coredata.cloudkit.zone"]
  /// The folder of that release's executables, to make the archive again.
  private static let earlier = ProcessInfo.processInfo.environment["AQUIFER_RECORD_EARLIER"]

  private static func start(_ processes: SeparateProcesses, binaries: URL? = nil) async throws -> Installation {
    let (directory, data) = (processes.folder.path + "/kept/directory", processes.folder.path + "/kept/records")
    try await processes.start("share-1", ["--data", directory, "--shards", "2"], binaries: binaries)
    try await processes.start("worker-1", ["--data", data], binaries: binaries)
    return processes.installation(
      gateway: try await processes.start(
        "gateway-1", ["--http", "127.0.0.1:0", "--assets", data + "/assets"], binaries: binaries))
  }

  private static func tar(_ words: String...) throws {
    let run = try CommandLineTool.run(words, executable: URL(filePath: "/usr/bin/tar"))
    guard run.code == 0 else { throw Unexpected("tar: \(run.problem)") }
  }

  @Test(.timeLimit(.minutes(1)))
  func `the earliest release's data are there, scrubbed and up to date, and its tokens and change tags stay valid`()
    async throws
  {
    try await SeparateProcesses.run { processes in
      try Self.tar("-xzf", Self.archive.path, "-C", processes.folder.path)
      let facts = try JSONDecoder().decode(
        Facts.self, from: Data(contentsOf: processes.folder.appending(path: "kept/facts.json")))
      let installation = try await Self.start(processes)
      let app = App(installation, container: facts.container, apiToken: facts.apiToken, modelHash: facts.modelHash)
      #expect(facts.people.count == 4)
      for person in facts.people { try await Self.check(person, app) }
      let scrub = try await installation.aquifer("--json", "scrub", "--assets")
      #expect(scrub.code == 0, "\(scrub)")
    }
  }

  private static func check(_ person: Facts.Person, _ app: App) async throws {
    let user = User(app: app, recordName: person.recordName, token: person.token)
    let device = Device(user: user, store: person.store)
    let records = try await user.allRecords().records
    #expect(records.mapValues { $0["fields"]["CD_name"]["value"].string } == person.titles.mapValues(Optional.some))
    // The tokens bring no changes.
    #expect(try await device.changes(after: .string(person.importToken)).changes.isEmpty)
    let feed = try await user.records(
      "changes/zone", ["zones": [["zoneID": zone, "syncToken": .string(person.zoneToken)]]])
    #expect(
      feed["zones"].elements.first?["records"].elements.isEmpty == true
        && feed["zones"].elements.first?["serverErrorCode"] == .null, "\(feed)")
    // Later changes arrive.
    let (name, tag) = try #require(person.tags.min { $0.key < $1.key })
    let update: Value = [
      "operationType": "update",
      "record": [
        "recordName": .string(name), "recordType": "CD_Tag", "recordChangeTag": .string(tag),
        "fields": ["CD_name": ["value": "changed"]],
      ],
    ]
    let changed = try await user.records("records/modify", ["zoneID": zone, "operations": [update]])
    #expect(changed["records"].elements.first?["fields"]["CD_name"]["value"] == "changed", "\(changed)")
    try await device.save([MainJob.insert("Tag", UUID().uuidString, ["name": "new"])])
    let (graph, _) = try await user.device("laptop").importedGraph()
    #expect(graph.objects.count == person.titles.count + 1)
    let news = try await device.changes(after: .string(person.importToken)).changes
    #expect(news.map { $0["objectID"].string } == [name], "\(news)")
  }

  @Test(.enabled(if: earlier != nil, "AQUIFER_RECORD_EARLIER names no folder with the earliest release's executables"))
  func `the earliest release's data are recorded`() async throws {
    try await SeparateProcesses.run { processes in
      let installation = try await Self.start(processes, binaries: URL(filePath: Self.earlier ?? ""))
      let app = try await App(
        installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path)
      var people: [Facts.Person] = []
      for number in 0..<4 { people.append(try await Self.make("user-\(number)", app)) }
      let facts = Facts(container: app.container, apiToken: app.apiToken, modelHash: app.modelHash, people: people)
      try JSONEncoder().encode(facts).write(to: processes.folder.appending(path: "kept/facts.json"))
      for name in ["gateway-1", "worker-1", "share-1"] { try processes.end(name, by: SIGTERM) }
      try Self.tar("-czf", Self.archive.path, "-C", processes.folder.path, "kept")
    }
  }

  private static func make(_ name: String, _ app: App) async throws -> Facts.Person {
    let user = try await app.user(name)
    let device = try await user.device("phone")
    var names: [String] = []
    for number in 0..<6 {
      names.append(UUID().uuidString)
      try await device.save([MainJob.insert("Tag", names[number], ["name": .string("\(name) \(number)")])])
    }
    try await device.save([["changeType": "delete", "entity": "Tag", "objectID": .string(names[5])]])
    let importToken = try #require(try await device.changes().token.string)
    let (records, token) = try await user.allRecords()
    return Facts.Person(
      recordName: user.recordName, token: user.token, store: device.store, importToken: importToken,
      zoneToken: try #require(token.string),
      titles: records.compactMapValues { $0["fields"]["CD_name"]["value"].string },
      tags: records.compactMapValues { $0["recordChangeTag"].string })
  }
}
