// Hand-written coding of messages against Codable's: each must read the other's bytes.

import MessagePack
import Records
import Testing

@testable import ServiceBus

private func request(
  caller: Caller, query: [String: String] = [:], path: [String] = ["records", "modify"], traceID: String? = nil
) throws -> DatabaseRequest {
  DatabaseRequest(
    plane: .record, method: "POST", path: path, query: query,
    database: DatabaseID(
      container: try #require(ContainerID(rawValue: "iCloud.org.example")), environment: .production,
      owner: "_ü\u{1F40B}"),
    scope: .private, caller: caller, requestID: "gateway:1", baseURL: "http://127.0.0.1:8080", traceID: traceID)
}

private func requests() throws -> [DatabaseRequest] {
  [
    try request(caller: Caller(userRecordName: nil, isOperator: true)),
    try request(caller: Caller(userRecordName: "_a"), traceID: "R-1"),
    try request(caller: Caller(userRecordName: nil, isOperator: true, member: .tokenHolder)),
    try request(
      caller: Caller(
        userRecordName: "_a", standing: UserStanding(roles: ["editor"], quotaByteCount: 7),
        member: StaffMember(name: "dave", containers: ["iCloud.a", "iCloud.b"]))),
    try request(caller: Caller(userRecordName: "_a", standing: UserStanding()), query: ["a": "", "": "b"], path: []),
    try request(
      caller: Caller(userRecordName: "_a", standing: UserStanding(roles: ["editor", "ø"], quotaByteCount: .max)),
      query: ["x": String(repeating: "y", count: 70_000)]),
  ]
}

private let replies = [
  DatabaseRequest.Reply(status: 200),
  DatabaseRequest.Reply(status: 503, contentType: "text/plain", retryAfter: 30, mayWait: false),
  DatabaseRequest.Reply(status: 200, mayWait: true),
  DatabaseRequest.Reply(status: 404, error: RecordError(.notFound, "There is no store")),
  DatabaseRequest.Reply(
    status: 410, retryAfter: 7,
    error: RecordError(
      .badRequest, "ø", retryAfter: 7, cocoaErrorCode: .historyTokenExpired, httpStatus: 410, specialCKErrorCode: 21)),
]

/// Maps have no order, so values are compared instead of bytes.
private func tree(_ value: MessagePackValue) -> String {
  switch value.kind {
  case .map: "{" + value.pairs.map { "\(tree($0.key)):\(tree($0.value))" }.sorted().joined(separator: ",") + "}"
  case .array: "[" + value.elements.map(tree).joined(separator: ",") + "]"
  case .string: "'\(value.string ?? "?")'"
  case .integer: "\(value.int64.map(String.init) ?? "?")"
  case .bool: "\(value.bool == true)"
  default: "\(value.kind)"
  }
}

@Suite struct DatabaseRequestCodingTests {
  @Test func `requests and replies are written as Codable writes them`() throws {
    for request in try requests() {
      #expect(
        try tree(MessagePackValue(parsing: request.encoded()))
          == tree(MessagePackValue(parsing: MessagePackEncoder().encode(request))))
    }
    for reply in replies {
      #expect(
        try tree(MessagePackValue(parsing: DatabaseRequest.encoded(reply)))
          == tree(MessagePackValue(parsing: MessagePackEncoder().encode(reply))))
    }
  }

  @Test func `values that Codable wrote are read as they were, and unknown ones are skipped`() throws {
    for request in try requests() {
      let bytes = try MessagePackEncoder().encode(request)
      #expect(
        try tree(MessagePackValue(parsing: DatabaseRequest.decoded(from: bytes).encoded()))
          == tree(MessagePackValue(parsing: bytes)))
    }
    for reply in replies {
      let bytes = try MessagePackEncoder().encode(reply)
      #expect(
        try tree(MessagePackValue(parsing: DatabaseRequest.encoded(DatabaseRequest.decodedReply(from: bytes))))
          == tree(MessagePackValue(parsing: bytes)))
    }
    var writer = MessagePackWriter()
    writer.mapHeader(3)
    for name in ["of a newer release", "contentType"] {
      writer.string(name)
      writer.null()
    }
    writer.string("status")
    writer.integer(204)
    let reply = try DatabaseRequest.decodedReply(from: writer.bytes)
    #expect(reply.status == 204 && reply.contentType == nil)
  }

  @Test func `nothing that is cut short, of another type or no request at all is taken for one`() throws {
    let bytes = try #require(try requests().first).encoded()
    for count in 0..<bytes.count {
      #expect(throws: MessagePackError.self) { try DatabaseRequest.decoded(from: Array(bytes[..<count])) }
    }
    for (index, byte) in bytes.enumerated() where byte < 0xa0 || byte > 0xbf {
      // Replaces every header, number and character in turn by a null; decoding must not crash.
      var damaged = bytes
      damaged[index] = 0xc0
      _ = try? DatabaseRequest.decoded(from: damaged)  // Dropped because either outcome is fine.
    }
    #expect(throws: MessagePackError.self) {
      try DatabaseRequest.decoded(from: MessagePackEncoder().encode(["plane": "record"]))
    }
    #expect(throws: MessagePackError.self) {
      try DatabaseRequest.decodedReply(from: MessagePackEncoder().encode(["status": "200"]))
    }
  }

  @Test func `an error arrives whole, and a worker of an earlier release tells its status`() throws {
    let refused = try #require(replies.last)
    #expect(try DatabaseRequest.decodedReply(from: DatabaseRequest.encoded(refused)).error == refused.error)
    #expect(refused.error?.specialCKErrorCode == 21 && refused.error?.retryAfter == 7)
    #expect(DatabaseRequest.Reply(status: 200).error == nil)
    let earlier = DatabaseRequest.Reply(status: 503, retryAfter: 2)
    #expect(earlier.error?.retryAfter == 2 && earlier.error?.code == .internalError)
  }

  @Test func `a field that is added is added to the hand-written coding`() throws {
    let request = try request(
      caller: Caller(userRecordName: "_a", standing: UserStanding(roles: [], quotaByteCount: 1)))
    let standing = try #require(request.caller.standing)
    let counts = [request, request.database, request.caller, standing, replies[0]].map {
      Mirror(reflecting: $0).children.count
    }
    #expect(counts == [9, 3, 4, 2, 5], "DatabaseRequest+Coding.swift writes and reads every field by name")
  }
}

@Suite struct PushZoneChangesCodingTests {
  private func pushes() throws -> [PushZoneChanges] {
    let database = DatabaseID(
      container: try #require(ContainerID(rawValue: "iCloud.org.example")), environment: .development, owner: "_ü")
    let bare = ZoneChange(
      database: database, zoneName: "", sequence: .max, syncToken: "AA==", originStore: nil, audience: [], traceID: nil)
    let full = ZoneChange(
      database: database, zoneName: "\u{1F40B}", sequence: -1, syncToken: String(repeating: "t", count: 300),
      originStore: "phone", originUser: "_a",
      audience: ["_a", "_b"], hasSubscriptions: true, traceID: "R-1"
    ).heard(by: ["_c"], subscribers: ["_b", "_c"], hasSubscriptions: true)
    return [
      PushZoneChanges(changes: []), PushZoneChanges(changes: [bare]), PushZoneChanges(changes: [full, bare, full]),
    ]
  }

  @Test func `changes are written as Codable writes them, and read as they were`() throws {
    for push in try pushes() {
      let bytes = try MessagePackEncoder().encode(push)
      #expect(try tree(MessagePackValue(parsing: push.encoded())) == tree(MessagePackValue(parsing: bytes)))
      #expect(try PushZoneChanges.decoded(from: bytes).changes == push.changes)
      #expect(try PushZoneChanges.decoded(from: push.encoded()).changes == push.changes)
    }
  }

  @Test func `a value that is cut short or of another type is refused, and an unknown one is skipped`() throws {
    let bytes = try #require(try pushes().last).encoded()
    for count in 0..<bytes.count {
      #expect(throws: MessagePackError.self) { try PushZoneChanges.decoded(from: Array(bytes[..<count])) }
    }
    #expect(throws: MessagePackError.self) {
      try PushZoneChanges.decoded(from: MessagePackEncoder().encode(["changes": "none"]))
    }
    #expect(throws: MessagePackError.self) {
      try PushZoneChanges.decoded(from: MessagePackEncoder().encode(["changes": [["zoneName": "notes"]]]))
    }
    var writer = MessagePackWriter()
    writer.mapHeader(2)
    writer.string("of a newer release")
    writer.null()
    writer.string("changes")
    writer.arrayHeader(0)
    #expect(try PushZoneChanges.decoded(from: writer.bytes).changes.isEmpty)
  }

  @Test func `an error arrives whole, and a worker of an earlier release tells its status`() throws {
    let refused = try #require(replies.last)
    #expect(try DatabaseRequest.decodedReply(from: DatabaseRequest.encoded(refused)).error == refused.error)
    #expect(refused.error?.specialCKErrorCode == 21 && refused.error?.retryAfter == 7)
    #expect(DatabaseRequest.Reply(status: 200).error == nil)
    let earlier = DatabaseRequest.Reply(status: 503, retryAfter: 2)
    #expect(earlier.error?.retryAfter == 2 && earlier.error?.code == .internalError)
  }

  @Test func `a field that is added to a change is added to its hand-written coding`() throws {
    let change = try #require(try pushes().last?.changes.first)
    #expect(
      Mirror(reflecting: change).children.count == 11,
      "PushZoneChanges+Coding.swift writes and reads every field by name")
  }
}

@Suite struct RequestOrderTests {
  private func key(
    _ store: String, owner: String, container: String = "iCloud.a", environment: Environment = .development
  ) throws -> String? {
    let container = try #require(ContainerID(rawValue: container))
    return DatabaseRequest(
      plane: .object, method: "POST", path: ["stores", store, "transactions"], query: [:],
      database: DatabaseID(container: container, environment: environment, owner: owner), scope: .private,
      caller: Caller(userRecordName: owner), requestID: "1",
      baseURL: ""
    ).orderingKey
  }

  @Test func `writes of one store wait for each other, and for nobody else's store of that name`() throws {
    let mine = try #require(try key("phone", owner: "_alice"))
    #expect(try key("phone", owner: "_alice") == mine)
    for other in [
      try key("phone", owner: "_bob"), try key("phone", owner: "_alice", container: "iCloud.b"),
      try key("phone", owner: "_alice", environment: .production),
      try key("tablet", owner: "_alice"),
    ] { #expect(other != nil && other != mine) }
    #expect(try key("a b", owner: "_c") != key("b", owner: "_c a"))
  }

  private func save(
    by user: String?, of owner: String = DatabaseID.publicOwner, container: String = "iCloud.a",
    isOperator: Bool = false
  ) throws -> DatabaseRequest {
    DatabaseRequest(
      plane: .record, method: "POST", path: ["records", "modify"], query: [:],
      database: DatabaseID(
        container: try #require(ContainerID(rawValue: container)), environment: .development, owner: owner),
      scope: .public,
      caller: Caller(userRecordName: user, isOperator: isOperator), requestID: "1", baseURL: "")
  }

  @Test func `a user's writes to a database wait for each other, and for no other user's`() throws {
    let keys = try [
      save(by: "_alice"), save(by: "_bob"), save(by: nil), save(by: "_alice", of: "_bob"),
      save(by: "_alice", container: "iCloud.b"),
    ].map(\.orderingKey)
    #expect(Set(keys).count == 5 && keys.allSatisfy { $0 != nil })
    #expect(try save(by: "_alice").orderingKey == keys[0])
  }

  @Test func `a user takes his turns in one line, whatever he asks, on every lane`() throws {
    let alice = try save(by: "_alice")
    #expect(try save(by: "_alice", of: "_bob").party == alice.party)
    #expect(GuestRequest(alice).party == alice.party)
    let others = try [
      save(by: "_bob"), save(by: nil), save(by: nil, isOperator: true), save(by: "_alice", container: "iCloud.b"),
    ].map(\.party)
    #expect(Set(others + [alice.party]).count == 5)
    let resolve = ResolveShortGUIDs(
      purpose: .accept, shard: 0, container: alice.database.container, environment: .development, caller: alice.caller,
      items: [], baseURL: "")
    #expect(resolve.party == alice.party && GuestResolve(resolve).party == alice.party)
  }
}

@Suite struct GuestRequestCodingTests {
  @Test func `a guest's request has all of another's, on a lane of its own`() throws {
    for request in try requests() {
      let message = GuestRequest(request, of: GuestRequest.Store(modelHash: "h", configuration: nil, deviceName: "d"))
      let decoded = try GuestRequest.decoded(from: message.encoded())
      #expect(
        try tree(MessagePackValue(parsing: decoded.request.encoded()))
          == tree(MessagePackValue(parsing: request.encoded())))
      #expect(decoded.store == message.store)
      #expect(message.orderingKey != request.orderingKey || request.orderingKey == nil)
    }
    #expect(GuestRequest.lane == .nested && DatabaseRequest.lane == .usual)
    #expect(GuestRequest.name == "guest.request/1")
  }
}
