// Mirrors one store: tells `SyncMachine` what happens, and does what it decides.

package import MirrorWire
package import ReplicaStore
import FoundationEssentials

/// The mirroring of one store. Runs until `stop`, whatever the network does.
package actor SyncLoop {
  package nonisolated let store: any MirroredStore
  package nonisolated let plane: ObjectPlane
  private let options: MirrorOptions
  private let surroundings: Surroundings
  /// There is a notifier, whose pings come by `pinged`.
  private let hasPings: Bool
  private let openPings: @Sendable (SyncLoop) async -> Void
  private var machine: SyncMachine
  private var status = SyncStatus()
  private var events: [SyncEvent.Kind: MirrorEvent] = [:]
  private var work: Task<Void, Never>?
  private var timer: Task<Void, Never>?
  private var commits: Task<Void, Never>?
  private var downloads: Task<Void, Never>?
  /// The contents that are being fetched.
  private var fetches: [String: Task<Bool, any Error>] = [:]
  private var statusListeners: [Int: AsyncStream<SyncStatus>.Continuation] = [:]
  private var eventListeners: [Int: AsyncStream<MirrorEvent>.Continuation] = [:]
  private var nextListener = 0
  /// Pages are numbered as they are asked for; the last one that ended a run of pages.
  private var askedPageCount = 0
  private var completedPage = 0

  package init(
    store: any MirroredStore, plane: ObjectPlane, options: MirrorOptions, surroundings: Surroundings, hasPings: Bool,
    openPings: @escaping @Sendable (SyncLoop) async -> Void
  ) {
    self.store = store
    self.plane = plane
    self.options = options
    self.surroundings = surroundings
    self.hasPings = hasPings
    self.openPings = openPings
    machine = SyncMachine(seed: surroundings.makeSeed())
  }

  // MARK: Start and stop

  /// Twice is once.
  package func start() async throws(StoreError) {
    // Listens first, so that no save falls between.
    if commits == nil {
      let stream = store.commits()
      commits = Task { [weak self] in
        for await commit in stream where !Task.isCancelled { await self?.committed(commit) }
      }
    }
    let position = try await store.position()
    let figures = try await store.figures()
    status.take(figures)
    status.isInitialImportDone = position.isInitialImportDone
    let isSetUp =
      options.lease == nil && position.setUpModelHash == position.modelHash
      && position.setUpIdentifier == position.storeIdentifier
    // What a stopped process sent last is not known: anything that waits is sent before the first import (K3).
    let facts = SyncFacts(
      isSetUp: isSetUp, hasPending: figures.pendingTransactions > 0, hasUnknownFate: figures.pendingTransactions > 0,
      resetCount: position.failedResetCount, hasPings: hasPings)
    take(.started(facts))
  }

  /// Ends what is under way. What was sent keeps its unknown fate, which the next start settles.
  package func stop() async {
    take(.stopped)
    timer?.cancel()
    commits?.cancel()
    downloads?.cancel()
    commits = nil
    work?.cancel()
    await work?.value
    await downloads?.value
    await recorder?.value
  }

  // MARK: What happens

  package func take(_ input: SyncInput) {
    for output in machine.handle(input) { perform(output) }
    status.take(machine.idle, machine.lastFailure)
    status.isCaughtUp = machine.idle == .nothingPending && status.pendingTransactions == 0
    if machine.idle != .throttled { status.throttledUntil = nil }
    tell()
  }

  private func committed(_ commit: Commit) async {
    // Dropped because the next commit brings figures again.
    if let figures = try? await store.figures() { status.take(figures) }
    if commit.hasExports { take(.saved) } else { tell() }
  }

  // MARK: What is done

  private func perform(_ output: SyncOutput) {
    let exchange = Exchange(store: store, plane: leasedPlane, options: options, surroundings: surroundings)
    switch output {
    case .setUp: run { try await exchange.setUp() }
    case .export: run { try await exchange.export() }
    case .setAside(let error): run { try await exchange.setAside(error) }
    case .importPage(let waits):
      askedPageCount += 1
      let event = events[.import]?.identifier
      run { try await exchange.importPage(waits: waits, event: event) }
    case .reset: run { try await exchange.reset() }
    case .restore: run { try await exchange.restore() }
    case .abandonReset:
      let store = store
      // Dropped because the machine stops in any case; the file counts the reset at the next start.
      Task { try? await store.abandonReset() }
    case .endWait: work?.cancel()
    case .openPings:
      let openPings = openPings
      Task { await openPings(self) }
    case .wait(let duration, let number): wait(duration, number)
    case .emit(let event): tell(of: event)
    }
  }

  /// The plane with the lease that the set-up answered.
  package var leasedPlane: ObjectPlane {
    var plane = plane
    plane.leaseToken = leaseToken
    return plane
  }
  private var leaseToken: String?

  private func run(_ body: @escaping @Sendable () async throws -> ExchangeResult) {
    work = Task { [weak self] in
      let result = await Exchange.result(body)
      await self?.ended(result)
    }
  }

  private func ended(_ result: ExchangeResult) async {
    if case .isSetUp = result.answer { leaseToken = (try? await store.position())?.leaseToken }
    // Dropped because the next exchange brings figures again.
    if let figures = try? await store.figures() { status.take(figures) }
    if case .imported(let hasMore, let isCaughtUp) = result.answer {
      status.importProgress = hasMore ? result.progress.map { .init(done: $0.done, total: $0.total) } : nil
      if isCaughtUp { status.isInitialImportDone = true }
      if !hasMore {
        completedPage = askedPageCount
        fetchContents()
      }
    }
    for kind in [SyncEvent.Kind.import, .export] {
      events[kind]?.savedCount += result.savedCount
      events[kind]?.deletedCount += result.deletedCount
      events[kind]?.errors += result.errors
    }
    take(.answered(result.answer))
  }

  private func wait(_ duration: Duration, _ number: Int) {
    if machine.idle == .throttled { status.throttledUntil = surroundings.now() + duration / .seconds(1) }
    timer?.cancel()
    let sleep = surroundings.sleep
    timer = Task { [weak self] in
      // A cancelled wait rings for nobody.
      guard (try? await sleep(duration)) != nil else { return }
      await self?.take(.timer(number))
    }
  }

  /// Fetches small contents that are not here, one after the other, beside the store's requests.
  private func fetchContents() {
    if downloads != nil { return }
    downloads = Task { [weak self, store, limit = options.eagerAssetByteCount] in
      // Dropped because a content that can't be fetched now is fetched at its first read.
      let wanted = (try? await store.contentsToDownload(byteLimit: limit, limit: 1000)) ?? []
      for content in wanted where !Task.isCancelled { _ = try? await self?.download(content.checksum) }
      await self?.fetchedContents()
    }
  }

  /// Fetches a content once, however many ask for it: two fetches would write into one part.
  /// - Returns: false: the server has no such content any more.
  private func download(_ checksum: String) async throws -> Bool {
    if let running = fetches[checksum] { return try await running.value }
    let contents = Exchange(store: store, plane: leasedPlane, options: options, surroundings: surroundings).contents
    let fetch = Task { try await contents.download(checksum) }
    fetches[checksum] = fetch
    defer { fetches[checksum] = nil }
    return try await fetch.value
  }

  /// Fetches a content that is read and not here.
  /// - Throws: `offline`, or what the server says; `damaged` if the server does not have it any more.
  package func fetchContent(_ checksum: String) async throws(StoreError) {
    do {
      guard try await download(checksum) else {
        throw StoreError.damaged("the server has no content \(checksum)")
      }
    } catch let error as StoreError {
      throw error
    } catch let failure as SyncFailure {
      throw StoreError(failure)
    } catch {
      throw .damaged("\(error)")
    }
  }

  private func fetchedContents() { downloads = nil }

  // MARK: Events

  private func tell(of event: SyncEvent) {
    switch event {
    case .began(let kind):
      let begun = MirrorEvent(identifier: surroundings.makeUUID(), kind: .init(kind), startDate: surroundings.now())
      events[kind] = begun
      keep(begun)
    case .ended(let kind, let failure):
      guard var ended = events.removeValue(forKey: kind) else { return }
      ended.endDate = surroundings.now()
      ended.succeeded = failure == nil
      if let failure, ended.errors.isEmpty {
        ended.errors = [MirrorEvent.ObjectError(object: nil, error: failure.error)]
      }
      keep(ended)
    }
  }

  private func keep(_ event: MirrorEvent) {
    for listener in eventListeners.values { listener.yield(event) }
    let store = store
    let earlier = recorder
    recorder = Task {
      await earlier?.value
      // Dropped because an event tells of mirroring and is no part of it; a full disk is told by the status.
      try? await store.record(event)
    }
  }
  private var recorder: Task<Void, Never>?

  package func mirrorEvents() -> AsyncStream<MirrorEvent> {
    let (stream, continuation) = AsyncStream<MirrorEvent>.makeStream(bufferingPolicy: .bufferingNewest(1000))
    nextListener += 1
    let number = nextListener
    eventListeners[number] = continuation
    continuation.onTermination = { [weak self] _ in Task { await self?.removeListener(number) } }
    return stream
  }

  // MARK: Status

  package func currentStatus() -> SyncStatus { status }

  /// The present status and each later one; a slow reader misses those between.
  package func statuses() -> AsyncStream<SyncStatus> {
    let (stream, continuation) = AsyncStream<SyncStatus>.makeStream(bufferingPolicy: .bufferingNewest(1))
    nextListener += 1
    let number = nextListener
    statusListeners[number] = continuation
    continuation.yield(status)
    continuation.onTermination = { [weak self] _ in Task { await self?.removeListener(number) } }
    return stream
  }

  private func removeListener(_ number: Int) {
    statusListeners[number] = nil
    eventListeners[number] = nil
  }

  private func tell() {
    for listener in statusListeners.values { listener.yield(status) }
  }

  /// Exports what is saved and imports what the server has now.
  /// - Throws: what keeps it from that when the time is over; `signedOut` at once.
  package func syncNow(timeout: Duration) async throws(StoreError) {
    let target = askedPageCount + 1
    let stream = statuses()
    take(.pinged)
    let sleep = surroundings.sleep
    let outcome = await withTaskGroup(of: StoreError?.self) { group in
      group.addTask { [weak self] in
        for await status in stream {
          if status.idle == .signedOut { return .signedOut }
          if await self?.isDone(target) ?? true { return nil }
        }
        return .offline
      }
      group.addTask { [weak self] in
        // A cancelled wait lost the race.
        try? await sleep(timeout)
        return await self?.status.lastError ?? .offline
      }
      let first = await group.next() ?? .offline
      group.cancelAll()
      return first
    }
    if let outcome { throw outcome }
  }

  private func isDone(_ target: Int) async -> Bool {
    guard completedPage >= target, let figures = try? await store.figures() else { return false }
    return figures.pendingTransactions == 0
  }
}

extension MirrorEvent.Kind {
  fileprivate init(_ kind: SyncEvent.Kind) {
    self =
      switch kind {
      case .setUp: .setup
      case .import: .import
      case .export: .export
      }
  }
}

extension SyncFailure {
  /// As the server would say it.
  fileprivate var error: ServerError {
    switch self {
    case .server(let error): error
    case .transport(let reason): ServerError(status: 0, serverErrorCode: "", reason: reason, ckErrorCode: 4)
    case .cancelled: ServerError(status: 0, serverErrorCode: "", reason: "ended by the app", ckErrorCode: 20)
    case .full: ServerError(status: 0, serverErrorCode: "", reason: "the disk is full")
    case .damaged(let reason): ServerError(status: 0, serverErrorCode: "", reason: reason, ckErrorCode: 1)
    }
  }
}
