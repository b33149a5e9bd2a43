// The definition of an attack, and the table of all attacks.

/// An attempt to slow other users down or to end a process.
struct Attack: Sendable {
  typealias Work = @Sendable () async throws -> Void

  let name: String
  /// A clause that describes the attack.
  let what: String
  /// Prepares the attack, which is not measured. Returns the attack itself, which runs until the scene is over.
  let prepare: @Sendable (Scene) async throws -> Work

  static let all: [Attack] = connections + bodies + expensive + shared + accounts + flooding
}
