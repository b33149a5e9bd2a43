// Tells all peers that cached answers are stale, and late peers the directory's latest version.

import ServiceBus
import Synchronization

/// Pushes `DirectoryChanged` to all peers. Gateways and notifiers that connect (again), and peers that did not answer
/// in time, get `PublishDirectoryVersion`.
actor Announcer {
  /// Short, so that an operator does not wait for a peer that hangs.
  private static let deadline = Duration.seconds(2)

  private var bus: (any Bus)?
  private var pendingSchemas: Set<String> = []
  private var version: DirectoryVersion
  /// Holds one value for each peer: the latest version.
  private var versions: ConflatedPush<Int, DirectoryVersion>?
  private let wake: AsyncStream<Void>.Continuation
  private let wakes: AsyncStream<Void>

  /// - Parameter epoch: a random number, drawn at start.
  init(epoch: UInt64) {
    version = DirectoryVersion(epoch: epoch, count: 0)
    (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  /// Sets the bus. Announcements before this call reach no peer, and no peer can have cached an answer yet.
  func attach(_ bus: any Bus) {
    self.bus = bus
    versions = ConflatedPush(
      send: { [weak bus] peer, versions in
        guard let bus, let version = versions.last else { return }
        do throws(BusError) {
          _ = try await bus.call(PublishDirectoryVersion(version: version), to: .peer(peer.name), within: Self.deadline)
        } catch {
          // Dropped because a peer of an earlier release does not know the message, however often it is sent.
          guard error.code == .unknownMessage else { throw error }
        }
      }, key: { _ in 0 }, merge: { _, later in later })
  }

  /// Announces a change to all peers. Returns when those that answer in time know of it.
  func announce(_ change: DirectoryChanged) async {
    guard let bus else { return }
    version = DirectoryVersion(epoch: version.epoch, count: version.count + 1)
    let current = version
    let message = DirectoryChanged(credentials: change.credentials, schemas: change.schemas, version: current)
    let missed = await withTaskGroup(of: Peer?.self) { group in
      for peer in bus.peers where peer.role != .share {
        group.addTask {
          do throws(BusError) {
            _ = try await bus.call(message, to: .peer(peer.name), within: Self.deadline)
            return nil
          } catch {
            return peer
          }
        }
      }
      return await group.reduce(into: [Peer]()) { missed, peer in if let peer { missed.append(peer) } }
    }
    // The latest version, not the one of this change: other changes may have followed.
    for peer in missed { versions?.push(version, to: peer) }
  }

  /// Announces an environment soon without making the caller wait. Several waiting announcements become one message.
  func announceSoon(_ environment: String) {
    pendingSchemas.insert(environment)
    wake.yield()
  }

  /// Sends the announcements of `announceSoon` and tells connecting peers the version, until the task is cancelled.
  func run() async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await self.announceSchemas() }
      group.addTask { await self.followPeers() }
      await group.waitForAll()
    }
    versions?.close()
  }

  private func announceSchemas() async {
    for await _ in wakes {
      let schemas = pendingSchemas.sorted()
      pendingSchemas = []
      await announce(DirectoryChanged(credentials: false, schemas: schemas))
    }
  }

  private func followPeers() async {
    guard let bus, let versions else { return }
    for await peers in bus.peerChanges() {
      for newcomer in versions.subscribers(peers.filter { $0.role == .gateway || $0.role == .notifier }) {
        versions.push(version, to: newcomer)
      }
    }
  }
}
