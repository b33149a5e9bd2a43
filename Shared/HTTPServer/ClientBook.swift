// Who takes how much of a server: connections, and memory of bodies and answers, so that nobody takes all of it.

internal import Glibc
internal import Synchronization

/// What one client commands of the internet: an address of IPv4, a /64 of IPv6.
struct ClientNetwork: Hashable, Sendable {
  private let bits: UInt64
  private let isIPv4: Bool

  /// - Parameter address: as text; whatever is none is one network.
  init(_ address: String) {
    let bytes = NetworkList.bytes(address) ?? []
    bits = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    isIPv4 = bytes.count == 4
  }
}

/// What a server refuses a client for want of room; the raw value is the metric's label.
public enum ClientRefusal: String, Sendable, CaseIterable {
  /// The client has as many connections, or behind a proxy requests, as it may.
  case connections
  /// Bodies that are being received, of the client.
  case clientBodies = "client-bodies"
  /// … of all.
  case allBodies = "all-bodies"
  /// Answers that were not taken yet, of the client.
  case clientAnswers = "client-answers"
  /// … of all.
  case allAnswers = "all-answers"
}

/// The accounts of all that have something of the server in hand. A client without anything has none.
final class ClientBook: Sendable {
  struct Limits: Sendable {
    /// Connections of one network; nil: any number.
    var connections: Int?
    /// Bytes of bodies that are being received, until their requests are over.
    var bodies: (client: Int, total: Int)
    /// Bytes of answers until they are sent.
    var answers: (client: Int, total: Int)
  }

  /// Who pays for what is in hand.
  enum Payer: Hashable, Sendable {
    case network(ClientNetwork)
    /// Whom the handler named: a user, whatever addresses his devices have.
    case party(String)
  }

  fileprivate struct Account {
    var connections = 0
    /// Connections beyond those in the second that begins there, on the clock of `monotonicMilliseconds`.
    var surplus = (count: 0, since: Int64(0))
    var bodies = 0
    var answers = 0
    var isEmpty: Bool { connections == 0 && bodies == 0 && answers == 0 }
  }

  fileprivate struct State {
    var accounts: [Payer: Account] = [:]
    var bodies = 0
    var answers = 0
    var refused: [ClientRefusal: Int] = [:]
  }

  private let limits: Limits
  private let state = Mutex(State())

  /// Connections beyond the limit that are answered in a second, of one network.
  static let answeredSurplus = 256

  init(_ limits: Limits) { self.limits = limits }

  var refused: [ClientRefusal: Int] { state.withLock(\.refused) }
  var held: (bodies: Int, answers: Int) { state.withLock { ($0.bodies, $0.answers) } }

  /// Whether a connection of the network is worth an answer, be it that there are too many. To answer costs more than to connect, and whoever knocks
  /// meanwhile waits for it: of a network that goes on all the same only so many a second are.
  func mayKnock(_ network: ClientNetwork, at now: Int64) -> Bool {
    guard let limit = limits.connections else { return true }
    return state.withLock { state in
      guard let index = state.accounts.index(forKey: .network(network)), state.accounts.values[index].connections >= limit else { return true }
      if now - state.accounts.values[index].surplus.since >= 1000 { state.accounts.values[index].surplus = (0, now) }
      state.accounts.values[index].surplus.count += 1
      guard state.accounts.values[index].surplus.count > Self.answeredSurplus else { return true }
      state.refused[.connections, default: 0] += 1
      return false
    }
  }

  /// Counts a connection, or a request that came through a proxy.
  /// - Returns: false when the network has as many as it may; nothing is counted then.
  func connect(_ network: ClientNetwork) -> Bool {
    state.withLock { state in
      let count = state.accounts[.network(network)]?.connections ?? 0
      if let limit = limits.connections, count >= limit {
        state.refused[.connections, default: 0] += 1
        return false
      }
      state.accounts[.network(network), default: Account()].connections = count + 1
      return true
    }
  }

  func disconnect(_ network: ClientNetwork) { state.withLock { $0.change(.network(network)) { $0.connections -= 1 } } }

  /// Counts `count` more bytes of a body.
  /// - Returns: why not, and nothing is counted then.
  func takeBody(_ count: Int, _ payers: [Payer]) -> ClientRefusal? {
    state.withLock { state in
      var refusal: ClientRefusal?
      if state.bodies + count > limits.bodies.total { refusal = .allBodies }
      for payer in payers where (state.accounts[payer]?.bodies ?? 0) + count > limits.bodies.client { refusal = .clientBodies }
      if let refusal {
        state.refused[refusal, default: 0] += 1
        return refusal
      }
      state.bodies += count
      for payer in payers { state.accounts[payer, default: Account()].bodies += count }
      return nil
    }
  }

  func giveBackBody(_ count: Int, _ payers: [Payer]) {
    guard count > 0 else { return }
    state.withLock { state in
      state.bodies -= count
      for payer in payers { state.change(payer) { $0.bodies -= count } }
    }
  }

  /// Room for an answer, given back with the value.
  func takeAnswer(_ count: Int, _ payer: Payer) -> Result<AnswerRoom, ClientRefusal> {
    let refusal: ClientRefusal? = state.withLock { state in
      let own = (state.accounts[payer]?.answers ?? 0) + count
      let refusal: ClientRefusal? = own > limits.answers.client ? .clientAnswers : state.answers + count > limits.answers.total ? .allAnswers : nil
      if let refusal {
        state.refused[refusal, default: 0] += 1
        return refusal
      }
      state.answers += count
      state.accounts[payer, default: Account()].answers = own
      return nil
    }
    if let refusal { return .failure(refusal) }
    return .success(
      AnswerRoom { [self] in
        state.withLock { state in
          state.answers -= count
          state.change(payer) { $0.answers -= count }
        }
      })
  }
}

extension ClientBook.State {
  fileprivate mutating func change(_ payer: ClientBook.Payer, _ change: (inout ClientBook.Account) -> Void) {
    guard let index = accounts.index(forKey: payer) else { return }
    change(&accounts.values[index])
    if accounts.values[index].isEmpty { accounts.remove(at: index) }
  }
}

extension ClientRefusal: Error {}

/// An answer's room among those that are in hand.
final class AnswerRoom: Sendable {
  private let giveBack: @Sendable () -> Void
  fileprivate init(_ giveBack: @escaping @Sendable () -> Void) { self.giveBack = giveBack }
  deinit { giveBack() }
}
