// Devices make, link, rename and delete tags at random under a unique constraint, beside an oracle without records.

import FixedClocks
import JSON
import Mirroring
import RecordStore
import Records
import Sanitizers
import Testing
@testable import ZoneActions

/// Tags by name and photos with sets of tags; of two tags with one name only the lower one is ever thought of.
private struct NaiveTags {
  private(set) var names: [String: String] = [:]
  private(set) var photos: [String: Set<String>] = [:]
  private var stands: [String: String] = [:]

  func survivor(_ tag: String) -> String { stands[tag].map(survivor) ?? tag }

  mutating func insert(tag: String, name: String) {
    names[tag] = name
    merge(name)
  }

  mutating func rename(_ tag: String, _ name: String) {
    names[survivor(tag)] = name
    merge(name)
  }

  mutating func insert(photo: String, tags: [String]) { photos[photo] = Set(tags.map(survivor)) }
  mutating func delete(photo: String) { photos[photo] = nil }
  mutating func add(_ tag: String, to photo: String) {
    let survivor = survivor(tag)
    photos[photo]?.insert(survivor)
  }
  mutating func remove(_ tag: String, from photo: String) {
    let survivor = survivor(tag)
    photos[photo]?.remove(survivor)
  }

  private mutating func merge(_ name: String) {
    let same = names.filter { $0.value == name }.keys.sorted()
    guard let first = same.first else { return }
    for tag in same.dropFirst() {
      names[tag] = nil
      stands[tag] = first
      for (photo, tags) in photos where tags.contains(tag) { photos[photo] = tags.subtracting([tag]).union([first]) }
    }
  }

  var picture: [String] {
    names.map { "\($0.key)=\($0.value)" }.sorted()
      + photos.flatMap { photo, tags in tags.map { "\(photo):\($0)" } }.sorted()
  }
}

extension DeviceGraph {
  /// The device's view: tags with their names, and pairs of a photo and a tag that are both present.
  fileprivate var picture: [String] {
    let tags = objects.filter { $0.value["entity"] == "Tag" }.map {
      "\($0.key)=\(($0.value["name"] ?? "").filter { $0 != "\"" })"
    }
    let pairs = links.compactMap { link -> String? in
      let ends = link.dropFirst("Photo.tags ".count).split(separator: "→").map(String.init)
      return ends.count == 2 && objects[ends[0]] != nil && objects[ends[1]] != nil ? ends.joined(separator: ":") : nil
    }
    return tags.sorted() + pairs.sorted()
  }

  fileprivate func ids(_ entity: String) -> [String] { objects.filter { $0.value["entity"] == entity }.keys.sorted() }
}

private struct Run {
  let world: ObjectPlaneWorld
  var generator: SeededRandom
  var oracle = NaiveTags()
  private var counter = 0

  init(_ world: ObjectPlaneWorld, seed: Int) {
    self.world = world
    generator = SeededRandom(seed: UInt64(seed))
  }

  private mutating func name() -> String {
    counter += 1
    // Names that ascend in another order than they are made.
    return String(Int.random(in: 100...999, using: &generator)) + "-\(counter)"
  }

  /// One edit on a device, exported at once, and made to the oracle in that order.
  mutating func edit(_ device: Device) async throws {
    let (tags, photos) = (device.graph.ids("Tag"), device.graph.ids("Photo"))
    let text = ["x", "y", "z"].randomElement(using: &generator) ?? "x"
    switch (
      Int.random(in: 0..<10, using: &generator), tags.randomElement(using: &generator),
      photos.randomElement(using: &generator)
    ) {
    case (0...2, _, _), (_, nil, _):
      let tag = "T" + name()
      try device.edit(#"{"changeType":"save","entity":"Tag","objectID":"\#(tag)","attributes":{"name":"\#(text)"}}"#)
      oracle.insert(tag: tag, name: text)
      try await send(Edit.insertTag(tag, text), by: device)
    case (3...4, let tag?, _), (_, let tag?, nil):
      let photo = "P" + name()
      try device.edit(#"{"changeType":"save","entity":"Photo","objectID":"\#(photo)"}"#)
      try link(photo, tag, "link", on: device)
      oracle.insert(photo: photo, tags: [tag])
      try await send(Edit.insertPhoto(photo, tags: [tag]), by: device)
    case (5, let tag?, _):
      try device.edit(#"{"changeType":"save","entity":"Tag","objectID":"\#(tag)","attributes":{"name":"\#(text)"}}"#)
      oracle.rename(tag, text)
      try await send(Edit.renameTag(tag, text), by: device)
    case (6...7, let tag?, let photo?) where oracle.photos[photo] != nil:
      try link(photo, tag, "link", on: device)
      oracle.add(tag, to: photo)
      try await send(Edit.setTags(photo, #"{"add":["\#(tag)"],"remove":[]}"#), by: device)
    case (8, let tag?, let photo?) where oracle.photos[photo] != nil:
      try link(photo, tag, "unlink", on: device)
      oracle.remove(tag, from: photo)
      try await send(Edit.setTags(photo, #"{"add":[],"remove":["\#(tag)"]}"#), by: device)
    case (_, _, let photo?) where oracle.photos[photo] != nil:
      try device.edit(#"{"changeType":"delete","entity":"Photo","objectID":"\#(photo)"}"#)
      oracle.delete(photo: photo)
      try await send(Edit.delete("Photo", photo), by: device)
    default: break
    }
  }

  private func link(_ photo: String, _ tag: String, _ type: String, on device: Device) throws {
    try device.edit(
      #"""
      {"changeType":"\#(type)","entity":"Photo","relationship":"tags","objectID":"\#(photo)","target":{"entity":"Tag",\#
      "objectID":"\#(tag)"}}
      """#
    )
  }

  private func send(_ change: String, by device: Device) async throws {
    let reply = try await world.export(device.store, change)
    #expect(reply.status == 200 && reply.json["event"]?["succeeded"]?.bool != false, "\(change): \(reply.text)")
  }
}

@Test(arguments: Sanitizer.few(6, of: 0..<40))
func `T-D01 T-D02 T-D07 devices that edit tags at random end with the oracle's tags and photos`(_ seed: Int)
  async throws
{
  try await ObjectPlaneWorld.with(seed % 4 == 0 ? .sqlite : .memory) { world in
    world.declareTags()
    var run = Run(world, seed: seed)
    var devices: [Device] = []
    for index in 0..<Int.random(in: 2...4, using: &run.generator) {
      devices.append(try await Device("D\(index)", world))
    }
    for _ in 0..<60 {
      guard let device = devices.randomElement(using: &run.generator) else { return }
      switch Int.random(in: 0..<6, using: &run.generator) {
      case 0...3: try await run.edit(device)
      case 4: try await device.pull(limit: Int.random(in: 1...20, using: &run.generator))
      default: await world.duplicates.advance(world.store)
      }
    }
    // Everybody hears of everything, and what waits goes.
    for _ in 0..<3 {
      for device in devices {
        world.clock.advance(by: 1000)
        try await device.pull()
        try await world.export(device.store, Edit.insertPhoto("Q\(world.clock.now)"))
      }
      try await world.settleDuplicates()
    }
    for device in devices { try await device.pull() }
    let fresh = try await Device("fresh", world)
    try await fresh.pull()
    let expected = run.oracle.picture
    #expect(try await world.tags() + world.pairs() == expected, "seed \(seed)")
    #expect(fresh.graph.picture == expected, "seed \(seed)")
    for device in devices { #expect(device.graph.picture == expected, "seed \(seed), \(device.store)") }
    for device in devices { #expect(try await device.pull().isEmpty) }
  }
}
