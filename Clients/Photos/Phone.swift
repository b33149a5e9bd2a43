// The telephone's app: what a person does with photos, and what the screen shows of them.

import AquiferClient
import FoundationEssentials

/// One telephone: a private store, and a shared one for the photos of others.
actor Phone {
  let options: Options
  private let container: PersistentContainer
  private let own: PersistentStore
  private let others: PersistentStore
  private var isAirplane: Bool
  private var pinned: QueryGeneration?
  private var status: [PersistentStore: SyncStatus] = [:]
  /// Names of photos that this process has edited since nothing was pending.
  private var edited: Set<String> = []
  private var lines: [PhoneState.EventLine] = []
  private var latest = PhoneState()
  private var isShowing = false
  private var isOutdated = false
  private var listeners: [Int: AsyncStream<PhoneState>.Continuation] = [:]
  private var listenerCount = 0

  /// Opens the replica and goes online.
  init(_ options: Options) async throws {
    self.options = options
    let account = Account(
      server: options.server, notifier: options.notifier, apiToken: options.apiToken,
      tokens: TokenFile(path: options.folder + "/token"))
    let stores = [DatabaseScope.private, .shared].map { options.store($0) }
    container = try await PersistentContainer(.photos, stores: stores, account: account)
    (own, others) = (container.stores[0], container.stores[1])
    isAirplane = FileManager.default.fileExists(atPath: Self.airplaneFile(options))
    await container.sync.setPaused(isAirplane)
    container.sync.start()
  }

  /// A file that is there in airplane mode, which outlives the process as on any telephone.
  private static func airplaneFile(_ options: Options) -> String { options.folder + "/airplane" }

  // MARK: The screen

  /// Follows the stores for as long as the process lives, and tells the page.
  func run() async {
    let container = container
    await withTaskGroup { group in
      group.addTask { for await _ in container.remoteChanges() { await self.show() } }
      group.addTask { for await event in container.events where event.endDate != nil { await self.show(event) } }
      for store in container.stores {
        group.addTask { for await status in container.sync.status(of: store) { await self.show(status, of: store) } }
      }
    }
  }

  /// The screen, now and whenever it is different.
  func states() async -> AsyncStream<PhoneState> {
    let (stream, continuation) = AsyncStream<PhoneState>.makeStream(bufferingPolicy: .bufferingNewest(1))
    listenerCount += 1
    let number = listenerCount
    listeners[number] = continuation
    continuation.onTermination = { _ in Task { await self.forget(number) } }
    continuation.yield(latest)
    await show()
    return stream
  }

  private func forget(_ number: Int) { listeners[number] = nil }

  func screen() async -> PhoneState {
    // Dropped because the screen keeps what it shows until the stores can be read again.
    let photos = (try? await photos()) ?? latest.photos
    // Read behind the photos, and without a suspension, so that the parts fit each other.
    var state = PhoneState(device: options.device, isGuest: options.isGuest, isAirplane: isAirplane, photos: photos)
    state.isPinned = pinned != nil
    state.generationAge = pinned?.age ?? 0
    state.pending = status.values.reduce(0) { $0 + $1.pendingTransactions }
    state.idle = isAirplane ? "airplane mode" : status[own]?.idle.rawValue ?? "working"
    state.isCaughtUp = !isAirplane && status.count == 2 && status.values.allSatisfy(\.isCaughtUp)
    state.events = lines
    return state
  }

  /// One call reads the screen at a time, so that an earlier state never replaces a later one; calls meanwhile lead to
  /// one more.
  private func show() async {
    isOutdated = true
    guard !isShowing else { return }
    isShowing = true
    while isOutdated {
      isOutdated = false
      let state = await screen()
      guard state != latest else { continue }
      latest = state
      for listener in listeners.values { listener.yield(state) }
    }
    isShowing = false
  }

  private func show(_ event: Event) async {
    lines.insert(PhoneState.EventLine(event), at: 0)
    if lines.count > 4 { lines.removeLast() }
    await show()
  }

  private func show(_ status: SyncStatus, of store: PersistentStore) async {
    self.status[store] = status
    if self.status.values.allSatisfy({ $0.pendingTransactions == 0 }) { edited = [] }
    await show()
  }

  private func photos() async throws -> [PhoneState.Picture] {
    let (user, own, waiting) = (options.user, own, edited)
    let photos = try await container.read(at: pinned) { context in
      let request = Photo.all.sorted(\.addedAt.descending)
      let mine = Set(try context.fetch(request.inStores(own)).map(\.id))
      let ratings = try context.fetch(request, including: \.ratings)
      let tags = try context.fetch(request, including: \.tags)
      return zip(ratings, tags).map { rated, tagged in
        PhoneState.Picture(
          id: rated.0.id.recordName, caption: rated.0.caption ?? "", tags: tagged.1.compactMap(\.name).sorted(),
          stars: Int(rated.1.first { $0.who == user }?.stars ?? 0), isMine: mine.contains(rated.0.id),
          isShared: !mine.contains(rated.0.id), isPending: waiting.contains(rated.0.id.recordName))
      }
    }
    var shown: [PhoneState.Picture] = []
    for photo in photos { shown.append(try await photo.marked(isShared: share(of: photo.id) != nil)) }
    return shown
  }

  private func share(of name: String) async throws -> Share? {
    try await container.share(of: ObjectID<Photo>(recordName: name))
  }

  /// The picture's bytes; nil: there is none, or it can't be fetched now.
  func picture(_ name: String) async -> [UInt8]? {
    // Dropped because a picture that can't be read is as good as none; the page shows its place.
    let photo = try? await container.read { try $0.object(ObjectID<Photo>(recordName: name)) }
    return (try? await photo?.picture?.data()).map { [UInt8]($0) }
  }

  // MARK: What a person does

  /// Takes the next photo.
  /// - Returns: its record name.
  func add() async throws -> String {
    let count = try await container.count(Photo.all.inStores(own))
    let seed = count * 7 + options.device.utf8.reduce(0) { $0 + Int($1) }
    let picture = ExternalData(Data(Landscape(number: seed).svg.utf8))
    let caption = Landscape.captions[seed % Landscape.captions.count]
    let photo = Photo(addedAt: Date(), caption: caption, picture: picture)
    edited.insert(photo.id.recordName)
    try await container.save(in: own, author: options.device) { _ = try $0.insert(photo) }
    await show()
    return photo.id.recordName
  }

  func setCaption(_ caption: String, of name: String) async throws {
    try await edit(name) { _ = try $0.update($1) { $0.caption = caption } }
  }

  func tag(_ name: String, as tag: String) async throws {
    try await edit(name) { save, photo in
      let known = try save.first(Tag.filter { $0.name == tag }) ?? save.insert(Tag(name: tag))
      try save.add(known.id, to: \.tags, of: photo)
    }
  }

  func untag(_ name: String, as tag: String) async throws {
    try await edit(name) { save, photo in
      for known in try save.fetch(Tag.filter { $0.name == tag }) { try save.remove(known.id, from: \.tags, of: photo) }
    }
  }

  func rate(_ name: String, stars: Int) async throws {
    let user = options.user
    try await edit(name) { save, photo in
      if let rating = try save.first(Rating.filter { $0.photo == photo && $0.who == user }) {
        try save.update(rating.id) { $0.stars = Int16(stars) }
      } else {
        try save.insert(Rating(stars: Int16(stars), who: user, photo: photo))
      }
    }
  }

  func delete(_ name: String) async throws { try await edit(name) { try $0.delete($1) } }

  func setAirplane(_ isOn: Bool) async throws {
    guard isAirplane != isOn else { return }
    let file = Self.airplaneFile(options)
    if isOn { try Data().write(to: URL(filePath: file)) } else { try FileManager.default.removeItem(atPath: file) }
    isAirplane = isOn
    await container.sync.setPaused(isOn)
    await show()
  }

  /// Keeps the screen at the state of now, or lets it go on.
  func setPinned(_ isOn: Bool) async throws {
    pinned?.release()
    pinned = isOn ? try await container.currentQueryGeneration() : nil
    await show()
  }

  /// - Returns: the address that an invitation has.
  func share(_ name: String) async throws -> String {
    let id = ObjectID<Photo>(recordName: name)
    let title = try await container.read { try $0.object(id)?.caption } ?? "Photos"
    let shared = try await container.share([id], title: title, publicPermission: .readWrite)
    await show()
    return shared.share.url
  }

  func accept(_ address: String) async throws {
    _ = try await container.acceptShareInvitations(from: [address], into: others)
    await show()
  }

  /// Ends a share; the owner keeps the photos.
  func revoke(_ name: String) async throws {
    guard let share = try await share(of: name) else { throw Problem(reason: "The photo is not shared.") }
    try await container.purgeObjectsAndRecordsInZone(share.zone, in: own, keepCopy: true)
    await show()
  }

  /// Saves in the store that has the photo.
  private func edit(_ name: String, _ body: @escaping @Sendable (SaveContext, ObjectID<Photo>) throws -> Void)
    async throws
  {
    let id = ObjectID<Photo>(recordName: name)
    edited.insert(name)
    for store in container.stores {
      let isThere = try await container.save(in: store, author: options.device) { save in
        guard try save.object(id) != nil else { return false }
        try body(save, id)
        return true
      }.value
      if isThere { return await show() }
    }
    throw Problem(reason: "The photo is not here any more.")
  }
}

extension Options {
  /// The store of one of the user's databases.
  fileprivate func store(_ scope: DatabaseScope) -> StoreDescription {
    var cloud = CloudOptions(containerIdentifier: containerIdentifier, databaseScope: scope)
    cloud.environment = "development"
    cloud.deviceName = device
    return StoreDescription(path: "\(folder)/\(scope.rawValue).sqlite", cloudOptions: cloud)
  }
}

extension PhoneState.Picture {
  fileprivate func marked(isShared: Bool) -> Self {
    Self(
      id: id, caption: caption, tags: tags, stars: stars, isMine: isMine, isShared: self.isShared || isShared,
      isPending: isPending)
  }
}

extension PhoneState.EventLine {
  fileprivate init(_ event: Event) {
    kind = "\(event.kind)"
    succeeded = event.succeeded
    let counts = [(event.savedCount, "saved"), (event.deletedCount, "deleted")].filter { $0.0 > 0 }.map {
      "\($0.0) \($0.1)"
    }
    text = event.succeeded ? counts.joined(separator: ", ") : event.errors.first.map { "\($0.error)" } ?? "failed"
    let second = Int((event.endDate ?? event.startDate).timeIntervalSince1970) % 86_400
    time = [second / 3600, second / 60 % 60, second % 60].map { $0 < 10 ? "0\($0)" : "\($0)" }.joined(separator: ":")
  }
}
