// w3: many devices listen, one saves, all are pinged and pull the change.

import Glibc
import JSON

/// One user's devices, each with a connection on which it hears pings and one on which it pulls.
struct Fanout: Sendable {
  enum Listening: Sendable {
    /// The web courier's long poll: a request for each ping.
    case courier
    /// An event stream that stays open.
    case stream
  }

  let target: Target
  /// Where each device listens.
  let pings: [(target: Target, request: [UInt8])]
  let listening: Listening
  let feed: Feed
  /// Where the zone's feed is now.
  let token: String
  /// How many saves.
  let roundCount: Int
  /// Nanoseconds until a device that was not told is given up.
  var patience = answerLimit

  struct Outcome: Sendable {
    /// From sending the save until it is answered, until the last device has its ping, and until the last has the change.
    var save = Measurement()
    var lastPing = Measurement()
    var lastPull = Measurement()
  }

  /// Listeners are held for this long before the first save: a poll that is under way can't be seen from here.
  private static let settling: UInt64 = 300_000_000

  /// One save after the other. Blocks.
  /// - Parameter maker: of saves.
  /// - Throws: when a device is not told, or not told again after it did not find the save.
  func run(_ maker: RequestMaker) throws(LoadError) -> Outcome {
    var round = Round(self, maker)
    try round.listen()
    for number in 1...roundCount {
      do throws(LoadError) {
        try round.save()
      } catch {
        throw LoadError(description: "save \(number) of \(roundCount): \(error.description)")
      }
    }
    return round.outcome
  }

  /// The state of all devices.
  private struct Round: ~Copyable {
    let fanout: Fanout
    var maker: RequestMaker
    var outcome = Outcome()
    private var connections = Connections()
    private var tokens: [String]
    private let saver: Int
    /// Pulls that the server put off, and when they are sent again.
    private var putOff: [(due: UInt64, index: Int)] = []

    private var count: Int { fanout.pings.count }
    // Device i listens on connection i and pulls on count + i; the saver comes last.

    init(_ fanout: Fanout, _ maker: RequestMaker) {
      self.fanout = fanout
      self.maker = maker
      tokens = fanout.pings.map { _ in fanout.token }
      for ping in fanout.pings { _ = connections.add(ping.target) }
      for _ in fanout.pings { _ = connections.add(fanout.target) }
      saver = connections.add(fanout.target)
    }

    /// Opens every connection, and returns when every listener may be taken to be held.
    mutating func listen() throws(LoadError) {
      let (count, fanout) = (count, fanout)
      for index in 0..<count {
        connections.send(index, fanout.pings[index].request, isStream: fanout.listening == .stream)
        connections.send(count + index, fanout.feed.request(after: tokens[index], host: fanout.target.host))
      }
      var pulls = Set(0..<count)
      var held = fanout.listening == .stream ? Set(0..<count) : []
      try wait(until: Connections.now() + answerLimit, for: { "\(pulls.count) devices can't pull, \(held.count) can't listen" }) {
        connections, index, event throws(LoadError) in
        switch event {
        case .received where connections.reader(of: index).hasBegun:
          held.remove(index)
          connections.discard(index)
        case .answered where index >= count: pulls.remove(index - count)
        case .answered: connections.send(index, fanout.pings[index].request)
        default: break
        }
        return pulls.isEmpty && held.isEmpty
      }
      try settle()
    }

    /// Nobody saves; pings of what was there before may still come, and are not answered by a pull.
    private mutating func settle() throws(LoadError) {
      let end = Connections.now() + Fanout.settling
      while Connections.now() < end {
        for (index, event) in connections.events(until: end) {
          switch event {
          case .failed(let reason): throw LoadError(description: reason)
          case .answered where index < count: connections.send(index, fanout.pings[index].request)
          case .received: connections.discard(index)
          case .answered: break
          }
        }
      }
    }

    mutating func save() throws(LoadError) {
      maker.advance()
      guard let name = maker.names.first else { return }
      var unanswered = true
      var unpinged = Set(0..<count)
      var unpulled = unpinged
      connections.send(saver, maker.request)
      let start = connections.started(saver)
      let (fanout, count, saver, tokens) = (fanout, count, saver, tokens)
      // What the closure changes; `wait` itself changes this value.
      var told: [Int: String] = [:]
      var (ping, answered) = (Measurement(), Measurement())
      try wait(until: start + fanout.patience, for: { "\(unpinged.count) devices have no ping and \(unpulled.count) not the change" }) {
        connections, index, event throws(LoadError) in
        if index == saver {
          unanswered = false
          answered.add(since: start)
        } else if index >= count {
          let device = index - count
          guard let page = fanout.feed.page(connections.reader(of: index).bytes) else { throw LoadError(description: connections.reader(of: index).beginning) }
          told[device] = page.token
          if connections.reader(of: index).contains(name) {
            unpulled.remove(device)
          } else {
            // The ping was of something before: its own must come, or the run fails.
            unpinged.insert(device)
          }
        } else if case .received = event, !connections.reader(of: index).contains("data:") {
          // A comment that keeps the stream alive, or the beginning of a ping.
          return false
        } else if unpinged.remove(index) != nil {
          if unpinged.isEmpty { ping.add(since: start) }
          connections.send(count + index, fanout.feed.request(after: told[index] ?? tokens[index], host: fanout.target.host))
          if fanout.listening == .courier { connections.send(index, fanout.pings[index].request) } else { connections.discard(index) }
        }
        return !unanswered && unpulled.isEmpty
      }
      outcome.lastPull.add(since: start)
      outcome.lastPing.merge(ping)
      outcome.save.merge(answered)
      for (device, token) in told { self.tokens[device] = token }
      try settle()
    }

    /// Hands on what happens until `body` says that it is over.
    private mutating func wait(
      until deadline: UInt64, for complaint: () -> String, _ body: (inout Connections, Int, Connections.Event) throws(LoadError) -> Bool
    ) throws(LoadError) {
      while true {
        let now = Connections.now()
        guard now < deadline else { throw LoadError(description: complaint()) }
        for (due, index) in putOff where due <= now {
          connections.send(index, fanout.feed.request(after: tokens[index - count], host: fanout.target.host))
        }
        putOff.removeAll { $0.due <= now }
        var isOver = false
        for (index, event) in connections.events(until: putOff.map(\.due).min().map { min($0, deadline) } ?? deadline) {
          switch event {
          case .failed(let reason): throw LoadError(description: reason)
          case .answered(isSuccess: false):
            let reader = connections.reader(of: index)
            if index >= count, index < saver, let seconds = reader.retryAfter {
              // As devices do: it counts, in time and as an error.
              outcome.lastPull.note(reader.beginning)
              putOff.append((Connections.now() + UInt64(seconds) * 1_000_000_000, index))
              continue
            }
            throw LoadError(description: "refused: \(connections.reader(of: index).beginning)")
          default: if try body(&connections, index, event) { isOver = true }
          }
        }
        if isOver { return }
      }
    }
  }
}
