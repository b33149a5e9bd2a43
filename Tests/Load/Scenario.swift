// The population of a benchmark: a container with a model, and a user, a zone and a store for each client.

import Crypto
import HTTPClient
import JSON

struct LoadError: Error, CustomStringConvertible {
  let description: String
}

/// The container and the credentials of the clients.
struct Scenario {
  var container: String
  var environment = "development"
  var apiToken: String
  /// The hash of the pushed model; nil: there is no object plane.
  var modelHash: String?
  var webAuthTokens: [String]
  private let made = Made()

  /// - Parameter json: the content of the file for `--scenario`.
  init(json: JSONValue) throws {
    guard let container = json["container"]?.string, let apiToken = json["apiToken"]?.string else {
      throw LoadError(description: "the scenario names no container and apiToken")
    }
    self.container = container
    self.apiToken = apiToken
    environment = json["environment"]?.string ?? "development"
    modelHash = json["modelHash"]?.string
    webAuthTokens = json["clients"]?.elements.compactMap { $0["webAuthToken"]?.string } ?? []
  }

  /// Makes a new container with the model below, and a user for each client.
  init(making clientCount: Int, with admin: Admin) async throws {
    let run = Hex.encode(SecureRandom.bytes(6))
    container = "iCloud.org.example.load-\(run)"
    try await admin.call("POST", "/admin/1/containers", ["container": container])
    modelHash = try await admin.call(
      "PUT", "/mirror/1/\(container)/\(environment)/model", body: Array(Self.model.utf8))["modelHash"]?.string
    guard
      let token = try await admin.call(
        "POST", "/admin/1/tokens", ["container": container, "environment": environment])["apiToken"]?.string
    else {
      throw LoadError(description: "the answer names no apiToken")
    }
    apiToken = token
    webAuthTokens = []
    for _ in 0..<clientCount { webAuthTokens.append(try await Self.makeUser(with: admin)) }
  }

  /// Makes a new user.
  /// - Returns: the web authentication token.
  static func makeUser(with admin: Admin) async throws -> String {
    let name = "load-" + Hex.encode(SecureRandom.bytes(6))
    guard let token = try await admin.call("POST", "/admin/1/users", ["name": name])["webAuthToken"]?.string else {
      throw LoadError(description: "the answer names no webAuthToken")
    }
    return token
  }

  static let model = """
    <?xml version="1.0" encoding="UTF-8" standalone="yes"?>
    <model type="com.apple.IDECoreDataModeler.DataModel" documentVersion="1.0" usedWithCloudKit="YES">
      <entity name="Folder" syncable="YES">
        <attribute name="name" optional="YES" attributeType="String"/>
        <relationship name="notes" optional="YES" toMany="YES" deletionRule="Nullify" destinationEntity="Note" \
    inverseName="folder" inverseEntity="Note"/>
      </entity>
      <entity name="Note" syncable="YES">
        <attribute name="body" optional="YES" attributeType="String"/>
        <attribute name="createdAt" optional="YES" attributeType="Date" usesScalarValueType="NO"/>
        <attribute name="rating" optional="YES" attributeType="Integer 64" usesScalarValueType="YES"/>
        <attribute name="title" optional="YES" attributeType="String"/>
        <relationship name="folder" optional="YES" maxCount="1" deletionRule="Nullify" destinationEntity="Folder" \
    inverseName="notes" inverseEntity="Folder"/>
      </entity>
    </model>
    """
}

// MARK: New data for each run

extension Scenario {
  /// The path of a record plane call, with credentials as CloudKit's web clients send them.
  func recordPlane(_ call: String, token: String) -> String {
    """
    /database/1/\(container)/\(environment)/\(call)?ckAPIToken=\(Self.percentEncoded(apiToken))&\
    ckWebAuthToken=\(Self.percentEncoded(token))
    """
  }

  /// Makes a new zone and returns its name.
  func makeZone(token: String, with admin: Admin) async throws -> String {
    let zoneName = "Load-" + Hex.encode(SecureRandom.bytes(6))
    try await modifyZone("create", zoneName, token: token, with: admin)
    made.add((zoneName, nil, token))
    return zoneName
  }

  private func modifyZone(_ operation: String, _ zoneName: String, token: String, with admin: Admin) async throws {
    let body = #"{"operations":[{"operationType":"\#(operation)","zone":{"zoneID":{"zoneName":"\#(zoneName)"}}}]}"#
    let answer = try await admin.call(
      "POST", recordPlane("private/zones/modify", token: token), body: Array(body.utf8), isOperator: false)
    if let reason = answer["zones"]?.elements.first?["reason"]?.string {
      throw LoadError(description: "the zone was refused: \(reason)")
    }
  }

  /// A store that a device mirrors.
  struct Store {
    /// The path of the store's calls.
    let path: String
  }

  /// Makes a new store.
  func makeStore(token: String, with admin: Admin) async throws -> Store {
    guard let modelHash else { throw LoadError(description: "w1c and w2o need a model: the scenario has no modelHash") }
    // Names come from the system's random numbers, so that a repeated seed gives no name twice.
    var random = FastRandom(seed: SecureRandom.uint64())
    let store = Store(path: "/mirror/1/\(container)/\(environment)/private/stores/\(random.uuid())")
    let body = #"{"modelHash":"\#(modelHash)","device":{"name":"load"}}"#
    _ = try await admin.call("PUT", store.path, body: Array(body.utf8), isOperator: false, bearer: token)
    made.add((nil, store, token))
    return store
  }

  /// Makes couriers for a user's devices, and returns their addresses.
  func couriers(_ count: Int, token: String, _ target: Target) async throws -> [String] {
    let path =
      """
      /device/1/\(container)/\(environment)/tokens/create?ckAPIToken=\(Self.percentEncoded(apiToken))&\
      ckWebAuthToken=\(Self.percentEncoded(token))
      """
    var random = FastRandom(seed: SecureRandom.uint64())
    let requests = (0..<count).map { _ in
      httpRequest(
        "POST", path, host: target.host,
        body: Array(#"{"apnsEnvironment":"development","clientId":"\#(random.uuid())"}"#.utf8))
    }
    return try await exchange(requests, with: target).map { body in
      guard let url = try JSONValue(parsing: body)["webcourierURL"]?.string else {
        throw LoadError(description: "tokens/create names no webcourierURL")
      }
      return url
    }
  }

  /// Deletes the zones and stores of the run.
  func cleanUp(with admin: Admin) async {
    for (zoneName, store, token) in made.all {
      // Dropped because a zone that can't be deleted only stays behind, with a name that tells its origin.
      if let zoneName { try? await modifyZone("delete", zoneName, token: token, with: admin) }
      if let store { _ = try? await admin.call("DELETE", store.path, body: [], isOperator: false, bearer: token) }
    }
  }

  /// The zones and stores to delete at the end.
  final class Made {
    private(set) var all: [(zoneName: String?, store: Store?, token: String)] = []
    func add(_ one: (zoneName: String?, store: Store?, token: String)) { all.append(one) }
  }

  static func percentEncoded(_ text: String) -> String {
    text.utf8.reduce(into: "") { result, byte in
      let scalar = Unicode.Scalar(byte)
      if byte < 0x80,
        scalar.properties.isAlphabetic || scalar.properties.numericType != nil || "-._~".unicodeScalars.contains(scalar)
      {
        result.unicodeScalars.append(scalar)
      } else {
        result += "%" + Hex.encode([byte]).uppercased()
      }
    }
  }
}

/// Calls before and between the runs, whose speed does not matter.
struct Admin {
  let url: String
  let operatorToken: String?
  let client = HTTPClient()

  /// - Throws: for any status but 200, with the server's reason.
  @discardableResult
  func call(_ method: String, _ path: String, _ members: KeyValuePairs<String, String>) async throws -> JSONValue {
    var writer = JSONWriter()
    writer.beginObject()
    for (name, value) in members { writer.member(name, value) }
    writer.endObject()
    return try await call(method, path, body: writer.bytes)
  }

  func call(_ method: String, _ path: String, body: [UInt8], isOperator: Bool = true, bearer: String? = nil)
    async throws -> JSONValue
  {
    var headers = [HTTPClient.Header("Content-Type", "application/json")]
    if let token = isOperator ? operatorToken : bearer { headers.append(.init("Authorization", "Bearer \(token)")) }
    let response = try await answer(method, path, headers, body)
    guard response.status == 200 else {
      let call = path.split(separator: "?").first.map(String.init) ?? path
      throw LoadError(
        description:
          """
          \(method) \(call) was answered \(response.status): \
          \(String(decoding: response.body.prefix(300), as: UTF8.self))
          """
      )
    }
    return try JSONValue(parsing: response.body)
  }

  /// Repeats a call that the server puts off, as its clients do.
  private func answer(_ method: String, _ path: String, _ headers: [HTTPClient.Header], _ body: [UInt8]) async throws
    -> HTTPClient.Response
  {
    let end = ContinuousClock.now + Self.patience
    while true {
      let response = try await client.send(method, url + path, headers: headers, body: body, timeout: .seconds(20))
      guard response.status == 503, let later = response["Retry-After"].flatMap(Int.init), .now < end else {
        return response
      }
      try await Task.sleep(for: min(.seconds(later), Self.longestPause))
    }
  }

  private static let patience = Duration.seconds(30)
  private static let longestPause = Duration.seconds(5)
}
