// Counts the connections and memory that each client takes, so that no client takes all of them.

internal import Synchronization

/// A limit that made the server refuse a client. The raw value is the metric's label.
public enum ClientRefusal: String, Sendable, CaseIterable {
  /// The client has the most connections (or, behind a proxy, requests) that it may have.
  case connections
  /// The client's bodies in progress take the most memory that they may.
  case clientBodies = "client-bodies"
  /// All bodies in progress take the most memory that they may.
  case allBodies = "all-bodies"
  /// The client's unsent answers take the most memory that they may.
  case clientAnswers = "client-answers"
  /// All unsent answers take the most memory that they may.
  case allAnswers = "all-answers"
}

/// One account for each payer that holds connections or memory of the server. Empty accounts are removed.
final class ClientBook: Sendable {
  struct Limits: Sendable {
    /// The connections of one network; nil for any number.
    var connections: Int?
    /// Bytes of request bodies, until their requests are over.
    var bodies: (client: Int, total: Int)
    /// Bytes of answers, until they are sent.
    var answers: (client: Int, total: Int)
  }

  /// The account that connections and memory are charged to.
  enum Payer: Hashable, Sendable {
    case network(ClientNetwork)
    /// A party that the handler named: a user, whatever addresses their devices have.
    case party(String)
  }

  fileprivate struct Account {
    var connections = 0
    /// Connections beyond the limit within one second, and that second's start on the clock of `monotonicMilliseconds`.
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

  /// The connections beyond the limit that one network gets an answer on in a second.
  static let answeredSurplus = 256

  init(_ limits: Limits) { self.limits = limits }

  var refused: [ClientRefusal: Int] { state.withLock(\.refused) }
  var held: (bodies: Int, answers: Int) { state.withLock { ($0.bodies, $0.answers) } }

  /// True to accept a connection, if only to refuse its request with an answer. An answer costs more than a
  /// connection and delays other clients, so a network over its limit gets `answeredSurplus` of them a second.
  func mayKnock(_ network: ClientNetwork, at now: Int64) -> Bool {
    guard let limit = limits.connections else { return true }
    return state.withLock { state in
      guard let index = state.accounts.index(forKey: .network(network)),
        state.accounts.values[index].connections >= limit
      else { return true }
      if now - state.accounts.values[index].surplus.since >= 1000 { state.accounts.values[index].surplus = (0, now) }
      state.accounts.values[index].surplus.count += 1
      guard state.accounts.values[index].surplus.count > Self.answeredSurplus else { return true }
      state.refused[.connections, default: 0] += 1
      return false
    }
  }

  /// Counts a connection, or a request that came through a proxy.
  /// - Returns: false when the network has reached its limit; nothing is counted then.
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
  /// - Returns: the limit that forbids it, and then nothing is counted; nil when there is room.
  func takeBody(_ count: Int, _ payers: [Payer]) -> ClientRefusal? {
    state.withLock { state in
      var refusal: ClientRefusal?
      if state.bodies + count > limits.bodies.total { refusal = .allBodies }
      for payer in payers where (state.accounts[payer]?.bodies ?? 0) + count > limits.bodies.client {
        refusal = .clientBodies
      }
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

  /// Reserves room for an answer. Releasing the returned value gives the room back.
  func takeAnswer(_ count: Int, _ payer: Payer) -> Result<AnswerRoom, ClientRefusal> {
    let refusal: ClientRefusal? = state.withLock { state in
      let own = (state.accounts[payer]?.answers ?? 0) + count
      let refusal: ClientRefusal? =
        own > limits.answers.client ? .clientAnswers : state.answers + count > limits.answers.total ? .allAnswers : nil
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

/// The reservation of one answer's memory.
final class AnswerRoom: Sendable {
  private let giveBack: @Sendable () -> Void
  fileprivate init(_ giveBack: @escaping @Sendable () -> Void) { self.giveBack = giveBack }
  deinit { giveBack() }
}
