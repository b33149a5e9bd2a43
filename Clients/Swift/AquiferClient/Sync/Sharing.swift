// Shares, moves and permissions: what the server does for a container's objects.

public import FoundationEssentials
import MirrorWire
public import ReplicaStore
public import ReplicaSync

extension PersistentContainer {
  /// Exports first, and then moves the objects, and all that they are connected with, into a zone of their own or into
  /// that of `share`. Needs the server.
  /// - Returns: the share, and the objects that lie in another zone now.
  public func share<Object>(
    _ objects: [ObjectID<Object>], to share: Share? = nil, title: String? = nil,
    publicPermission: ParticipantPermission = .none
  ) async throws(StoreError) -> (share: Share, moved: Set<AnyObjectID>) {
    let store = try await home(of: objects.map(\.any))
    let (share, moved) = try await sharing(store).share(
      objects.map(\.recordName), to: share, title: title, publicPermission: publicPermission)
    let movedObjects = try await named(moved, in: store)
    return (share, movedObjects)
  }

  /// Joins shares by their addresses, into the shared store, and imports them.
  /// - Throws: `invalid` for an address that is no share's, before any is joined; the error of the first share that
  ///   can't be joined, after the others are.
  public func acceptShareInvitations(from urls: [String], into store: PersistentStore) async throws(StoreError)
    -> [Share]
  {
    try await sharing(try open(store)).accept(urls)
  }

  /// Users by their addresses or record names; those that nobody may find are left out.
  public func fetchParticipants(matching infos: [LookupInfo], into store: PersistentStore) async throws(StoreError)
    -> [Participant]
  {
    try await sharing(try open(store)).participants(matching: infos)
  }

  /// Saves a share that was changed. If somebody else changed it meanwhile, only the difference is applied to theirs.
  public func persistUpdatedShare(_ share: Share, in store: PersistentStore) async throws(StoreError) -> Share {
    try await sharing(try open(store)).persist(share)
  }

  /// Ends a zone as its owner, or leaves it as a participant.
  /// - Parameter keepCopy: the objects stay as copies with other names.
  public func purgeObjectsAndRecordsInZone(_ zone: Zone, in store: PersistentStore, keepCopy: Bool = false)
    async throws(StoreError)
  {
    try await sharing(try open(store)).purge(zone, keepCopy: keepCopy)
  }

  /// Moves objects, and all that they are connected with.
  /// - Parameter zone: nil: the default zone.
  public func move<Object>(_ objects: [ObjectID<Object>], to zone: Zone?) async throws(StoreError) -> Set<AnyObjectID> {
    let store = try await home(of: objects.map(\.any))
    return try await named(try await sharing(store).move(objects.map(\.recordName), to: zone), in: store)
  }

  // MARK: Offline

  /// Shares as the stores know them.
  /// - Parameter store: nil: of all stores.
  public func shares(in store: PersistentStore? = nil) async throws(StoreError) -> [Share] {
    var shares: [Share] = []
    for open in opened where store == nil || open.store == store {
      if let loop = sync.loop(of: open.store) { shares += try await Sharing(loop).cachedShares() }
    }
    return shares
  }

  /// The share that an object lies in, as the stores know it.
  public func share<Object>(of object: ObjectID<Object>) async throws(StoreError) -> Share? {
    let store = try await home(of: [object.any])
    guard let zone = try await store.replica.zone(of: object.any) else { return nil }
    return try await shares(in: store.store).first {
      $0.zone.zoneName == zone.zoneName && $0.zone.ownerRecordName == zone.ownerRecordName ?? ""
    }
  }

  /// Whether a save may change the object, as far as the store knows.
  public func canUpdateRecord<Object>(for object: ObjectID<Object>) async -> Bool {
    await rights(object.any)?.canUpdate ?? false
  }
  /// Whether a save may delete the object, as far as the store knows.
  public func canDeleteRecord<Object>(for object: ObjectID<Object>) async -> Bool {
    await rights(object.any)?.canDelete ?? false
  }
  /// Whether saves go to the store at all.
  public func canModifyManagedObjects(in store: PersistentStore) -> Bool {
    opened.contains { $0.store == store && !$0.description.isReadOnly }
  }

  // MARK: Records

  /// The CloudKit record of an object, as JSON in the form of the record plane; nil: the server has none.
  public func record<Object>(for object: ObjectID<Object>) async throws(StoreError) -> Data? {
    let records = try await sharing(try await home(of: [object.any])).records([object.recordName])
    return records.first.flatMap { $0 }.map { Data($0) }
  }

  // MARK: Stores

  private func sharing(_ store: OpenStore) throws(StoreError) -> Sharing {
    guard let loop = sync.loop(of: store.store) else { throw .invalid("the store is not mirrored") }
    return Sharing(loop)
  }

  /// The store that has all of the objects.
  private func home(of objects: [AnyObjectID]) async throws(StoreError) -> OpenStore {
    for store in opened {
      do {
        let isHome = try await store.replica.read { snapshot in
          try objects.allSatisfy { id in
            try snapshot.hasEntity(id.entityName) && snapshot.object(id) { _ in true } ?? false
          }
        }
        if isHome { return store }
      } catch { throw StoreError(error) }
    }
    throw objects.first.map { .missing($0) } ?? .invalid("no object is named")
  }

  private func named(_ names: [String], in store: OpenStore) async throws(StoreError) -> Set<AnyObjectID> {
    do {
      return try await store.replica.read { snapshot in Set(try names.compactMap { try snapshot.objectID(named: $0) }) }
    } catch { throw StoreError(error) }
  }

  private func rights(_ object: AnyObjectID) async -> (canUpdate: Bool, canDelete: Bool)? {
    guard let store = try? await home(of: [object]), !store.description.isReadOnly else { return nil }
    return try? await store.replica.read { snapshot in try snapshot.rights(object) }
  }
}
