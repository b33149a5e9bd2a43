// The keys of a test's installation, and buses that use them.

import ServiceBus
import Testing

/// A key for each process of an installation, and one for a stranger.
struct Keyring: Sendable {
  let pairs: [String: BusKeyPair]
  let roles: [String: Role]

  init(_ roles: [String: Role] = ["a": .gateway, "b": .worker, "c": .worker]) throws {
    self.roles = roles
    pairs = try roles.mapValues { _ in try BusKeyPair.generate() }
  }

  func pair(_ name: String) throws -> BusKeyPair { try #require(pairs[name]) }

  func line(_ name: String, _ role: Role? = nil, key: BusKeyPair? = nil) throws -> String {
    "\(KnownPeer(role: try role ?? #require(roles[name]), name: name, publicKey: try (key ?? pair(name)).publicKey))\n"
  }

  /// The list of all processes except `left`, with further lines.
  func known(without left: Set<String> = [], and lines: String...) throws -> KnownPeers {
    try KnownPeers(
      parsing: try roles.keys.filter { !left.contains($0) }.sorted().map { try line($0) }.joined() + lines.joined())
  }

  func keys(of name: String, _ known: KnownPeers? = nil) throws -> BusKeys {
    BusKeys(own: try pair(name), known: try known ?? self.known())
  }
}

/// The events of a bus.
final class Events: Sendable {
  private let events = Guarded<[BusEvent]>([])

  var all: [BusEvent] { events.value }
  func configuration(_ keys: BusKeys?) -> BusConfiguration {
    var configuration = BusConfiguration()
    configuration.keys = keys
    configuration.observe = { [events] event in events.change { $0.append(event) } }
    return configuration
  }

  func waitFor(_ isMeant: (BusEvent) -> Bool) async { await eventually { all.contains(where: isMeant) } }

  /// Waits for a failed handshake whose reason contains the text.
  func waitForFailedHandshake(_ text: String) async {
    await waitFor { if case .failedHandshake(_, let reason) = $0 { reason.contains(text) } else { false } }
  }
}

extension Fabric {
  /// A bus with keys, over tcp, that serves the test messages.
  func station(
    _ name: String, _ role: Role, keys: BusKeys?, endpoint: String? = nil, incarnation: UInt64? = nil,
    events: Events = Events()
  ) throws -> Station {
    try station(name, role, endpoint: endpoint, incarnation: incarnation, configuration: events.configuration(keys))
  }
}
