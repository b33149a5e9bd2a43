import Authentication
import HTTPServer
import Records
import ServiceBus
import Testing

@testable import Gateway

private func address(_ path: [String?]) throws(RecordError) -> Address {
  try Address(
    RouteMatch(
      route: Route([.get], "/x", .welcome), container: path[0], environment: path[1], database: path[2], names: []))
}

struct AddressTests {
  @Test(arguments: [
    (["..", "development", "private"], "container"), (["", "development", "private"], "container"),
    (["iCloud.a", "staging", "private"], "environment"),
    (["iCloud.a", "development", "mine"], "database"),
  ])
  func `a segment that can't be is named`(path: [String], word: String) {
    let error = #expect(throws: RecordError.self) { try address(path) }
    #expect(error?.code == .badRequest)
    #expect(error?.reason.contains(word) == true)
  }

  @Test func `a good path is read`() throws {
    let address = try address(["com.example.photos", "production", "shared"])
    #expect(address.container?.rawValue == "com.example.photos")
    #expect(address.environment == .production)
    #expect(address.scope == .shared)
  }
}

struct AccessTests {
  let place: Address

  init() throws { place = try address(["iCloud.a", "development", "private"]) }

  private func question(_ need: Need, _ credentials: Credentials) throws(RecordError) -> Authenticator.Question? {
    try Access.question(need: need, address: place, credentials: credentials)
  }

  private func caller(
    _ reply: Authenticate.Reply, _ need: Need, token: String? = nil, isBearer: Bool = false, origin: String? = nil
  ) throws(RecordError) -> Caller {
    try Access.caller(
      reply, need: need, credentials: Credentials(apiToken: isBearer ? nil : "a", userToken: token, isBearer: isBearer),
      origin: origin)
  }

  @Test(arguments: [
    Credentials(apiToken: nil, userToken: nil, isBearer: false),
    Credentials(apiToken: nil, userToken: "u", isBearer: false),
  ])
  func `without an API token only a bearer token will do`(credentials: Credentials) throws {
    for need in [Need.app, .user] {
      #expect(
        throws: RecordError(
          .authenticationFailed,
          "The request has no API token: send ckAPIToken, or Authorization: Bearer <web auth token>")
      ) {
        try question(need, credentials)
      }
    }
    let bearer = try question(.user, Credentials(apiToken: nil, userToken: "u", isBearer: true))
    #expect(bearer?.userToken == "u")
    #expect(bearer?.apiToken == nil)
    #expect(bearer?.container?.rawValue == "iCloud.a")
  }

  @Test func `an operator is asked for without container and by bearer token only`() throws {
    let asked = try question(.operatorToken, Credentials(apiToken: "a", userToken: "o", isBearer: true))
    #expect(asked == Authenticator.Question(container: nil, environment: nil, apiToken: nil, userToken: "o"))
    #expect(throws: RecordError.self) {
      try question(.operatorToken, Credentials(apiToken: "a", userToken: "o", isBearer: false))
    }
  }

  @Test func `an address with its own authority needs no question to the directory`() throws {
    #expect(try question(.nothing, Credentials(apiToken: nil, userToken: nil, isBearer: false)) == nil)
  }

  @Test(arguments: [
    (Authenticate.Reply.Refusal.apiToken, ServerErrorCode.authenticationFailed), (.userToken, .authenticationFailed),
    (.container, .notFound),
  ])
  func `a refusal has its code`(refusal: Authenticate.Reply.Refusal, code: ServerErrorCode) {
    let error = #expect(throws: RecordError.self) { try caller(Authenticate.Reply(refusal: refusal), .app) }
    #expect(error?.code == code)
  }

  @Test func `a database of users sends somebody without a user to sign in`() {
    let error = #expect(throws: RecordError.self) { try caller(Authenticate.Reply(), .user) }
    #expect(error?.code == .authenticationRequired)
    #expect(error?.status == 421)
  }

  @Test func `a user of an ended session has to sign in again, and does not hear of a wrong token`() {
    func code(_ token: String, isBearer: Bool = false) -> ServerErrorCode? {
      #expect(throws: RecordError.self) {
        try caller(Authenticate.Reply(refusal: .userToken), .app, token: token, isBearer: isBearer)
      }?.code
    }
    #expect(code("ses_0123") == .authenticationRequired)
    #expect(code("0123") == .authenticationFailed)
    // A bearer token does not name an app that the user could sign in to.
    #expect(code("ses_0123", isBearer: true) == .authenticationFailed)
  }

  @Test func `a page of a foreign origin is not even sent to sign in`() {
    var reply = Authenticate.Reply(refusal: .userToken, allowedOrigins: ["https://good.example"])
    let ended = #expect(throws: RecordError.self) {
      try caller(reply, .user, token: "ses_1", origin: "https://evil.example")
    }
    #expect(ended?.code == .accessDenied)
    reply = Authenticate.Reply(allowedOrigins: ["https://good.example"])
    let unknown = #expect(throws: RecordError.self) { try caller(reply, .user, origin: "https://evil.example") }
    #expect(unknown?.code == .accessDenied)
  }

  @Test func `a user is not an operator`() throws {
    let error = #expect(throws: RecordError.self) {
      try caller(Authenticate.Reply(userRecordName: "_a"), .operatorToken)
    }
    #expect(error?.status == 403)
    #expect(try caller(Authenticate.Reply(isOperator: true), .operatorToken).isOperator)
  }

  @Test func `an operator is no user, and is told so`() throws {
    let error = #expect(throws: RecordError.self) { try caller(Authenticate.Reply(isOperator: true), .user) }
    #expect(error?.status == 401 && error?.reason.hasPrefix("The call needs the token of a user of the app") == true)
    #expect(try caller(Authenticate.Reply(isOperator: true), .app).isOperator)
  }

  @Test func `a page of a foreign origin may not use a token`() throws {
    let reply = Authenticate.Reply(userRecordName: "_a", allowedOrigins: ["https://good.example"])
    #expect(try caller(reply, .user, origin: "https://good.example").userRecordName == "_a")
    #expect(try caller(reply, .user, origin: nil).userRecordName == "_a")
    let error = #expect(throws: RecordError.self) { try caller(reply, .user, origin: "https://evil.example") }
    #expect(error?.code == .accessDenied)
  }

  @Test func `only the public database of the record plane is open to an app without a user`() {
    #expect(Route.Target.record(.modifyRecords).need(in: .public) == .app)
    for scope in [DatabaseScope.private, .shared] {
      #expect(Route.Target.record(.modifyRecords).need(in: scope) == .user)
    }
    for scope in DatabaseScope.allCases { #expect(Route.Target.store(.fetchChanges).need(in: scope) == .user) }
    #expect(Route.Target.userCaller.need(in: .public) == .user)
    #expect(Route.Target.operatorCall.need(in: nil) == .operatorToken)
  }
}

struct PreflightTests {
  private func value(_ name: String, _ headers: [(name: String, value: String)]) -> String? {
    headers.first { $0.name == name }?.value
  }

  private func preflight(_ path: [String]) -> HTTPResponse {
    Gateway.preflight(
      HTTPRequest(
        method: .options, target: "/", pathSegments: path, query: [], headers: [], body: [], remoteAddress: "127.0.0.1")
    )
  }

  @Test func `a preflight says what the record plane takes`() {
    let response = preflight(["database", "1", "c", "e", "private", "records", "query"])
    #expect(response.status == 204)
    #expect(value("Access-Control-Allow-Methods", response.headers) == "GET, POST, OPTIONS")
    #expect(
      value("Access-Control-Allow-Headers", response.headers)
        == """
        content-type, authorization, X-Request-ID, X-Apple-Request-UUID, traceparent, \
        X-Apple-CloudKit-Request-KeyID, X-Apple-CloudKit-Request-ISO8601Date, X-Apple-CloudKit-Request-SignatureV1
        """
    )
  }

  @Test func `a preflight of the mirror API allows its methods and a bearer token`() {
    let response = preflight(["mirror", "1", "c", "e", "private", "stores", "S"])
    #expect(value("Access-Control-Allow-Methods", response.headers) == "GET, POST, PUT, DELETE, OPTIONS")
    #expect(value("Access-Control-Allow-Headers", response.headers)?.contains("authorization") == true)
  }
}
