// Devices that wait until a person allows their code.

import JSON
import Records
import ServiceBus
import Testing

@testable import ShareService

/// A user on the account page, and an app whose devices ask for codes.
private struct Scene {
  let world: World
  let user: String
  let api: String
  private let pageGrant: String
  private let appGrant: String

  init() async throws {
    world = try await World.withContainer()
    user = try await world.userWithPassword()
    api = try await world.apiToken()
    appGrant = try #require(try await world.authenticate(api: api).grant)
    pageGrant = try #require(try await world.authenticate(user: try await world.token()).grant)
  }

  func begin(from address: String = "192.0.2.9") async throws -> (device: String, code: UserCode)? {
    let reply = try await world.service.directory.begin(
      BeginDeviceSignIn(
        container: World.container, environment: .development, grant: appGrant,
        source: SignInSource(way: .device, address: address, client: "Living room")))
    guard let device = reply.deviceCode, let code = reply.userCode else { return nil }
    return (device, code)
  }

  func begun() async throws -> (device: String, code: UserCode) { try #require(try await begin()) }

  func poll(_ device: String, environment: Records.Environment = .development) async throws -> PollDeviceSignIn.Reply {
    try await world.service.directory.poll(
      PollDeviceSignIn(container: World.container, environment: environment, deviceCode: device))
  }

  func use(_ act: UseAccount.Act, from address: String = "192.0.2.1", grant: String? = nil) async throws
    -> UseAccount.Reply
  {
    try await world.service.signIns.use(
      UseAccount(
        container: World.container, environment: .development, userRecordName: user, grant: grant ?? pageGrant,
        act: act, clientAddress: address))
  }

  func lookUp(_ code: UserCode, from address: String = "192.0.2.1") async throws -> LookUpDeviceSignIn.Reply {
    try await world.service.signIns.lookUp(LookUpDeviceSignIn(userCode: code, clientAddress: address))
  }
}

@Suite(.eachEngine) struct DeviceSignInTests {
  @Test func `a device is signed in once somebody has allowed its code, and once only`() async throws {
    let scene = try await Scene()
    let (device, code) = try await scene.begun()
    #expect(try await scene.poll(device) == .pending)
    let shown = try #require(try await scene.lookUp(code).device)
    #expect(shown.name == "Living room" && shown.address == "192.0.2.9" && shown.container == World.container)
    #expect(try await scene.use(.allowDevice(code)).refusal == nil)
    guard case .signedIn(let token) = try await scene.poll(device) else {
      Issue.record("the device is not signed in")
      return
    }
    #expect(try await scene.world.authenticate(user: token).userRecordName == scene.user)
    #expect(try await scene.poll(device) == .expired)
    #expect(try await scene.lookUp(code).device == nil)
    let session = try #require(try await scene.world.ok("GET", "/admin/1/sessions")["sessions"]?.elements.first)
    #expect(session["way"]?.string == "device" && session["client"]?.string == "Living room")
    let noted = try #require(try await scene.world.ok("GET", "/admin/1/sign-ins")["signIns"]?.elements.first)
    #expect(noted["way"]?.string == "device" && noted["address"]?.string == "192.0.2.9")
    try await scene.world.ok("DELETE", "/admin/1/tokens/\(scene.api)")
    #expect(try await scene.world.authenticate(user: token).refusal == .userToken, "it ends with the app's token")
  }

  @Test func `a device that asks too often gets no answer, though somebody has allowed it`() async throws {
    let scene = try await Scene()
    let (device, code) = try await scene.begun()
    func ask() async throws -> PollDeviceSignIn.Reply {
      try await scene.world.service.signIns.poll(
        PollDeviceSignIn(container: World.container, environment: .development, deviceCode: device))
    }
    #expect(try await ask() == .pending)
    _ = try await scene.use(.allowDevice(code))
    #expect(try await ask() == .slowDown)
    scene.world.clock.advance(by: 2 * BeginDeviceSignIn.interval)
    guard case .signedIn = try await ask() else {
      Issue.record("the device is not signed in at its pace")
      return
    }
  }

  @Test func `a permission outlives a restart until the device asks`() async throws {
    let scene = try await Scene()
    let (device, code) = try await scene.begun()
    _ = try await scene.use(.allowDevice(code))
    let restarted = try await scene.world.restarted()
    let reply = try await restarted.service.directory.poll(
      PollDeviceSignIn(container: World.container, environment: .development, deviceCode: device))
    guard case .signedIn = reply else {
      Issue.record("\(reply)")
      return
    }
  }

  @Test func `a device that was turned away hears it once, and nobody can allow it any more`() async throws {
    let scene = try await Scene()
    let (device, code) = try await scene.begun()
    #expect(try await scene.use(.refuseDevice(code)).refusal == nil)
    #expect(try await scene.use(.allowDevice(code)).refusal == .device)
    #expect(try await scene.poll(device) == .refused)
    #expect(try await scene.poll(device) == .expired)
    let noted = try #require(try await scene.world.ok("GET", "/admin/1/sign-ins")["signIns"]?.elements.first)
    #expect(noted["refusal"]?.string == "person")
  }

  @Test func `a code that one person has allowed is nobody else's`() async throws {
    let scene = try await Scene()
    let (device, code) = try await scene.begun()
    #expect(try await scene.use(.allowDevice(code)).refusal == nil)
    #expect(try await scene.lookUp(code).device == nil)
    _ = try await scene.world.userWithPassword("eve")
    let stranger = try await scene.world.authenticate(user: try await scene.world.signIn("eve").webAuthToken)
    for act in [UseAccount.Act.allowDevice(code), .refuseDevice(code)] {
      let reply = try await scene.world.service.directory.use(
        UseAccount(
          container: World.container, environment: .development,
          userRecordName: try #require(stranger.userRecordName), grant: try #require(stranger.grant), act: act))
      #expect(reply.refusal == .device)
    }
    guard case .signedIn(let token) = try await scene.poll(device) else {
      Issue.record("the device is not signed in")
      return
    }
    #expect(try await scene.world.authenticate(user: token).userRecordName == scene.user)
  }

  @Test func `a code lives ten minutes, for its container and environment`() async throws {
    let scene = try await Scene()
    let (device, code) = try await scene.begun()
    #expect(try await scene.poll(device, environment: .production) == .expired)
    #expect(try await scene.poll("0" + device.dropFirst()) == .expired)
    scene.world.clock.advance(by: BeginDeviceSignIn.lifetime)
    #expect(try await scene.poll(device) == .expired)
    #expect(try await scene.use(.allowDevice(code)).refusal == .device)
    #expect(try await scene.lookUp(code).device == nil)
  }

  @Test func `nobody allows a device whose sign-in on the page has ended, and no device of a revoked app`() async throws
  {
    let scene = try await Scene()
    let (device, code) = try await scene.begun()
    try await scene.world.ok("POST", "/admin/1/users/alice/sign-out")
    #expect(try await scene.use(.allowDevice(code)).account == nil)
    #expect(try await scene.poll(device) == .pending)
    let other = try await Scene()
    let second = try await other.begun()
    _ = try await other.use(.allowDevice(second.code))
    try await other.world.ok("DELETE", "/admin/1/tokens/\(other.api)")
    #expect(try await other.poll(second.device) == .expired)
    let third = try await Scene()
    let last = try await third.begun()
    _ = try await third.use(.allowDevice(last.code))
    try await third.world.ok("POST", "/admin/1/users/alice/disable")
    #expect(try await third.poll(last.device) == .expired)
  }

  @Test func `a permission ends with the session that gave it, however that one ends`() async throws {
    func allowed() async throws -> (Scene, device: String) {
      let scene = try await Scene()
      let (device, code) = try await scene.begun()
      #expect(try await scene.use(.allowDevice(code)).refusal == nil)
      return (scene, device)
    }
    let calls = [
      ("sign-out", ""), ("password", #"{"password":"battery staple"}"#), ("disable", ""),
    ]
    for (call, body) in calls {
      let (scene, device) = try await allowed()
      try await scene.world.ok("POST", "/admin/1/users/alice/\(call)", body)
      if call == "disable" { try await scene.world.ok("POST", "/admin/1/users/alice/enable") }
      #expect(try await scene.poll(device) == .expired, "\(call)")
    }
    let (ended, first) = try await allowed()
    let session = try #require(try await ended.world.ok("GET", "/admin/1/sessions")["sessions"]?.elements.first)
    try await ended.world.ok("DELETE", "/admin/1/sessions/\(try #require(session["session"]?.string))")
    #expect(try await ended.poll(first) == .expired)
    let (scene, second) = try await allowed()
    let (third, code) = try await scene.begun()
    let other = try #require(try await scene.world.authenticate(user: try await scene.world.token()).grant)
    #expect(try await scene.use(.allowDevice(code), grant: other).refusal == nil)
    #expect(try await scene.use(.endOtherSessions, grant: other).refusal == nil)
    #expect(try await scene.poll(second) == .expired)
    guard case .signedIn = try await scene.poll(third) else {
      Issue.record("the permission of the session that stays has ended")
      return
    }
  }

  @Test func `guesses at codes are slowed down, and a right one costs nothing`() async throws {
    let scene = try await Scene()
    let code = try await scene.begun().code
    for _ in 0..<20 { #expect(try await scene.lookUp(code, from: "192.0.2.2").device != nil) }
    let wrong = try #require(UserCode("BBBB-BBBB"))
    var waits: [Int?] = []
    for _ in 0..<34 { waits.append(try await scene.lookUp(wrong).retryAfter) }
    #expect(waits.prefix(30).allSatisfy { $0 == nil } && waits.suffix(3).allSatisfy { $0 != nil })
    #expect(try await scene.lookUp(code).device == nil, "a guesser has to wait with the right one, too")
  }

  @Test func `guesses at codes count whatever is asked about them, and allowing a device costs nothing`() async throws {
    let scene = try await Scene()
    let wrong = try #require(UserCode("BBBB-BBBB"))
    for _ in 0..<10 { #expect(try await scene.use(.allowDevice(try await scene.begun().code)).refusal == nil) }
    var replies: [UseAccount.Reply] = []
    for number in 0..<34 {
      replies.append(try await scene.use(number % 2 == 0 ? .allowDevice(wrong) : .refuseDevice(wrong)))
    }
    #expect(replies.prefix(30).allSatisfy { $0.refusal == .device && $0.retryAfter == nil })
    #expect(replies.suffix(3).allSatisfy { $0.account == nil && $0.retryAfter != nil })
    let code = try await scene.begun().code
    #expect(try await scene.lookUp(code).retryAfter != nil, "all guesses count together")
    #expect(try await scene.use(.allowDevice(code)).retryAfter != nil, "a guesser has to wait with the right one, too")
    #expect(try await scene.use(.look).account != nil, "nothing else waits")
    #expect(try await scene.use(.allowDevice(code), from: "192.0.2.3").refusal == nil)
  }

  @Test func `a person's answer about a device is answered alike when it is repeated`() async throws {
    let scene = try await Scene()
    for act in [UseAccount.Act.allowDevice, UseAccount.Act.refuseDevice] {
      let (device, code) = try await scene.begun()
      for _ in 0..<3 { #expect(try await scene.use(act(code)).refusal == nil) }
      #expect(try await scene.poll(device) != .pending)
      #expect(try await scene.use(act(code)).refusal == .device)
    }
    let noted = try #require(try await scene.world.ok("GET", "/admin/1/sign-ins")["signIns"]?.elements)
    #expect(noted.count { $0["refusal"]?.string == "person" } == 1)
  }

  @Test func `addresses of one customer's network have a bounded number of devices that wait together`() async throws {
    let scene = try await Scene()
    for number in 0..<Directory.devicesPerAddress {
      #expect(try await scene.begin(from: "2001:db8:1:2::\(number)") != nil)
    }
    #expect(try await scene.begin(from: "2001:db8:1:2:ffff::1") == nil)
    for network in 3..<7 {
      for number in 0..<Directory.devicesPerAddress {
        #expect(try await scene.begin(from: "2001:db8:1:\(network)::\(number)") != nil)
      }
    }
    #expect(try await scene.begin(from: "2001:db8:1:7::1") == nil, "a customer may own it all")
    #expect(try await scene.begin(from: "2001:db8:2:7::1") != nil)
    #expect(try await scene.begin(from: "::ffff:192.0.2.10") != nil)
  }

  @Test(.tags(.sqliteFile)) func `an app whose devices all wait leaves room for those of the others`() async throws {
    let scene = try await Scene()
    let other = "iCloud.org.example.other"
    try await scene.world.ok("POST", "/admin/1/containers", #"{"container":"\#(other)"}"#)
    #expect(try await scene.begin() != nil)
    try await scene.world.service.directory.fillWithDevices(Directory.devicesPerContainer - 1)
    #expect(try await scene.begin(from: "192.0.2.11") == nil)
    let reply = try await scene.world.service.directory.begin(
      BeginDeviceSignIn(
        container: try #require(ContainerID(rawValue: other)), environment: .development, grant: "a:",
        source: SignInSource(way: .device, address: "192.0.2.11")))
    #expect(reply.deviceCode != nil)
  }

  @Test func `an address has a bounded number of devices that wait`() async throws {
    let scene = try await Scene()
    for _ in 0..<Directory.devicesPerAddress { #expect(try await scene.begin() != nil) }
    #expect(try await scene.begin() == nil)
    #expect(try await scene.begin(from: "192.0.2.10") != nil)
    scene.world.clock.advance(by: BeginDeviceSignIn.lifetime)
    #expect(try await scene.begin() != nil)
  }
}

extension Directory {
  /// Lets devices of many networks wait beside one that waits, for the same app.
  fileprivate func fillWithDevices(_ count: Int) throws {
    try connection.execute(
      """
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
      INSERT INTO deviceSignIn (device, userCode, container, environment, grantText, address, created, expires)
      SELECT randomblob(32), 'code ' || i, container, environment, grantText, 'address ' || i, created, expires
      FROM n JOIN (SELECT * FROM deviceSignIn LIMIT 1);
      """)
  }
}

@Suite struct UserCodeTests {
  @Test func `a code is read as people type it`() {
    for text in ["WDJB-MJHT", "wdjbmjht", " wdjb mjht ", "W.D.J.B.M.J.H.T", "WDJB\u{2011}MJHT"] {
      #expect(UserCode(text)?.shown == "WDJB-MJHT")
    }
    for text in ["", "WDJB-MJH", "WDJB-MJHTT", "WDJB-MJHA", "WDJB-MJH0", "WDJB-MJH\u{301}T"] {
      #expect(UserCode(text) == nil, "\(text)")
    }
  }
}

@Suite struct DevicePollsTests {
  /// Whether each question at these times, in milliseconds, is early.
  private func areEarly(_ times: [Int64], _ polls: inout DevicePolls, device: UInt8 = 1) -> [Bool] {
    times.map { polls.isEarly([device], now: $0) }
  }

  @Test func `a device that asks too often has to wait longer each time`() {
    var polls = DevicePolls()
    #expect(areEarly([10_000, 14_000, 20_000], &polls) == [false, true, true], "six seconds are too few then")
    #expect(areEarly([20_000], &polls, device: 2) == [false], "another device has its own pace")
    #expect(areEarly([35_000, 45_000, 65_000], &polls) == [false, true, false])
  }

  @Test func `a device at the told pace is never early, whatever the network does`() {
    var polls = DevicePolls()
    let times = [0, 400, 0, 499, 100].enumerated().map { 10_000 + Int64($0.offset) * 5000 + Int64($0.element) }
    #expect(areEarly(times, &polls) == [false, false, false, false, false])
    #expect(areEarly([5000], &polls) == [false], "also after the clock was set back")
  }

  @Test func `the devices that are remembered are bounded`() {
    var polls = DevicePolls()
    for number in 0..<(DevicePolls.rowLimit + 10) {
      _ = polls.isEarly([UInt8(number >> 16), UInt8(number >> 8 & 255), UInt8(number & 255)], now: Int64(number))
    }
    let isEarly = polls.isEarly([0, 0, 0], now: Int64(DevicePolls.rowLimit) + 10)
    #expect(!isEarly, "the first one is forgotten")
  }
}
