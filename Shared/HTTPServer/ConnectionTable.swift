// Watches all connections of a server on one thread. libmicrohttpd notices neither a peer that hangs up while its
// request is held nor a peer that sends its headers a byte a second.

internal import CLinux
internal import Glibc
internal import Synchronization

final class ConnectionTable: Sendable {
  private struct State {
    var links: [UInt64: Link] = [:]
    /// Descriptors whose remaining input is read before they are closed, with the latest time to close them.
    var lingering: [Int32: Int64] = [:]
    /// The server ends, so the table tells when it is empty.
    var isEnding = false
    var isStopped = false
    var pressedOutCount = 0
    var passCount = 0
    var thread: pthread_t?
  }

  private let state = Mutex(State())
  private let epoll: Int32
  private let wake: Int32
  /// Readable once no connection is left of a server that ends.
  private let emptied: Int32
  private let tickMilliseconds: Int32
  private let lingerMilliseconds: Int64
  private let pressureIdleMilliseconds: Int64
  /// The number of connections above which further ones are surplus.
  private let limit: Int

  private static let wakeID: UInt64 = 0
  private static let lingeringFlag: UInt64 = 1 << 63
  private static let lingeringLimit = 256

  /// - Parameter limit: the number of connections to serve. The server accepts a few more in order to refuse them.
  init(_ configuration: HTTPServer.Configuration, limit: Int) throws(HTTPServer.StartError) {
    self.limit = limit
    pressureIdleMilliseconds = configuration.pressureIdleLimit.milliseconds
    epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    wake = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    emptied = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    lingerMilliseconds = configuration.lingerLimit.milliseconds
    tickMilliseconds = Int32(clamping: min(max(configuration.headerDeadline.milliseconds / 4, 10), 500))
    guard epoll >= 0, wake >= 0, emptied >= 0 else {
      let code = errno
      closeDescriptors()
      throw HTTPServer.StartError(
        description: "The HTTP server is out of file descriptors; raise the limit on open files.", errno: code)
    }
    watch(wake, events: EPOLLIN.rawValue, id: Self.wakeID)
    var thread = pthread_t()
    let retained = Unmanaged.passRetained(self)
    guard pthread_create(&thread, nil, watcherThread, retained.toOpaque()) == 0 else {
      retained.release()
      closeDescriptors()
      throw HTTPServer.StartError(
        description: "The HTTP server could not start a thread; raise the limit on threads.", errno: EAGAIN)
    }
    state.withLock { $0.thread = thread }
  }

  var count: Int { state.withLock { $0.links.count } }

  /// All open connections in the order in which they were accepted.
  var links: [Link] { state.withLock { $0.links.values.sorted { $0.id < $1.id } } }

  var pressedOutCount: Int { state.withLock(\.pressedOutCount) }

  /// How often the table has looked for late connections.
  var passCount: Int { state.withLock(\.passCount) }

  func insert(_ link: Link) {
    let wasEmpty = state.withLock { state in
      if state.links.count >= limit { link.setSurplus() }
      state.links[link.id] = link
      // Edge-triggered and registered once for the connection's life. A stale event finds no link with its id.
      watch(link.fd, events: EPOLLRDHUP.rawValue | EPOLLET.rawValue, id: link.id)
      return state.links.count == 1
    }
    if wasEmpty { wakeUp() }
  }

  /// Forgets a connection. Called while the descriptor is still open.
  func remove(_ link: Link) {
    let lingers = link.lingers
    state.withLock { state in
      state.links[link.id] = nil
      if state.isEnding, state.links.isEmpty { eventfd_write(emptied, 1) }
      guard lingers, !state.isStopped, state.lingering.count < Self.lingeringLimit else { return }
      let copy = fcntl(link.fd, F_DUPFD_CLOEXEC, 0)
      guard copy >= 0 else { return }
      shutdown(copy, Int32(SHUT_WR))
      state.lingering[copy] = monotonicMilliseconds() + lingerMilliseconds
      watch(copy, events: EPOLLIN.rawValue | EPOLLRDHUP.rawValue, id: Self.lingeringFlag | UInt64(copy))
    }
    if lingers { wakeUp() }
  }

  /// Shuts a connection down unless it is gone. The lock ensures that no other connection has the descriptor yet.
  func shutDown(_ link: Link) {
    state.withLock { state in
      if state.links[link.id] != nil { _ = shutdown(link.fd, Int32(SHUT_RDWR)) }
    }
  }

  /// Waits until no connection is left. Called when no further one is accepted.
  /// - Returns: false when some are left after `milliseconds`.
  func empties(within milliseconds: Int32) -> Bool {
    let isEmpty = state.withLock { state in
      state.isEnding = true
      return state.links.isEmpty
    }
    var entry = pollfd(fd: emptied, events: Int16(POLLIN), revents: 0)
    return isEmpty || poll(&entry, 1, milliseconds) > 0
  }

  /// Ends the thread and waits for it. Called once, after the connections are gone.
  func stop() {
    let thread = state.withLock { state in
      state.isStopped = true
      return state.thread
    }
    wakeUp()
    if let thread { pthread_join(thread, nil) }
    // Descriptors are closed last: one that another thread still wakes could already belong to another connection.
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
    for fd in [epoll, wake, emptied] where fd >= 0 { close(fd) }
  }

  fileprivate func run() {
    var events = [epoll_event](repeating: epoll_event(), count: 256)
    var lastPass = monotonicMilliseconds()
    while true {
      let (isStopped, isIdle) = state.withLock { ($0.isStopped, $0.links.isEmpty && $0.lingering.isEmpty) }
      if isStopped { break }
      let rest = Int64(tickMilliseconds) - (monotonicMilliseconds() - lastPass)
      let count = epoll_wait(epoll, &events, Int32(events.count), isIdle ? -1 : Int32(clamping: max(rest, 0)))
      for event in events.prefix(Int(max(count, 0))) { handle(event) }
      // A pass looks at every connection, so events do not bring one about: at most one comes in a tick.
      let now = monotonicMilliseconds()
      guard now - lastPass >= Int64(tickMilliseconds) else { continue }
      lastPass = now
      reap(at: now)
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

  /// Discards the input that the peer of a refused request still sends: at most a megabyte a call, so that no peer can
  /// hold the thread.
  private func readOut(_ fd: Int32) {
    // A stale event: the number may belong to another connection already.
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
    // `close` alone does not suffice: the library may hold the same socket under its own descriptor. Events would go on
    // for this number and hide those of the next connection with it.
    epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nil)
    close(fd)
  }

  private func reap(at now: Int64) {
    let late = state.withLock { state in
      state.passCount += 1
      for link in state.links.values where link.isLate(at: now) { _ = shutdown(link.fd, Int32(SHUT_RDWR)) }
      pressOut(&state, at: now)
      return state.lingering.filter { $0.value < now }.map(\.key)
    }
    for fd in late { closeLingering(fd) }
  }
}

extension ConnectionTable {
  /// Closes idle connections while nearly all places are taken, the longest idle first, so that clients with requests
  /// find a place.
  private func pressOut(_ state: inout State, at now: Int64) {
    let surplus = state.links.count - (limit - limit / 8)
    guard surplus > 0 else { return }
    // Connections that were shut down but are not gone yet count as freed places.
    let leaving = state.links.values.count { $0.isPressedOut }
    let idle = state.links.values.filter { $0.idleSince <= now - pressureIdleMilliseconds }.sorted {
      $0.idleSince < $1.idleSince
    }
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
