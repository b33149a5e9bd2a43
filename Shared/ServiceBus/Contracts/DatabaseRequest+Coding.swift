// Hand-written coding (HandCoding.swift) of the message that carries every client request. `Codable` took a twelfth of
// the bus thread's time in the gateway and in the worker.

import MessagePack
import Records

extension DatabaseRequest {
  public func encoded() throws -> [UInt8] {
    var writer = MessagePackWriter(reservingByteCount: 512)
    writer.mapHeader(9 + (traceID == nil ? 0 : 1) + (takesParts ? 1 : 0))
    writer.member("plane", plane.rawValue)
    writer.member("method", route.method)
    writer.string("path")
    let path = route.path
    writer.arrayHeader(path.count)
    for segment in path { writer.string(segment) }
    writer.string("query")
    writer.mapHeader(query.count)
    for (name, value) in query { writer.member(name, value) }
    writer.string("database")
    database.encode(to: &writer)
    writer.member("scope", scope.rawValue)
    writer.string("caller")
    caller.encode(to: &writer)
    writer.member("requestID", requestID)
    writer.member("baseURL", baseURL)
    if let traceID { writer.member("traceID", traceID) }
    if takesParts {
      writer.string("takesParts")
      writer.bool(true)
    }
    return writer.bytes
  }

  public static func decoded(from bytes: [UInt8]) throws -> DatabaseRequest {
    let map = try MessagePackValue(parsing: bytes)
    var request = DatabaseRequest(
      plane: try map.required("plane") { $0.string.flatMap(Plane.init(rawValue:)) },
      method: try map.required("method", \.string),
      path: try map.required("path", \.strings), query: try map.required("query", \.texts),
      database: try map.required("database", DatabaseID.init(decoding:)),
      scope: try map.required("scope") { $0.string.flatMap(DatabaseScope.init(rawValue:)) },
      caller: try map.required("caller", Caller.init(decoding:)),
      requestID: try map.required("requestID", \.string), baseURL: try map.required("baseURL", \.string),
      traceID: try map.optional("traceID", \.string))
    // Looked up only if members are left: clients' own requests, nearly all, do not say it.
    if map.count > (request.traceID == nil ? 9 : 10) {
      request.takesParts = try map.optional("takesParts", \.bool) ?? false
    }
    return request
  }

  private enum CodingKeys: String, CodingKey {
    case plane, method, path, query, database, scope, caller, requestID, baseURL, traceID, takesParts
  }

  public init(from decoder: any Decoder) throws {
    let map = try decoder.container(keyedBy: CodingKeys.self)
    self.init(
      plane: try map.decode(Plane.self, forKey: .plane), method: try map.decode(String.self, forKey: .method),
      path: try map.decode([String].self, forKey: .path), query: try map.decode([String: String].self, forKey: .query),
      database: try map.decode(DatabaseID.self, forKey: .database),
      scope: try map.decode(DatabaseScope.self, forKey: .scope),
      caller: try map.decode(Caller.self, forKey: .caller), requestID: try map.decode(String.self, forKey: .requestID),
      baseURL: try map.decode(String.self, forKey: .baseURL),
      traceID: try map.decodeIfPresent(String.self, forKey: .traceID))
    takesParts = try map.decodeIfPresent(Bool.self, forKey: .takesParts) ?? false
  }

  public func encode(to encoder: any Encoder) throws {
    var map = encoder.container(keyedBy: CodingKeys.self)
    try map.encode(plane, forKey: .plane)
    try map.encode(route.method, forKey: .method)
    try map.encode(route.path, forKey: .path)
    try map.encode(query, forKey: .query)
    try map.encode(database, forKey: .database)
    try map.encode(scope, forKey: .scope)
    try map.encode(caller, forKey: .caller)
    try map.encode(requestID, forKey: .requestID)
    try map.encode(baseURL, forKey: .baseURL)
    try map.encodeIfPresent(traceID, forKey: .traceID)
    if takesParts { try map.encode(true, forKey: .takesParts) }
  }

  public static func encoded(_ reply: Reply) throws -> [UInt8] {
    var writer = MessagePackWriter(reservingByteCount: 64)
    writer.mapHeader(
      1 + (reply.contentType == nil ? 0 : 1) + (reply.retryAfter == nil ? 0 : 1) + (reply.mayWait == nil ? 0 : 1)
        + (reply.refusal == nil ? 0 : 1))
    writer.string("status")
    writer.integer(Int64(reply.status))
    if let contentType = reply.contentType { writer.member("contentType", contentType) }
    if let retryAfter = reply.retryAfter {
      writer.string("retryAfter")
      writer.integer(Int64(retryAfter))
    }
    if let mayWait = reply.mayWait {
      writer.string("mayWait")
      writer.bool(mayWait)
    }
    if let refusal = reply.refusal {
      writer.string("refusal")
      refusal.encode(to: &writer)
    }
    return writer.bytes
  }

  public static func decodedReply(from bytes: [UInt8]) throws -> Reply {
    let map = try MessagePackValue(parsing: bytes)
    let status = try map.required("status") { $0.int64.flatMap(Int.init(exactly:)) }
    return Reply(
      status: status,
      contentType: try map.optional("contentType", \.string),
      retryAfter: try map.optional("retryAfter") { $0.int64.flatMap(Int.init(exactly:)) },
      mayWait: try map.optional("mayWait", \.bool),
      refusal: status == 200 ? nil : try map.optional("refusal", Refusal.init(decoding:)))
  }
}

extension Refusal {
  fileprivate func encode(to writer: inout MessagePackWriter) {
    writer.mapHeader(2 + [cocoaErrorCode, httpStatus, ckErrorCode].count { $0 != nil })
    writer.member("code", code)
    writer.member("reason", reason)
    for (name, number) in [
      ("cocoaErrorCode", cocoaErrorCode), ("httpStatus", httpStatus), ("ckErrorCode", ckErrorCode),
    ] {
      guard let number else { continue }
      writer.string(name)
      writer.integer(Int64(number))
    }
  }

  fileprivate convenience init?(decoding map: MessagePackValue) throws {
    func number(_ name: String) throws -> Int? { try map.optional(name) { $0.int64.flatMap(Int.init(exactly:)) } }
    self.init(
      code: try map.required("code", \.string), reason: try map.required("reason", \.string),
      cocoaErrorCode: try number("cocoaErrorCode"), httpStatus: try number("httpStatus"),
      ckErrorCode: try number("ckErrorCode"))
  }
}

extension Caller {
  fileprivate func encode(to writer: inout MessagePackWriter) {
    writer.mapHeader(1 + (userRecordName == nil ? 0 : 1) + (standing == nil ? 0 : 1) + (member == nil ? 0 : 1))
    if let userRecordName { writer.member("userRecordName", userRecordName) }
    writer.string("isOperator")
    writer.bool(isOperator)
    if let standing {
      writer.string("standing")
      standing.encode(to: &writer)
    }
    guard let member else { return }
    writer.string("member")
    member.encode(to: &writer)
  }

  fileprivate init?(decoding map: MessagePackValue) throws {
    self.init(
      userRecordName: try map.optional("userRecordName", \.string), isOperator: try map.required("isOperator", \.bool),
      standing: try map.optional("standing", UserStanding.init(decoding:)),
      member: try map.optional("member", StaffMember.init(decoding:)))
  }
}

extension StaffMember {
  fileprivate func encode(to writer: inout MessagePackWriter) {
    writer.mapHeader(containers == nil ? 1 : 2)
    writer.member("name", name)
    guard let containers else { return }
    writer.string("containers")
    writer.arrayHeader(containers.count)
    for container in containers { writer.string(container) }
  }

  fileprivate init?(decoding map: MessagePackValue) throws {
    self.init(name: try map.required("name", \.string), containers: try map.optional("containers", \.strings))
  }
}

extension UserStanding {
  fileprivate func encode(to writer: inout MessagePackWriter) {
    writer.mapHeader(quotaByteCount == nil ? 1 : 2)
    writer.string("roles")
    writer.arrayHeader(roles.count)
    for role in roles { writer.string(role) }
    guard let quotaByteCount else { return }
    writer.string("quotaByteCount")
    writer.integer(quotaByteCount)
  }

  fileprivate init?(decoding map: MessagePackValue) throws {
    self.init(roles: try map.required("roles", \.strings), quotaByteCount: try map.optional("quotaByteCount", \.int64))
  }
}
