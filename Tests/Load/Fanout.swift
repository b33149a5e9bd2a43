// w3: many devices listen, one saves, all are pinged and pull the change.

import Glibc

/// One user's devices, each with a connection on which it hears pings; on others they take turns to pull.
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

  /// Connections that pull, at most: with more devices some wait for their turn.
  static let pullLimit = 1024

  /// Connections of so many devices, with the one that saves.
  static func connectionCount(_ deviceCount: Int) -> Int { deviceCount + min(deviceCount, pullLimit) + 1 }

  /// One save after the other. Blocks.
  /// - Parameter maker: of saves.
  /// - Throws: when a device is not told of a save, or does not find it.
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

/// What a device knows. It has its ping when that names the token to which the device has pulled: a ping of something before, which may come
/// late, is never taken for the save's.
struct FanoutDevice {
  /// Of its latest page.
  var token: String
  /// That its latest ping names.
  var pingToken: String?
  /// When that came.
  var pinged: UInt64 = 0
  var isPulling = false
  /// A ping came while it pulled.
  var pullsAgain = false
  /// Whether it has pulled what was saved.
  var hasChange = false
  /// Whether it listens, and has a token.
  var isReady = false

  var hasPing: Bool { pingToken == token }
  var isTold: Bool { hasChange && hasPing }

  /// - Returns: whether it has to pull.
  mutating func hear(_ ping: String, at now: UInt64) -> Bool {
    (pingToken, pinged) = (ping, now)
    guard ping != token else { return false }
    if isPulling { pullsAgain = true }
    return !isPulling
  }

  /// - Returns: whether it has to pull once more.
  mutating func take(_ page: Feed.Page, hasChange isThere: Bool) -> Bool {
    token = page.token
    if isThere { hasChange = true }
    defer { pullsAgain = false }
    return pullsAgain && !hasPing
  }
}
