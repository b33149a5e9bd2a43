// Alice's zones and their participants.

import Foundation
import JSON
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import Synchronization
import Testing
@testable import ZoneCommit

/// A directory of a few people, all of whom but Eve let themselves be found.
final class FixedPeople: PeopleSource {
  static let known = ["alice", "bob", "carol", "dave", "eve"].map {
    KnownUser(
      userRecordName: "_\($0)", givenName: $0.capitalized, emailAddress: "\($0)@example.com",
      isDiscoverable: $0 != "eve")
  }
  /// True if it does not answer.
  let isAway = Atomic(false)
  /// How often it was asked.
  let questionCount = Atomic(0)

  func users(_ lookups: [LookupInfo]) async throws(RecordError) -> [KnownUser?] {
    questionCount.add(1, ordering: .relaxed)
    if isAway.load(ordering: .relaxed) { throw RecordError(.tryAgainLater, "away", retryAfter: 1) }
    return lookups.map { lookup in Self.known.first { $0.matches(UserIdentity(lookupInfo: lookup)) } }
  }
}

extension RecordPlaneWorld {
  /// A request about Alice's zones in a user's shared database.
  func shared(
    _ path: String, _ body: String, by user: String, owner: String = "_alice", method: String = "POST",
    requestID: String? = nil
  ) async throws -> PlaneReply {
    try await send(request(path, method: method, user: user, owner: owner, scope: .shared, requestID: requestID), body)
  }

  static func zoneID(_ zone: String = "Trips", owner: String = "_alice") -> String {
    #""zoneID":{"zoneName":"\#(zone)","ownerRecordName":"\#(owner)"}"#
  }

  /// Operations on Alice's zone by its owner, or by a participant in their shared database.
  func modify(
    _ operations: [String], by user: String = "_alice", zone: String = "Trips", isAtomic: Bool = false,
    requestID: String? = nil
  ) async throws -> PlaneReply {
    let body = #"{"operations":[\#(operations.joined(separator: ","))],\#(Self.zoneID(zone)),"atomic":\#(isAtomic)}"#
    return try await send(
      request(
        "records/modify", user: user, owner: "_alice", scope: user == "_alice" ? .private : .shared,
        requestID: requestID), body)
  }

  static func operation(_ kind: String, _ record: String) -> String {
    #"{"operationType":"\#(kind)","record":{\#(record)}}"#
  }

  /// A share's operation.
  static func share(
    _ kind: String = "create", name: String = "cloudkit.zoneshare", tag: String? = nil, _ more: String...
  ) -> String {
    var members = [#""recordName":"\#(name)","recordType":"cloudkit.share""#] + more
    if let tag { members.append(#""recordChangeTag":"\#(tag)""#) }
    return operation(kind, members.joined(separator: ","))
  }

  static func participants(_ list: String...) -> String { #""participants":[\#(list.joined(separator: ","))]"# }

  static func participant(_ user: String, _ permission: String = "READ_WRITE", type: String = "USER") -> String {
    #"""
    {"userIdentity":{"lookupInfo":{"emailAddress":"\#(user)@Example.com"}},"type":"\#(type)",\#
    "permission":"\#(permission)","acceptanceStatus":"INVITED"}
    """#
  }

  static func note(
    _ name: String, _ kind: String = "create", tag: String? = nil, parent: String? = nil, title: String = "a title"
  ) -> String {
    var record = #""recordName":"\#(name)","recordType":"Note","fields":{"title":{"value":"\#(title)"}}"#
    if let parent { record += #","parent":{"recordName":"\#(parent)"}"# }
    if let tag { record += #","recordChangeTag":"\#(tag)""# }
    return operation(kind, record)
  }

  /// Shares Alice's zone as a whole.
  /// - Returns: the share's dictionary.
  func shareZone(_ zone: String = "Trips", _ more: String...) async throws -> JSONValue {
    let members =
      [#""recordName":"cloudkit.zoneshare","recordType":"cloudkit.share","fields":{"cloudkit.title":{"value":"Trip"}}"#]
      + more
    let reply = try await modify([Self.operation("create", members.joined(separator: ","))], zone: zone)
    let share = try #require(reply.records.first)
    try #require(share.code == nil, "\(share.text)")
    return share
  }

  /// The share as Alice sees it now.
  func currentShare(_ name: String = "cloudkit.zoneshare", zone: String = "Trips") async throws -> JSONValue {
    let reply = try await lookUp([name], zone: zone)
    return try #require(reply.records.first)
  }

  /// Asks about short GUIDs as the gateway does.
  func resolve(_ purpose: ResolveShortGUIDs.Purpose, _ guids: [String], by user: String?, fetchesRoot: Bool = false)
    async throws -> [JSONValue]
  {
    let message = ResolveShortGUIDs(
      purpose: purpose, shard: store.shard, container: Self.container, environment: .development,
      caller: Caller(userRecordName: user),
      items: guids.map { ResolveShortGUIDs.Item(shortGUID: $0, fetchesRootRecord: fetchesRoot, desiredKeys: nil) },
      baseURL: "https://host")
    return try JSONValue(
      parsing: try await ShareResolution(context: plane.context, request: message).answer(from: store)
    ).elements
  }

  func accept(_ guid: String?, by user: String) async throws -> JSONValue {
    let results = try await resolve(.accept, [guid ?? ""], by: user)
    return try #require(results.first)
  }

  /// Shares a zone with people who accept at once.
  func shareZone(with users: [(String, String)], zone: String = "Trips") async throws -> JSONValue {
    let list = users.map { Self.participant($0.0, $0.1) }
    let share = try await shareZone(zone, #""participants":[\#(list.joined(separator: ","))]"#)
    for (user, _) in users {
      let accepted = try await accept(share["shortGUID"]?.string, by: "_\(user)")
      try #require(accepted.code == nil)
    }
    return try await currentShare(zone: zone)
  }

  /// A user's view of a zone's feed, from the beginning or after a token.
  func feed(by user: String, since token: String? = nil, zone: String = "Trips") async throws -> JSONValue {
    let token = token.map { #","syncToken":"\#($0)""# } ?? ""
    let reply = try await shared("changes/zone", #"{"zones":[{\#(Self.zoneID(zone))\#(token)}]}"#, by: user)
    return try #require(reply.zones.first)
  }

  func sharedZones(by user: String, since token: String? = nil) async throws -> PlaneReply {
    try await shared("changes/database", token.map { #"{"syncToken":"\#($0)"}"# } ?? "{}", by: user)
  }
}

extension JSONValue {
  var participants: [JSONValue] { self["participants"]?.elements ?? [] }
  var shortGUID: String? { self["shortGUID"]?.string }
  /// The participants with their acceptance states.
  var people: [String] {
    participants.map {
      """
      \($0["userIdentity"]?["userRecordName"]?.string ?? "?") \($0["type"]?.string ?? "") \
      \($0["acceptanceStatus"]?.string ?? "") \($0["permission"]?.string ?? "")
      """
    }
  }
  /// Records of a feed's page: names, deletions with a minus sign.
  var feedNames: [String] {
    (self["records"]?.elements ?? []).map { ($0["deleted"]?.bool == true ? "-" : "") + ($0.name ?? "") }
  }
}
