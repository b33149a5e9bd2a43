// What an attack is, and the table of all.

/// Somebody's way of making others wait, or of ending a process.
struct Attack: Sendable {
  typealias Work = @Sendable () async throws -> Void

  let name: String
  /// One clause for people.
  let what: String
  /// Makes what the attack needs, unmeasured, and answers the attack itself, which goes on until the scene is over.
  let prepare: @Sendable (Scene) async throws -> Work

  static let all: [Attack] = connections + bodies + expensive + shared + accounts + flooding
}
