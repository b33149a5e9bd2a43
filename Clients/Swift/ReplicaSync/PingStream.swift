// Pings: one stream for all stores of a container, opened again whenever it ends.

package import MirrorWire
import FoundationEssentials

/// Hears of changes. Pings are hints: whoever hears one imports, and nothing is lost with one (K17).
package actor PingStream {
  /// A store that listens.
  package struct Listener: Sendable {
    /// A later listener of the same number takes the place of this one.
    package let number: Int
    package let storeIdentifier: String
    package let scope: Ping.Scope
    package let pinged: @Sendable () async -> Void

    package init(
      number: Int, storeIdentifier: String, scope: Ping.Scope, pinged: @escaping @Sendable () async -> Void
    ) {
      self.number = number
      self.storeIdentifier = storeIdentifier
      self.scope = scope
      self.pinged = pinged
    }
  }

  private let account: Account
  private let address: String
  private let transport: any Transport
  private let surroundings: Surroundings
  private var listeners: [Listener] = []
  private var reader: Task<Void, Never>?
  private var backoff: Backoff
  /// Between two attempts.
  private var isWaiting = false

  /// A stream that is silent for longer is closed; the server sends a comment every 25 seconds.
  private static let silence = Duration.seconds(45)
  private static let lineLimit = 1 << 20

  /// - Returns: nil: the account has no notifier.
  package init?(
    account: Account, container: String, environment: String, transport: any Transport, surroundings: Surroundings
  ) {
    guard let notifier = account.notifier else { return nil }
    self.account = account
    address = "\(notifier)/mirror/1/\(ObjectPlane.encoded(container))/\(environment)/pings"
    self.transport = transport
    self.surroundings = surroundings
    backoff = Backoff(seed: surroundings.makeSeed())
  }

  /// Adds a store, and begins a stream that leaves out its own changes, too.
  package func add(_ listener: Listener) {
    listeners.removeAll { $0.number == listener.number }
    listeners.append(listener)
    reader?.cancel()
    reader = Task { await read() }
  }

  /// Tries again at once if the stream waits to be opened again.
  package func reconnect() {
    guard isWaiting else { return }
    reader?.cancel()
    reader = Task { await read() }
  }

  package func stop() async {
    listeners = []
    reader?.cancel()
    await reader?.value
    reader = nil
  }

  private func read() async {
    while !Task.isCancelled {
      isWaiting = false
      let failure = await readOnce()
      if Task.isCancelled { return }
      surroundings.log(.events, "pings ended: \(failure)")
      isWaiting = true
      // Dropped because a cancelled wait ends the loop.
      try? await surroundings.sleep(backoff.failed())
    }
  }

  /// - Returns: why the stream ended.
  private func readOnce() async -> String {
    guard let token = try? account.token() else { return "signed out" }
    let query = listeners.map { "device=" + ObjectPlane.encoded($0.storeIdentifier) }.joined(separator: "&")
    let headers = [(name: "Authorization", value: "Bearer \(token)"), (name: "Accept", value: "text/event-stream")]
    do {
      let stream = try await transport.stream(
        TransportRequest("GET", "\(address)?\(query)", headers: headers), silence: Self.silence)
      guard stream.status == 200 else { return "status \(stream.status)" }
      var lines = EventLines(limit: Self.lineLimit)
      var isConnected = false
      for try await chunk in stream.chunks {
        backoff.succeeded()
        // What changed while nobody listened is imported at each connect.
        if !isConnected { await ping(nil) }
        isConnected = true
        for data in try lines.take(chunk) { await ping(try? Ping(json: data)) }
      }
      return "closed"
    } catch {
      return "\(error)"
    }
  }

  /// - Parameter ping: nil: any store may have missed something.
  private func ping(_ ping: Ping?) async {
    for listener in listeners where ping == nil || ping?.scope == listener.scope { await listener.pinged() }
  }
}

/// The data of a stream of server-sent events.
struct EventLines: Sendable {
  private var rest: [UInt8] = []
  private let limit: Int

  init(limit: Int) { self.limit = limit }

  /// - Returns: the data of the `data:` lines that the piece completes.
  /// - Throws: `WireError` for a line that is too long.
  mutating func take(_ chunk: [UInt8]) throws(WireError) -> [[UInt8]] {
    rest += chunk
    var found: [[UInt8]] = []
    var start = 0
    while let end = rest[start...].firstIndex(of: UInt8(ascii: "\n")) {
      let line = rest[start..<end]
      if line.starts(with: "data:".utf8) { found.append(Array(line.dropFirst(5).drop { $0 == UInt8(ascii: " ") })) }
      start = end + 1
    }
    rest.removeFirst(start)
    if rest.count > limit { throw WireError("a line of the stream of pings is too long") }
    return found
  }
}
