// Calls of owners and participants of shares on the record plane.

import Foundation
import Records
import Testing

extension App {
  /// Makes users whose databases are in different shards, so that sharing crosses shards.
  func usersApart(_ names: [String]) async throws -> [User] {
    var (users, shards): ([User], Set<Int>) = ([], [])
    let id = try #require(ContainerID(rawValue: container))
    let layout = try #require(ShardLayout(createdCount: 4))
    for name in names {
      for attempt in 0..<50 where users.count == shards.count {
        let user = try await user(attempt == 0 ? name : "\(name)-\(attempt)")
        guard
          shards.insert(
            layout.shard(of: DatabaseID(container: id, environment: .development, owner: user.recordName))
          ).inserted
        else { continue }
        users.append(user)
        break
      }
    }
    guard users.count == names.count else { throw Unexpected("no users in different shards") }
    return users
  }
}

extension User {
  func makeZone(_ name: String) async throws {
    let answer = try await records(
      "zones/modify", ["operations": [["operationType": "create", "zone": ["zoneID": ["zoneName": .string(name)]]]]])
    guard answer["zones"][0]["serverErrorCode"] == .null else { throw Unexpected("zones/modify: \(answer)") }
  }

  /// The identifier of a zone, with its owner where the zone is another user's.
  static func zoneID(_ name: String, of owner: User? = nil) -> Value {
    var zone: [String: Value] = ["zoneName": .string(name)]
    if let owner { zone["ownerRecordName"] = .string(owner.recordName) }
    return .object(zone)
  }

  /// Saves a note in a zone of the user's own or of another owner.
  func save(_ record: String, _ title: String, in zone: String, of owner: User? = nil) async throws -> Value {
    let note: Value = [
      "recordName": .string(record), "recordType": "Note", "fields": ["title": ["value": .string(title)]],
    ]
    return try await send(
      "records/modify",
      [
        "zoneID": Self.zoneID(zone, of: owner), "atomic": false,
        "operations": [["operationType": "forceUpdate", "record": note]],
      ],
      in: owner == nil ? "private" : "shared"
    ).json
  }

  /// Shares a whole zone with some users.
  /// - Returns: the share's short GUID.
  func share(_ zone: String, with others: [(user: User, permission: String)], requestID: String = UUID().uuidString)
    async throws -> String
  {
    let participants = others.map { other -> Value in
      [
        "type": "USER", "permission": .string(other.permission), "acceptanceStatus": "INVITED",
        "userIdentity": ["lookupInfo": ["userRecordName": .string(other.user.recordName)]],
      ]
    }
    let record: Value = [
      "recordType": "cloudkit.share", "recordName": "cloudkit.zoneshare",
      "fields": ["cloudkit.title": ["value": "Trip"]], "publicPermission": "NONE",
      "participants": .array(participants),
    ]
    let body: Value = ["zoneID": Self.zoneID(zone), "operations": [["operationType": "create", "record": record]]]
    let answer = try await repeated("records/modify", body, requestID: requestID)
    guard let guid = answer["records"][0]["shortGUID"].string else { throw Unexpected("share: \(answer)") }
    return guid
  }

  func stopSharing(_ zone: String, of owner: User? = nil, requestID: String = UUID().uuidString) async throws {
    let body: Value = [
      "zoneID": Self.zoneID(zone, of: owner),
      "operations": [["operationType": "forceDelete", "record": ["recordName": "cloudkit.zoneshare"]]],
    ]
    let answer = try await repeated(
      "records/modify", body, in: owner == nil ? "private" : "shared", requestID: requestID)
    guard answer["records"][0]["serverErrorCode"] == .null else { throw Unexpected("stop: \(answer)") }
  }

  func accept(_ shortGUID: String) async throws -> Value { try await resolve("accept", shortGUID) }

  /// One of the calls that take short GUIDs: `resolve`, `accept`, `decline`, `requestAccess`.
  func resolve(_ action: String, _ shortGUID: String) async throws -> Value {
    try await repeated("records/\(action)", ["shortGUIDs": [["value": .string(shortGUID)]]], in: "public")["results"][0]
  }

  /// A participant as a client adds it to the list.
  static func invitation(_ user: User, _ permission: String, type: String = "USER") -> Value {
    [
      "type": .string(type), "permission": .string(permission),
      "userIdentity": ["lookupInfo": ["userRecordName": .string(user.recordName)]],
    ]
  }

  /// The share of a whole zone as its owner reads it.
  func zoneShare(_ zone: String) async throws -> Value {
    try await records(
      "records/lookup", ["zoneID": Self.zoneID(zone), "records": [["recordName": "cloudkit.zoneshare"]]])["records"][0]
  }

  /// Sends a share back with its tag and the changed members.
  /// - Returns: the item of the answer.
  func updateShare(_ zone: String, of owner: User? = nil, _ share: Value, _ members: [String: Value]) async throws
    -> Value
  {
    var record = members
    record["recordName"] = "cloudkit.zoneshare"
    record["recordType"] = "cloudkit.share"
    record["recordChangeTag"] = share["recordChangeTag"]
    let body: Value = [
      "zoneID": Self.zoneID(zone, of: owner), "operations": [["operationType": "update", "record": .object(record)]],
    ]
    return try await records("records/modify", body, in: owner == nil ? "private" : "shared")["records"][0]
  }

  /// `owner/zone` of each zone shared with the user.
  func sharedZones() async throws -> Set<String> {
    let answer = try await repeated("zones/list", [:], in: "shared")
    return Set(
      answer["zones"].elements.map {
        "\($0["zoneID"]["ownerRecordName"].string ?? "")/\($0["zoneID"]["zoneName"].string ?? "")"
      })
  }

  /// A page of the shared database's feed: `owner/zone`, with a minus for deleted zones, and the next token.
  func sharedFeed(after token: Value = .null) async throws -> (zones: Set<String>, token: Value) {
    let page = try await records("changes/database", token == .null ? [:] : ["syncToken": token], in: "shared")
    #expect(page["moreComing"] == false)
    let zones = page["zones"].elements.map {
      """
      \($0["deleted"] == true ? "-" : "")\($0["zoneID"]["ownerRecordName"].string ?? "")/\
      \($0["zoneID"]["zoneName"].string ?? "")
      """
    }
    return (Set(zones), page["syncToken"])
  }

  /// Repeats a call as the same request while the answer is "later" or missing.
  func repeated(_ action: String, _ body: Value, in database: String = "private", requestID: String = UUID().uuidString)
    async throws -> Value
  {
    let token = token.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    let url =
      """
      \(app.installation.ready.gateway)/database/1/\(app.container)/development/\(database)/\(action)?\
      ckAPIToken=\(app.apiToken)&ckWebAuthToken=\(token)
      """
    let end = ContinuousClock.now + .seconds(40)
    while true {
      // Dropped because a broken connection leaves the outcome open; the request is repeated.
      let answer = try? await app.installation.send(
        "POST", url, headers: [("X-Request-ID", requestID)], bytes: try body.json)
      let isLater = answer.map { $0.status == 503 || $0.text.contains("TRY_AGAIN_LATER") } ?? true
      if let answer, !isLater {
        guard answer.status == 200 else { throw Unexpected("\(action): \(answer.status) \(answer.text)") }
        return try answer.json
      }
      guard ContinuousClock.now < end else { throw Unexpected("\(action): \(answer?.text ?? "no answer")") }
      try await Task.sleep(for: .milliseconds(30))
    }
  }
}
