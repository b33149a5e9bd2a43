// Measures a store: saves, batches, requests, imports, pins and memory.

import AquiferClient
import FoundationEssentials
import Glibc
import MirrorWire
import ReplicaStore

struct Measurements {
  let folder: String

  func run() async throws {
    report("idle", "\(residentKilobytes()) KB resident")
    var store = StoreDescription(
      path: "\(folder)/measured.sqlite", cloudOptions: CloudOptions(containerIdentifier: "measured"))
    store.generationByteLimit = 1 << 30
    let container = try await PersistentContainer(.measured, stores: [store])
    report("store open", "\(residentKilobytes()) KB resident")
    try await measureSaves(container)
    try await measureBatch(container)
    try await measureRequests(container)
    try await measureUpdates(container)
    await container.close()
    try await measureImport()
  }

  private func measureSaves(_ container: PersistentContainer) async throws {
    var seconds: [Double] = []
    let whole = try await time {
      for number in 0..<5000 {
        seconds.append(
          try await time {
            try await container.save(author: "app") {
              try $0.insert(Photo(displayName: "Dunes \(number)", uniqueName: "U\(number)", size: Int64(number)))
            }
          })
      }
    }
    seconds.sort()
    report(
      "single durable saves",
      "\(Int(5000 / whole))/s, p50 \(milliseconds(seconds[2500])), p99 \(milliseconds(seconds[4950]))")
  }

  private func measureBatch(_ container: PersistentContainer) async throws {
    let photos = (0..<50_000).map {
      Photo(displayName: "Batch \($0 * 7919 % 50_000)", uniqueName: "B\($0)", size: Int64($0))
    }
    let seconds = try await time { try await container.save { try $0.insertAll(photos) } }
    report("insertAll 50 000", "\(milliseconds(seconds)), \(Int(50_000 / seconds))/s")
  }

  private func measureRequests(_ container: PersistentContainer) async throws {
    let request = Photo.filter { $0.size >= 0 }.sorted(\.displayName.ascending).prefix(20_000)
    _ = try await container.fetch(request)
    var count = 0
    let seconds = try await time { count = try await container.fetch(request).count }
    report("fetch \(count) sorted", milliseconds(seconds))
    let screen = Photo.all.sorted(\.displayName.ascending).prefix(50)
    let few = try await time { for _ in 0..<100 { _ = try await container.fetch(screen) } }
    report("fetch 50 of 55 000 sorted", milliseconds(few / 100))
    let text = try await time { _ = try await container.count(Photo.filter { $0.displayName.contains("99") }) }
    report("count of 55 000 that contain a text", milliseconds(text))
  }

  /// 100 000 updates in 100 saves, without and with a pinned generation.
  private func measureUpdates(_ container: PersistentContainer) async throws {
    func update() async throws -> Double {
      try await time {
        for round in 0..<100 {
          try await container.save { save in
            _ = try save.updateAll(Photo.all.prefix(1000)) { $0.size += Int64(round + 1) }
          }
        }
      }
    }
    _ = try await update()
    let free = try await update()
    let generation = try await container.currentQueryGeneration()
    let pinned = try await update()
    let log = try fileByteCount("\(folder)/measured.sqlite-wal")
    let isThere = !generation.isExpired
    report(
      "100 000 updates",
      """
      \(milliseconds(free)); with a pin \(milliseconds(pinned)) (\(Int((pinned / free - 1) * 100)) % more, log \
      \(log >> 20) MB, pin \(isThere ? "held" : "expired"))
      """
    )
    generation.release()
  }

  /// 100 000 objects and 10 000 links in pages of 1000, as JSON.
  private func measureImport() async throws {
    let before = residentKilobytes()
    let replica = try await Replica.open(Endless.configuration("\(folder)/imported.sqlite"), .measured)
    var decoding = 0.0
    var applying = 0.0
    for number in 0..<110 {
      let json = Self.page(number)
      var page: ImportPage?
      decoding += try await time { page = try ImportPage(json: json) }
      if let page { applying += try await time { try await replica.apply(page, event: nil) } }
    }
    let peak = residentKilobytes()
    report(
      "import of 100 000 objects and 10 000 links",
      "file \(milliseconds(applying)), JSON \(milliseconds(decoding)), \((peak - before) / 1024) MB more resident")
    await replica.close()
  }

  private static func page(_ number: Int) -> [UInt8] {
    var changes: [String] = []
    for place in 0..<1000 {
      if number < 100 {
        let entity = place < 900 ? "Photo" : "Tag"
        let name = name(number * 1000 + place)
        let attributes =
          place < 900
          ? #"{"displayName":"Dunes \#(place)","uniqueName":"U\#(number)-\#(place)","size":\#(place)}"#
          : #"{"name":"tag \#(place)"}"#
        changes.append(
          #"""
          {"changeType":"save","entity":"\#(entity)","objectID":"\#(name)",\#
          "zoneID":{"zoneName":"com.apple.coredata.cloudkit.zone","ownerRecordName":"_me"},\#
          "attributes":\#(attributes),"relationships":{},"recordChangeTag":"1g","modified":{"timestamp":1700000000000,\#
          "userRecordName":"_me","deviceID":"d"}}
          """#
        )
      } else {
        let photo = name((number - 100) * 1000 + place / 900 * 1000 + place % 900)
        changes.append(
          #"""
          {"changeType":"link","relationship":"tags","entity":"Photo","objectID":"\#(photo)","target":{"entity":"Tag",\#
          "objectID":"\#(name((number - 100) * 1000 + 900 + place % 100))"}}
          """#
        )
      }
    }
    return Array(
      #"""
      {"changes":[\#(changes.joined(separator: ","))],"importToken":"t\#(number)","moreComing":true,"caughtUp":false}
      """#
      .utf8)
  }

  private static func name(_ number: Int) -> String {
    let digits = String(number, radix: 16, uppercase: true)
    return "0B0B0B0B-1C1C-4D4D-8E8E-" + String(repeating: "0", count: 12 - digits.count) + digits
  }
}

/// Prints a figure with the processor time since the last one, which a busy machine changes less.
private func report(_ name: String, _ figure: String) {
  let now = processorSeconds()
  print("\(name): \(figure); processor \(milliseconds(now - reportedSeconds))")
  reportedSeconds = now
}

nonisolated(unsafe) private var reportedSeconds = 0.0

private func processorSeconds() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

private func milliseconds(_ seconds: Double) -> String { "\((seconds * 100_000).rounded() / 100) ms" }

private func time(_ body: () async throws -> Void) async throws -> Double {
  let start = ContinuousClock.now
  try await body()
  let components = (ContinuousClock.now - start).components
  return Double(components.seconds) + Double(components.attoseconds) / 1e18
}

private func residentKilobytes() -> Int {
  let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
  let line = text.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
  return line?.split(separator: " ").compactMap { Int($0) }.first ?? 0
}

private func fileByteCount(_ path: String) throws -> Int {
  var status = stat()
  return stat(path, &status) == 0 ? Int(status.st_size) : 0
}
