// The share service as a worker needs it: one container with one model, users known by their names, and the index of
// shared zones.

import ObjectModel
import Records
import ServiceBus
import Synchronization

final class Directory: Sendable {
  private let schema: FetchSchema.Reply
  private let zones = Mutex<[SharedZone.Key: SharedZone]>([:])
  private let comparisons = Mutex<Int64>(0)
  /// The epochs of shards at their latest opening.
  private let epochs: Mutex<[Int64]>

  init(_ model: ManagedObjectModel, shardCount: Int) {
    epochs = Mutex(Array(repeating: 0, count: shardCount))
    let index = ModelIndex(model)
    schema = FetchSchema.Reply(
      version: 1, models: [index.modelHash: model], latestModelHash: index.modelHash,
      schema: Schema.initial.merging(SchemaGenerator.schema(for: index), replacesConflicts: false))
  }

  var handlers: BusHandlers {
    var handlers = BusHandlers()
    handlers.on(FetchSecrets.self) { _, _, _ in Answer(FetchSecrets.Reply(signingKey: Array("signing key".utf8))) }
    handlers.on(FetchSchema.self) { [schema] _, _, _ in Answer(schema) }
    handlers.on(ExtendSchema.self) { _, _, _ in throw BusError(.refused, "the schema is complete") }
    handlers.on(FetchStanding.self) { _, _, _ in Answer(FetchStanding.Reply(standing: nil)) }
    handlers.on(IdentifyUsers.self) { message, _, _ in
      Answer(
        IdentifyUsers.Reply(
          users: message.lookups.map { lookup in
            lookup.userRecordName.map {
              IdentifyUsers.Identity(
                userRecordName: $0, givenName: $0, familyName: nil, emailAddress: nil, phoneNumber: nil)
            }
          }))
    }
    handlers.on(FetchShardEpochs.self) { [self] message, _, _ in
      Answer(FetchShardEpochs.Reply(epochs: epochs.withLock { epochs in message.shard.map { [epochs[$0]] } ?? epochs }))
    }
    handlers.on(NoteShardEpochs.self) { [self] message, _, _ in
      epochs.withLock { epochs in
        for opened in message.epochs { epochs[opened.shard] = max(epochs[opened.shard], opened.epoch) }
      }
      return Answer(Acknowledgement())
    }
    handlers.on(NoteSharedZones.self) { [self] message, _, _ in
      zones.withLock { zones in
        for zone in message.zones where zone.sequence >= zones[zone.key]?.sequence ?? 0 { zones[zone.key] = zone }
      }
      return Answer(Acknowledgement())
    }
    handlers.on(NoteInvitations.self) { _, _, _ in Answer(Acknowledgement()) }
    handlers.on(BeginComparison.self) { [self] _, _, _ in
      Answer(
        BeginComparison.Reply(
          number: comparisons.withLock {
            $0 += 1
            return $0
          }))
    }
    handlers.on(CompareSharedZones.self) { [self] message, _, _ in
      zones.withLock { zones in
        for zone in message.zones where zone.sequence >= zones[zone.key]?.sequence ?? 0 { zones[zone.key] = zone }
      }
      return Answer(CompareSharedZones.Reply(correctedCount: 0))
    }
    handlers.on(FetchSharedZones.self) { [self] message, _, _ in
      Answer(FetchSharedZones.Reply(owners: owners(sharingWith: message.userRecordName)))
    }
    return handlers
  }

  /// The zones to which the user has access.
  func zones(sharedWith user: String) -> Set<String> {
    Set(zones.withLock { $0.values.filter { $0.key.userRecordName == user && $0.isActive }.map(\.key.zoneName) })
  }

  private func owners(sharingWith user: String) -> [FetchSharedZones.Reply.Owner] {
    let theirs = zones.withLock { $0.values.filter { $0.key.userRecordName == user } }
    return Dictionary(grouping: theirs, by: \.key.database.owner).sorted { $0.key < $1.key }.map { owner, zones in
      let sorted = zones.sorted { $0.key < $1.key }
      return FetchSharedZones.Reply.Owner(
        owner: owner,
        zones: sorted.map {
          FetchSharedZones.Reply.Zone(zoneName: $0.key.zoneName, isActive: $0.isActive, sequence: $0.sequence)
        })
    }
  }
}
