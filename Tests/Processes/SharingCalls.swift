// What owners and participants do with shares, on the record plane as its clients do.

import Foundation
import Testing

extension User {
  func makeZone(_ name: String) async throws {
    let answer = try await records("zones/modify", ["operations": [["operationType": "create", "zone": ["zoneID": ["zoneName": .string(name)]]]]])
    guard answer["zones"][0]["serverErrorCode"] == .null else { throw Unexpected("zones/modify: \(answer)") }
  }

  /// A zone of somebody's as another user names it.
  static func zoneID(_ name: String, of owner: User? = nil) -> Value {
    var zone: [String: Value] = ["zoneName": .string(name)]
    if let owner { zone["ownerRecordName"] = .string(owner.recordName) }
    return .object(zone)
  }

  /// Saves a note, in a zone of one's own or in somebody else's.
  func save(_ record: String, _ title: String, in zone: String, of owner: User? = nil) async throws -> Value {
    let note: Value = ["recordName": .string(record), "recordType": "Note", "fields": ["title": ["value": .string(title)]]]
    return try await send(
      "records/modify",
      ["zoneID": Self.zoneID(zone, of: owner), "atomic": false, "operations": [["operationType": "forceUpdate", "record": note]]],
      in: owner == nil ? "private" : "shared"
    ).json
  }

  /// Shares a whole zone with some others.
  /// - Returns: the share's short GUID.
  func share(_ zone: String, with others: [(user: User, permission: String)], requestID: String = UUID().uuidString) async throws -> String {
    let participants = others.map { other -> Value in
      [
        "type": "USER", "permission": .string(other.permission), "acceptanceStatus": "INVITED",
        "userIdentity": ["lookupInfo": ["userRecordName": .string(other.user.recordName)]],
      ]
    }
    let record: Value = [
      "recordType": "cloudkit.share", "recordName": "cloudkit.zoneshare", "fields": ["cloudkit.title": ["value": "Trip"]], "publicPermission": "NONE",
      "participants": .array(participants),
    ]
    let body: Value = ["zoneID": Self.zoneID(zone), "operations": [["operationType": "create", "record": record]]]
    let answer = try await repeated("records/modify", body, requestID: requestID)
    guard let guid = answer["records"][0]["shortGUID"].string else { throw Unexpected("share: \(answer)") }
    return guid
  }

  func stopSharing(_ zone: String, of owner: User? = nil, requestID: String = UUID().uuidString) async throws {
    let body: Value = [
      "zoneID": Self.zoneID(zone, of: owner), "operations": [["operationType": "forceDelete", "record": ["recordName": "cloudkit.zoneshare"]]],
    ]
    let answer = try await repeated("records/modify", body, in: owner == nil ? "private" : "shared", requestID: requestID)
    guard answer["records"][0]["serverErrorCode"] == .null else { throw Unexpected("stop: \(answer)") }
  }

  func accept(_ shortGUID: String) async throws -> Value {
    try await repeated("records/accept", ["shortGUIDs": [["value": .string(shortGUID)]]], in: "public")["results"][0]
  }

  /// `owner/zone` of each zone that others share with the user.
  func sharedZones() async throws -> Set<String> {
    let answer = try await repeated("zones/list", [:], in: "shared")
    return Set(answer["zones"].elements.map { "\($0["zoneID"]["ownerRecordName"].string ?? "")/\($0["zoneID"]["zoneName"].string ?? "")" })
  }

  /// A page of the shared database's feed: `owner/zone`, with a minus before what is deleted; and the token to go on with.
  func sharedFeed(after token: Value = .null) async throws -> (zones: Set<String>, token: Value) {
    let page = try await records("changes/database", token == .null ? [:] : ["syncToken": token], in: "shared")
    #expect(page["moreComing"] == false)
    let zones = page["zones"].elements.map {
      "\($0["deleted"] == true ? "-" : "")\($0["zoneID"]["ownerRecordName"].string ?? "")/\($0["zoneID"]["zoneName"].string ?? "")"
    }
    return (Set(zones), page["syncToken"])
  }

  /// A call that is repeated, as the same request, while the answer is "later" or there is none.
  func repeated(_ action: String, _ body: Value, in database: String = "private", requestID: String = UUID().uuidString) async throws -> Value {
    let token = token.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    let url = "\(app.installation.ready.gateway)/database/1/\(app.container)/development/\(database)/\(action)?ckAPIToken=\(app.apiToken)&ckWebAuthToken=\(token)"
    let end = ContinuousClock.now + .seconds(40)
    while true {
      // Dropped because a connection that broke tells nothing; it is asked again.
      let answer = try? await app.installation.send("POST", url, headers: [("X-Request-ID", requestID)], bytes: try body.json)
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
