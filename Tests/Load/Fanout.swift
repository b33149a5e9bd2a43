// w3: many devices listen, one saves, all are pinged and pull the change.

import Glibc

/// One user's devices. Each has a connection for pings; they share further connections to pull.
struct Fanout: Sendable {
  enum Listening: Sendable {
    /// The web courier's long poll: a request for each ping.
    case courier
    /// An event stream that stays open.
    case stream
  }

  let target: Target
  /// The address and request by which each device listens.
  let pings: [(target: Target, request: [UInt8])]
  let listening: Listening
  let feed: Feed
  /// The present token of the zone's feed.
  let token: String
  /// The number of saves.
  let roundCount: Int
  /// Time before a device that gets no ping is given up. Unit: nanoseconds.
  var patience = answerLimit

  struct Outcome: Sendable {
    /// Times from sending the save to its answer, to the last device's ping, and to the last device's pull of the
    /// change.
    var save = Measurement()
    var lastPing = Measurement()
    var lastPull = Measurement()
  }

  /// The most connections that pull; with more devices some wait for their turn.
  static let pullLimit = 1024

  /// Connections of this many devices, including the saving one.
  static func connectionCount(_ deviceCount: Int) -> Int { deviceCount + min(deviceCount, pullLimit) + 1 }

  /// Saves repeatedly; blocks.
  /// - Parameter maker: makes the saves.
  /// - Throws: when a device gets no ping for a save, or does not find it.
  func run(_ maker: RequestMaker) throws(LoadError) -> Outcome {
    var round = FanoutRound(self, maker)
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
}

/// The state of a device. It has its ping when the ping names the token that the device has pulled to, so a late ping
/// of an earlier change never counts for a save.
struct FanoutDevice {
  /// The token of its latest page.
  var token: String
  /// The token in its latest ping.
  var pingToken: String?
  /// The arrival of that ping.
  var pinged: UInt64 = 0
  var isPulling = false
  /// A ping came during a pull.
  var pullsAgain = false
  /// True when it has pulled the saved record.
  var hasChange = false
  /// True when it listens and has a token.
  var isReady = false

  var hasPing: Bool { pingToken == token }
  var isTold: Bool { hasChange && hasPing }

  /// - Returns: true when it has to pull.
  mutating func hear(_ ping: String, at now: UInt64) -> Bool {
    (pingToken, pinged) = (ping, now)
    guard ping != token else { return false }
    if isPulling { pullsAgain = true }
    return !isPulling
  }

  /// - Returns: true when it has to pull again.
  mutating func take(_ page: Feed.Page, hasChange isThere: Bool) -> Bool {
    token = page.token
    if isThere { hasChange = true }
    defer { pullsAgain = false }
    return pullsAgain && !hasPing
  }
}
