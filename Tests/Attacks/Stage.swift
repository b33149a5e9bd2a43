// The attacked installation, as it ships with default options, and its users.

import HTTPClient
import Installations
import JSON
import Records

/// Processes, a container, and users by the shard that holds them.
struct Stage: Sendable {
  static let container = "iCloud.org.example.attacks"
  static let shardCount = 4
  static let workerCount = 2

  let installation: Installation
  let apiToken: String
  let modelHash: String
  private let operatorHTTP: HTTPClient

  var url: String { installation.gateways[0].url }
  var gateway: Installation.Endpoint { installation.gateways[0] }
  var notifier: Installation.Endpoint { installation.notifier }

  /// Makes the container in a running installation.
  init(_ installation: Installation) async throws {
    self.installation = installation
    operatorHTTP = HTTPClient()
    let calls = Operator(http: operatorHTTP, url: installation.gateways[0].url)
    _ = try await calls.call("POST", "/admin/1/containers", object { $0.member("container", Self.container) })
    let model = try await calls.call("PUT", "/mirror/1/\(Self.container)/development/model", Array(Self.model.utf8))
    let token = try await calls.call(
      "POST", "/admin/1/tokens",
      object {
        $0.member("container", Self.container)
        $0.member("environment", "development")
      })
    guard let apiToken = token["apiToken"]?.string, let modelHash = model["modelHash"]?.string else {
      throw RunError("the container has no token or model")
    }
    self.apiToken = apiToken
    self.modelHash = modelHash
  }

  /// Makes a user with a zone `Zone` whose shard satisfies `condition`. Users of other shards made on the way stay
  /// unused.
  /// - Parameter address: the source address of the user's calls; nil: the bystanders' address.
  func user(
    _ name: String, from address: String? = RawConnection.source,
    where condition: (_ shard: Int) -> Bool = { _ in true }
  ) async throws -> UserClient {
    guard let container = ContainerID(rawValue: Self.container) else { throw RunError("the container has no name") }
    guard let layout = ShardLayout(createdCount: Self.shardCount) else { throw RunError("there are no shards") }
    for _ in 0..<200 {
      let made = try await administer(
        "POST", "/admin/1/users", object { $0.member("name", "\(name)-\(monotonicNanoseconds())") })
      guard let recordName = made["userRecordName"]?.string, let token = made["webAuthToken"]?.string else {
        throw RunError("\(name) has no token")
      }
      let shard = layout.shard(
        of: DatabaseID(container: container, environment: .development, owner: recordName))
      guard condition(shard) else { continue }
      let user = UserClient(
        recordName: recordName, webAuthToken: token, shard: shard, stage: self, http: HTTPClient(localAddress: address))
      try await user.must(
        "zones/modify", #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Zone"}}}]}"#)
      return user
    }
    throw RunError("no user belongs to the wanted shard")
  }

  /// An operator's call, which must succeed.
  @discardableResult
  func administer(_ method: String, _ path: String, _ body: [UInt8]? = nil) async throws -> JSONValue {
    try await Operator(http: operatorHTTP, url: url).call(method, path, body)
  }

  private struct Operator {
    let http: HTTPClient
    let url: String

    func call(_ method: String, _ path: String, _ body: [UInt8]?) async throws -> JSONValue {
      let headers = [
        HTTPClient.Header("Content-Type", "application/json"),
        HTTPClient.Header("Authorization", "Bearer \(Installation.operatorToken)"),
      ]
      for _ in 0..<100 {
        // Dropped because a gateway that was killed is restarted.
        if let response = try? await http.send(method, url + path, headers: headers, body: body) {
          if response.status == 200 { return try JSONValue(parsing: response.body) }
          guard response.status == 503 else {
            throw RunError(
              "\(method) \(path) is answered \(response.status) \(String(decoding: response.body, as: UTF8.self))")
          }
        }
        try await Task.sleep(for: .milliseconds(50))
      }
      throw RunError("\(method) \(path) is not answered")
    }
  }

  private static let model = """
    <?xml version="1.0" encoding="UTF-8" standalone="yes"?>
    <model type="com.apple.IDECoreDataModeler.DataModel" documentVersion="1.0" usedWithCloudKit="YES">
      <entity name="Item" syncable="YES">
        <attribute name="text" optional="YES" attributeType="String"/>
        <attribute name="value" optional="YES" attributeType="Integer 64" usesScalarValueType="YES"/>
        <attribute name="place" optional="YES" attributeType="Composite" elementName="Place"/>
      </entity>
      <composite name="Place">
        <attribute name="name" optional="YES" attributeType="String"/>
        <attribute name="height" optional="YES" attributeType="Double"/>
      </composite>
    </model>
    """
}
