// Which zones of an owner came and went for a participant: decided by the sequences at which his memberships began and ended.

import Sharing

/// What is to be told between two of an owner's sequences.
struct GuestNews: Hashable, Sendable {
  /// Zones that are there no more, or not as they were; ascending.
  let left: [String]
  /// Zones that are told from their beginnings.
  let joined: Set<String>

  /// Zones of which a membership ended after a sequence, ascending: for a client without a token, which may have what was there.
  static func left(_ members: [ShareMember], since known: Int64) -> [String] {
    Set(members.filter { $0.until.map { $0 > known } ?? false }.map(\.zoneName)).sorted()
  }

  var isEmpty: Bool { left.isEmpty && joined.isEmpty }

  /// - Parameters:
  ///   - members: all of one user, ended ones too.
  ///   - known: what happened up to it was told.
  ///   - last: what happened after it is told another time.
  init(_ members: [ShareMember], since known: Int64, through last: Int64) {
    var left: Set<String> = []
    var joined: Set<String> = []
    let access = Dictionary(grouping: members, by: \.zoneName).mapValues { ZoneAccess($0) }
    for member in members {
      if let until = member.until {
        // Also one that began in between: the client may have got a page that told of it, and not its token.
        if until > known, until <= last { left.insert(member.zoneName) }
      } else if member.since > known, member.since <= last, access[member.zoneName]?.mayRead == true {
        joined.insert(member.zoneName)
      }
    }
    // Of several hierarchies of a zone one may end: what is left of it is told anew.
    joined.formUnion(left.filter { access[$0].map { $0.mayRead && $0.since <= last } ?? false })
    self.left = left.sorted()
    self.joined = joined
  }
}
