import Records
import Sharing
import Synchronization
import Testing

/// Sequential numbers in place of random ones.
final class Numbers: Sendable {
  private let next = Mutex(0)

  var making: ShareState.Making {
    ShareState.Making(time: 1000, participantID: { [self] in "P\(number)" }, shortGUID: { [self] in "G\(number)" })
  }

  private var number: Int {
    next.withLock { count in
      count += 1
      return count
    }
  }
}

let alice = KnownUser(userRecordName: "_alice", emailAddress: "alice@example.com")
let bob = KnownUser(userRecordName: "_bob", givenName: "Bob", emailAddress: "Bob@Example.com", phoneNumber: "+49 170 1")
let carol = KnownUser(userRecordName: "_carol", emailAddress: "carol@example.com")
let dave = KnownUser(userRecordName: "_dave")

/// A share of Alice's and its history.
struct World {
  let numbers = Numbers()
  var state = ShareState(of: alice, rootRecordName: nil, participantID: "P0", at: 500)

  mutating func patch(_ patch: SharePatch, by standing: ShareStanding = .owner) throws -> ShareDecision {
    let decision = try state.applying(patch, by: standing, numbers.making)
    state = try #require(decision.state)
    return decision
  }

  mutating func accept(_ user: KnownUser, by guid: String = "G") throws -> ShareDecision? {
    let decision = try state.accepting(user, by: guid, numbers.making)
    if let decision { state = try #require(decision.state) }
    return decision
  }

  /// The list as a client sends it after reading it, with further entries.
  func list(adding entries: [SharePatch.Entry] = []) -> [SharePatch.Entry] {
    state.participants.map {
      SharePatch.Entry(participantID: $0.participantID, identity: $0.identity, role: $0.role, permission: $0.permission)
    } + entries
  }

  func entry(_ user: KnownUser, _ permission: SharePermission? = nil, role: ParticipantRole? = nil) -> SharePatch.Entry
  {
    SharePatch.Entry(identity: user.identity(), role: role, permission: permission)
  }

  mutating func invite(_ user: KnownUser, _ permission: SharePermission? = .readWrite, role: ParticipantRole? = nil)
    throws
  {
    _ = try patch(SharePatch(participants: list(adding: [entry(user, permission, role: role)])))
  }

  var users: [String?] { state.participants.map(\.identity.userRecordName) }
}

func ckError(_ body: () throws -> Void) -> Int? {
  do {
    try body()
    return nil
  } catch {
    return (error as? RecordError)?.ckErrorCode
  }
}

struct ShareDecisionTests {
  @Test func `a state is read as it was written, and what a later release adds is passed over`() throws {
    var world = World()
    try world.invite(bob)
    _ = try world.patch(
      SharePatch(
        participants: world.list(adding: [SharePatch.Entry()]), allowsAccessRequests: true, blocked: [dave.identity()]))
    _ = try #require(try world.state.requesting(carol, at: 7)?.state).encoded()
    #expect(try ShareState(decoding: world.state.encoded()) == world.state)
    #expect(throws: StoredFormatError.self) { try ShareState(decoding: [0x93, 1]) }
  }

  @Test func `an invitation is accepted once, by whom it means`() throws {
    var world = World()
    try world.invite(bob)
    #expect(
      world.state.members.isEmpty && world.state.standing(of: bob) == .invited
        && world.state.standing(of: carol, comingBy: "G") == .stranger)
    #expect(try world.accept(carol) == nil)
    let decision = try #require(try world.accept(bob))
    #expect(
      decision.memberships == [MembershipChange(userRecordName: "_bob", kind: .begins(.privateUser, .readWrite))]
        && decision.isChanged)
    let again = try #require(try world.accept(bob))
    #expect(again.memberships.isEmpty && !again.isChanged)
    #expect(world.state.standing(of: bob) == .participant(.readWrite))
  }

  @Test func `an invitation by an address is for the user who has it`() throws {
    var world = World()
    let email = try #require(LookupInfo(emailAddress: "BOB@example.com"))
    let phone = try #require(LookupInfo(phoneNumber: "+49 (170) 1"))
    _ = try world.patch(SharePatch(participants: [SharePatch.Entry(identity: UserIdentity(lookupInfo: email))]))
    #expect(
      world.state.standing(of: bob) == .invited && phone == .phone("+491701")
        && bob.matches(UserIdentity(lookupInfo: phone)))
    _ = try world.accept(bob)
    #expect(world.state.participants[1].identity == bob.identity(invitedBy: email))
    #expect(LookupInfo(emailAddress: "nobody") == nil && LookupInfo(phoneNumber: "call me") == nil)
  }

  @Test func `the directory's names come into a list by any address`() throws {
    let email = try #require(LookupInfo(emailAddress: "bob@example.com"))
    let patch = SharePatch(
      participants: [
        SharePatch.Entry(identity: UserIdentity(lookupInfo: email)),
        SharePatch.Entry(identity: UserIdentity(userRecordName: "_dave")),
      ],
      blocked: [UserIdentity(lookupInfo: email)])
    #expect(patch.lookups == [email, .recordName("_dave"), email])
    let known = patch.identified(by: [email: bob])
    #expect(
      known.participants?.map(\.identity) == [bob.identity(invitedBy: email), UserIdentity(userRecordName: "_dave")])
    #expect(known.blocked == [bob.identity(invitedBy: email)])
  }

  @Test func `the same person is in a list once`() throws {
    var world = World()
    #expect(ckError { _ = try world.patch(SharePatch(participants: [world.entry(bob), world.entry(bob)])) } == 37)
    try world.invite(bob)
    #expect(ckError { try world.invite(bob, .readOnly) } == 37)
    _ = try world.patch(SharePatch(participants: [world.entry(bob, .readOnly)]))
    #expect(world.users == ["_alice", "_bob"] && world.state.participants[1].permission == .readOnly)
  }

  @Test func `a participant who is left out of the list goes, the owner never`() throws {
    var world = World()
    try world.invite(bob)
    try world.invite(carol)
    _ = try world.accept(bob)
    let decision = try world.patch(SharePatch(participants: [world.entry(carol)]))
    #expect(
      decision.memberships == [MembershipChange(userRecordName: "_bob", kind: .ends)]
        && world.users == ["_alice", "_carol"])
    _ = try world.patch(
      SharePatch(participants: [
        SharePatch.Entry(participantID: "P0", role: .privateUser, permission: SharePermission.none)
      ]))
    #expect(world.users == ["_alice"] && world.state.owner?.permission == .readWrite)
  }

  @Test func `a permission is changed, and with none the records are gone`() throws {
    var world = World()
    try world.invite(bob)
    _ = try world.accept(bob)
    func change(to permission: SharePermission) -> SharePatch {
      SharePatch(participants: [world.entry(bob, permission)])
    }
    #expect(try world.patch(change(to: .readOnly)).memberships.map(\.kind) == [.changes(.privateUser, .readOnly)])
    #expect(try world.patch(change(to: .none)).memberships.map(\.kind) == [.ends])
    #expect(try world.patch(change(to: .readWrite)).memberships.map(\.kind) == [.begins(.privateUser, .readWrite)])
  }

  @Test
  func
    `T-P07 an opened share forgets invitations, a closed one everybody, and nobody is added to an open one`()
    throws
  {
    var world = World()
    try world.invite(bob)
    try world.invite(carol)
    _ = try world.accept(bob)
    let stale = world.list()
    _ = try world.patch(SharePatch(participants: stale, publicPermission: .readOnly))
    #expect(world.users == ["_alice", "_bob"] && world.state.standing(of: dave, comingBy: "G") == .linkHolder)
    #expect(ckError { try world.invite(carol) } == 12)
    _ = try world.accept(dave)
    #expect(
      world.state.participants.last?.role == .publicUser && world.state.standing(of: dave) == .participant(.readOnly))
    let wider = try world.patch(SharePatch(publicPermission: .readWrite))
    #expect(
      wider.memberships.map(\.kind) == [.changes(.publicUser, .readWrite)]
        && wider.memberships[0].userRecordName == "_dave")
    let closed = try world.patch(SharePatch(participants: world.list(), publicPermission: SharePermission.none))
    #expect(closed.memberships.map(\.kind) == [.ends, .ends] && world.users == ["_alice"])
    #expect(try world.accept(dave) == nil)
  }

  @Test func `T-P08 the first who opens a one-time URL is its participant, the second is nobody`() throws {
    var world = World()
    _ = try world.patch(SharePatch(participants: [SharePatch.Entry(permission: .readWrite)]))
    let guid = try #require(world.state.oneTimeGUIDs.first)
    #expect(
      world.state.standing(of: bob, comingBy: guid) == .invited
        && world.state.standing(of: bob, comingBy: "G") == .stranger)
    #expect(try world.accept(bob) == nil, "the share's own URL is no invitation")
    #expect(try world.accept(bob, by: guid)?.memberships.map(\.kind) == [.begins(.privateUser, .readWrite)])
    #expect(try world.accept(carol, by: guid) == nil && world.state.standing(of: carol, comingBy: guid) == .stranger)
    #expect(
      try world.accept(bob, by: guid)?.isChanged == false
        && world.state.standing(of: bob, comingBy: "G") == .participant(.readWrite))
    try world.invite(carol)
    _ = try world.patch(SharePatch(participants: world.list(adding: [SharePatch.Entry()])))
    let second = try #require(world.state.oneTimeGUIDs.last)
    #expect(ckError { _ = try world.accept(carol, by: second) } == 37)
    #expect(world.state.standing(of: dave, comingBy: second) == .invited, "it is still to be claimed")
  }

  @Test func `T-P14 the participant after the hundredth is refused, however he comes`() throws {
    var world = World()
    let hundred = (1...100).map { SharePatch.Entry(identity: UserIdentity(userRecordName: "_user\($0)")) }
    _ = try world.patch(SharePatch(participants: hundred))
    #expect(world.state.participants.count == 101)
    #expect(ckError { try world.invite(bob) } == 29)
    _ = try world.patch(SharePatch(participants: Array(world.list().dropLast()), publicPermission: .readOnly))
    #expect(world.users == ["_alice"])
    for number in 1...100 { #expect(try world.accept(KnownUser(userRecordName: "_user\(number)")) != nil) }
    #expect(ckError { _ = try world.accept(bob) } == 29)
    #expect(try world.accept(KnownUser(userRecordName: "_user7"))?.isChanged == false)
  }

  @Test
  func `T-P16 an administrator says who takes part, and neither who else administers nor who may join by the link`()
    throws
  {
    var world = World()
    try world.invite(bob, role: .administrator)
    _ = try world.accept(bob)
    let standing = world.state.standing(of: bob)
    #expect(standing == .administrator(.readWrite))
    _ = try world.patch(SharePatch(participants: world.list(adding: [world.entry(carol)])), by: standing)
    #expect(world.users == ["_alice", "_bob", "_carol"])
    #expect(
      ckError {
        _ = try world.patch(
          SharePatch(participants: world.list(adding: [world.entry(dave, role: .administrator)])), by: standing)
      } == 10)
    #expect(ckError { _ = try world.patch(SharePatch(publicPermission: .readOnly), by: standing) } == 10)
    #expect(ckError { _ = try world.patch(SharePatch(allowsAccessRequests: true), by: standing) } == 10)
    #expect(
      try world.patch(SharePatch(participants: world.list(), publicPermission: SharePermission.none), by: standing)
        .isChanged == false)
    _ = try world.patch(SharePatch(participants: Array(world.list().dropLast())), by: standing)
    #expect(world.users == ["_alice", "_bob"])
    for other in [ShareStanding.participant(.readWrite), .participant(.readOnly)] {
      #expect(
        ckError { _ = try world.patch(SharePatch(participants: world.list(adding: [world.entry(carol)])), by: other) }
          == 10)
      #expect(try world.patch(SharePatch(participants: world.list()), by: other).isChanged == false)
    }
  }

  @Test func `T-P06 access is asked for where that is allowed, and given, denied or kept away`() throws {
    var world = World()
    #expect(try world.state.requesting(carol, at: 1) == nil)
    _ = try world.patch(SharePatch(allowsAccessRequests: true))
    for user in [bob, carol, dave] { world.state = try #require(try world.state.requesting(user, at: 1)?.state) }
    #expect(try world.state.requesting(carol, at: 2)?.isChanged == false)
    #expect(world.state.requesters.map(\.identity.userRecordName) == ["_bob", "_carol", "_dave"])
    // Bob is approved and becomes a participant, carol is denied, dave is blocked.
    _ = try world.patch(SharePatch(participants: world.list(adding: [world.entry(bob)])))
    #expect(world.state.participants[1].isApprovedRequester && world.state.requesters.count == 2)
    _ = try world.patch(SharePatch(requesters: [dave.identity()]))
    #expect(world.state.requesters.map(\.identity.userRecordName) == ["_dave"])
    _ = try world.patch(SharePatch(blocked: [dave.identity()]))
    #expect(world.state.requesters.isEmpty)
    #expect(try world.state.requesting(dave, at: 3) == nil, "as if there were no share")
    #expect(try world.state.requesting(carol, at: 3)?.isChanged == true, "who was denied may ask again")
    #expect(ckError { _ = try world.state.requesting(bob, at: 3) } == 37)
    _ = try world.accept(bob)
    #expect(try world.patch(SharePatch(blocked: [bob.identity()])).memberships.map(\.kind) == [.ends])
    #expect(world.state.mayRequest(dave) && !world.state.mayRequest(bob), "dave is not in the list any more")
    _ = try world.patch(SharePatch(publicPermission: .readWrite, blocked: [bob.identity()]))
    #expect(try world.accept(bob) == nil, "the blocked can't come by the link")
  }

  @Test func `a blocked person has no invitation, even if it went to their address before they had an account`() throws
  {
    var world = World()
    let address = try #require(LookupInfo(emailAddress: "bob@example.com"))
    _ = try world.patch(
      SharePatch(
        participants: world.list(adding: [SharePatch.Entry(identity: UserIdentity(lookupInfo: address))]),
        allowsAccessRequests: true))
    #expect(world.state.standing(of: bob) == .invited)
    _ = try world.patch(SharePatch(blocked: [UserIdentity(userRecordName: "_bob")]))
    #expect(world.state.participants.count == 2, "nobody knows that it is the same person")
    #expect(
      try world.accept(bob) == nil && world.state.requesting(bob, at: 3) == nil && world.state.leaving(bob) == nil)
    #expect(
      world.state.standing(of: bob, comingBy: "G") == .stranger
        && world.state.participants(visibleTo: bob).map(\.role) == [.owner])
    // A new invitation ends the block.
    _ = try world.patch(SharePatch(participants: []))
    #expect(world.state.isBlocked(bob))
    try world.invite(bob)
    #expect(!world.state.isBlocked(bob))
    #expect(try world.accept(bob)?.memberships.count == 1)
    // A participant who accepted can still leave, even when their address is blocked.
    world.state.blocked = [UserIdentity(lookupInfo: address)]
    #expect(world.state.standing(of: bob) == .participant(.readWrite) && world.state.leaving(bob) != nil)
  }

  @Test func `an administrator raises everybody's permission but his own`() throws {
    var world = World()
    try world.invite(bob, .readOnly, role: .administrator)
    try world.invite(carol, .readOnly)
    _ = try world.accept(bob)
    func raising(_ user: KnownUser) throws -> ShareDecision {
      var list = world.list()
      for index in list.indices where list[index].identity.userRecordName == user.userRecordName {
        list[index].permission = .readWrite
      }
      return try world.state.applying(
        SharePatch(participants: list), by: world.state.standing(of: bob), as: bob, world.numbers.making)
    }
    #expect(ckError { _ = try raising(bob) } == 10)
    #expect(try raising(carol).state?.participants.map(\.permission) == [.readWrite, .readOnly, .readWrite])
    // An administrator may lower or remove their own permission.
    var list = world.list()
    list[1].permission = SharePermission.none
    #expect(
      try world.state.applying(
        SharePatch(participants: list), by: world.state.standing(of: bob), as: bob, world.numbers.making
      ).memberships.map(\.kind) == [.ends])
  }

  @Test func `of who has not accepted one learns what one has named him by, unless he lets himself be found`() throws {
    let hidden = KnownUser(userRecordName: "_h", givenName: "Hid", emailAddress: "h@example.com")
    var found = hidden
    found.isDiscoverable = true
    let address = LookupInfo.email("h@example.com")
    #expect(hidden.identity(invitedBy: address).asNamed == UserIdentity(lookupInfo: address))
    #expect(
      hidden.identity(invitedBy: .recordName("_h")).asNamed
        == UserIdentity(userRecordName: "_h", lookupInfo: .recordName("_h")))
    #expect(hidden.identity().asNamed == UserIdentity(userRecordName: "_h"))
    #expect(found.identity(invitedBy: address).asNamed == found.identity(invitedBy: address))
    // The result does not reveal whether an address belongs to a user.
    #expect(UserIdentity(userRecordName: "_claimed", lookupInfo: address).asNamed == UserIdentity(lookupInfo: address))
    var participant = Participant(
      participantID: "P", identity: hidden.identity(invitedBy: address), role: .privateUser, permission: .readOnly,
      acceptance: .pending, dateAdded: 1)
    #expect(participant.shownIdentity.givenName == nil)
    participant.acceptance = .accepted
    #expect(participant.shownIdentity.givenName == "Hid")
    let state = ShareState(rootRecordName: nil, participants: [participant], blocked: [found.identity()])
    #expect(try ShareState(decoding: state.encoded()) == state)
  }

  @Test func `one leaves or declines, the owner can't, and the end of a share is everybody's`() throws {
    var world = World()
    for user in [bob, carol] { try world.invite(user) }
    _ = try world.accept(bob)
    _ = try world.accept(carol)
    try world.invite(dave)
    #expect(
      world.state.leaving(alice) == nil && world.state.stopping.memberships.map(\.userRecordName) == ["_bob", "_carol"])
    let declined = try #require(world.state.leaving(dave))
    #expect(declined.memberships.isEmpty && declined.isChanged)
    world.state = try #require(world.state.leaving(bob)?.state)
    #expect(world.users == ["_alice", "_carol", "_dave"] && world.state.leaving(bob) == nil)
  }

  @Test func `every viewer sees the participants that they may see`() throws {
    var world = World()
    try world.invite(bob, role: .administrator)
    try world.invite(carol)
    try world.invite(dave)
    _ = try world.accept(bob)
    _ = try world.accept(carol)
    func seen(_ user: KnownUser) -> [String?] {
      world.state.participants(visibleTo: user).map(\.identity.userRecordName)
    }
    #expect(seen(alice) == world.users && seen(bob) == world.users && seen(carol) == ["_alice", "_bob", "_carol"])
    #expect(seen(dave) == ["_alice", "_dave"] && seen(KnownUser(userRecordName: "_eve")) == ["_alice"])
    #expect([alice, bob, carol, dave].map { world.state.isManaged(by: $0) } == [true, true, false, false])
  }
}
