// All connections of a server, and the one thread that watches them: libmicrohttpd notices neither a peer that hangs up while its request
// is held nor one that sends its headers a byte a second.

internal import CLinux
internal import Glibc
internal import Synchronization

final class ConnectionTable: Sendable {
  private struct State {
    var links: [UInt64: Link] = [:]
    /// Descriptors that are read out before they are closed, with the instant they are closed at the latest.
    var lingering: [Int32: Int64] = [:]
    var isStopped = false
    var pressedOutCount = 0
    var thread: pthread_t?
  }

  private let state = Mutex(State())
  private let epoll: Int32
  private let wake: Int32
  private let tickMilliseconds: Int32
  private let lingerMilliseconds: Int64
  private let pressureIdleMilliseconds: Int64
  /// Of connections.
  private let limit: Int

  private static let wakeID: UInt64 = 0
  private static let lingeringFlag: UInt64 = 1 << 63
  private static let lingeringLimit = 256

  /// - Parameter limit: of connections; those beyond it are there to be refused.
  init(_ configuration: HTTPServer.Configuration, limit: Int) throws(HTTPServer.StartError) {
    self.limit = limit
    pressureIdleMilliseconds = configuration.pressureIdleLimit.milliseconds
    epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    wake = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    lingerMilliseconds = configuration.lingerLimit.milliseconds
    tickMilliseconds = Int32(clamping: min(max(configuration.headerDeadline.milliseconds / 4, 10), 500))
    guard epoll >= 0, wake >= 0 else {
      let code = errno
      closeDescriptors()
      throw HTTPServer.StartError(description: "The HTTP server is out of file descriptors; raise the limit on open files.", errno: code)
    }
    watch(wake, events: EPOLLIN.rawValue, id: Self.wakeID)
    var thread = pthread_t()
    let retained = Unmanaged.passRetained(self)
    guard pthread_create(&thread, nil, watcherThread, retained.toOpaque()) == 0 else {
      retained.release()
      closeDescriptors()
      throw HTTPServer.StartError(description: "The HTTP server could not start a thread; raise the limit on threads.", errno: EAGAIN)
    }
    state.withLock { $0.thread = thread }
  }

  var count: Int { state.withLock { $0.links.count } }

  /// In the order they were accepted.
  var links: [Link] { state.withLock { $0.links.values.sorted { $0.id < $1.id } } }

  var pressedOutCount: Int { state.withLock(\.pressedOutCount) }

  func insert(_ link: Link) {
    let wasEmpty = state.withLock { state in
      if state.links.count >= limit { link.setSurplus() }
      state.links[link.id] = link
      // Edge-triggered and for the connection's whole life: one system call, and a stale event finds no link of its id.
      watch(link.fd, events: EPOLLRDHUP.rawValue | EPOLLET.rawValue, id: link.id)
      return state.links.count == 1
    }
    if wasEmpty { wakeUp() }
  }

  /// Called while the descriptor is still open.
  func remove(_ link: Link) {
    let lingers = link.lingers
    state.withLock { state in
      state.links[link.id] = nil
      guard lingers, !state.isStopped, state.lingering.count < Self.lingeringLimit else { return }
      let copy = fcntl(link.fd, F_DUPFD_CLOEXEC, 0)
      guard copy >= 0 else { return }
      shutdown(copy, Int32(SHUT_WR))
      state.lingering[copy] = monotonicMilliseconds() + lingerMilliseconds
      watch(copy, events: EPOLLIN.rawValue | EPOLLRDHUP.rawValue, id: Self.lingeringFlag | UInt64(copy))
    }
    if lingers { wakeUp() }
  }

  /// Shuts a connection down, unless it is gone; under the lock, so that the descriptor can't be another connection's by now.
  func shutDown(_ link: Link) {
    state.withLock { state in
      if state.links[link.id] != nil { _ = shutdown(link.fd, Int32(SHUT_RDWR)) }
    }
  }

  /// Ends the thread and waits for it; the connections must be gone. Called once.
  func stop() {
    let thread = state.withLock { state in
      state.isStopped = true
      return state.thread
    }
    wakeUp()
    if let thread { pthread_join(thread, nil) }
    // Only now: a descriptor closed while somebody may still wake the thread is soon another connection's.
    for fd in state.withLock({ Array($0.lingering.keys) }) { close(fd) }
    closeDescriptors()
  }

  private func watch(_ fd: Int32, events: UInt32, id: UInt64) {
    var event = epoll_event()
    event.events = events
    event.data.u64 = id
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)
  }

  private func wakeUp() {
    eventfd_write(wake, 1)
  }

  private func closeDescriptors() {
    if epoll >= 0 { close(epoll) }
    if wake >= 0 { close(wake) }
  }

  /// The thread's body.
  fileprivate func run() {
    var events = [epoll_event](repeating: epoll_event(), count: 256)
    while true {
      let (isStopped, isIdle) = state.withLock { ($0.isStopped, $0.links.isEmpty && $0.lingering.isEmpty) }
      if isStopped { break }
      let count = epoll_wait(epoll, &events, Int32(events.count), isIdle ? -1 : tickMilliseconds)
      for event in events.prefix(Int(max(count, 0))) { handle(event) }
      reap()
    }
  }

  private func handle(_ event: epoll_event) {
    let id = event.data.u64
    if id == Self.wakeID {
      var value: eventfd_t = 0
      eventfd_read(wake, &value)
    } else if id & Self.lingeringFlag != 0 {
      readOut(Int32(truncatingIfNeeded: id & ~Self.lingeringFlag))
    } else {
      state.withLock { $0.links[id] }?.peerHungUp()
    }
  }

  /// Drops what a refused request's peer still sends; a megabyte at a time, so that one peer can't hold the thread.
  private func readOut(_ fd: Int32) {
    // An event of before its end; the number may be another connection's by now.
    guard state.withLock({ $0.lingering[fd] != nil }) else { return }
    let isOver = withUnsafeTemporaryAllocation(byteCount: 65_536, alignment: 16) { buffer in
      for _ in 0..<16 {
        let count = recv(fd, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
        if count == 0 { return true }
        if count < 0 { return errno != EAGAIN && errno != EINTR }
      }
      return false
    }
    if isOver { closeLingering(fd) }
  }

  private func closeLingering(_ fd: Int32) {
    guard state.withLock({ $0.lingering.removeValue(forKey: fd) }) != nil else { return }
    // Not left to `close`: the library may still have the connection open under its own number, and then events would go on coming
    // for this one, and take away what the next connection of the number sends.
    epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nil)
    close(fd)
  }

  private func reap() {
    let now = monotonicMilliseconds()
    let late = state.withLock { state in
      for link in state.links.values where link.isLate(at: now) { _ = shutdown(link.fd, Int32(SHUT_RDWR)) }
      pressOut(&state, at: now)
      return state.lingering.filter { $0.value < now }.map(\.key)
    }
    for fd in late { closeLingering(fd) }
  }
}

extension ConnectionTable {
  /// Closes connections on which nothing goes on, those first that are idle longest, while nearly all places are taken: whoever comes with a
  /// request is to find one.
  private func pressOut(_ state: inout State, at now: Int64) {
    let surplus = state.links.count - (limit - limit / 8)
    guard surplus > 0 else { return }
    // Those that are shut down and not gone yet have made room already.
    let leaving = state.links.values.count { $0.isPressedOut }
    let idle = state.links.values.filter { $0.idleSince <= now - pressureIdleMilliseconds }.sorted { $0.idleSince < $1.idleSince }
    for link in idle.prefix(max(surplus - leaving, 0)) {
      link.pressOut()
      _ = shutdown(link.fd, Int32(SHUT_RDWR))
      state.pressedOutCount += 1
    }
  }
}

private func watcherThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let context else { return nil }
  name_this_thread("connections")
  Unmanaged<ConnectionTable>.fromOpaque(context).takeRetainedValue().run()
  return nil
}
