// Connects in-memory buses, with the faults that tests need: cut links, processes that stop, processes that die.

import ServiceBus
import Synchronization

public final class InMemoryNetwork: Sendable {
  /// The clock for deadlines and heartbeats.
  public enum Time: Sendable {
    /// Real time.
    case running
    /// Only `advance(by:)` moves it.
    case stepped
  }

  struct NodeID: Hashable, Sendable, Comparable {
    let number: Int
    static func < (a: NodeID, b: NodeID) -> Bool { a.number < b.number }
  }

  let start = ContinuousClock.now
  private let time: Time
  private let world = Mutex(InMemoryWorld())

  public init(time: Time = .running) {
    self.time = time
    guard time == .running else { return }
    Task { [weak self] in
      while let network = self {
        network.change { $0.advance(to: network.now) }
        // Dropped because nobody cancels this task; it ends with the network.
        try? await Task.sleep(for: .milliseconds(5))
      }
    }
  }

  /// Milliseconds since the network was made.
  var now: Int64 {
    switch time {
    case .running: start.duration(to: .now).milliseconds
    case .stepped: world.withLock(\.now)
    }
  }

  func nextIncarnation() -> UInt64 {
    world.withLock { world in
      world.lastIncarnation += 1
      return world.lastIncarnation
    }
  }

  func join(_ peer: Peer, _ front: BusFront) -> NodeID {
    change { $0.join(peer, front) }
  }

  func post(_ command: Command, from node: NodeID) -> Bool {
    change { $0.post(command, from: node) }
  }

  func remove(_ node: NodeID) {
    change { $0.remove(node) }
  }

  // MARK: Faults and time

  /// Moves the time of a `.stepped` network, in steps so short that no bus takes them for sleep.
  public func advance(by span: Duration) {
    precondition(time == .stepped, "only a stepped network is advanced")
    change { world in
      let target = world.now + span.milliseconds
      while world.now < target { world.advance(to: min(target, world.now + 8)) }
    }
  }

  /// Interrupts the links between two processes until `mend`.
  /// - Parameter isSilent: true leaves both to believe that the link is up, as in a partition: their frames are lost.
  public func cut(_ a: String, _ b: String, isSilent: Bool = false) {
    change { $0.cut(a, b, isSilent: isSilent) }
  }

  public func mend(_ a: String, _ b: String) {
    change { $0.mend(a, b) }
  }

  /// Stops a process as SIGSTOP does: frames to it wait, and so do its calls and its handlers' results.
  public func pause(_ name: String) {
    change { $0.pause(name) }
  }

  public func resume(_ name: String) {
    change { $0.resume(name) }
  }

  /// Ends a process as SIGKILL does, without a goodbye.
  public func kill(_ name: String) {
    change { $0.kill(name) }
  }

  /// Changes the world, then carries out its effects outside the lock, because continuations and tasks may call back at
  /// once.
  @discardableResult
  private func change<Result: Sendable>(_ body: (inout InMemoryWorld) -> Result) -> Result {
    let (result, effects) = world.withLock { world in
      if time == .running { world.now = max(world.now, start.duration(to: .now).milliseconds) }
      let result = body(&world)
      world.deliver()
      return (result, world.takeEffects())
    }
    for effect in effects { carryOut(effect) }
    return result
  }

  private func carryOut(_ effect: InMemoryWorld.Effect) {
    switch effect {
    case .settle(let reply, let outcome): reply.settle(outcome)
    case .start(let request, let front, let node): front.serve(request) { [self] in post($0, from: node) }
    case .cancel(let handle): handle.cancel()
    case .peersChanged(let front, let peers, let version): front.board.publish(peers, version: version)
    case .closed(let front): front.board.close()
    case .event(let front, let event): front.configuration.observe(event)
    case .finish(let done): done()
    }
  }
}
