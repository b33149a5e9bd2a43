// The calls of one store to the object plane.

package import MirrorWire
import ReplicaStore
package import FoundationEssentials
import Synchronization

/// Where a store is on a server. Its calls throw `SyncFailure`; they retry nothing.
package struct ObjectPlane: Sendable {
  package let account: Account
  package let container: String
  package let environment: String
  /// `private`, `shared` or `public`.
  package let scope: String
  package private(set) var storeIdentifier: String
  package var leaseToken: String?
  /// The only session whose token its calls use; nil: that of now.
  package var session: Account.Session?
  private let transport: any Transport
  private let surroundings: Surroundings

  package init(
    account: Account, container: String, environment: String, scope: String, storeIdentifier: String,
    transport: any Transport, surroundings: Surroundings
  ) {
    self.account = account
    self.container = container
    self.environment = environment
    self.scope = scope
    self.storeIdentifier = storeIdentifier
    self.transport = transport
    self.surroundings = surroundings
  }

  /// The same place for the store of another file.
  func replacing(storeIdentifier: String) -> ObjectPlane {
    var plane = self
    plane.storeIdentifier = storeIdentifier
    return plane
  }

  /// The longest that the server holds an import, and what a request may take beside it.
  private static let wait = 30
  private static let timeout = Duration.seconds(60)

  /// The record name of the user whose session it is.
  func userRecordName() async throws(SyncFailure) -> String {
    let session = session ?? account.session
    if let name = account.userRecordName(in: session) { return name }
    let caller: CallerAnswer = try await record("users/caller", [String: String]())
    account.told(userRecordName: caller.userRecordName, in: session)
    return caller.userRecordName
  }

  // MARK: The store

  package func setUp(_ request: SetUpRequest) async throws(SyncFailure) -> SetUpAnswer {
    try await call("PUT", "", body: try Self.json(request))
  }

  /// - Parameter body: of `SaveRequest`.
  package func save(_ body: [UInt8]) async throws(SyncFailure) -> SaveAnswer {
    try await call("POST", "/transactions", body: body)
  }

  /// A page behind a token.
  /// - Parameter waits: the server holds the request while there is nothing.
  package func changes(after token: String?, limit: Int, waits: Bool) async throws(SyncFailure) -> ImportPage {
    var query = [("limit", String(limit)), ("assets", "links")]
    if let token { query.append(("after", token)) }
    if waits { query.append(("wait", String(Self.wait))) }
    let bytes = try await send("GET", "/changes", query: query)
    return try Self.reading { () throws(WireError) in try ImportPage(json: bytes) }
  }

  package func reset(reason: String) async throws(SyncFailure) -> ResetAnswer {
    try await call("POST", "/reset", body: try Self.json(["reason": reason]))
  }

  package func status() async throws(SyncFailure) -> StatusAnswer { try await call("GET", "/status") }

  package func events(after: String?) async throws(SyncFailure) -> EventsAnswer {
    try await call("GET", "/events", query: after.map { [("after", $0)] } ?? [])
  }

  package func quarantine(after: String?) async throws(SyncFailure) -> QuarantineAnswer {
    try await call("GET", "/quarantine", query: after.map { [("after", $0)] } ?? [])
  }

  // MARK: Objects

  /// - Returns: nil: the server has no such object.
  package func object(_ objectID: String) async throws(SyncFailure) -> ObjectAnswer? {
    do {
      return try await call("GET", "/objects/\(Self.encoded(objectID))", query: [("assets", "links")])
    } catch {
      guard case .server(let error) = error, error.isOfServer, error.status == 404, error.reason.contains(objectID)
      else { throw error }
      return nil
    }
  }

  package func explain(_ objectID: String) async throws(SyncFailure) -> ExplainAnswer {
    try await call("GET", "/objects/\(Self.encoded(objectID))/explain")
  }

  /// The objects' records as the record plane writes them.
  package func records(_ objectIDs: [String]) async throws(SyncFailure) -> [[UInt8]?] {
    let bytes = try await send("POST", "/records", body: try Self.json(ObjectIDsRequest(objectIDs)))
    return try Self.reading { () throws(WireError) in try RecordsAnswer(json: bytes) }.records
  }

  package func permissions(_ objectIDs: [String]) async throws(SyncFailure) -> PermissionsAnswer {
    try await call("POST", "/permissions", body: try Self.json(ObjectIDsRequest(objectIDs)))
  }

  // MARK: Sharing. A repetition under the same identifier is answered as before.

  package func shares(of objectID: String? = nil) async throws(SyncFailure) -> SharesAnswer {
    try await call("GET", "/shares", query: objectID.map { [("objectID", $0)] } ?? [])
  }

  package func share(_ request: ShareRequest, requestID: UUID) async throws(SyncFailure) -> ShareAnswer {
    try await call("POST", "/shares", body: try Self.json(request), requestID: requestID)
  }

  package func accept(_ request: AcceptRequest) async throws(SyncFailure) -> AcceptAnswer {
    try await call("POST", "/accept", body: try Self.json(request))
  }

  package func move(_ request: MoveRequest, requestID: UUID) async throws(SyncFailure) -> MoveAnswer {
    try await call("POST", "/move", body: try Self.json(request), requestID: requestID)
  }

  package func purge(_ request: PurgeRequest, requestID: UUID) async throws(SyncFailure) -> PurgeAnswer {
    try await call("POST", "/purge", body: try Self.json(request), requestID: requestID)
  }

  /// Decides about a zone that waits. A decision that is made already stays.
  package func resume(_ zone: ZoneID, action: EndedZone.Action) async throws(SyncFailure) {
    do {
      let body = try Self.json(["action": action.rawValue])
      _ = try await send("POST", "/zones/\(Self.encoded(zone.zoneName))/resume", body: body)
    } catch {
      guard case .server(let refusal) = error, refusal.isOfServer, [404, 409].contains(refusal.status) else {
        throw error
      }
    }
  }

  // MARK: Records and contents

  /// A call of the record plane in the store's database.
  package func record<Answer: Decodable>(
    _ path: String, _ body: some Encodable, requestID: UUID? = nil
  ) async throws(SyncFailure) -> Answer {
    let url = "\(account.server)/database/1/\(Self.encoded(container))/\(environment)/\(scope)/\(path)"
    let bytes = try await send("POST", to: url, body: try Self.json(body), requestID: requestID)
    return try Self.decoded(bytes)
  }

  /// Sends bytes to an address that carries its own authority.
  package func upload(_ content: [UInt8], to url: String) async throws(SyncFailure) -> [UInt8] {
    try await send("POST", to: url, body: content, isOwnAddress: false)
  }

  /// A content from an offset on, as it arrives, whatever the status. The address carries its own authority.
  package func download(_ url: String, from offset: Int64) async throws(SyncFailure) -> TransportStream {
    let headers = offset > 0 ? [(name: "Range", value: "bytes=\(offset)-")] : []
    do {
      var stream = try await transport.stream(TransportRequest("GET", url, headers: headers), silence: Self.timeout)
      // A server with a bucket names the place of the content there.
      if stream.status == 302, let place = stream.location {
        stream = try await transport.stream(TransportRequest("GET", place, headers: headers), silence: Self.timeout)
      }
      surroundings.log(.requests, "GET content - \(stream.status)")
      return stream
    } catch {
      throw error.kind == .cancelled ? .cancelled : .transport(error.reason)
    }
  }

  // MARK: Requests

  private func call<Answer: Decodable>(
    _ method: String, _ path: String, query: [(String, String)] = [], body: [UInt8]? = nil, requestID: UUID? = nil
  ) async throws(SyncFailure) -> Answer {
    try Self.decoded(try await send(method, path, query: query, body: body, requestID: requestID))
  }

  private func send(
    _ method: String, _ path: String, query: [(String, String)] = [], body: [UInt8]? = nil, requestID: UUID? = nil
  ) async throws(SyncFailure) -> [UInt8] {
    let base = "\(account.server)/mirror/1/\(Self.encoded(container))/\(environment)/\(scope)/stores/"
    var query = query
    if let leaseToken { query.append(("lease", leaseToken)) }
    let text = query.map { "\($0.0)=\(Self.encoded($0.1))" }.joined(separator: "&")
    let url = base + Self.encoded(storeIdentifier) + path + (text.isEmpty ? "" : "?\(text)")
    return try await send(method, to: url, body: body, shown: path, requestID: requestID)
  }

  /// - Parameter shown: what the log says of the address.
  private func send(
    _ method: String, to url: String, body: [UInt8]?, shown: String = "records", requestID: UUID? = nil,
    isOwnAddress: Bool = true
  ) async throws(SyncFailure) -> [UInt8] {
    let identifier = (requestID ?? surroundings.makeUUID()).uuidString
    var request = TransportRequest(
      method, url, headers: [("X-Request-ID", identifier)], body: body, timeout: Self.timeout)
    if body != nil {
      request.headers.append(("Content-Type", isOwnAddress ? "application/json" : "application/octet-stream"))
    }
    var token: String?
    if isOwnAddress {
      do throws(StoreError) {
        token = try account.token(in: session)
      } catch {
        throw .server(
          ServerError(status: 421, serverErrorCode: "AUTHENTICATION_REQUIRED", reason: "nobody is signed in"))
      }
      request.headers.append(("Authorization", "Bearer \(token ?? "")"))
    }
    let response = try await answer(request, "\(method) \(shown)", identifier)
    if let token, let successor = response["X-Apple-CloudKit-Web-Auth-Token"] { account.renew(token, to: successor) }
    return response.body
  }

  private func answer(
    _ request: TransportRequest, _ shown: String, _ identifier: String?
  ) async throws(SyncFailure) -> TransportResponse {
    let response: TransportResponse
    do throws(TransportError) {
      response = try await transport.send(request)
    } catch {
      if error.kind != .cancelled {
        surroundings.log(.requests, "\(shown) \(identifier ?? "-") no answer: \(error.reason)")
      }
      throw error.kind == .cancelled ? .cancelled : .transport(error.reason)
    }
    surroundings.log(.requests, "\(shown) \(identifier ?? "-") \(response.status)")
    guard (200..<300).contains(response.status) else { throw .server(ServerError(response)) }
    return response
  }

  // MARK: Text

  private static func json(_ value: some Encodable) throws(SyncFailure) -> [UInt8] {
    try reading { () throws(WireError) in try value.json() }
  }

  private static func decoded<Answer: Decodable>(_ bytes: [UInt8]) throws(SyncFailure) -> Answer {
    try reading { () throws(WireError) in try Answer(json: bytes) }
  }

  private static func reading<Value>(_ body: () throws(WireError) -> Value) throws(SyncFailure) -> Value {
    do {
      return try body()
    } catch {
      throw .damaged(error.reason)
    }
  }

  /// Percent-encodes everything but the unreserved characters.
  package static func encoded(_ text: String) -> String {
    text.utf8.reduce(into: "") { result, byte in
      switch byte {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        result.unicodeScalars.append(Unicode.Scalar(byte))
      default: result += (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
      }
    }
  }
}

struct CallerAnswer: Codable { let userRecordName: String }

extension ServerError {
  /// The error of an answer; also of one that is not the server's, such as a proxy's page.
  init(_ response: TransportResponse) {
    // Dropped because a proxy's page says no more than its status.
    let error = try? ServerError(json: response.body)
    self = error ?? ServerError(status: response.status, serverErrorCode: "", reason: "HTTP \(response.status)")
    status = response.status
    if retryAfter == nil { retryAfter = response["Retry-After"].flatMap { Double($0) } }
  }
}
