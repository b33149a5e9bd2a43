// The connections of w3's devices, and their events from save to save.

import Queues

/// Device i listens on connection i. The connections that pull follow; the last connection saves.
struct FanoutRound: ~Copyable {
  private let fanout: Fanout
  private var maker: RequestMaker
  private(set) var outcome = Fanout.Outcome()
  private var connections = Connections()
  private var devices: [FanoutDevice]
  private let saver: Int
  /// By connection, starting behind the devices' own: the device for which it pulls; nil while idle.
  private var pullers: [Int?]
  /// Longest idle first, so that the server closes none for idleness.
  private var idle = FIFO<Int>()
  /// Devices that wait for their turn to pull.
  private var waiting = FIFO<Int>()
  /// Pulls that the server deferred, with the times to repeat them.
  private var putOff: [(due: UInt64, device: Int)] = []
  /// The number of devices that still lack the awaited state.
  private var lackingCount = 0
  /// The time at which a save was sent; nil before the first.
  private var start: UInt64?
  private var isAnswered = false

  /// Time before the first save: the generator can't see whether a poll has reached the server.
  private static let settling: UInt64 = 300_000_000

  init(_ fanout: Fanout, _ maker: RequestMaker) {
    self.fanout = fanout
    self.maker = maker
    devices = fanout.pings.map { _ in FanoutDevice(token: fanout.token) }
    for ping in fanout.pings { _ = connections.add(ping.target) }
    let width = min(fanout.pings.count, Fanout.pullLimit)
    for _ in 0..<width { _ = connections.add(fanout.target) }
    saver = connections.add(fanout.target)
    pullers = [Int?](repeating: nil, count: width)
    for puller in 0..<width { idle.append(puller) }
  }

  /// Opens every connection, and returns when every device should be listening.
  mutating func listen() throws(LoadError) {
    lackingCount = devices.count
    // A device connects at its first pull: connecting all at once would overflow the server's backlog.
    for device in devices.indices { pull(device) }
    try go(until: Connections.now() + max(Self.limit(devices.count), fanout.patience)) { $0.lackingCount == 0 }
    if lackingCount > 0 { throw LoadError(description: "\(lackingCount) devices can't listen, or can't pull") }
    try settle()
  }

  /// Time for a number of devices to begin. Unit: nanoseconds.
  private static func limit(_ count: Int) -> UInt64 { answerLimit * UInt64(1 + count / 1000) }

  mutating func save() throws(LoadError) {
    maker.advance()
    for device in devices.indices { devices[device].hasChange = false }
    (lackingCount, isAnswered) = (devices.count, false)
    connections.send(saver, maker.request)
    let start = connections.started(saver)
    self.start = start
    try go(until: start + fanout.patience) { $0.isAnswered && $0.lackingCount == 0 }
    guard isAnswered, lackingCount == 0 else { throw LoadError(description: complaint(since: start)) }
    outcome.lastPull.add(since: start)
    outcome.lastPing.add(since: start, until: devices.reduce(start) { max($0, $1.pinged) })
    try settle()
  }

  private func complaint(since start: UInt64) -> String {
    let unpinged = devices.count { $0.pinged < start || $0.hasChange && !$0.hasPing }
    let text = "\(unpinged) devices have no ping, and \(devices.count { !$0.hasChange }) do not have the change"
    return isAnswered ? text : "the save has no answer; \(text)"
  }

  /// Waits without saves; pings of earlier changes may still come.
  private mutating func settle() throws(LoadError) { try go(until: Connections.now() + Self.settling) { _ in false } }

  // MARK: Events

  /// Handles events until `isOver` holds or the deadline has come.
  private mutating func go(until deadline: UInt64, _ isOver: (borrowing FanoutRound) -> Bool) throws(LoadError) {
    while !isOver(self) {
      let now = Connections.now()
      guard now < deadline else { return }
      let due = putOff.filter { $0.due <= now }
      putOff.removeAll { $0.due <= now }
      for (_, device) in due { enqueue(device) }
      let wakeUp = putOff.map(\.due).min().map { min($0, deadline) } ?? deadline
      for (index, event) in connections.events(until: wakeUp) { try handle(event, of: index) }
    }
  }

  private mutating func handle(_ event: Connections.Event, of index: Int) throws(LoadError) {
    let puller = index - devices.count
    if case .failed(let reason) = event {
      // The server may close an idle connection; the next request opens it again.
      guard pullers.indices.contains(puller), pullers[puller] == nil else { throw LoadError(description: reason) }
    } else if index == saver {
      guard event == .answered(isSuccess: true) else { throw refusal(index) }
      isAnswered = true
      outcome.save.add(since: connections.started(index))
    } else if index < devices.count {
      if event == .answered(isSuccess: false) { throw refusal(index) }
      try listened(index, isAnswer: event != .received)
    } else if let device = pullers[puller] {
      try pulled(puller, for: device, isSuccess: event == .answered(isSuccess: true))
    }
  }

  private func refusal(_ index: Int) -> LoadError {
    LoadError(description: "refused: \(connections.reader(of: index).beginning)")
  }

  private mutating func listened(_ device: Int, isAnswer: Bool) throws(LoadError) {
    if isAnswer {
      hear(connections.reader(of: device).bytes, device)
      connections.send(device, fanout.pings[device].request)
    } else if connections.reader(of: device).hasBegun, connections.reader(of: device).endsWithEvent {
      // Also handles comments, which keep the stream alive.
      hear(connections.reader(of: device).bytes, device)
      connections.discard(device)
      if !devices[device].isReady { becomeReady(device) }
    }
  }

  private mutating func hear(_ bytes: [UInt8], _ device: Int) {
    let now = Connections.now()
    for token in fanout.feed.pingTokens(in: bytes) {
      let wasTold = devices[device].isTold
      if devices[device].hear(token, at: now) { pull(device) }
      count(device, wasTold)
    }
  }

  private mutating func pull(_ device: Int) {
    devices[device].isPulling = true
    enqueue(device)
  }

  private mutating func enqueue(_ device: Int) {
    guard let puller = idle.popFirst() else { return waiting.append(device) }
    sendPull(device, puller)
  }

  private mutating func sendPull(_ device: Int, _ puller: Int) {
    pullers[puller] = device
    connections.send(
      devices.count + puller, fanout.feed.request(after: devices[device].token, host: fanout.target.host))
  }

  private mutating func pulled(_ puller: Int, for device: Int, isSuccess: Bool) throws(LoadError) {
    let index = devices.count + puller
    pullers[puller] = nil
    if isSuccess {
      try tookPage(connections.reader(of: index).bytes, device)
    } else {
      guard let seconds = connections.reader(of: index).retryAfter else { throw refusal(index) }
      // As devices do. It counts in time and as an error.
      outcome.lastPull.note(connections.reader(of: index).beginning)
      putOff.append((Connections.now() + UInt64(seconds) * 1_000_000_000, device))
    }
    if let next = waiting.popFirst() { sendPull(next, puller) } else { idle.append(puller) }
  }

  private mutating func tookPage(_ bytes: [UInt8], _ device: Int) throws(LoadError) {
    guard let page = fanout.feed.page(bytes) else { throw LoadError(description: "a page names no token") }
    let wasTold = devices[device].isTold
    let hasChange =
      start != nil && (maker.names.first.map { bytes.position(of: Array($0.utf8), from: 0) != nil } ?? false)
    devices[device].isPulling = false
    if devices[device].take(page, hasChange: hasChange) { pull(device) }
    count(device, wasTold)
    if start == nil, !devices[device].isReady { beginListening(device) }
  }

  private mutating func beginListening(_ device: Int) {
    connections.send(device, fanout.pings[device].request, isStream: fanout.listening == .stream)
    // A stream tells when it has begun; a poll does not.
    if fanout.listening == .courier { becomeReady(device) }
  }

  private mutating func becomeReady(_ device: Int) {
    devices[device].isReady = true
    lackingCount -= 1
  }

  /// Updates the number of devices that lack a save's ping or its change.
  private mutating func count(_ device: Int, _ wasTold: Bool) {
    guard start != nil, devices[device].isTold != wasTold else { return }
    lackingCount += wasTold ? 1 : -1
  }
}
