// The zones that an owner's database gains and loses for a participant, from the sequences of the memberships.

package import Sharing

/// The zones to announce between two sequences of an owner's database.
package struct GuestNews: Hashable, Sendable {
  /// Zones that are gone or have shrunk for the user, ascending.
  package let left: [String]
  /// Zones that are told from their beginnings.
  package let joined: Set<String>

  /// Zones with a membership that ended after `known`, ascending. A client without a token may still hold their
  /// records.
  package static func left(_ members: [ShareMember], since known: Int64) -> [String] {
    Set(members.filter { $0.until.map { $0 > known } ?? false }.map(\.zoneName)).sorted()
  }

  package var isEmpty: Bool { left.isEmpty && joined.isEmpty }

  /// - Parameters:
  ///   - members: all of one user, ended ones too.
  ///   - known: everything up to this sequence has been told.
  ///   - last: everything after this sequence is told later.
  package init(_ members: [ShareMember], since known: Int64, through last: Int64) {
    var left: Set<String> = []
    var joined: Set<String> = []
    let access = Dictionary(grouping: members, by: \.zoneName).mapValues { ZoneAccess($0) }
    for member in members {
      if let until = member.until {
        // Includes a membership that began in between: the client may have got a page of it without keeping the token.
        if until > known, until <= last { left.insert(member.zoneName) }
      } else if member.since > known, member.since <= last, access[member.zoneName]?.mayRead == true {
        joined.insert(member.zoneName)
      }
    }
    // When one of several hierarchies of a zone ends, the remaining ones are told anew.
    joined.formUnion(left.filter { access[$0].map { $0.mayRead && $0.since <= last } ?? false })
    self.left = left.sorted()
    self.joined = joined
  }
}
