// A store with its file: that of the account that is signed in, where the store is mirrored.

import FoundationEssentials
import ReplicaStore
import ReplicaSync
import Synchronization

/// A store of a container. It outlives its file: when somebody else signs in, their file takes the place of the former.
final class OpenStore: Sendable {
  struct File: Sendable {
    let replica: Replica
    /// The replica's, as the server knows it.
    let identifier: UUID
  }

  private struct Observer {
    let note: @Sendable (Commit) -> Void
    let finish: @Sendable () -> Void
  }

  typealias ContentFetcher = @Sendable (_ checksum: String) async throws(StoreError) -> Void

  private struct State {
    var file: File
    /// The former file, if the present one has its objects, too. Saves that were to go there go here.
    var copied: UUID?
    var fetcher: ContentFetcher?
    /// Files in memory of accounts that may come back.
    var aside: [String: File] = [:]
    var observers: [Int: Observer] = [:]
    var nextObserver = 0
  }

  let store: PersistentStore
  let description: StoreDescription
  private let model: ManagedObjectModel
  private let surroundings: Surroundings
  private let state: Mutex<State>

  init(_ description: StoreDescription, _ model: ManagedObjectModel, _ surroundings: Surroundings)
    async throws(StoreError)
  {
    var path = description.path
    if let base = path, description.cloudOptions != nil { path = try AccountFiles(base).current() }
    let file = try await Self.openFile(path, description, model, surroundings)
    self.description = description
    self.model = model
    self.surroundings = surroundings
    store = PersistentStore(identifier: file.identifier, scope: description.cloudOptions?.databaseScope)
    state = Mutex(State(file: file))
    follow(file)
  }

  var file: File { state.withLock { $0.file } }
  /// Its objects were copied into the present file, which took its place.
  func isCopied(_ file: File) -> Bool { state.withLock { $0.copied == file.identifier } }
  var replica: Replica { file.replica }

  func close() async {
    let (file, aside) = state.withLock { state in (state.file, state.aside.values.map(\.replica)) }
    for replica in [file.replica] + aside { await replica.close() }
  }

  /// - Parameter fetch: fetches a content that is read and not here into the store's present file.
  func setContentFetcher(_ fetch: @escaping ContentFetcher) {
    let file = state.withLock { state in
      state.fetcher = fetch
      return state.file
    }
    file.replica.setContentFetcher(fetch)
  }

  // MARK: Commits

  /// - Parameters:
  ///   - note: runs after each commit, and when another account's file takes the place of the former.
  ///   - finish: runs when the store closes.
  /// - Returns: a number to stop with.
  func observe(_ note: @escaping @Sendable (Commit) -> Void, finish: @escaping @Sendable () -> Void) -> Int {
    state.withLock { state in
      state.nextObserver += 1
      state.observers[state.nextObserver] = Observer(note: note, finish: finish)
      return state.nextObserver
    }
  }

  func stopObserving(_ number: Int) { state.withLock { $0.observers[number] = nil } }

  private func follow(_ file: File) {
    let identifier = file.identifier
    _ = file.replica.observe(
      { [weak self] commit in for observer in self?.observers(of: identifier) ?? [] { observer.note(commit) } },
      finish: { [weak self] in for observer in self?.observers(of: identifier) ?? [] { observer.finish() } })
  }

  /// - Returns: none of a file that is not the store's any more.
  private func observers(of identifier: UUID) -> [Observer] {
    state.withLock { $0.file.identifier == identifier ? Array($0.observers.values) : [] }
  }

  // MARK: Accounts

  /// Makes the file of another account the store's. The former account finds its file as it left it.
  /// - Parameters:
  ///   - user: who is signed in, by record name.
  ///   - decision: what becomes of the former account's objects.
  /// - Returns: the new file, and what lets go of the former one.
  func change(from former: String, to user: String, _ decision: StoreHooks.AccountDecision) async throws(StoreError)
    -> (file: File, release: @Sendable () async -> Void)
  {
    let keepsFormer = decision != .delete
    let present = file
    let files = description.path.map(AccountFiles.init)
    let next: File
    if let kept = state.withLock({ $0.aside[user] }) {
      next = kept
    } else {
      let path = try files?.reserve(user, former: former)
      next = try await Self.openFile(path, description, model, surroundings)
      do {
        // Before anything is saved in it: nobody else adopts what its user has not sent yet.
        try await next.replica.assign(to: user)
      } catch {
        await next.replica.close()
        throw error
      }
      follow(next)
    }
    let isCopied = decision == .reupload && store.scope == .private
    let select: @Sendable () throws(StoreError) -> Void = { [self] () throws(StoreError) in
      try files?.select(user)
      let fetcher = state.withLock { state in
        state.file = next
        state.copied = isCopied ? present.identifier : nil
        state.aside[user] = nil
        if files == nil, keepsFormer { state.aside[former] = present }
        return state.fetcher
      }
      store.become(next.identifier)
      if let fetcher { next.replica.setContentFetcher(fetcher) }
    }
    // A process that ends before the file is the store's is asked again, and copies what is missing.
    if isCopied { try await next.replica.reupload(present.replica, handOver: select) } else { try select() }
    present.replica.setContentFetcher { _ throws(StoreError) in throw .signedOut }
    for observer in observers(of: next.identifier) { observer.note(next.replica.wholeCommit) }
    return (
      file: next,
      release: {
        if files != nil || !keepsFormer { await present.replica.close() }
        // Dropped because the file of somebody who is gone does no harm where it is.
        if !keepsFormer { try? files?.remove(former) }
      }
    )
  }

  private static func openFile(
    _ path: String?, _ description: StoreDescription, _ model: ManagedObjectModel, _ surroundings: Surroundings
  ) async throws(StoreError) -> File {
    var configuration = ReplicaConfiguration(
      path: path, processID: "\(ProcessInfo.processInfo.processIdentifier)", machineIdentifier: Machine.identifier,
      now: surroundings.now, makeIdentifier: surroundings.makeUUID)
    configuration.temporaryFolder = Machine.temporaryFolder
    configuration.configuration = description.configuration
    configuration.isMirrored = description.cloudOptions != nil
    configuration.isShared = description.cloudOptions?.databaseScope == .shared
    configuration.isReadOnly = description.isReadOnly
    configuration.historyRetention = description.historyRetention
    configuration.logByteLimit = description.generationByteLimit
    configuration.contentByteLimit = description.cloudOptions?.contentByteLimit
    configuration.didSweep = { [log = surroundings.log] swept in
      guard swept.fileCount > 0 else { return }
      log(.events, "contents: removed files that nothing names: \(swept.fileCount), \(swept.byteCount) bytes")
    }
    configuration.bundleID = Machine.programName
    configuration.stages = description.migrationStages.map { step in
      MigrationStage(fromHash: step.fromHash) { save in
        try step.body(SaveContext(save, nil, readable: [StoreSnapshot(nil, save.snapshot)]))
      }
    }
    let replica = try await Replica.open(configuration, model)
    return File(replica: replica, identifier: try await replica.storeIdentifier())
  }
}
