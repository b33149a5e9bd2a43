// Runs all of a client's connections on one thread: a libcurl multi handle, driven by commands from any thread.

import CCurl
import Synchronization

/// Runs transfers until it is stopped. All state except the list of commands belongs to its thread.
final class TransferLoop: Sendable {
  enum Command: Sendable {
    case start(TransferRequest, TransferSink, Ticket)
    /// The addresses of a transfer's host, or the reason why it has none.
    case resolved(Ticket, Result<[String], HTTPClientError>)
    case cancel(Ticket)
    case stop
  }

  /// Commands that the thread has not taken yet; nil once the thread has ended. A stream may outlive its client and
  /// cancel later.
  private let commands = Mutex<[Command]?>([])
  // libcurl allows `curl_multi_wakeup` from any thread. The loop's thread makes all other calls and frees the handle.
  nonisolated(unsafe) private let multi: UnsafeMutableRawPointer
  private let configuration: Configuration

  /// The parts of a client that all its transfers share.
  struct Configuration: Sendable {
    let certificateAuthorityFile: String?
    let localAddress: String?
    let reach: HTTPClient.Reach
    let sharesConnections: Bool
    /// nil: libcurl resolves names.
    var resolver: NameResolver?
  }

  /// A transfer whose host's name is being resolved.
  private struct Waiting {
    var request: TransferRequest
    let sink: TransferSink
    let ticket: Ticket
    let host: NamedHost
    let since: ContinuousClock.Instant
    let deadline: ContinuousClock.Instant
  }

  private struct Transfers {
    var waiting: [ObjectIdentifier: Waiting] = [:]
    var running: [ObjectIdentifier: Transfer] = [:]
  }

  private static let isLibraryReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK
  /// The longest sleep of an idle thread, in milliseconds.
  private static let longestSleep: Int32 = 1000

  init(_ configuration: Configuration) {
    precondition(Self.isLibraryReady, "libcurl could not be initialized")
    guard let multi = curl_multi_init() else { preconditionFailure("libcurl has no memory for a client") }
    self.multi = multi
    self.configuration = configuration
    let error = LoopThread.start(transferThread, with: Unmanaged.passRetained(self).toOpaque())
    precondition(error == 0, "no thread is left for an HTTP client (error \(error))")
  }

  func submit(_ command: Command) {
    commands.withLock { commands in
      guard commands != nil else { return }
      commands?.append(command)
      // Within the lock, because the thread frees the handle after it has set `commands` to nil.
      curl_multi_wakeup(multi)
    }
  }

  func cancel(_ ticket: Ticket) {
    ticket.isCancelled.store(true, ordering: .sequentiallyConsistent)
    submit(.cancel(ticket))
  }

  /// Cancels the running transfers and ends the thread. No other call may follow, except `cancel`.
  func stop() { submit(.stop) }

  fileprivate func run() {
    var transfers = Transfers()
    var isStopping = false
    while !isStopping {
      for command in takeCommands() {
        switch command {
        case .start(let request, let sink, let ticket): begin(request, sink, ticket, &transfers)
        case .resolved(let ticket, let result): go(on: ticket, result, &transfers)
        case .cancel(let ticket): end(ticket, .cancelled, &transfers)
        case .stop: isStopping = true
        }
      }
      var runningCount: Int32 = 0
      curl_multi_perform(multi, &runningCount)
      collect(&transfers)
      let sleep = endLate(&transfers)
      if !isStopping { curl_multi_poll(multi, nil, 0, sleep, nil) }
    }
    // No start can follow: the client calls `stop` from its deinit.
    commands.withLock { $0 = nil }
    for waiting in transfers.waiting.values { end(waiting.ticket, .cancelled, &transfers) }
    for transfer in transfers.running.values { end(transfer.ticket, .cancelled, &transfers) }
    curl_multi_cleanup(multi)
  }

  private func takeCommands() -> [Command] {
    commands.withLock { commands in
      let taken = commands ?? []
      commands = []
      return taken
    }
  }

  private func begin(
    _ request: TransferRequest, _ sink: TransferSink, _ ticket: Ticket, _ transfers: inout Transfers
  ) {
    guard let resolver = configuration.resolver, let host = NamedHost(url: request.url) else {
      return start(Transfer(request, sink, ticket, configuration), &transfers)
    }
    if ticket.isCancelled.load(ordering: .sequentiallyConsistent) { return sink.fail(.cancelled) }
    guard host.isPlain else {
      return sink.fail(HTTPClientError(kind: .badURL, reason: "The host's name is not in ASCII."))
    }
    let now = ContinuousClock.now
    transfers.waiting[ObjectIdentifier(ticket)] = Waiting(
      request: request, sink: sink, ticket: ticket, host: host, since: now,
      deadline: now + min(resolver.limit, request.timeout))
    resolver.ask(host.name, for: request.party) { self.submit(.resolved(ticket, $0)) }
  }

  private func go(
    on ticket: Ticket, _ result: Result<[String], HTTPClientError>, _ transfers: inout Transfers
  ) {
    // A missing one has ended before its name was resolved.
    guard var waiting = transfers.waiting.removeValue(forKey: ObjectIdentifier(ticket)) else { return }
    switch result {
    case .success(let addresses):
      waiting.request.addresses = waiting.host.entries(addresses)
      waiting.request.timeout -= ContinuousClock.now - waiting.since
      start(Transfer(waiting.request, waiting.sink, ticket, configuration), &transfers)
    case .failure(let error): waiting.sink.fail(error)
    }
  }

  private func start(_ transfer: Transfer, _ transfers: inout Transfers) {
    if transfer.ticket.isCancelled.load(ordering: .sequentiallyConsistent) { return transfer.fail(.cancelled) }
    let added = curl_multi_add_handle(multi, transfer.handle)
    guard added == CURLM_OK else {
      return transfer.fail(HTTPClientError(kind: .lost, reason: String(cString: curl_multi_strerror(added))))
    }
    transfers.running[ObjectIdentifier(transfer.ticket)] = transfer
  }

  private func end(_ ticket: Ticket, _ error: HTTPClientError, _ transfers: inout Transfers) {
    if let waiting = transfers.waiting.removeValue(forKey: ObjectIdentifier(ticket)) { waiting.sink.fail(error) }
    // A missing transfer has ended, or its cancellation came first and `start` will see the flag.
    guard let transfer = transfers.running.removeValue(forKey: ObjectIdentifier(ticket)) else { return }
    curl_multi_remove_handle(multi, transfer.handle)
    transfer.fail(error)
  }

  /// Fails the streams whose head did not arrive in time, and the transfers whose host's name was not resolved in time.
  /// - Returns: the milliseconds until the next deadline, at most `longestSleep` + 1.
  private func endLate(_ transfers: inout Transfers) -> Int32 {
    let now = ContinuousClock.now
    var sleep = Duration.milliseconds(Self.longestSleep)
    for waiting in transfers.waiting.values {
      if waiting.deadline <= now {
        let late = configuration.resolver?.lateness(of: waiting.host.name) ?? .lateName
        end(waiting.ticket, late, &transfers)
      } else {
        sleep = min(sleep, waiting.deadline - now)
      }
    }
    for transfer in transfers.running.values where transfer.isWaitingForHead {
      if transfer.headDeadline <= now {
        end(transfer.ticket, .headTimedOut, &transfers)
      } else {
        sleep = min(sleep, transfer.headDeadline - now)
      }
    }
    return Int32(sleep / .milliseconds(1)) + 1
  }

  private func collect(_ transfers: inout Transfers) {
    var result = CURLE_OK
    while let handle = ccurl_next_finished(multi, &result) {
      guard let context = ccurl_private(handle) else { continue }
      let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
      transfers.running[ObjectIdentifier(transfer.ticket)] = nil
      curl_multi_remove_handle(multi, handle)
      transfer.finish(result)
    }
  }
}

private func transferThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  if let context { Unmanaged<TransferLoop>.fromOpaque(context).takeRetainedValue().run() }
  return nil
}
