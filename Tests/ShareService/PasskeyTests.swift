// Passkeys in the directory: their registration, sign-in with them, and every check that refuses one.

import Crypto
import JSON
import Records
import ServiceBus
import SigningKeys
import Testing
import WebServices

@testable import ShareService

/// A key in a device, with the answers that browsers pass on.
private final class Authenticator {
  let key = SigningKey()
  let credentialID: [UInt8]
  var party = RelyingParty(id: "sync.example.org", origin: "https://sync.example.org")
  var counter: UInt32 = 0
  var flags: UInt8 = 0x05
  var members: [String: String] = [:]

  init(_ name: String = "credential-1") { credentialID = Array(name.utf8) }

  /// - Parameter isNew: true for an answer with the credential.
  func data(isNew: Bool) -> [UInt8] {
    var bytes = Array(SHA256.hash(party.id)) + [flags | (isNew ? 0x40 : 0)]
    bytes += [UInt8(counter >> 24), UInt8(counter >> 16 & 255), UInt8(counter >> 8 & 255), UInt8(counter & 255)]
    if isNew { bytes += [UInt8](repeating: 0, count: 16) + [0, UInt8(credentialID.count)] + credentialID + [0xa5] }
    return bytes
  }

  func clientData(_ type: String, _ challenge: String) -> [UInt8] {
    var all = [
      "type": "\"\(type)\"", "challenge": "\"\(Base64URL.encode(Array(challenge.utf8)))\"",
      "origin": "\"\(party.origin)\"", "crossOrigin": "false",
    ]
    all.merge(members) { $1 }
    // In an order, so that a repetition has the same bytes.
    let ordered = all.sorted { $0.key < $1.key }
    return Array("{\(ordered.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ","))}".utf8)
  }

  /// A cheat, or a mistake of the browser.
  enum Fault: String, CaseIterable {
    case host, origin, frame, presence, verification, challenge, number, kind
  }

  func spoil(_ fault: Fault) {
    switch fault {
    case .host: party = RelyingParty(id: "evil.example.org", origin: party.origin)
    case .origin: party = RelyingParty(id: party.id, origin: "https://evil.example.org")
    case .frame: members["crossOrigin"] = "true"
    case .presence: flags = 0x04
    case .verification: flags = 0x01
    case .challenge: members["challenge"] = "\"AAAA\""
    case .number: members["challenge"] = "7"
    case .kind: members["type"] = "null"
    }
  }

  var spki: [UInt8] {
    let text = key.publicPEM.split(separator: "\n").filter { !$0.hasPrefix("-") }.joined()
    return Array(text.utf8).withUnsafeBufferPointer(Base64.decode) ?? []
  }
}

private struct Scene {
  static let party = RelyingParty(id: "sync.example.org", origin: "https://sync.example.org")

  let world: World
  let user: String
  private let grant: String

  init() async throws {
    world = try await World.withContainer()
    user = try await world.userWithPassword()
    grant = try #require(try await world.authenticate(user: try await world.token()).grant)
  }

  func challenge(for user: String? = nil, nonce: String = "n-1", life: Int64 = 900_000) -> String {
    PasskeyChallenge(
      user.map { PasskeyChallenge.Purpose.registration(userRecordName: $0) } ?? .signIn, nonce: nonce,
      expiry: world.clock.now + life
    ).text(signedWith: world.service.directory.signingKey)
  }

  @discardableResult
  func use(_ act: UseAccount.Act) async throws -> UseAccount.Reply {
    try await world.service.directory.use(
      UseAccount(
        container: World.container, environment: .development, userRecordName: user, grant: grant, act: act))
  }

  func register(
    _ device: Authenticator, challenge text: String? = nil, type: String = "webauthn.create", key: [UInt8]? = nil,
    data: [UInt8]? = nil, nonce: String = "r-1"
  ) async throws -> UseAccount.Refusal? {
    try await use(
      .addPasskey(
        PasskeyRegistration(
          name: "Firefox on Linux", clientData: device.clientData(type, text ?? challenge(for: user, nonce: nonce)),
          authenticatorData: data ?? device.data(isNew: true), publicKey: key ?? device.spki,
          relyingParty: Self.party))
    ).refusal
  }

  /// The first token; nil when the sign-in is refused.
  func signIn(
    _ device: Authenticator, challenge text: String? = nil, type: String = "webauthn.get", nonce: String = "s-1",
    signer: Authenticator? = nil, altered: Bool = false, handle: String? = nil, grant: String? = nil
  ) async throws -> String? {
    let clientData = device.clientData(type, text ?? challenge(nonce: nonce))
    let data = device.data(isNew: false)
    let signature = (signer ?? device).key.signature(of: data + Array(SHA256.hash(clientData)))
    return try await world.service.signIns.signIn(
      SignInByPasskey(
        container: World.container, environment: .development,
        assertion: PasskeyAssertion(
          credentialID: device.credentialID, clientData: clientData + (altered ? [0x20] : []), authenticatorData: data,
          signature: signature, relyingParty: Self.party, userHandle: handle.map { Array($0.utf8) }),
        isKept: false, grant: grant, source: SignInSource(way: .passkey, address: "192.0.2.1"))
    ).webAuthToken
  }

  /// The latest refusal in the audit.
  func refusal() async throws -> String? {
    try await world.ok("GET", "/admin/1/sign-ins")["signIns"]?.elements.first?["refusal"]?.string
  }
}

@Suite(.eachEngine) struct PasskeyTests {
  @Test func `a passkey is registered and signs its user in, also after a restart`() async throws {
    let scene = try await Scene()
    let device = Authenticator()
    #expect(try await scene.register(device) == nil)
    #expect(try await scene.use(.look).account?.ways.map(\.displayName) == ["Firefox on Linux"])
    let token = try #require(try await scene.signIn(device))
    #expect(try await scene.world.authenticate(user: token).userRecordName == scene.user)
    let row = try #require(try await scene.world.ok("GET", "/admin/1/sign-ins")["signIns"]?.elements.first)
    #expect(row["way"]?.string == "passkey" && row["user"]?.string == "alice" && row["refusal"] == nil)
  }

  @Test func `a stranger's forged passkeys do not keep others behind the same address from theirs`() async throws {
    let scene = try await Scene()
    let device = Authenticator()
    #expect(try await scene.register(device) == nil)
    for _ in 0..<20 { #expect(try await scene.signIn(Authenticator("stranger's")) == nil) }
    // The clock goes on a little with each, so that thirty count as less.
    for _ in 0..<10 { #expect(try await scene.signIn(device, signer: Authenticator()) == nil) }
    #expect(try await scene.signIn(device) != nil)
    #expect(try await scene.signIn(Authenticator("stranger's"), nonce: "s-2") == nil)
    #expect(try await scene.signIn(device, nonce: "s-3") == nil, "the server's work for an address has a bound")
  }

  @Test func `a user has several passkeys, and removes one`() async throws {
    let scene = try await Scene()
    let (first, second) = (Authenticator("one"), Authenticator("two"))
    #expect(try await scene.register(first, nonce: "r-1") == nil)
    #expect(try await scene.register(second, nonce: "r-2") == nil)
    #expect(try await scene.register(first, nonce: "r-3") == .passkey, "it is known already")
    let name = try #require(try await scene.use(.look).account?.ways.first?.name)
    #expect(try await scene.use(.removeWay(name)).account?.ways.count == 1)
    let tokens = [
      try await scene.signIn(first, nonce: "s-1"), try await scene.signIn(second, nonce: "s-2"),
    ]
    #expect(tokens.count { $0 != nil } == 1)
  }

  @Test func `a registration that is repeated is answered alike, and adds nothing more`() async throws {
    let scene = try await Scene()
    let device = Authenticator()
    let challenge = scene.challenge(for: scene.user, nonce: "r-1")
    for _ in 0..<3 { #expect(try await scene.register(device, challenge: challenge) == nil) }
    let way = try #require(try await scene.use(.look).account?.ways.first)
    #expect(try await scene.use(.look).account?.ways.count == 1)
    #expect(try await scene.register(Authenticator("twin"), challenge: challenge) == .passkey)
    for number in 2...Directory.passkeysPerUser {
      #expect(try await scene.register(Authenticator("\(number)"), nonce: "r-\(number)") == nil)
    }
    #expect(try await scene.register(device, challenge: challenge) == nil, "it needs no room")
    try await scene.use(.removeWay(way.name))
    #expect(try await scene.register(device, challenge: challenge) == .passkey, "it was removed since")
    #expect(try await scene.use(.look).account?.ways.count == Directory.passkeysPerUser - 1)
  }

  @Test func `a user has a bounded number of passkeys`() async throws {
    let scene = try await Scene()
    for number in 0..<Directory.passkeysPerUser {
      #expect(try await scene.register(Authenticator("\(number)"), nonce: "r-\(number)") == nil)
    }
    #expect(try await scene.register(Authenticator("more"), nonce: "more") == .tooMany)
  }

  @Test func `a registration with anything wrong adds nothing`() async throws {
    let scene = try await Scene()
    for fault in Authenticator.Fault.allCases {
      let device = Authenticator(fault.rawValue)
      device.spoil(fault)
      #expect(try await scene.register(device, nonce: fault.rawValue) == .passkey, "\(fault)")
    }
    let device = Authenticator()
    #expect(try await scene.register(device, type: "webauthn.get") == .passkey)
    #expect(try await scene.register(device, challenge: scene.challenge()) == .passkey, "a challenge to sign in")
    #expect(try await scene.register(device, challenge: scene.challenge(for: "_other")) == .passkey)
    #expect(try await scene.register(device, challenge: scene.challenge(for: scene.user, life: 0)) == .passkey)
    #expect(try await scene.register(device, key: []) == .passkey)
    #expect(try await scene.register(device, key: device.spki + [0]) == .passkey)
    #expect(try await scene.register(device, data: device.data(isNew: false)) == .passkey)
    #expect(try await scene.register(device, data: Array(device.data(isNew: true).prefix(60))) == .passkey)
    #expect(try await scene.register(device, data: []) == .passkey)
    #expect(try await scene.use(.look).account?.ways.isEmpty == true)
    #expect(try await scene.register(device) == nil, "no refusal has used the challenge up")
    #expect(try await scene.register(Authenticator("again")) == .passkey, "it counts once")
  }

  @Test(arguments: [
    ("relyingParty", "host"), ("origin", "origin"), ("origin", "frame"), ("presence", "presence"),
    ("verification", "verification"), ("challenge", "challenge"), ("challenge", "number"), ("type", "kind"),
  ])
  func `an assertion with anything wrong signs nobody in`(word: String, name: String) async throws {
    let scene = try await Scene()
    let device = Authenticator()
    #expect(try await scene.register(device) == nil)
    device.spoil(try #require(Authenticator.Fault(rawValue: name)))
    #expect(try await scene.signIn(device) == nil)
    #expect(try await scene.refusal() == word)
  }

  @Test func `another key, altered data, another ceremony and a used challenge sign nobody in`() async throws {
    let scene = try await Scene()
    let device = Authenticator()
    #expect(try await scene.register(device) == nil)
    #expect(try await scene.signIn(device, signer: Authenticator()) == nil)
    #expect(try await scene.refusal() == "signature")
    #expect(try await scene.signIn(device, altered: true) == nil)
    #expect(try await scene.refusal() == "signature")
    #expect(try await scene.signIn(device, type: "webauthn.create") == nil)
    #expect(try await scene.signIn(device, challenge: scene.challenge(for: scene.user)) == nil)
    #expect(try await scene.refusal() == "challenge", "a challenge to register")
  }

  @Test func `a challenge counts once, and an unknown credential or a disabled user not at all`() async throws {
    let scene = try await Scene()
    let device = Authenticator()
    #expect(try await scene.register(device) == nil)
    #expect(try await scene.signIn(Authenticator("unknown")) == nil)
    #expect(try await scene.refusal() == "credential")
    #expect(try await scene.signIn(device) != nil)
    #expect(try await scene.signIn(device) == nil)
    #expect(try await scene.refusal() == "challenge")
    try await scene.world.ok("POST", "/admin/1/users/alice/disable")
    #expect(try await scene.signIn(device, nonce: "s-2") == nil)
    #expect(try await scene.refusal() == "credential")
  }

  @Test func `an authenticator that names another user signs nobody in`() async throws {
    let scene = try await Scene()
    let device = Authenticator()
    #expect(try await scene.register(device) == nil)
    let other = try await scene.world.user("bob").recordName
    #expect(try await scene.signIn(device, handle: other) == nil)
    #expect(try await scene.refusal() == "user")
    #expect(try await scene.signIn(device, handle: scene.user) != nil, "the refusal has not used the challenge up")
  }

  @Test func `a passkey opens no session for an app that was revoked`() async throws {
    let scene = try await Scene()
    let device = Authenticator()
    #expect(try await scene.register(device) == nil)
    let api = try await scene.world.apiToken()
    let grant = try #require(try await scene.world.authenticate(api: api).grant)
    try await scene.world.ok("DELETE", "/admin/1/tokens/\(api)")
    #expect(try await scene.signIn(device, grant: grant) == nil)
    #expect(try await scene.signIn(device) != nil)
  }

  @Test func `a counter that does not go forward is a twin's`() async throws {
    let scene = try await Scene()
    let device = Authenticator()
    device.counter = 5
    #expect(try await scene.register(device) == nil)
    device.counter = 6
    #expect(try await scene.signIn(device, nonce: "s-1") != nil)
    for counter: UInt32 in [6, 5, 0] {
      device.counter = counter
      #expect(try await scene.signIn(device, nonce: "c-\(counter)") == nil)
      #expect(try await scene.refusal() == "counter")
    }
    device.counter = .max
    #expect(try await scene.signIn(device, nonce: "s-2") != nil)
  }

  @Test func `a passkey can be the only way in, and is not removed then`() async throws {
    let scene = try await Scene()
    let world = scene.world
    try await world.ok(
      "POST", "/admin/1/identities",
      #"{"name":"acme","issuer":"https://id.example.org","clientID":"aquifer","signUp":"open"}"#)
    let person = SignInByIdentity.Person(
      issuer: "https://id.example.org", subject: "1", emailAddress: nil, givenName: nil, familyName: nil)
    let entered = try await world.service.directory.signIn(
      SignInByIdentity(
        container: World.container, environment: .development, provider: "acme", person: person, isKept: false,
        grant: nil))
    let user = try #require(entered.userRecordName)
    let grant = try #require(try await world.authenticate(user: entered.webAuthToken).grant)
    func use(_ act: UseAccount.Act) async throws -> UseAccount.Reply {
      try await world.service.directory.use(
        UseAccount(
          container: World.container, environment: .development, userRecordName: user, grant: grant, act: act))
    }
    let device = Authenticator()
    let added = try await use(
      .addPasskey(
        PasskeyRegistration(
          name: "A key", clientData: device.clientData("webauthn.create", scene.challenge(for: user)),
          authenticatorData: device.data(isNew: true), publicKey: device.spki, relyingParty: Scene.party)))
    let identity = try #require(added.account?.ways.first)
    let passkey = try #require(added.account?.ways.last)
    #expect(try await use(.removeWay(identity.name)).refusal == nil)
    #expect(try await use(.removeWay(passkey.name)).refusal == .lastWay)
    #expect(try await scene.signIn(device) != nil)
  }
}
