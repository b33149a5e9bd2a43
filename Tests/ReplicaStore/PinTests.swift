// Pinned states while pages of an import arrive: each shows what it showed, until the log grows too long.

import Dispatch
import MirrorWire
import Testing

@testable import ReplicaStore

/// Titles of photos by name, as a page of a number leaves them: each page renames all photos and adds one.
private func titles(after number: Int) -> [String: String] {
  Dictionary(uniqueKeysWithValues: (0..<number).map { ("P\($0)", "title \(number - 1)") })
}

private func importPage(_ number: Int, into store: TestStore) async throws {
  let changes = (0...number).map { saved("Photo", "P\($0)", ["title": .string("title \(number)")]) }
  try await store.replica.apply(ImportPage(changes: changes, importToken: "t\(number)"), event: nil)
}

private func shown(_ generation: Generation) async throws -> [String: String] {
  try await generation.read { snapshot in
    var titles: [String: String] = [:]
    for name in try snapshot.names(Query("Photo")) {
      guard case .text(let title)? = try snapshot.values(AnyObjectID(entityName: "Photo", recordName: name))?["title"]
      else { continue }
      titles[name] = title
    }
    return titles
  }
}

@Test func `ten pins show the same while an import goes on, whoever is released first`() async throws {
  let store = try await TestStore.make()
  var pins: [(generation: Generation, count: Int)] = []
  for number in 0..<60 {
    if number % 6 == 0 { pins.append((try store.replica.pin(), number)) }
    try await importPage(number, into: store)
    for pin in pins { #expect(try await shown(pin.generation) == titles(after: pin.count)) }
    // Not in the order of their ages.
    if number % 12 == 11 { pins.remove(at: pins.count / 2).generation.release() }
  }
  #expect(pins.count == 5 && pins.allSatisfy { !$0.generation.isExpired })
  #expect(try await shown(try store.replica.pin()) == titles(after: 60))
  await store.replica.close()
}

@Test func `the oldest pins end when the log is longer than allowed, and the others stay`() async throws {
  let store = try await TestStore.make { $0.logByteLimit = 1 << 20 }
  let oldest = try store.replica.pin()
  var number = 0
  while !oldest.isExpired, number < 2000 {
    try await importPage(number % 100, into: store)
    number += 1
  }
  await #expect(throws: StoreError.generationExpired) { try await shown(oldest) }
  let young = try store.replica.pin()
  let expected = try await shown(young)
  try await importPage(0, into: store)
  #expect(try await shown(young) == expected)
  await store.replica.close()
}

@Test func `a pin that is taken while the oldest one still ends stays, until the log has grown by as much again`()
  async throws
{
  let store = try await TestStore.make { $0.logByteLimit = 1 << 20 }
  let oldest = try store.replica.pin()
  // A read that is under way keeps the ended generation from letting go of the log.
  let mayEnd = DispatchSemaphore(value: 0)
  let (begins, begin) = AsyncStream.makeStream(of: Void.self)
  async let reading: Void = oldest.read { _ in
    begin.finish()
    mayEnd.wait()
  }
  for await _ in begins {}
  func importUntil(_ isOver: () -> Bool) async throws {
    for number in 0..<2000 where !isOver() { try await importPage(number % 100, into: store) }
  }
  try await importUntil { oldest.isExpired }
  let young = try store.replica.pin()
  let expected = try await shown(young)
  for _ in 0..<3 { try await importPage(0, into: store) }
  #expect(!young.isExpired)
  #expect(try await shown(young) == expected)
  try await importUntil { young.isExpired }
  #expect(young.isExpired)
  mayEnd.signal()
  try await reading
  await store.replica.close()
}

/// A page a second for an hour, by their number.
@Test func `ten pins show the same while an import brings as many pages as in an hour`() async throws {
  let store = try await TestStore.make()
  var random = SeededGenerator(60)
  var titles: [String: String] = [:]
  var pins: [(generation: Generation, titles: [String: String])] = []
  for number in 0..<3600 {
    if number % 360 == 0 { pins.append((try store.replica.pin(), titles)) }
    let changes = (0..<3).map { part in
      let name = "P\(Int.random(in: 0..<50, using: &random))"
      if Int.random(in: 0..<4, using: &random) == 0 {
        titles[name] = nil
        return ImportedChange.delete(entity: "Photo", objectID: name, zoneID: zone)
      }
      titles[name] = "title \(number) \(part)"
      return saved("Photo", name, ["title": .string("title \(number) \(part)")])
    }
    try await store.replica.apply(ImportPage(changes: changes, importToken: "t\(number)"), event: nil)
    guard number % 360 == 359 else { continue }
    for pin in pins { #expect(try await shown(pin.generation) == pin.titles, "after page \(number)") }
  }
  #expect(pins.count == 10 && pins.allSatisfy { !$0.generation.isExpired })
  #expect(try await shown(try store.replica.pin()) == titles)
  await store.replica.close()
}
