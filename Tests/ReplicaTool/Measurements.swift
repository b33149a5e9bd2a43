// Measures a store beside bare SQLite on the same disk: saves, batches, requests, imports, pins and memory.

import AquiferClient
import FoundationEssentials
import Glibc
import MirrorWire
import ReplicaStore

struct Measurements {
  let folder: String
  /// 100 000, or fewer: what the counts of all figures are parts of.
  let count: Int
  private let bare: BareSQLite

  init(folder: String, count: Int) throws {
    (self.folder, self.count) = (folder, count)
    bare = try BareSQLite(path: "\(folder)/bare.sqlite")
  }

  func run() async throws {
    var store = StoreDescription(
      path: "\(folder)/measured.sqlite", cloudOptions: CloudOptions(containerIdentifier: "measured"))
    store.generationByteLimit = 1 << 30
    let container = try await PersistentContainer(.measured, stores: [store])
    Figure("idleMemory", residentMegabytes()).tell()
    try await measureSaves(container)
    try await measureBatch(container)
    try await measureRequests(container)
    try await measureUpdates(container)
    await container.close()
    try await measureImport()
  }

  private func measureSaves(_ container: PersistentContainer) async throws {
    let saveCount = count / 20
    let bareTimes = try await times(saveCount) { try bare.insert($0...$0) }
    let own = try await times(saveCount) { number in
      try await container.save(author: "app") {
        try $0.insert(Photo(displayName: "Dunes \(number)", uniqueName: "U\(number)", size: Int64(number)))
      }
    }
    Figure("saves", own.rate, processor: own.processor / Double(saveCount), bare: bareTimes.rate).tell()
    Figure("savesP99", own.share(99) * 1000, bare: bareTimes.share(99) * 1000).tell()
  }

  private func measureBatch(_ container: PersistentContainer) async throws {
    let count = count / 2
    let photos = (0..<count).map {
      Photo(displayName: "Batch \($0 * 7919 % count)", uniqueName: "B\($0)", size: Int64($0))
    }
    let bareTime = try await times(1) { _ in try bare.insert(1_000_000...1_000_000 + count - 1) }
    let own = try await times(1) { _ in try await container.save { try $0.insertAll(photos) } }
    Figure("insertAll", Double(count) * own.rate, processor: own.processor, bare: Double(count) * bareTime.rate).tell()
  }

  private func measureRequests(_ container: PersistentContainer) async throws {
    let count = count / 5
    let request = Photo.filter { $0.size >= 0 }.sorted(\.displayName.ascending).prefix(count)
    let bareTimes = try await times(5) { _ in try bare.fetch(count) }
    let own = try await times(5) { _ in _ = try await container.fetch(request) }
    Figure("fetch", own.share(50) * 1000, processor: own.processor / 5, bare: bareTimes.share(50) * 1000).tell()
    let screen = Photo.all.sorted(\.displayName.ascending).prefix(50)
    let few = try await times(20) { _ in _ = try await container.fetch(screen) }
    Figure("fetchScreen", few.share(50) * 1000, processor: few.processor / 20).tell()
    let text = try await times(5) { _ in _ = try await container.count(Photo.filter { $0.displayName.contains("99") }) }
    Figure("countText", text.share(50) * 1000, processor: text.processor / 5).tell()
  }

  /// Updates in 100 saves, without and with a pinned generation.
  private func measureUpdates(_ container: PersistentContainer) async throws {
    let rows = count / 100
    func update() async throws -> Times {
      try await times(100) { round in
        try await container.save { save in
          _ = try save.updateAll(Photo.all.prefix(rows)) { $0.size += Int64(round + 1) }
        }
      }
    }
    func bareUpdate() async throws -> Double { try await times(100) { _ in try bare.update(rows) }.whole }
    _ = try await bareUpdate()
    let bareFree = try await bareUpdate()
    let barePinned = try await bare.pinned(bareUpdate)
    _ = try await update()
    let free = try await update()
    let generation = try await container.currentQueryGeneration()
    let pinned = try await update()
    Figure(
      "pin", (pinned.whole / free.whole - 1) * 100, processor: pinned.processor, bare: (barePinned / bareFree - 1) * 100
    ).tell()
    guard !generation.isExpired else { throw StoreError.generationExpired }
    generation.release()
  }

  /// The file's part of a first import, and JSON's.
  private func measureImport() async throws {
    let pageCount = max(count / 1000, 1) * 11 / 10
    let texts = (0..<pageCount).map(ImportText.page)
    let replica = try await Replica.open(Endless.configuration("\(folder)/imported.sqlite"), .measured)
    let own = try await times(pageCount) { place in
      try await replica.apply(try ImportPage(json: texts[place]), event: nil)
    }
    await replica.close()
    let bareTimes = try await times(pageCount) { place in
      try bare.insert(2_000_000 + place * 1000...2_000_999 + place * 1000)
    }
    Figure("fileImport", own.whole, processor: own.processor, bare: bareTimes.whole).tell()
  }
}
