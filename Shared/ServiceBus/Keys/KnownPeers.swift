// The keys that an installation admits to its bus: the key identifies a process, regardless of its announcement.

import CZeroMQ

/// A process that may use the bus, and the key that proves its identity.
public struct KnownPeer: Hashable, Sendable, CustomStringConvertible {
  public let role: Role
  public let name: String
  /// 40 characters of Z85.
  public let publicKey: String

  public init(role: Role, name: String, publicKey: String) {
    self.role = role
    self.name = name
    self.publicKey = publicKey
  }

  /// The process's line in the file of known peers.
  public var description: String { "\(role.rawValue) \(name) \(publicKey)" }

  func isThe(_ peer: Peer) -> Bool { peer.name == name && peer.role == role }
}

/// All processes that may use the bus. A process has several keys while one replaces another.
public struct KnownPeers: Sendable, Equatable {
  /// In the file's order.
  public let all: [KnownPeer]
  private let byKey: [String: KnownPeer]

  /// Reads the file of known peers: one line per key with role, name and public key, separated by spaces. Empty lines
  /// and lines that begin with `#` are skipped.
  /// - Throws: `BusError.refused` with the number of the first invalid line and the reason.
  public init(parsing text: String) throws(BusError) {
    var all: [KnownPeer] = []
    var byKey: [String: KnownPeer] = [:]
    var roles: [String: Role] = [:]
    for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
      let words = line.split(whereSeparator: \.isWhitespace)
      guard let first = words.first, !first.hasPrefix("#") else { continue }
      guard words.count == 3, let role = Role(rawValue: String(first)), Self.isKey(words[2]) else {
        throw BusError(
          .refused,
          """
          line \(index + 1) is not a role (\(Role.allCases.map(\.rawValue).joined(separator: ", "))), a name and a \
          public key
          """
        )
      }
      let peer = KnownPeer(role: role, name: String(words[1]), publicKey: String(words[2]))
      if let other = byKey[peer.publicKey] {
        throw BusError(
          .refused, "line \(index + 1) repeats the key of \(other.name): each process has a key of its own")
      }
      if let other = roles[peer.name], other != role {
        throw BusError(.refused, "line \(index + 1) calls a \(role.rawValue) by the name of a \(other.rawValue)")
      }
      all.append(peer)
      byKey[peer.publicKey] = peer
      roles[peer.name] = role
    }
    self.all = all
    self.byKey = byKey
  }

  public subscript(publicKey: String) -> KnownPeer? { byKey[publicKey] }

  /// The processes that `destination` may lead to, in the file's order.
  func peers(at destination: Destination) -> [KnownPeer] {
    switch destination {
    case .peer(let name): all.filter { $0.name == name }
    case .role(let role): all.filter { $0.role == role }
    }
  }

  /// True if libzmq accepts the text as a key.
  static func isKey(_ text: Substring) -> Bool {
    guard text.utf8.count == BusKeyPair.textByteCount, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
      return false
    }
    var bytes = [UInt8](repeating: 0, count: ZAPHandler.keyByteCount)
    return zmq_z85_decode(&bytes, String(text)) != nil
  }
}

/// The keys of a private bus: this process's own, and those that it admits.
public struct BusKeys: Sendable {
  public let own: BusKeyPair
  public var known: KnownPeers

  public init(own: BusKeyPair, known: KnownPeers) {
    self.own = own
    self.known = known
  }
}
