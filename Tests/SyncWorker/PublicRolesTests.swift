// The public database beside a naive reading of the schema's GRANTs.

import Crypto
import JSON
import ObjectModel
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import Testing

@Suite struct `Roles of the public database` {
  typealias Grant = Schema.Grant

  private static func world(_ grants: [String: [Grant]]) async throws -> RecordPlaneWorld {
    let types = grants.sorted { $0.key < $1.key }.map { name, grants in
      Schema.RecordType(
        name: name, fields: [Schema.Field(name: "n", type: .int64, indexes: [.queryable, .sortable])], grants: grants)
    }
    return try await RecordPlaneWorld.inMemory(schema: Schema(recordTypes: types, roles: ["editors", "auditors"]))
  }

  private func send(
    _ world: RecordPlaneWorld, _ path: String, _ body: String, as user: String?, roles: [String] = [],
    isOperator: Bool = false
  ) async throws -> PlaneReply {
    try await world.send(
      world.request(
        path,
        caller: Caller(
          userRecordName: user, isOperator: isOperator, standing: roles.isEmpty ? nil : UserStanding(roles: roles)),
        scope: .public),
      body)
  }

  private func operate(
    _ world: RecordPlaneWorld, _ kind: String, _ name: String, type: String? = "Post", tag: String? = nil,
    as user: String?, roles: [String] = []
  ) async throws -> JSONValue {
    let type = type.map { #","recordType":"\#($0)","fields":{"n":{"value":1}}"# } ?? ""
    let tag = tag.map { #","recordChangeTag":"\#($0)""# } ?? ""
    let reply = try await send(
      world, "records/modify",
      #"{"operations":[{"operationType":"\#(kind)","record":{"recordName":"\#(name)"\#(type)\#(tag)}}]}"#, as: user,
      roles: roles)
    return try #require(reply.records.first, "\(reply.text)")
  }

  private static let secret: [Grant] = [
    Grant(permissions: [.write], role: "_creator"), Grant(permissions: [.create], role: "_icloud"),
    Grant(permissions: [.read], role: "auditors"),
    Grant(permissions: [.read, .create, .write], role: "editors"),
  ]

  @Test func `a record that may not be read looks like a missing one`() async throws {
    let world = try await Self.world(["Post": Self.secret])
    let tag = try #require(try await operate(world, "create", "a", as: "_alice").tag)
    let lookUp = #"{"records":[{"recordName":"a"},{"recordName":"b"}]}"#
    for user in ["_bob", nil] {
      let reply = try await send(world, "records/lookup", lookUp, as: user)
      #expect(
        reply.records.map(\.code) == ["NOT_FOUND", "NOT_FOUND"] && reply.records[0].reason == reply.records[1].reason)
    }
    for (kind, tag) in [("update", tag), ("replace", tag), ("delete", tag), ("forceDelete", nil)] as [(String, String?)]
    {
      let (there, missing) = (
        try await operate(world, kind, "a", tag: tag, as: "_bob"),
        try await operate(world, kind, "b", tag: tag, as: "_bob")
      )
      #expect(there.text.replacing(#""a""#, with: #""b""#) == missing.text)
    }
    // Without a type the server would have to look at the record to read the fields.
    let untyped =
      #"""
      {"operations":[{"operationType":"update","record":{"recordName":"a","recordChangeTag":"\#(tag)",\#
      "fields":{"n":{"value":"text","type":"STRING"}}}}]}
      """#
    #expect(try await send(world, "records/modify", untyped, as: "_bob").records[0].code == "NOT_FOUND")
    #expect(try await operate(world, "create", "a", as: "_bob").code == "CONFLICT")
    #expect(try await operate(world, "forceUpdate", "a", as: "_bob").code == "ACCESS_DENIED")
    #expect(try await send(world, "records/lookup", lookUp, as: "_alice").records[0].tag == tag)
    #expect(try await send(world, "records/lookup", lookUp, as: "_carol", roles: ["auditors"]).records[0].tag == tag)
    #expect(try await send(world, "records/lookup", lookUp, as: nil, isOperator: true).records[0].tag == tag)
  }

  @Test func `a search whose records are hidden ends its page in time, and its marker tells nothing`() async throws {
    let types = [
      Schema.RecordType(
        name: "Post", fields: [Schema.Field(name: "n", type: .int64, indexes: [.queryable, .sortable])],
        grants: Self.secret)
    ]
    let world = try await RecordPlaneWorld.inMemory(
      schema: Schema(recordTypes: types, roles: ["editors", "auditors"]), queryPageCost: 128 * QuerySearch.readCost)
    let names = (0..<700).map { "hidden-\(100_000 + $0)" }
    for start in stride(from: 0, to: names.count, by: 100) {
      let operations = names[start..<start + 100].map {
        #"{"operationType":"create","record":{"recordName":"\#($0)","recordType":"Post","fields":{"n":{"value":1}}}}"#
      }
      try #require(
        try await send(
          world, "records/modify", #"{"operations":[\#(operations.joined(separator: ","))]}"#, as: "_alice"
        ).records.count == 100)
    }
    for name in ["hidden-100333-bob's", "zz-bob's"] {
      #expect(try await operate(world, "create", name, as: "_bob").code == nil)
    }
    var (found, pages, marker) = ([String](), 0, String?.none)
    repeat {
      let more = marker.map { #","continuationMarker":"\#($0)""# } ?? ""
      let reply = try await send(world, "records/query", #"{"query":{"recordType":"Post"}\#(more)}"#, as: "_bob")
      try #require(reply.status == 200, "\(reply.text)")
      found += reply.records.compactMap(\.name)
      marker = reply.json["continuationMarker"]?.string
      if let marker {
        let bytes = try #require(Base64.decode(marker))
        #expect(bytes.firstRange(of: Array("hidden".utf8)) == nil)
        #expect(
          try await send(
            world, "records/query", #"{"query":{"recordType":"Post"},"continuationMarker":"\#(marker)"}"#, as: "_carol"
          ).status == 400)
      }
      pages += 1
    } while marker != nil && pages < 100
    #expect(found == ["hidden-100333-bob's", "zz-bob's"])
    // The first page ends among hidden records; an index may help the others.
    #expect(pages > 1, "\(pages) pages")
  }

  @Test func `a repeated request is not answered with what another wrote meanwhile`() async throws {
    let world = try await Self.world(["Post": Self.secret])
    let body =
      #"{"operations":[{"operationType":"forceUpdate","record":{"recordName":"a","recordType":"Post","fields":{}}}]}"#
    let first = world.request("records/modify", user: "_alice", scope: .public, requestID: "_alice:1")
    #expect(try await world.send(first, body).records[0].code == nil)
    #expect(try await operate(world, "forceDelete", "a", as: "_alice").code == nil)
    #expect(try await operate(world, "create", "a", as: "_bob").code == nil)
    let again = try #require(try await world.send(first, body).records.first)
    #expect(again.code == nil && again["fields"]?.count == 0 && !again.text.contains("_bob"))
  }

  @Test func `a VALIDATE reference does not tell what may not be read`() async throws {
    let world = try await Self.world(["Post": Self.secret, "Note": []])
    _ = try await operate(world, "create", "a", as: "_alice")
    for target in ["a", "missing"] {
      let fields = #"{"to":{"value":{"recordName":"\#(target)","action":"VALIDATE"}}}"#
      let reply = try await world.operate(
        "create", "note", fields: fields, zone: "_defaultZone", user: "_bob", scope: .public)
      #expect(reply.records[0].code == "VALIDATING_REFERENCE_ERROR")
    }
  }

  @Test func `a custom role writes what others made, and creating over it is a conflict all the same`() async throws {
    let world = try await Self.world(["Post": Self.secret])
    _ = try await operate(world, "create", "a", as: "_alice")
    #expect(try await operate(world, "forceUpdate", "a", as: "_bob", roles: ["auditors"]).code == "ACCESS_DENIED")
    #expect(try await operate(world, "forceUpdate", "a", as: "_bob", roles: ["editors"]).code == nil)
    #expect(
      try await operate(world, "create", "a", as: "_bob", roles: ["editors"]).reason
        == "record to insert already exists")
    #expect(try await operate(world, "forceDelete", "a", as: "_bob", roles: ["nobody", "editors"]).code == nil)
    #expect(
      try await send(world, "records/lookup", #"{"records":[{"recordName":"a"}]}"#, as: "_alice").records[0].code
        == "NOT_FOUND")
  }

  @Test func `cascades go beyond what the caller may write`() async throws {
    let world = try await Self.world(["Post": [], "Note": []])
    _ = try await operate(world, "create", "post", as: "_alice")
    _ = try await world.operate(
      "create", "comment", fields: #"{"post":{"value":{"recordName":"post","action":"DELETE_SELF"}}}"#,
      zone: "_defaultZone", user: "_bob", scope: .public)
    #expect(try await operate(world, "forceDelete", "comment", as: "_alice").code == "ACCESS_DENIED")
    #expect(try await operate(world, "forceDelete", "post", as: "_alice").code == nil)
    #expect(try await world.lookUp(["comment"], zone: "_defaultZone", scope: .public).records[0].code == "NOT_FOUND")
  }

  @Test func `roles say nothing in a private database`() async throws {
    let world = try await Self.world(["Post": [Grant(permissions: [.read], role: "nobody")]])
    #expect(try await world.operate("create", "a", type: "Post", zone: "_defaultZone").records[0].code == nil)
    #expect(try await world.lookUp(["a"], zone: "_defaultZone").records[0].code == nil)
    #expect(
      try await world.operate("create", "b", type: "Post", zone: "_defaultZone", scope: .public).records[0].code
        == "ACCESS_DENIED")
  }

  // MARK: Everything, naively

  private struct Person: Sendable {
    let user: String?
    let roles: [String]
  }

  private static let people = [
    Person(user: nil, roles: []), Person(user: "_alice", roles: []), Person(user: "_bob", roles: []),
    Person(user: "_carol", roles: ["editors"]),
    Person(user: "_dave", roles: ["auditors", "editors"]),
  ]

  /// All that the words of S10 say: the permission is granted to a role that the person has, for that record.
  private static func may(_ permission: Grant.Permission, _ person: Person, _ grants: [Grant], creator: String?) -> Bool
  {
    let grants =
      grants.isEmpty
      ? [
        Grant(permissions: [.write], role: "_creator"), Grant(permissions: [.create], role: "_icloud"),
        Grant(permissions: [.read], role: "_world"),
      ] : grants
    return grants.contains { grant in
      let isGranted =
        grant.permissions.contains(permission) || (permission == .read && grant.permissions.contains(.write))
      let hasRole =
        switch grant.role {
        case "_world": true
        case "_icloud": person.user != nil
        case "_creator": person.user != nil && person.user == creator
        default: person.roles.contains(grant.role)
        }
      return isGranted && hasRole
    }
  }

  @Test(arguments: 1...10 as ClosedRange<UInt64>)
  func `random grants, people and operations agree with the words of the rule`(seed: UInt64) async throws {
    var random = SeededRandom(seed: seed)
    var grants: [String: [Grant]] = [:]
    for type in ["A", "B", "C"] {
      grants[type] = (0..<Int.random(in: 0...4, using: &random)).map { _ in
        Grant(
          permissions: [Grant.Permission.read, .create, .write].shuffled(using: &random).dropLast(
            Int.random(in: 0...2, using: &random)),
          role: ["_world", "_icloud", "_creator", "editors", "auditors"].randomElement(using: &random) ?? "_world")
      }
    }
    let world = try await Self.world(grants)
    var records: [String: (type: String, creator: String)] = [:]
    for _ in 0..<150 {
      let person = Self.people.randomElement(using: &random) ?? Person(user: nil, roles: [])
      let name = "r\(Int.random(in: 0..<6, using: &random))"
      let existing = records[name]
      if let user = person.user, Bool.random(using: &random) {
        let type = existing?.type ?? ["A", "B", "C"].randomElement(using: &random) ?? "A"
        let kind = ["create", "forceUpdate", "forceReplace", "forceDelete"].randomElement(using: &random) ?? "create"
        let item = try await operate(
          world, kind, name, type: kind == "forceDelete" ? nil : type, as: user, roles: person.roles)
        let ownGrants = grants[type] ?? []
        if let existing {
          let mayWrite = Self.may(.write, person, ownGrants, creator: existing.creator)
          let mayRead = Self.may(.read, person, ownGrants, creator: existing.creator)
          let isSilent = kind == "forceDelete" && !mayRead
          #expect(item.code == (kind == "create" ? "CONFLICT" : mayWrite || isSilent ? nil : "ACCESS_DENIED"))
          if mayWrite, kind == "forceDelete" { records[name] = nil }
        } else if kind != "forceDelete" {
          // Being the creator to be counts for nothing.
          let mayCreate = Self.may(.create, person, ownGrants, creator: nil)
          #expect(item.code == (mayCreate ? nil : "ACCESS_DENIED"))
          if mayCreate { records[name] = (type, user) }
        }
      }
      let names = (0..<6).map { #"{"recordName":"r\#($0)"}"# }.joined(separator: ",")
      let seen = try await send(
        world, "records/lookup", #"{"records":[\#(names)]}"#, as: person.user, roles: person.roles)
      let visible = records.filter { Self.may(.read, person, grants[$0.value.type] ?? [], creator: $0.value.creator) }
        .keys.sorted()
      #expect(seen.records.filter { $0.code == nil }.compactMap(\.name) == visible)
    }
  }
}
