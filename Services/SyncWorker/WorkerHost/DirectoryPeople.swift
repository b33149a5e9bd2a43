// Finds people in the share service's directory.

import Records
import ServiceBus
import ServiceKit
import Sharing
import ZoneCommit

/// Asks the share service.
struct DirectoryPeople: PeopleSource {
  let bus: any Bus
  let log: Log

  private static let deadline = Duration.seconds(2)

  func users(_ lookups: [LookupInfo]) async throws(RecordError) -> [KnownUser?] {
    var users: [KnownUser?] = []
    while users.count < lookups.count {
      users += try await page(Array(lookups[users.count...].prefix(IdentifyUsers.countLimit)))
    }
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
      guard reply.users.count == lookups.count else {
        throw BusError(.internalError, "the reply has other users than the request")
      }
      return reply.users.map { user in
        user.map {
          KnownUser(
            userRecordName: $0.userRecordName, givenName: $0.givenName, familyName: $0.familyName,
            emailAddress: $0.emailAddress, phoneNumber: $0.phoneNumber,
            isDiscoverable: $0.isDiscoverable ?? false)
        }
      }
    } catch {
      log.warning(
        "the directory does not answer; nobody can be invited or recognised", ["code": .text(error.code.rawValue)])
      throw RecordError(.tryAgainLater, "The directory does not answer: people can't be looked up", retryAfter: 1)
    }
  }
}
