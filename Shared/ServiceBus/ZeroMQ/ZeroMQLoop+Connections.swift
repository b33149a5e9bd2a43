// The connections that a bus keeps: opened once the peer's key is known, and opened anew after a failed handshake.

extension ZeroMQLoop {
  /// The pause after the first failed handshake, in milliseconds; it doubles with each further one, up to the longest.
  private static let firstPause: Int64 = 250
  private static let longestPause: Int64 = 4000
  /// The number of handshakes that may fail without a reason before they are reported: they also fail when the peer
  /// ends.
  private static let silentFailureCount = 3
  private static let keyAdvice = "start this process with --bus-key and --bus-peers"

  func connect(_ connection: BusConnection) {
    guard connection.endpoint != exchange.me.peer.endpoint,
      !dealers.contains(where: { $0.connection.endpoint == connection.endpoint }),
      !awaited.contains(where: { $0.endpoint == connection.endpoint })
    else { return }
    if let reason = Endpoint.refusal(connection.endpoint, hasKeys: keys != nil) {
      return front.configuration.observe(.refusedEndpoint(connection.endpoint, reason: reason))
    }
    open(connection)
  }

  func disconnect(_ endpoint: String) {
    awaited.removeAll { $0.endpoint == endpoint }
    if let index = dealers.firstIndex(where: { $0.connection.endpoint == endpoint }) { close(index) }
  }

  /// Takes another list of keys: links of keys that are no longer listed end, and connections that waited for a key are
  /// opened.
  func admit(_ known: KnownPeers) {
    guard keys != nil else { return }
    keys?.known = known
    exchange.admit(known)
    let outdated = dealers.filter { dealer in dealer.known.map { known[$0.publicKey] != $0 } ?? true }.map(\.connection)
    for connection in outdated { disconnect(connection.endpoint) }
    let again = awaited + outdated
    awaited = []
    for connection in again { open(connection) }
  }

  /// - Parameters:
  ///   - attempt: selects among the peer's keys: it has two while one replaces the other.
  ///   - failureCount: the failed handshakes of the previous socket.
  private func open(_ connection: BusConnection, attempt: Int = 0, failureCount: Int = 0) {
    var known: KnownPeer?
    if let keys {
      let candidates = connection.peer.map { keys.known.peers(at: $0) } ?? []
      guard !candidates.isEmpty else {
        awaited.append(connection)
        let whom = connection.peer?.text ?? "the process there"
        return front.configuration.observe(
          .refusedEndpoint(
            connection.endpoint,
            reason: "--bus-peers has no line for \(whom): this process connects to it when it has one"))
      }
      known = candidates[attempt % candidates.count]
    }
    lastLink += 1
    do throws(BusError) {
      var socketKeys = ZeroMQSocket.Keys.none
      if let keys, let known { socketKeys = .connecting(keys.own, to: known.publicKey) }
      let socket = try ZeroMQSocket(
        .dealer, in: context, front.configuration, keys: socketKeys, monitorName: "\(lastLink)")
      do throws(BusError) {
        try socket.connect(connection.endpoint)
      } catch {
        socket.close()
        throw error
      }
      dealers.append(
        Dealer(
          connection: connection, socket: socket, link: LinkID(number: lastLink), known: known, attempt: attempt,
          failureCount: failureCount))
      updateItems()
    } catch {
      front.configuration.observe(.refusedEndpoint(connection.endpoint, reason: error.reason))
    }
  }

  private func close(_ index: Int) {
    let dealer = dealers.remove(at: index)
    dealer.socket.close()
    leftovers[dealer.link] = nil
    updateItems()
    exchange.linkDown(dealer.link)
  }

  /// A handshake failed. libzmq gives up after some failures, so the socket is replaced after a pause.
  func failed(_ index: Int, _ refusal: ZeroMQSocket.Refusal) {
    dealers[index].failureCount += 1
    let dealer = dealers[index]
    if dealer.retryTime == nil {
      dealers[index].retryTime =
        exchange.now + min(Self.longestPause, Self.firstPause << min(8, dealer.failureCount - 1))
    }
    let reason: String
    switch refusal {
    case .key: reason = "it does not know this process's key: add its line to the --bus-peers there"
    case .mechanism:
      reason =
        keys == nil
        ? "it asks for a key: \(Self.keyAdvice)" : "it has no key, or this process knows another key for it"
    case .silent:
      guard dealer.failureCount >= Self.silentFailureCount else { return }
      // A peer that asks for a key may end before it has said so.
      reason =
        keys == nil
        ? "it ends the connection: if it asks for a key, \(Self.keyAdvice)"
        : "it ends the connection: its key may differ from the one in --bus-peers"
    }
    front.configuration.observe(.failedHandshake(dealer.connection.endpoint, reason: reason))
  }

  /// Lets the next `renewConnections` replace the socket of a link.
  func renew(_ link: LinkID) {
    guard let index = dealers.firstIndex(where: { $0.link == link }), dealers[index].isUp else { return }
    dealers[index].retryTime = exchange.now
  }

  /// Replaces sockets that failed; after a failed handshake the next of the peer's keys is tried.
  func renewConnections() {
    for dealer in dealers where dealer.retryTime.map({ $0 <= exchange.now }) ?? false {
      disconnect(dealer.connection.endpoint)
      let attempt = dealer.isUp ? dealer.attempt : dealer.attempt + 1
      open(dealer.connection, attempt: attempt, failureCount: dealer.failureCount)
    }
  }

  /// Counts a refused connection from outside.
  func refused(_ refusal: ZeroMQSocket.Refusal) {
    exchange.statistics.refusedConnections += 1
    // The ZAP handler reports unknown keys, and a silent connection may be a port scan.
    guard case .mechanism = refusal else { return }
    let reason =
      keys == nil
      ? "it uses a key, or does not speak the bus's protocol" : "it has no key, or takes this process for another"
    front.configuration.observe(.refusedConnection(reason: reason))
  }
}

extension Destination {
  fileprivate var text: String {
    switch self {
    case .peer(let name): name
    case .role(let role): "a \(role.rawValue)"
    }
  }
}
