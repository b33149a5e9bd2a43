// Looks up the people that requests about shares name, in the directory.

import Records
import ServiceBus
import ServiceKit
import Sharing

/// Finds users, including undiscoverable ones.
protocol PeopleSource: Sendable {
  /// One result per lookup, in order; nil: no such user.
  /// - Throws: `TRY_AGAIN_LATER` while the directory is away.
  func users(_ lookups: [LookupInfo]) async throws(RecordError) -> [KnownUser?]
}

/// For a plane without a directory: every record name is a user, and no user has an address.
struct NoDirectory: PeopleSource {
  func users(_ lookups: [LookupInfo]) async throws(RecordError) -> [KnownUser?] {
    lookups.map { if case .recordName(let name) = $0 { KnownUser(userRecordName: name) } else { nil } }
  }
}

/// Asks the share service.
struct DirectoryPeople: PeopleSource {
  let bus: any Bus
  let log: Log

  private static let deadline = Duration.seconds(2)

  func users(_ lookups: [LookupInfo]) async throws(RecordError) -> [KnownUser?] {
    var users: [KnownUser?] = []
    while users.count < lookups.count { users += try await page(Array(lookups[users.count...].prefix(IdentifyUsers.countLimit))) }
    return users
  }

  private func page(_ lookups: [LookupInfo]) async throws(RecordError) -> [KnownUser?] {
    let asked = lookups.map { lookup in
      switch lookup {
      case .email(let address): DiscoverUsers.Lookup(emailAddress: address)
      case .phone(let number): DiscoverUsers.Lookup(phoneNumber: number)
      case .recordName(let name): DiscoverUsers.Lookup(userRecordName: name)
      }
    }
    do throws(BusError) {
      let reply = try await bus.call(IdentifyUsers(lookups: asked), to: .role(.share), within: Self.deadline)
      guard reply.users.count == lookups.count else { throw BusError(.internalError, "other users than were asked about") }
      return reply.users.map { user in
        user.map {
          KnownUser(
            userRecordName: $0.userRecordName, givenName: $0.givenName, familyName: $0.familyName, emailAddress: $0.emailAddress, phoneNumber: $0.phoneNumber,
            isDiscoverable: $0.isDiscoverable ?? false)
        }
      }
    } catch {
      log.warning("the directory does not answer; nobody can be invited or recognised", ["code": .text(error.code.rawValue)])
      throw RecordError(.tryAgainLater, "The directory does not answer: people can't be looked up", retryAfter: 1)
    }
  }
}

/// The people of one request about shares.
struct SharePeople: Sendable {
  let owner: KnownUser
  let caller: KnownUser
  /// Users that the request names.
  var found: [LookupInfo: KnownUser] = [:]
  /// True when the directory was asked; without it, no invitation is possible.
  let isComplete: Bool

  /// The people without a lookup.
  init(owner: String, caller: String) {
    self.owner = KnownUser(userRecordName: owner)
    self.caller = KnownUser(userRecordName: caller)
    isComplete = false
  }

  init(owner: String, caller: String, looking lookups: [LookupInfo], in source: any PeopleSource) async throws(RecordError) {
    let asked = [.recordName(owner), .recordName(caller)] + Set(lookups).sorted { "\($0)" < "\($1)" }
    let users = try await source.users(asked)
    self.owner = users.first.flatMap(\.self) ?? KnownUser(userRecordName: owner)
    self.caller = users.dropFirst().first.flatMap(\.self) ?? KnownUser(userRecordName: caller)
    for (lookup, user) in zip(asked, users) { found[lookup] = user }
    isComplete = true
  }
}
