// Shares the memory in which uploads collect the parts that a bucket takes.

import Queues
import Synchronization

/// The memory for the parts of all uploads of a process. An upload without room for its next part waits, and its sender
/// with it.
///
/// Room is for a whole part, so each upload that has some comes to the end of its part. Users take turns, and one of
/// them has at most a sixth of the memory, but always a part.
public final class PartMemory: Sendable {
  fileprivate struct Claim {
    let room: ObjectIdentifier
    let byteCount: Int64
    let given: @Sendable () -> Void
  }

  private struct State {
    /// The rooms that are given, and their bytes: of all, and by user.
    var given: Set<ObjectIdentifier> = []
    var heldByteCount: Int64 = 0
    var users: [String: Int64] = [:]
    /// Their number is bounded by that of the uploads under way.
    var waiting = TurnQueue<Claim>()
  }

  private static let userDivisor: Int64 = 6

  private let byteCount: Int64
  private let partByteCount: Int64
  private let state = Mutex(State())

  /// - Parameters:
  ///   - byteCount: bytes of all parts together.
  ///   - partByteCount: the most bytes of a part.
  public init(byteCount: Int64, partByteCount: Int) {
    self.byteCount = byteCount
    self.partByteCount = Int64(partByteCount)
  }

  /// The uploads that wait for room.
  public var waitingCount: Int { state.withLock(\.waiting.count) }

  /// The room of a new upload, which has none yet.
  /// - Parameter byteCount: the most bytes of the content.
  public func room(for user: String, atMost byteCount: Int64) -> PartRoom {
    PartRoom(in: self, user, byteCount: min(byteCount, partByteCount))
  }

  /// - Returns: whether the room is given now.
  fileprivate func take(_ claim: Claim, for user: String) -> Bool {
    let (started, isGiven) = state.withLock { state -> ([Claim], Bool) in
      if state.given.contains(claim.room) { return ([], true) }
      state.waiting.append(claim, of: user)
      let started = start(&state)
      return (started.filter { $0.room != claim.room }, state.given.contains(claim.room))
    }
    for other in started { other.given() }
    return isGiven
  }

  fileprivate func giveBack(_ room: ObjectIdentifier, of byteCount: Int64, for user: String) {
    let started = state.withLock { state in
      if state.given.remove(room) == nil {
        state.waiting.removeAll(of: user) { $0.room == room }
      } else {
        state.heldByteCount -= byteCount
        let own = (state.users[user] ?? 0) - byteCount
        state.users[user] = own > 0 ? own : nil
      }
      return start(&state)
    }
    for claim in started { claim.given() }
  }

  /// Gives room to those that wait, as far as there is some.
  private func start(_ state: inout State) -> [Claim] {
    var started: [Claim] = []
    while true {
      let users = state.users
      let next = state.waiting.popFirst { user in
        users[user].map { $0 + partByteCount <= byteCount / Self.userDivisor } ?? true
      }
      guard let (claim, user) = next else { return started }
      // Shorter parts do not pass it, or it might wait for ever.
      guard state.heldByteCount == 0 || state.heldByteCount + claim.byteCount <= byteCount else {
        state.waiting.prepend(claim, of: user)
        return started
      }
      state.given.insert(claim.room)
      state.heldByteCount += claim.byteCount
      if claim.byteCount > 0 { state.users[user, default: 0] += claim.byteCount }
      started.append(claim)
    }
  }
}

/// An upload's room for one part at a time, given back at the latest when the upload is released.
public final class PartRoom: Sendable {
  private let memory: PartMemory
  private let user: String
  private let byteCount: Int64

  fileprivate init(in memory: PartMemory, _ user: String, byteCount: Int64) {
    self.memory = memory
    self.user = user
    self.byteCount = byteCount
  }

  deinit { giveBack() }

  /// Not called again while it waits.
  /// - Returns: whether the upload has its room. If not, `given` is called, on any thread, when it has.
  func take(_ given: @escaping @Sendable () -> Void) -> Bool {
    memory.take(
      PartMemory.Claim(room: ObjectIdentifier(self), byteCount: byteCount, given: given), for: user)
  }

  /// Ends the wait, too.
  func giveBack() { memory.giveBack(ObjectIdentifier(self), of: byteCount, for: user) }
}
