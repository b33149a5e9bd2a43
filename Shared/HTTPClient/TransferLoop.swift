// Runs all of a client's connections on one thread: a libcurl multi handle, driven by commands from any thread.

import CCurl
import Synchronization

/// Runs transfers until it is stopped. All state except the list of commands belongs to its thread.
final class TransferLoop: Sendable {
  enum Command: Sendable {
    case start(TransferRequest, TransferSink, Ticket)
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
    var transfers: [ObjectIdentifier: Transfer] = [:]
    var isStopping = false
    while !isStopping {
      for command in takeCommands() {
        switch command {
        case .start(let request, let sink, let ticket):
          start(Transfer(request, sink, ticket, configuration), &transfers)
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
    for transfer in transfers.values { end(transfer.ticket, .cancelled, &transfers) }
    curl_multi_cleanup(multi)
  }

  private func takeCommands() -> [Command] {
    commands.withLock { commands in
      let taken = commands ?? []
      commands = []
      return taken
    }
  }

  private func start(_ transfer: Transfer, _ transfers: inout [ObjectIdentifier: Transfer]) {
    if transfer.ticket.isCancelled.load(ordering: .sequentiallyConsistent) { return transfer.fail(.cancelled) }
    let added = curl_multi_add_handle(multi, transfer.handle)
    guard added == CURLM_OK else {
      return transfer.fail(HTTPClientError(kind: .lost, reason: String(cString: curl_multi_strerror(added))))
    }
    transfers[ObjectIdentifier(transfer.ticket)] = transfer
  }

  private func end(_ ticket: Ticket, _ error: HTTPClientError, _ transfers: inout [ObjectIdentifier: Transfer]) {
    // A missing transfer has ended, or its cancellation came first and `start` will see the flag.
    guard let transfer = transfers.removeValue(forKey: ObjectIdentifier(ticket)) else { return }
    curl_multi_remove_handle(multi, transfer.handle)
    transfer.fail(error)
  }

  /// Fails the streams whose head did not arrive in time.
  /// - Returns: the milliseconds until the next deadline, at most `longestSleep` + 1.
  private func endLate(_ transfers: inout [ObjectIdentifier: Transfer]) -> Int32 {
    let now = ContinuousClock.now
    var sleep = Duration.milliseconds(Self.longestSleep)
    for transfer in transfers.values where transfer.isWaitingForHead {
      if transfer.headDeadline <= now {
        end(transfer.ticket, .headTimedOut, &transfers)
      } else {
        sleep = min(sleep, transfer.headDeadline - now)
      }
    }
    return Int32(sleep / .milliseconds(1)) + 1
  }

  private func collect(_ transfers: inout [ObjectIdentifier: Transfer]) {
    var result = CURLE_OK
    while let handle = ccurl_next_finished(multi, &result) {
      guard let context = ccurl_private(handle) else { continue }
      let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
      transfers[ObjectIdentifier(transfer.ticket)] = nil
      curl_multi_remove_handle(multi, handle)
      transfer.finish(result)
    }
  }
}

private func transferThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  if let context { Unmanaged<TransferLoop>.fromOpaque(context).takeRetainedValue().run() }
  return nil
}
