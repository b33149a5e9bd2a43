// One run of the convergence property: devices edit, export and import at random, and all end with the oracle's graph
// (T-O06).

import Foundation
import History
import Mirroring
import MirroringWorld
import Records

package enum ConvergenceRun {
  private static let stepCount = 60

  /// Seeds of earlier failures, one a line in seeds.txt; text after a number is for people.
  package static let knownSeeds: [Int] = {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "seeds.txt")
    let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
    return text.split(separator: "\n").compactMap { line in Int(line.prefix { $0.isNumber }) }
  }()

  /// Additional features of a run. The seed decides them, so that each occurs in many runs.
  private struct Shape {
    let deviceCount: Int
    /// Another program also deletes records, and leaves references and links to them behind.
    let hasRecordClient: Bool

    init(_ generator: inout SeededGenerator) {
      deviceCount = Int.random(in: 2...5, using: &generator)
      hasRecordClient = Int.random(in: 0..<3, using: &generator) == 0
    }
  }

  /// The differences at the end; empty when everything converged.
  /// - Parameters:
  ///   - losesLastPage: true: the first device skips a page, to show that the check notices it.
  ///   - zoneNames: with several zones objects move between them, and links between zones are refused.
  package static func failures(ofSeed seed: Int, losesLastPage: Bool = false, zones zoneNames: [String] = ["home"])
    throws -> [String]
  {
    let zone = TestDatabase(zones: zoneNames)
    var editor = Editor(seed: seed)
    let shape = Shape(&editor.generator)
    let devices = ["A", "B", "C", "D", "E"].prefix(shape.deviceCount).map { TestClient($0, zone) }
    var oracle = Graph()
    func export(_ device: TestClient) throws { for transaction in try device.export() { oracle.apply(transaction) } }

    for _ in 0..<stepCount {
      let device = devices[Int.random(in: 0..<devices.count, using: &editor.generator)]
      switch Int.random(in: 0..<(zoneNames.count > 1 ? 11 : 9), using: &editor.generator) {
      case 0...3: try device.save(editor.transaction(on: device.graph, store: device.store))
      case 9...10:
        for device in devices { try export(device) }
        try move(in: zone, &editor.generator)
      case 4, 5: try export(device)
      case 6 where shape.hasRecordClient:
        guard let name = oracle.objects.keys.sorted().randomElement(using: &editor.generator) else { continue }
        zone.zone(of: name)?.delete(name)
        oracle.delete(name)
      default: try importPage(of: device, &editor.generator, export)
      }
    }
    for device in devices { try export(device) }
    if losesLastPage { try devices[0].skipPage() }
    for device in devices { while try device.importPage(limit: 4) > 0 || device.token < zone.sequence {} }
    let fresh = TestClient("fresh", zone)
    try fresh.importPage()
    var failures = (devices + [fresh]).flatMap { device in
      device.graph.picture.differences(from: oracle.picture).map { "\(device.store): \($0) differs from the oracle" }
    }
    for device in devices + [fresh] {
      // An object that a device made and never imported has no place there.
      let lost = device.graph.objects.keys.filter { name in
        device.places[name].map { zone.zone(of: name)?.name != $0 } ?? (device === fresh)
      }
      failures += lost.sorted().map { "\(device.store): \($0) is in \(device.places[$0] ?? "no zone")" }
    }
    failures += try echoes(of: devices, in: zone)
    return failures
  }

  /// Moves an object or two to a random zone.
  private static func move(in database: TestDatabase, _ generator: inout SeededGenerator) throws {
    let names = database.zones.flatMap(\.live).filter { !LinkRecord.isLink(recordType: $0.recordType) }.map(
      \.recordName
    ).sorted()
    guard let name = names.randomElement(using: &generator), let other = names.randomElement(using: &generator) else {
      return
    }
    let target = database.zones[Int.random(in: 0..<database.zones.count, using: &generator)]
    try database.move([name, other], to: target, leavesFirst: Bool.random(using: &generator))
  }

  private static func importPage(
    of device: TestClient, _ generator: inout SeededGenerator, _ export: (TestClient) throws -> Void
  ) throws {
    try export(device)
    // Pages of several zones keep the order of the changes: an object may be deleted in one zone and created again in
    // another.
    let shuffles = Bool.random(using: &generator) && device.isOfOneZone
    let limit = Int.random(in: 1...6, using: &generator)
    // Now and then a device stops before it has stored its token, and gets the page again.
    let keepsToken = Int.random(in: 0..<8, using: &generator) > 0
    device.apply(
      try device.fetch(limit: limit) { page in if shuffles { page.shuffle(using: &generator) } }, keepsToken: keepsToken
    )
  }

  /// Nothing is left to be sent in either direction (T-H04).
  private static func echoes(of devices: [TestClient], in zone: TestDatabase) throws -> [String] {
    let sequence = zone.sequence
    var failures: [String] = []
    for _ in 0..<3 {
      for device in devices {
        try device.export()
        if try device.importPage() > 0 { failures.append("\(device.store): hears an echo") }
      }
    }
    return failures + (zone.sequence == sequence ? [] : ["something was exported though nothing was saved"])
  }
}
