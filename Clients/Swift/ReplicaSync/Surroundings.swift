// What mirroring takes from outside: time, chance, and a place for its log lines.

package import FoundationEssentials

/// Tests pass their own.
package struct Surroundings: Sendable {
  package var now: @Sendable () -> Date
  package var makeUUID: @Sendable () -> UUID
  package var sleep: @Sendable (Duration) async throws -> Void
  /// Takes a line without a line end. It never has a value of an object, a token or an address of content.
  package var log: @Sendable (LogLevel, String) -> Void

  package init(
    now: @escaping @Sendable () -> Date, makeUUID: @escaping @Sendable () -> UUID,
    sleep: @escaping @Sendable (Duration) async throws -> Void, log: @escaping @Sendable (LogLevel, String) -> Void
  ) {
    self.now = now
    self.makeUUID = makeUUID
    self.sleep = sleep
    self.log = log
  }

  /// The system's, with a log that says nothing.
  package static let system = Surroundings(
    now: { Date.now }, makeUUID: { .random() }, sleep: { try await Task.sleep(for: $0) }, log: { _, _ in })

  /// A seed of jitter.
  package func makeSeed() -> UInt64 {
    withUnsafeBytes(of: makeUUID().uuid) { $0.loadUnaligned(as: UInt64.self) }
  }
}
