// Names the revisions of registrations: a directory that lost its last changes gives their revisions out again.

import MessagePack
import ServiceKit

/// The revisions that one connection gives out. Each connection begins anew, because it may have found an earlier copy
/// of the directory.
struct RegistrationIncarnation: Hashable, Codable {
  /// Random.
  let name: String
  /// The incarnation before this one; nil if there was none.
  let former: String?
  /// The highest revision of the former that the directory had when this one began. Other numbers of the directory's
  /// counter tell nothing: they also pass revisions that were lost.
  let begin: Int64

  /// True if the directory has all changes up to a revision of an incarnation.
  /// - Parameters:
  ///   - incarnation: nil from an earlier release, which names none.
  ///   - current: nil in a directory that has named none yet.
  static func has(_ revision: Int64, of incarnation: String?, in current: RegistrationIncarnation?) -> Bool {
    guard let incarnation else { return true }
    guard let current else { return false }
    return incarnation == current.name || incarnation == current.former && revision <= current.begin
  }
}

extension Directory {
  private static let incarnationName = "registrationIncarnation"

  func registrationIncarnation() throws -> RegistrationIncarnation? {
    try DirectoryFormat.value(Self.incarnationName, in: connection).map {
      try MessagePackDecoder().decode(RegistrationIncarnation.self, from: $0)
    }
  }

  /// The highest revision of the registrations and of their ends; 0 if there are none.
  func latestRegistrationRevision() throws -> Int64 {
    try max(
      count("SELECT max(revision) FROM pushRegistration"), count("SELECT max(revision) FROM pushRegistrationEnd"))
  }

  /// The next revision of a registration; within a change.
  func nextRegistrationRevision() throws -> Int64 {
    try settleRegistrationIncarnation()
    return try DirectoryFormat.nextVersion(in: connection)
  }

  /// Begins this connection's incarnation unless that is stored; within a change that gives revisions out, before it
  /// removes any.
  func settleRegistrationIncarnation() throws {
    let own: String
    if let known = ownIncarnation, known.connectionCount == store.connectionCount {
      own = known.name
    } else {
      own = random.hex(byteCount: 8)
      ownIncarnation = (own, store.connectionCount)
    }
    let stored = try registrationIncarnation()
    if stored?.name == own { return }
    let incarnation = RegistrationIncarnation(name: own, former: stored?.name, begin: try latestRegistrationRevision())
    try DirectoryFormat.set(Self.incarnationName, try MessagePackEncoder().encode(incarnation), in: connection)
  }
}
