// Resolves names of hosts that strangers have chosen, beside the thread of a client's transfers.

import CCurl
import Glibc
import Synchronization

/// Looks names up on threads of its own. When a transfer ends before its name is resolved, libcurl waits for the name,
/// and all other transfers of the client with it. A stranger's name server could stop the client in this way.
///
/// Names under way are bounded, in all and for each party. Addresses are remembered for a minute.
public final class NameResolver: Sendable {
  /// The addresses of a name, of four or sixteen bytes each; none if the name is unknown. Blocks its thread.
  public typealias Lookup = @Sendable (_ name: String) -> [[UInt8]]
  typealias Answer = @Sendable (Result<[String], HTTPClientError>) -> Void

  static let threadLimit = 16
  static let threadsPerParty = 2
  static let waitingLimit = 1000
  static let waitingPerParty = 64
  private static let memory = Duration.seconds(60)
  private static let memoryLimit = 1000

  /// A name under way. It counts for one of the parties that ask for it.
  private struct Question {
    var parties: [String?]
    var latest: ContinuousClock.Instant
    var answers: [Answer]
  }

  private struct State {
    var questions: [String: Question] = [:]
    /// Names that no thread has taken yet, oldest first.
    var waiting: [String] = []
    var running: [String?: Int] = [:]
    var threadCount = 0
    var known: [String: (addresses: [String], end: ContinuousClock.Instant)] = [:]
  }

  /// The longest time that a request waits for its name.
  let limit: Duration
  private let reach: HTTPClient.Reach
  private let lookup: Lookup
  private let state = Mutex(State())

  /// - Parameters:
  ///   - reach: the addresses that count.
  ///   - limit: the longest time that a request waits for its name.
  public init(
    reach: HTTPClient.Reach, limit: Duration = .seconds(3), lookup: @escaping Lookup = NameResolver.systemLookup
  ) {
    self.reach = reach
    self.limit = limit
    self.lookup = lookup
  }

  /// Tells the addresses of a name as texts, on any thread; never an empty list. Tells nothing once the last request
  /// for the name has waited for `limit`.
  /// - Parameter party: on whose behalf the name is resolved; each has its share of the threads.
  func ask(_ name: String, for party: String?, _ answer: @escaping Answer) {
    let now = ContinuousClock.now
    let told: Result<[String], HTTPClientError>? = state.withLock { state in
      if let known = state.known[name], now < known.end { return .success(known.addresses) }
      if state.questions[name] != nil {
        state.questions[name]?.parties.append(party)
        state.questions[name]?.latest = now
        state.questions[name]?.answers.append(answer)
      } else {
        guard hasRoom(for: party, now, &state) else { return .failure(.tooManyNames) }
        state.questions[name] = Question(parties: [party], latest: now, answers: [answer])
        state.waiting.append(name)
      }
      startThread(&state)
      return nil
    }
    if let told { answer(told) }
  }

  private func hasRoom(for party: String?, _ now: ContinuousClock.Instant, _ state: inout State) -> Bool {
    dropLate(now, &state)
    let own = state.waiting.count { state.questions[$0]?.parties.contains(party) == true }
    return state.waiting.count < Self.waitingLimit && (party == nil || own < Self.waitingPerParty)
  }

  /// Forgets names for which no request waits any more.
  private func dropLate(_ now: ContinuousClock.Instant, _ state: inout State) {
    state.waiting.removeAll { name in
      guard let question = state.questions[name], question.latest + limit <= now else { return false }
      state.questions[name] = nil
      return true
    }
  }

  /// The failure of a request that has waited for its name until its time was over.
  func lateness(of name: String) -> HTTPClientError {
    state.withLock { state in
      // A name without a question was dropped before a thread took it, or is being told just now.
      guard let question = state.questions[name] else { return .tooManyNames }
      let isTaken = !state.waiting.contains(name)
      let mayBeTaken = state.threadCount < Self.threadLimit && question.parties.contains { hasThread($0, state) }
      return isTaken || mayBeTaken ? .lateName : .tooManyNames
    }
  }

  // MARK: Threads

  /// Starts a thread if it has a name to resolve. A thread that ends a name takes the next one.
  private func startThread(_ state: inout State) {
    guard state.threadCount < Self.threadLimit, next(of: state) != nil else { return }
    let context = Unmanaged.passRetained(self)
    guard LoopThread.start(resolverThread, with: context.toOpaque()) == 0 else {
      // Dropped because a thread that runs takes the name, or the request fails by its limit.
      return context.release()
    }
    state.threadCount += 1
  }

  /// The oldest name with a party that has a thread left.
  private func next(of state: State) -> (index: Int, party: String?)? {
    for (index, name) in state.waiting.enumerated() {
      guard let question = state.questions[name] else { continue }
      for party in question.parties where hasThread(party, state) { return (index, party) }
    }
    return nil
  }

  /// True when a party has not all threads of its share.
  private func hasThread(_ party: String?, _ state: State) -> Bool {
    party == nil || state.running[party, default: 0] < Self.threadsPerParty
  }

  fileprivate func run() {
    while let (name, party) = take() {
      let addresses = lookup(name).filter { reach == .everywhere || PublicAddress.isPublic($0) }.compactMap(Self.text)
      let answers = state.withLock { state in
        state.running[party] = state.running[party].flatMap { $0 > 1 ? $0 - 1 : nil }
        if !addresses.isEmpty {
          if state.known.count >= Self.memoryLimit { state.known.removeAll() }
          state.known[name] = (addresses, ContinuousClock.now + Self.memory)
        }
        return state.questions.removeValue(forKey: name)?.answers ?? []
      }
      for answer in answers { answer(addresses.isEmpty ? .failure(.unknownName) : .success(addresses)) }
    }
  }

  /// nil: nothing is left for the thread.
  private func take() -> (name: String, party: String?)? {
    state.withLock { state in
      dropLate(ContinuousClock.now, &state)
      guard let (index, party) = next(of: state) else {
        state.threadCount -= 1
        return nil
      }
      state.running[party, default: 0] += 1
      return (state.waiting.remove(at: index), party)
    }
  }

  // MARK: Addresses

  private static func text(_ address: [UInt8]) -> String? {
    let family = address.count == 4 ? AF_INET : AF_INET6
    var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    guard inet_ntop(family, address, &text, socklen_t(text.count)) != nil else { return nil }
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Asks the system's resolver.
  public static let systemLookup: Lookup = { name in
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var list: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(name, nil, &hints, &list) == 0 else { return [] }
    defer { freeaddrinfo(list) }
    var addresses: [[UInt8]] = []
    var entry = list
    while let found = entry?.pointee {
      let bytes = UnsafeRawBufferPointer(start: found.ai_addr, count: Int(found.ai_addrlen))
      // Behind the family and the port, and in version 6 the flow.
      let range = found.ai_family == AF_INET ? 4..<8 : 8..<24
      if [AF_INET, AF_INET6].contains(found.ai_family), range.upperBound <= bytes.count {
        addresses.append(Array(bytes[range]))
      }
      entry = found.ai_next
    }
    return addresses
  }
}

extension HTTPClientError {
  fileprivate static let unknownName = HTTPClientError(
    kind: .unreachable, reason: "The host's name has no address that may be used.")
  static let tooManyNames = HTTPClientError(
    kind: .crowded, reason: "Too many names of hosts are being resolved.")
  static let lateName = HTTPClientError(kind: .unreachable, reason: "The host's name was not resolved in time.")
}

/// The host of a URL, as libcurl reads it, if a resolver has to look it up.
struct NamedHost {
  let name: String
  private let port: String

  /// nil for an address, and for a URL that libcurl refuses.
  init?(url: String) {
    guard let parts = curl_url() else { return nil }
    defer { curl_url_cleanup(parts) }
    func part(_ part: CURLUPart, _ flags: UInt32) -> String? {
      var text: UnsafeMutablePointer<CChar>?
      guard curl_url_get(parts, part, &text, flags) == CURLUE_OK, let text else { return nil }
      defer { curl_free(text) }
      return String(cString: text)
    }
    guard curl_url_set(parts, CURLUPART_URL, url, UInt32(CURLU_GUESS_SCHEME)) == CURLUE_OK,
      let name = part(CURLUPART_HOST, 0), let port = part(CURLUPART_PORT, UInt32(CURLU_DEFAULT_PORT))
    else { return nil }
    var address = in_addr()
    if name.hasPrefix("[") || inet_pton(AF_INET, name, &address) == 1 { return nil }
    (self.name, self.port) = (name, port)
  }

  /// False for a name that libcurl spells otherwise before it looks it up.
  var isPlain: Bool { name.utf8.allSatisfy { $0 < 0x80 } }

  /// What `CURLOPT_RESOLVE` takes: an entry for as long as libcurl remembers any. It may leave a last dot out.
  func entries(_ addresses: [String]) -> [String] {
    let list = addresses.map { $0.contains(":") ? "[\($0)]" : $0 }.joined(separator: ",")
    let names = name.hasSuffix(".") ? [name, String(name.dropLast())] : [name]
    return names.map { "+\($0):\(port):\(list)" }
  }
}

private func resolverThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  if let context { Unmanaged<NameResolver>.fromOpaque(context).takeRetainedValue().run() }
  return nil
}
