// Claims the folders that a process uses. Before it reads or writes one, the folder's file and the directory must both
// say that it belongs to the installation.

public import Assets
public import ServiceBus
internal import Synchronization

/// Claims a process's folders one after the other, and waits while one of them is not the installation's.
///
/// A process with a wrong folder keeps running without work, and tells operators why (`refusal`, `/readyz`, the metric
/// `data_refused`). It continues by itself once the right folder is there.
public final class DataFolders: Sendable {
  public enum Kind: String, Sendable {
    /// The folder of the shards.
    case data
    case assets
  }

  private struct Refusal: Error {
    let reason: String
  }

  private enum Outcome {
    case claimed
    /// The share service did not answer, or the folder changed meanwhile. The claim is repeated.
    case unanswered
  }

  private let context: ServiceContext
  private let folders: [(kind: Kind, place: AssetPlace)]
  private let state: Mutex<State>

  private struct State {
    var waiting: [Kind]
    var refused: (kind: Kind, reason: String)?
  }

  private static let deadline = Duration.seconds(2)
  private static let pause = Duration.milliseconds(100)
  private static let settlePause = Duration.milliseconds(10)
  private static let refusedPause = Duration.seconds(2)

  public init(_ context: ServiceContext, _ folders: [(kind: Kind, place: AssetPlace)]) {
    self.context = context
    self.folders = folders
    state = Mutex(State(waiting: folders.map(\.kind)))
    context.metrics.collect(
      "data_refused", "1 while a folder is not used because it is not the installation's, or an older copy."
    ) { [weak self] in
      let refused = self?.state.withLock(\.refused?.kind)
      return folders.map { Metrics.Sample($0.kind == refused ? 1 : 0, labels: [("folder", $0.kind.rawValue)]) }
    }
  }

  /// The reason why the process takes no work, with the folder's path; nil while no folder is refused.
  public var refusal: String? { state.withLock(\.refused?.reason) }

  /// The reason of `refusal`, or the first folder that is not claimed yet; nil when all folders are claimed.
  public var obstacle: String? {
    state.withLock {
      $0.refused?.reason
        ?? $0.waiting.first.map { "the folder of \($0.rawValue) was not compared with the directory yet" }
    }
  }

  /// Returns once all folders are claimed, one is refused, or the time is over.
  public func settle(within limit: Duration) async {
    let end = context.timing.now().advanced(by: limit)
    while obstacle != nil, refusal == nil, context.timing.now() < end {
      // Dropped because a cancelled task need not wait.
      guard (try? await context.timing.sleep(Self.settlePause)) != nil else { return }
    }
  }

  /// Returns once all folders are claimed.
  /// - Parameter identify: asks for the installation that must own them.
  /// - Throws: when the task is cancelled.
  public func claim(on bus: any Bus, for identify: () async throws -> InstallationID) async throws {
    if folders.isEmpty { return }
    var found: InstallationID?
    while found == nil {
      // Dropped because the loop asks the share service again.
      found = try? await identify()
      if found == nil { try await context.timing.sleep(Self.pause) }
    }
    guard let installation = found else { return }
    for folder in folders {
      while true {
        do {
          if case .claimed = try await claim(folder.kind, folder.place, installation, bus) { break }
          try await context.timing.sleep(Self.pause)
        } catch let refusal as Refusal {
          refuse(folder.kind, refusal.reason)
          try await context.timing.sleep(Self.refusedPause)
        }
      }
      state.withLock { state in
        state.refused = nil
        state.waiting.removeAll { $0 == folder.kind }
      }
      context.obstacle.text = nil
    }
  }

  private func refuse(_ kind: Kind, _ reason: String) {
    let isNew = state.withLock { state in
      defer { state.refused = (kind, reason) }
      return state.refused?.reason != reason
    }
    context.obstacle.text = reason
    if isNew { context.log.error("a folder is refused", ["folder": .text(kind.rawValue), "reason": .text(reason)]) }
  }

  private func claim(_ kind: Kind, _ place: AssetPlace, _ installation: InstallationID, _ bus: any Bus) async throws
    -> Outcome
  {
    let path: String
    switch place {
    case .folder(let folder, _): path = folder
    case .bucket(let bucket):
      do throws(AssetError) {
        try await bucket.apart { _ throws(AssetError) in try bucket.claim(for: installation) }
        return .claimed
      } catch {
        throw Refusal(reason: "the bucket of assets can't be used: \(error.reason)")
      }
    }
    do {
      let file = try FolderMarkFile.open(in: path)
      let mark = try file?.read()
      if let mark, mark.installation != installation {
        throw Refusal(
          reason: "\(path) belongs to the installation \(mark.installation), and this one is \(installation)")
      }
      return try await claim(kind, path, mark ?? FolderMark(installation: installation), file, bus)
    } catch let error as AssetError {
      throw Refusal(reason: "\(path) can't be used: \(error.reason)")
    }
  }

  private func claim(_ kind: Kind, _ path: String, _ found: FolderMark, _ file: FolderMarkFile?, _ bus: any Bus)
    async throws -> Outcome
  {
    func ask(_ mark: FolderMark) async throws -> ClaimFolder.Reply? {
      let reply: ClaimFolder.Reply
      do throws(BusError) {
        reply = try await bus.call(
          ClaimFolder(
            folder: kind.rawValue, epoch: mark.epoch, nonce: mark.nonce,
            next: mark.next == FolderMark.none ? nil : mark.next), to: .role(.share),
          within: Self.deadline)
      } catch {
        // A share service of an earlier release does not track folders.
        if error.code == .unknownMessage { throw error }
        return nil
      }
      guard reply.isGranted else { throw Refusal(reason: Self.reason(path, found, reply.knownEpoch ?? 0)) }
      if kind == .data, file == nil, reply.hasShards, try Self.hasNoShards(path) {
        throw Refusal(reason: "\(path) has no shards, and this installation has some: is its volume mounted there?")
      }
      return reply
    }
    do {
      guard try await ask(found) != nil else { return .unanswered }
      var mark = found
      do {
        guard let file = try file ?? FolderMarkFile.open(in: path, makes: true) else { return .unanswered }
        // Another process has written the file since.
        if found.epoch == 0, let other = try file.read(), other != found { return .unanswered }
        if mark.next == FolderMark.none {
          mark.next = context.random.hex(byteCount: FolderMark.nonceLength / 2)
          try file.write(mark)
          guard try await ask(mark) != nil else { return .unanswered }
        }
        try file.write(mark.advanced)
      } catch AssetError.full(let reason) {
        context.log.warning("the use of a folder could not be recorded: its disk is full", ["reason": .text(reason)])
      }
      return .claimed
    } catch let error as BusError where error.code == .unknownMessage {
      return .claimed
    }
  }

  private static func reason(_ path: String, _ found: FolderMark, _ known: Int64) -> String {
    if found.epoch == 0, found.next == FolderMark.none {
      return "\(path) has no data of this installation, which has data in another folder: is its volume mounted there?"
    }
    return
      """
      \(path) is an older or a second copy: it was in use \(found.epoch) times, and this installation's folder \
      \(known) times
      """
  }

  private static func hasNoShards(_ path: String) throws(AssetError) -> Bool {
    try !Folder.names(in: path + "/shards").contains { $0.hasSuffix(".sqlite") }
  }
}

/// The reason why a process has not begun to work, for `/readyz`.
public final class StartObstacle: Sendable {
  private let state = Mutex<String?>(nil)

  public init() {}

  /// nil when no obstacle is known.
  public var text: String? {
    get { state.withLock(\.self) }
    set { state.withLock { $0 = newValue } }
  }
}
