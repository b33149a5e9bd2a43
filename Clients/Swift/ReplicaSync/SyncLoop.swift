// Mirrors one store: tells `SyncMachine` what happens, and does what it decides.

package import MirrorWire
package import ReplicaStore
import FoundationEssentials
import Synchronization

/// A store, and where it is on the server.
package struct MirroredPlace: Sendable {
  package let store: any MirroredStore
  package var plane: ObjectPlane
}

/// The mirroring of one store. Runs until `stop`, whatever the network does.
package actor SyncLoop {
  package nonisolated var store: any MirroredStore { place.withLock { $0.store } }
  package nonisolated var plane: ObjectPlane { place.withLock { $0.plane } }
  private nonisolated let place: Mutex<MirroredPlace>
  private let options: MirrorOptions
  let surroundings: Surroundings
  /// There is a notifier, whose pings come by `pinged`.
  private let hasPings: Bool
  private let openPings: @Sendable (SyncLoop) async -> Void
  private(set) var machine: SyncMachine
  var status = SyncStatus()
  private var events: [SyncEvent.Kind: MirrorEvent] = [:]
  /// An export that ended with a refusal, until the objects of the refused save are known.
  private var refusedExport: MirrorEvent?
  private var work: Task<Void, Never>?
  private var timer: Task<Void, Never>?
  private var commits: Task<Void, Never>?
  private var downloads: Task<Void, Never>?
  /// The contents that are being fetched.
  private var fetches: [String: Task<Bool, any Error>] = [:]
  var statusListeners: [Int: AsyncStream<SyncStatus>.Continuation] = [:]
  var eventListeners: [Int: AsyncStream<MirrorEvent>.Continuation] = [:]
  var nextListener = 0
  /// For whom the present work is.
  private var session: Account.Session?
  /// Ends the work for one account, and begins it for another.
  private var change: Task<Void, Never>?
  /// Another account's store takes the place of this one.
  private var isChanging = false
  /// Pages are numbered as they are asked for; the last one that ended a run of pages.
  var askedPageCount = 0
  var completedPage = 0
  /// The first page that is asked for after the last acknowledgement: the server exports before it answers.
  var exportingPage = 0
  /// Callers of `syncNow` that wait.
  var waitingSyncs = 0

  package init(
    store: any MirroredStore, plane: ObjectPlane, options: MirrorOptions, surroundings: Surroundings, hasPings: Bool,
    openPings: @escaping @Sendable (SyncLoop) async -> Void
  ) {
    place = Mutex(MirroredPlace(store: store, plane: plane))
    self.options = options
    self.surroundings = surroundings
    self.hasPings = hasPings
    self.openPings = openPings
    machine = SyncMachine(seed: surroundings.makeSeed())
  }

  // MARK: Start and stop

  /// Twice is once.
  package func start() async throws(StoreError) {
    if session == nil { session = plane.account.session }
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
    status.conflictCount = position.openConflictCount ?? 0
    let isSetUp =
      options.lease == nil && position.setUpModelHash == position.modelHash
      && position.setUpIdentifier == position.storeIdentifier
    // What a stopped process sent last is not known: anything that waits is sent before the first import (K3).
    let facts = SyncFacts(
      isSetUp: isSetUp, hasPending: figures.pendingTransactions > 0, hasUnknownFate: figures.pendingTransactions > 0,
      resetCount: position.failedResetCount, hasPings: hasPings)
    // The server would leave out what a copied file sends first, as known to it.
    if position.resetReason == MirrorPosition.copyReason { take(.resetWanted) }
    take(.started(facts))
  }

  /// Ends what is under way. What was sent keeps its unknown fate, which the next start settles.
  package func stop() async {
    await change?.value
    await end()
  }

  private func end() async {
    take(.stopped)
    timer?.cancel()
    commits?.cancel()
    downloads?.cancel()
    for fetch in fetches.values { fetch.cancel() }
    commits = nil
    work?.cancel()
    await work?.value
    await downloads?.value
    await recorder?.value
    session = nil
  }

  // MARK: Accounts

  /// Ends what is under way for the account of before, and begins anew for the one that is signed in now.
  package func beginAnew() async {
    guard commits != nil else { return }
    await change(to: nil)
  }

  /// - Parameter successor: what to go on with in place of the store.
  private func change(to successor: Successor?) async {
    let earlier = change
    let next = Task {
      await earlier?.value
      await end()
      if let successor { await replace(by: successor) }
      isChanging = false
      // Dropped because a store that can't be read says so to its own readers.
      try? await start()
    }
    change = next
    await next.value
    if change == next { change = nil }
  }

  private func replace(by successor: Successor) async {
    guard let identifier = try? await successor.store.position().storeIdentifier else { return }
    place.withLock { place in
      place = MirroredPlace(store: successor.store, plane: place.plane.replacing(storeIdentifier: identifier))
    }
    machine = SyncMachine(seed: surroundings.makeSeed())
    // Not started, so it answers nothing.
    _ = machine.handle(.syncWanted(waitingSyncs > 0))
    status = SyncStatus()
    leaseToken = nil
    await successor.release()
  }

  // MARK: What happens

  package func take(_ input: SyncInput) {
    for output in machine.handle(input) { perform(output) }
    status.take(machine.idle, machine.lastFailure)
    if isChanging { status.idle = .working }
    status.isCaughtUp = machine.idle == .nothingPending && status.pendingTransactions == 0
    if machine.idle != .throttled { status.throttledUntil = nil }
    tell()
  }

  private func tell() {
    for listener in statusListeners.values { listener.yield(status) }
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
    plane.session = session
    return plane
  }
  private var leaseToken: String?

  /// For calls beside the loop's own.
  /// - Throws: `accountChanged` if somebody else is signed in than the user whose objects the store has.
  package func callPlace() async throws(StoreError) -> MirroredPlace {
    var place = MirroredPlace(store: store, plane: leasedPlane)
    if session == nil { place.plane.session = plane.account.session }
    guard let account = try await place.store.position().account else { return place }
    let user: String
    do throws(SyncFailure) {
      user = try await place.plane.userRecordName()
    } catch {
      throw StoreError(error)
    }
    guard user == account else { throw .accountChanged }
    return place
  }

  private func run(_ body: @escaping @Sendable () async throws -> ExchangeResult) {
    work = Task { [weak self] in
      let result = await Exchange.result(body)
      await self?.ended(result)
    }
  }

  private func ended(_ result: ExchangeResult) async {
    if let successor = result.successor {
      isChanging = true
      // Not awaited: the change waits for this work's end.
      Task { await change(to: successor) }
    }
    if case .isSetUp = result.answer { leaseToken = (try? await store.position())?.leaseToken }
    // Dropped because the next exchange brings figures again.
    if let figures = try? await store.figures() { status.take(figures) }
    if case .imported(let hasMore, let isCaughtUp) = result.answer {
      status.importProgress = hasMore ? result.progress.map { .init(done: $0.done, total: $0.total) } : nil
      if isCaughtUp { status.isInitialImportDone = true }
      if !hasMore {
        status.conflictCount = result.openConflictCount
        completedPage = askedPageCount
        fetchContents()
      }
    }
    for kind in [SyncEvent.Kind.import, .export] {
      events[kind]?.savedCount += result.savedCount
      events[kind]?.deletedCount += result.deletedCount
      events[kind]?.errors += result.errors
    }
    if case .exported = result.answer { exportingPage = askedPageCount + 1 }
    if var refused = refusedExport {
      refusedExport = nil
      if !result.errors.isEmpty { refused.errors = result.errors }
      keep(refused)
    }
    // Before the answer: the commit is told later, and the store is not idle meanwhile.
    if result.hasExports { take(.saved) }
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
    let surroundings = surroundings
    let fetch = Task {
      let place = try await callPlace()
      return try await Contents(store: place.store, plane: place.plane, surroundings: surroundings).download(checksum)
    }
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
      // Setting the refused save aside comes next, and tells the objects.
      if kind == .export, machine.work == .setAside { refusedExport = ended } else { keep(ended) }
    }
  }

  private func keep(_ event: MirrorEvent) {
    for listener in eventListeners.values { listener.yield(event) }
    if let line = event.line(of: plane.scope) { surroundings.log(line.level, line.text) }
    let store = store
    let earlier = recorder
    recorder = Task {
      await earlier?.value
      // Dropped because an event tells of mirroring and is no part of it; a full disk is told by the status.
      try? await store.record(event)
    }
  }
  private var recorder: Task<Void, Never>?
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
