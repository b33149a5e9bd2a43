// The users of a run: each has a zone of the record plane or stores of the object plane, two writers and a reader.

import Installations
import JSON

/// A user's database as its clients use it.
struct Database: Hashable, Sendable {
  enum Plane: Hashable, Sendable {
    /// Carries the zone that the clients save to.
    case records(zoneName: String)
    case objects
  }

  /// The user's name, which also names the database in the history.
  let name: String
  let plane: Plane
  let webAuthToken: String
}

/// The container of a run and its users.
struct Population: Sendable {
  static let container = "iCloud.org.example.chaos"
  /// Records that all clients of a zone increment.
  static let counters = ["counter-0", "counter-1", "counter-2"]

  let calls: Calls
  let apiToken: String
  let modelHash: String
  private(set) var databases: [Database] = []

  /// - Parameter userCount: half of them get zones, half get stores.
  init(_ calls: Calls, userCount: Int, ledger: Ledger) async throws {
    self.calls = calls
    let token = Installation.operatorToken
    _ = try await calls.get(
      "POST", "/admin/1/containers", bearer: token, body: object { $0.member("container", Self.container) })
    let model = try await calls.get(
      "PUT", "/mirror/1/\(Self.container)/development/model", bearer: token, body: Array(Self.model.utf8))
    let made = try await calls.get(
      "POST", "/admin/1/tokens", bearer: token,
      body: object {
        $0.member("container", Self.container)
        $0.member("environment", "development")
      })
    guard let apiToken = made["apiToken"]?.string, let modelHash = model["modelHash"]?.string else {
      throw RunError("the container has no token or model")
    }
    self.apiToken = apiToken
    self.modelHash = modelHash
    for number in 0..<userCount { try await addUser(number, ledger) }
  }

  private mutating func addUser(_ number: Int, _ ledger: Ledger) async throws {
    let user = "user-\(number)"
    let made = try await calls.get(
      "POST", "/admin/1/users", bearer: Installation.operatorToken, body: object { $0.member("name", user) })
    guard let token = made["webAuthToken"]?.string else { throw RunError("\(user) has no token") }
    if number % 2 == 1 {
      databases.append(Database(name: user, plane: .objects, webAuthToken: token))
      return
    }
    let database = Database(name: user, plane: .records(zoneName: "Chaos"), webAuthToken: token)
    databases.append(database)
    let zone = #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Chaos"}}}]}"#
    _ = try await calls.get("POST", recordPath("zones/modify", of: database), body: Array(zone.utf8))
    let setup = RecordClient(self, database, index: 0xFFFF, seed: 0, ledger: ledger)
    try await setup.makeCounters(Self.counters)
  }

  func recordPath(_ call: String, of database: Database) -> String {
    """
    /database/1/\(Self.container)/development/private/\(call)?ckAPIToken=\(percentEncoded(apiToken))&\
    ckWebAuthToken=\(percentEncoded(database.webAuthToken))
    """
  }

  func storePath(_ store: String) -> String { "/mirror/1/\(Self.container)/development/private/stores/\(store)" }

  func makeStore(_ store: String, of database: Database) async throws {
    let body = object {
      $0.member("modelHash", modelHash)
      $0.key("device")
      $0.beginObject()
      $0.member("name", store)
      $0.endObject()
    }
    _ = try await calls.get("PUT", storePath(store), bearer: database.webAuthToken, body: body)
  }

  private static let model = """
    <?xml version="1.0" encoding="UTF-8" standalone="yes"?>
    <model type="com.apple.IDECoreDataModeler.DataModel" documentVersion="1.0" usedWithCloudKit="YES">
      <entity name="Item" syncable="YES">
        <attribute name="text" optional="YES" attributeType="String"/>
        <attribute name="value" optional="YES" attributeType="Integer 64" usesScalarValueType="YES"/>
      </entity>
    </model>
    """
}
