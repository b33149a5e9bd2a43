// An app in an installation: a container, a user, and devices that save and import like a client library.

import Foundation
import Testing

/// A container with a model, and the credentials for it.
struct App: Sendable {
  let installation: Installation
  let container: String
  let apiToken: String
  let modelHash: String

  /// - Parameter model: the path of an `.xcdatamodeld`.
  init(_ installation: Installation, container: String = "iCloud.org.example.app", model: String) async throws {
    self.installation = installation
    self.container = container
    try await installation.admin("POST", "/admin/1/containers", ["container": .string(container)])
    let pushed = try await installation.aquifer(
      "--json", "model", "push", model, "--container", container, "--environment", "development")
    guard pushed.code == 0 else { throw Unexpected("model push: \(pushed.problem)") }
    guard let hash = try Value(json: Array(pushed.output.utf8))["modelHash"].string else {
      throw Unexpected("no model hash: \(pushed.output)")
    }
    modelHash = hash
    let token = try await installation.admin(
      "POST", "/admin/1/tokens", ["container": .string(container), "environment": "development"])
    apiToken = try #require(token["apiToken"].string)
  }

  /// An existing container, in an installation that was restarted.
  init(_ installation: Installation, container: String, apiToken: String, modelHash: String) {
    self.installation = installation
    self.container = container
    self.apiToken = apiToken
    self.modelHash = modelHash
  }

  /// Makes a new user with a record name and a web-auth token.
  func user(_ name: String, email: String? = nil) async throws -> User {
    var person: [String: Value] = ["name": .string(name)]
    if let email { person["email"] = .string(email) }
    let made = try await installation.admin("POST", "/admin/1/users", .object(person))
    return User(
      app: self, recordName: try #require(made["userRecordName"].string),
      token: try #require(made["webAuthToken"].string))
  }
}

struct User: Sendable {
  let app: App
  let recordName: String
  let token: String

  /// Makes a device with a store of the user's private database, or of another one.
  func device(_ name: String, in database: String = "private") async throws -> Device {
    let device = Device(user: self, store: UUID().uuidString, database: database)
    let body: Value = ["modelHash": .string(app.modelHash), "device": ["name": .string(name)]]
    // Tried again as a client does, because the first call at a shard of a busy machine may come too early.
    for _ in 0..<10 {
      let answer = try await device.send("PUT", "", body)
      if answer.status == 200 { return device }
      guard answer.status == 503 else { throw Unexpected("PUT: \(answer.status) \(answer.text)") }
      try await Task.sleep(for: .seconds(1))
    }
    throw Unexpected("PUT: 503 ten times")
  }

  /// A call of the record plane, which must succeed.
  func records(_ action: String, _ body: Value, in database: String = "private") async throws -> Value {
    let answer = try await send(action, body, in: database)
    guard answer.status == 200 else { throw Unexpected("\(action): \(answer.status) \(answer.text)") }
    return try answer.json
  }

  /// A call of the record plane with any answer.
  func send(_ action: String, _ body: Value, in database: String = "private") async throws -> Installation.Answer {
    let token = token.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    let url =
      """
      \(app.installation.ready.gateway)/database/1/\(app.container)/development/\(database)/\(action)?\
      ckAPIToken=\(app.apiToken)&ckWebAuthToken=\(token)
      """
    return try await app.installation.send("POST", url, bytes: try body.json)
  }

  /// All records of a zone, by name.
  func allRecords(in zone: String = "com.apple.coredata.cloudkit.zone") async throws -> (
    records: [String: Value], token: Value
  ) {
    var records: [String: Value] = [:]
    var token = Value.null
    while true {
      var request: [String: Value] = ["zoneID": ["zoneName": .string(zone)]]
      if token != .null { request["syncToken"] = token }
      let answer = try await self.records("changes/zone", ["zones": [.object(request)]])["zones"][0]
      guard answer["serverErrorCode"] == .null else { throw Unexpected("changes/zone: \(answer)") }
      for record in answer["records"].elements {
        let name = try #require(record["recordName"].string)
        // `nil` in a conditional expression would be the JSON null.
        if record["deleted"].bool == true { records.removeValue(forKey: name) } else { records[name] = record }
      }
      token = answer["syncToken"]
      guard answer["moreComing"].bool == true else { return (records, token) }
    }
  }
}

/// A device with its store. The test keeps its import token and its copy of the graph.
final class Device: Sendable {
  let user: User
  let store: String
  let database: String

  init(user: User, store: String, database: String = "private") {
    self.user = user
    self.store = store
    self.database = database
  }

  var url: String {
    "\(user.app.installation.ready.gateway)/mirror/1/\(user.app.container)/development/\(database)/stores/\(store)"
  }

  /// A call below the store's path, which must succeed.
  @discardableResult
  func call(_ method: String, _ path: String, _ body: Value? = nil) async throws -> Value {
    let answer = try await send(method, path, body)
    guard answer.status == 200 else { throw Unexpected("\(method) \(path): \(answer.status) \(answer.text)") }
    return try answer.json
  }

  func send(_ method: String, _ path: String, _ body: Value? = nil) async throws -> Installation.Answer {
    try await user.app.installation.send(method, url + path, bearer: user.token, bytes: try body?.json)
  }

  /// Saves changes as one transaction.
  @discardableResult
  func save(_ changes: [Value], id: String = UUID().uuidString, waitsForExport: Bool = true) async throws -> Value {
    try await call("POST", "/transactions\(waitsForExport ? "?wait=export" : "")", Self.transactions(changes, id: id))
  }

  static func transactions(_ changes: [Value], id: String) -> Value {
    [
      "transactions": [
        [
          "transactionID": .string(id), "timestamp": "2026-11-20T07:33:24.123Z", "author": "app",
          "changes": .array(changes),
        ]
      ]
    ]
  }

  /// Imports all pages.
  /// - Returns: all changes, and the latest token.
  func changes(after token: Value = .null) async throws -> (changes: [Value], token: Value) {
    var changes: [Value] = []
    var token = token
    while true {
      let query =
        token.string.map { "?after=" + ($0.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "") } ?? ""
      let page = try await call("GET", "/changes\(query)")
      guard page["changes"].isArray else { throw Unexpected("changes: \(page)") }
      changes += page["changes"].elements
      token = page["importToken"]
      guard page["moreComing"].bool == true else {
        #expect(page["caughtUp"].bool == true)
        return (changes, token)
      }
    }
  }

  /// The graph of a device that imports everything from the beginning.
  func importedGraph() async throws -> (graph: Graph, token: Value) {
    let (changes, token) = try await changes()
    var graph = Graph()
    for change in changes { try graph.apply(change) }
    try await graph.resolveAssets(user.app.installation)
    return (graph, token)
  }
}

extension Graph {
  /// Replaces values that came as assets by their content in base64.
  mutating func resolveAssets(_ installation: Installation) async throws {
    for (id, object) in objects {
      for (name, value) in object.attributes {
        guard let url = value["downloadURL"].string ?? value["asset"]["downloadURL"].string else { continue }
        let answer = try await installation.send("GET", url)
        guard answer.status == 200 else { throw Unexpected("asset \(name) of \(id): \(answer.status)") }
        objects[id]?.attributes[name] = .string(Data(answer.bytes).base64EncodedString())
      }
    }
  }
}
