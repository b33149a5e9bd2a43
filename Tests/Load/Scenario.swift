// The population of a benchmark: a container with a model, and for each client a user, a zone and a store.

import Crypto
import Glibc
import HTTPClient
import JSON

struct LoadError: Error, CustomStringConvertible {
  let description: String
}

/// Where and as whom the clients work.
struct Scenario {
  var container: String
  var environment = "development"
  var apiToken: String
  /// Of the model that was pushed; without it there is no object plane.
  var modelHash: String?
  var webAuthTokens: [String]

  /// Reads what `--scenario` names.
  init(path: String) throws {
    guard let bytes = Self.contents(path) else { throw LoadError(description: "can't read \(path)") }
    try self.init(json: JSONValue(parsing: bytes))
  }

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

  /// Makes a new container with the model below, and as many users as there are clients.
  init(making clientCount: Int, with admin: Admin) async throws {
    let run = Hex.encode(SecureRandom.bytes(6))
    container = "iCloud.org.example.load-\(run)"
    try await admin.call("POST", "/admin/1/containers", ["container": container])
    modelHash = try await admin.call("PUT", "/mirror/1/\(container)/\(environment)/model", body: Array(Self.model.utf8))["modelHash"]?.string
    guard let token = try await admin.call("POST", "/admin/1/tokens", ["container": container, "environment": environment])["apiToken"]?.string else {
      throw LoadError(description: "the answer names no apiToken")
    }
    apiToken = token
    webAuthTokens = []
    for number in 1...clientCount {
      guard let token = try await admin.call("POST", "/admin/1/users", ["name": "load-\(run)-\(number)"])["webAuthToken"]?.string else {
        throw LoadError(description: "the answer names no webAuthToken")
      }
      webAuthTokens.append(token)
    }
  }

  private static func contents(_ path: String) -> [UInt8]? {
    guard let file = fopen(path, "r") else { return nil }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    let count = fread(&bytes, 1, bytes.count, file)
    return Array(bytes[..<count])
  }

  static let model = """
    <?xml version="1.0" encoding="UTF-8" standalone="yes"?>
    <model type="com.apple.IDECoreDataModeler.DataModel" documentVersion="1.0" usedWithCloudKit="YES">
      <entity name="Folder" syncable="YES">
        <attribute name="name" optional="YES" attributeType="String"/>
        <relationship name="notes" optional="YES" toMany="YES" deletionRule="Nullify" destinationEntity="Note" inverseName="folder" inverseEntity="Note"/>
      </entity>
      <entity name="Note" syncable="YES">
        <attribute name="body" optional="YES" attributeType="String"/>
        <attribute name="createdAt" optional="YES" attributeType="Date" usesScalarValueType="NO"/>
        <attribute name="rating" optional="YES" attributeType="Integer 64" usesScalarValueType="YES"/>
        <attribute name="title" optional="YES" attributeType="String"/>
        <relationship name="folder" optional="YES" maxCount="1" deletionRule="Nullify" destinationEntity="Folder" inverseName="notes" inverseEntity="Folder"/>
      </entity>
    </model>
    """
}

// MARK: What each run needs anew

extension Scenario {
  /// The path of a record plane's call, with credentials as CloudKit's web clients send them.
  func recordPlane(_ call: String, token: String) -> String {
    "/database/1/\(container)/\(environment)/\(call)?ckAPIToken=\(Self.percentEncoded(apiToken))&ckWebAuthToken=\(Self.percentEncoded(token))"
  }

  func makeZone(_ zoneName: String, token: String, with admin: Admin) async throws {
    let body = #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"\#(zoneName)"}}}]}"#
    let answer = try await admin.call("POST", recordPlane("private/zones/modify", token: token), body: Array(body.utf8), isOperator: false)
    if let reason = answer["zones"]?.elements.first?["reason"]?.string { throw LoadError(description: "the zone was refused: \(reason)") }
  }

  func makeStore(_ storeID: String, token: String, with admin: Admin) async throws {
    guard let modelHash else { throw LoadError(description: "w1c needs a model: the scenario has no modelHash") }
    let body = #"{"modelHash":"\#(modelHash)","device":{"name":"load"}}"#
    _ = try await admin.call(
      "PUT", "/mirror/1/\(container)/\(environment)/private/stores/\(storeID)", body: Array(body.utf8), isOperator: false, bearer: token)
  }

  static func percentEncoded(_ text: String) -> String {
    text.utf8.reduce(into: "") { result, byte in
      let scalar = Unicode.Scalar(byte)
      if byte < 0x80, scalar.properties.isAlphabetic || scalar.properties.numericType != nil || "-._~".unicodeScalars.contains(scalar) {
        result.unicodeScalars.append(scalar)
      } else {
        result += "%" + Hex.encode([byte]).uppercased()
      }
    }
  }
}

/// Calls before and between the runs, where speed does not matter.
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

  func call(_ method: String, _ path: String, body: [UInt8], isOperator: Bool = true, bearer: String? = nil) async throws -> JSONValue {
    var headers = [HTTPClient.Header("Content-Type", "application/json")]
    if let token = isOperator ? operatorToken : bearer { headers.append(.init("Authorization", "Bearer \(token)")) }
    let response = try await client.send(method, url + path, headers: headers, body: body, timeout: .seconds(20))
    guard response.status == 200 else {
      let call = path.split(separator: "?").first.map(String.init) ?? path
      throw LoadError(description: "\(method) \(call) was answered \(response.status): \(String(decoding: response.body.prefix(300), as: UTF8.self))")
    }
    return try JSONValue(parsing: response.body)
  }
}
