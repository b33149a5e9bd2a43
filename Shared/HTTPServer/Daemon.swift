// libmicrohttpd's daemon: its start, its end, and its callbacks. The callbacks are top-level functions because closures
// in a main.swift would belong to the main actor and trap on the library's threads.

internal import CLinux
internal import CMicroHTTPD
internal import Glibc
internal import Synchronization

/// The state that all connections of a server share.
final class ServerCore: Sendable {
  let configuration: HTTPServer.Configuration
  let handler: any HTTPHandler
  let connections: ConnectionTable
  let connectionLimit: Int
  let isDraining = Atomic(false)
  let isStopped = Atomic(false)
  let clients: ClientBook
  /// Bytes of request bodies since the start.
  let receivedByteCount = Atomic(0)
  let sentByteCount = Atomic(0)

  init(_ configuration: HTTPServer.Configuration, _ handler: any HTTPHandler, _ connections: ConnectionTable) {
    self.configuration = configuration
    self.handler = handler
    self.connections = connections
    connectionLimit = Self.connectionLimit(configuration)
    let perClient = configuration.connectionsPerClient ?? max(connectionLimit / 8, Self.fewConnectionCount)
    clients = ClientBook(
      ClientBook.Limits(
        connections: perClient == 0 ? nil : perClient,
        bodies: (
          max(configuration.totalBodyByteLimit / 6, 2 * configuration.bodyByteLimit), configuration.totalBodyByteLimit
        ),
        answers: (
          max(configuration.totalAnswerByteLimit / 6, configuration.answerByteLimit), configuration.totalAnswerByteLimit
        )))
  }

  /// The most connections to serve: the configured number, or fewer if the limit on open files requires it.
  static func connectionLimit(_ configuration: HTTPServer.Configuration) -> Int {
    let files = fileLimit - configuration.otherFileCount - refusedConnectionCount
    return min(max(configuration.connectionLimit, 1), max(files, 1))
  }

  /// The least share of one client, because an eighth of a small limit is too few.
  private static let fewConnectionCount = 16

  /// The connections that are accepted only to be refused. Further ones wait in the backlog.
  static let refusedConnectionCount = 128

  private static var fileLimit: Int {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return .max }
    return Int(clamping: limit.rlim_cur)
  }

}

final class Daemon: Sendable {
  private struct State {
    var daemon: OpaquePointer?
    /// Retained for the callbacks until the threads have ended.
    let core: Unmanaged<ServerCore>
  }

  private let state: Mutex<State>
  /// The descriptor at which the library accepts. The library closes it.
  private let listener: Int32
  /// An event counter that stays at zero, to put in the listener's place.
  private let silence: Int32

  /// The time for which a stop waits for answers that say so.
  private static let answerMilliseconds: Int32 = 200
  /// The time for which a stop waits for the end of connections that were shut down.
  private static let closeMilliseconds: Int32 = 2000

  /// Fails when libmicrohttpd cannot start. The caller still owns the listener then.
  init?(_ core: ServerCore, _ listener: ListenSocket, _ configuration: HTTPServer.Configuration) {
    let silence = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    guard silence >= 0 else { return nil }
    var options = aquifer_mhd_options()
    options.listen_fd = listener.fd
    options.connection_limit = UInt32(clamping: core.connectionLimit + ServerCore.refusedConnectionCount)
    options.idle_seconds = UInt32(clamping: max(configuration.idleLimit.components.seconds, 1))
    options.thread_count = UInt32(clamping: max(configuration.threadCount, 1))
    options.connection_memory = max(configuration.headerByteLimit, 1024)
    options.certificate = configuration.certificate == nil ? nil : certificateCallback
    let retained = Unmanaged.passRetained(core)
    let daemon = aquifer_mhd_start(
      &options, retained.toOpaque(), acceptCallback, accessCallback, completedCallback, connectionCallback,
      targetCallback, unescapeCallback)
    guard let daemon else {
      retained.release()
      close(silence)
      return nil
    }
    self.listener = listener.fd
    self.silence = silence
    state = Mutex(State(daemon: daemon, core: retained))
  }

  /// Stops accepting connections. Accepted ones go on.
  ///
  /// `MHD_quiesce_daemon` does the same, but it races with the threads of the pool: both remove the listener from a
  /// thread's epoll set, and the library ends the process when the second removal fails. Here the kernel removes it,
  /// because its last descriptor is closed. The number stays in use until the library closes it.
  func quiesce() {
    state.withLock { state in
      if state.daemon != nil { silenceListener() }
    }
  }

  private func silenceListener() {
    dup2(silence, listener)
    _ = fcntl(listener, F_SETFD, FD_CLOEXEC)
  }

  func stop(_ core: ServerCore) {
    let (daemon, retained) = state.withLock { state in
      defer { state.daemon = nil }
      return (state.daemon, state.core)
    }
    guard let daemon else { return }
    core.isStopped.store(true, ordering: .sequentiallyConsistent)
    silenceListener()
    // A daemon must not be stopped with a suspended connection. After this flag no connection is suspended again.
    for link in core.connections.links { link.abandon() }
    // Nor while a thread reads a request that the library refuses by itself: it accepts no answer any more then, not
    // even its own, and crashes for lack of one. So all connections end before.
    if !core.connections.empties(within: Self.answerMilliseconds) {
      for link in core.connections.links { core.connections.shutDown(link) }
      _ = core.connections.empties(within: Self.closeMilliseconds)
    }
    MHD_stop_daemon(daemon)
    close(silence)
    core.connections.stop()
    retained.release()
  }
}

/// Borrows the object behind a `cls` or context pointer.
private func object<T: AnyObject>(_ pointer: UnsafeMutableRawPointer?, as: T.Type) -> T? {
  pointer.map { Unmanaged<T>.fromOpaque($0).takeUnretainedValue() }
}

/// Called for an accepted connection before the library sets it up. Returns NO to drop it.
private func acceptCallback(_ cls: UnsafeMutableRawPointer?, _ address: UnsafePointer<sockaddr>?, _ length: socklen_t)
  -> MHD_Result
{
  guard let core = object(cls, as: ServerCore.self) else { return .NO }
  let text = addressText(address)
  return core.configuration.isTrustedProxy(text)
    || core.clients.mayKnock(ClientNetwork(text), at: monotonicMilliseconds()) ? .YES : .NO
}

/// Called when a connection begins, and again just before its descriptor is closed.
private func connectionCallback(
  _ cls: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
  _ context: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ code: MHD_ConnectionNotificationCode
) {
  guard let core = object(cls, as: ServerCore.self), let connection, let context else { return }
  switch code {
  case .CONNECTION_NOTIFY_STARTED:
    let link = Link(
      fd: aquifer_mhd_fd(connection), remoteAddress: addressText(aquifer_mhd_peer_address(connection)), core)
    context.pointee = Unmanaged.passRetained(link).toOpaque()
    core.connections.insert(link)
    link.count()
  case .CONNECTION_NOTIFY_CLOSED:
    guard let pointer = context.pointee else { return }
    let link = Unmanaged<Link>.fromOpaque(pointer).takeRetainedValue()
    context.pointee = nil
    link.giveBack()
    core.connections.remove(link)
  }
}

/// Called when a TLS handshake needs the certificate.
/// - Returns: 0, or -1 to end the handshake.
private func certificateCallback(
  _ session: gnutls_session_t?, _ authorities: UnsafePointer<gnutls_datum_t>?, _ authorityCount: Int32,
  _ algorithms: UnsafePointer<gnutls_pk_algorithm_t>?,
  _ algorithmCount: Int32, _ chain: UnsafeMutablePointer<UnsafeMutablePointer<gnutls_pcert_st>?>?,
  _ count: UnsafeMutablePointer<UInt32>?,
  _ key: UnsafeMutablePointer<gnutls_privkey_t?>?
) -> Int32 {
  guard let session, let connection = aquifer_mhd_connection_of_session(session), let chain, let count, let key,
    let link = object(aquifer_mhd_socket_context(connection), as: Link.self), let credentials = link.credentials()
  else { return -1 }
  credentials.give(chain, count, key)
  return 0
}

/// Called after the request line was read. Keeps the target, because the library splits its own copy.
private func targetCallback(_ cls: UnsafeMutableRawPointer?, _ uri: UnsafePointer<CChar>?, _ connection: OpaquePointer?)
  -> UnsafeMutableRawPointer?
{
  guard let connection, let uri, let link = object(aquifer_mhd_socket_context(connection), as: Link.self) else {
    return nil
  }
  link.setTarget(String(validatingCString: uri))
  return nil
}

/// Leaves the text undecoded, because `RequestTarget` decodes strictly.
private func unescapeCallback(
  _ cls: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ text: UnsafeMutablePointer<CChar>?
) -> Int {
  text.map { strlen($0) } ?? 0
}

/// Called when the headers are complete (first call of a request), for a piece of the body, at the body's end, and
/// after a resume.
private func accessCallback(
  _ cls: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ url: UnsafePointer<CChar>?,
  _ method: UnsafePointer<CChar>?,
  _ version: UnsafePointer<CChar>?, _ data: UnsafePointer<CChar>?, _ byteCount: UnsafeMutablePointer<Int>?,
  _ context: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
  guard let core = object(cls, as: ServerCore.self), let connection, let context, let byteCount else { return .NO }
  if let exchange = object(context.pointee, as: HTTPExchange.self) {
    guard byteCount.pointee > 0 else { return exchange.proceed() ? .YES : .NO }
    let piece = UnsafeRawBufferPointer(start: data, count: byteCount.pointee)
    byteCount.pointee = 0
    return exchange.receive(piece) ? .YES : .NO
  }
  guard let link = object(aquifer_mhd_socket_context(connection), as: Link.self), let method, let version else {
    return .NO
  }
  let exchange = HTTPExchange(link, ConnectionHandle(pointer: connection), core)
  context.pointee = Unmanaged.passRetained(exchange).toOpaque()
  return exchange.begin(method: String(cString: method), isHTTP10: strcmp(version, MHD_HTTP_VERSION_1_0) == 0)
    ? .YES : .NO
}

/// Called once a request is over, whether it succeeded or not.
private func completedCallback(
  _ cls: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
  _ context: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ code: MHD_RequestTerminationCode
) {
  guard let context, let pointer = context.pointee else { return }
  context.pointee = nil
  Unmanaged<HTTPExchange>.fromOpaque(pointer).takeRetainedValue().complete()
}
