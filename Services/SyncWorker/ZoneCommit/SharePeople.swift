// Looks up the people that requests about shares name, in the directory.

package import Records
import ServiceBus
import ServiceKit
package import Sharing

/// Finds users, including undiscoverable ones.
package protocol PeopleSource: Sendable {
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

/// The people of one request about shares.
package struct SharePeople: Sendable {
  package let owner: KnownUser
  package let caller: KnownUser
  /// Users that the request names.
  package var found: [LookupInfo: KnownUser] = [:]
  /// True when the directory was asked; without it, no invitation is possible.
  package let isComplete: Bool

  /// The people without a lookup.
  package init(owner: String, caller: String) {
    self.owner = KnownUser(userRecordName: owner)
    self.caller = KnownUser(userRecordName: caller)
    isComplete = false
  }

  package init(owner: String, caller: String, looking lookups: [LookupInfo], in source: any PeopleSource)
    async throws(RecordError)
  {
    let asked = [.recordName(owner), .recordName(caller)] + Set(lookups).sorted { "\($0)" < "\($1)" }
    let users = try await source.users(asked)
    self.owner = users.first.flatMap(\.self) ?? KnownUser(userRecordName: owner)
    self.caller = users.dropFirst().first.flatMap(\.self) ?? KnownUser(userRecordName: caller)
    for (lookup, user) in zip(asked, users) { found[lookup] = user }
    isComplete = true
  }
}
