// Random saves, imports and exports, compared with a dictionary after each step; random requests, compared with
// filters.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

/// The store and the dictionary, given the same edits.
private struct Twins {
  var naive = NaiveReplica()
  let store: TestStore
  var random: SeededGenerator
  var page = 0
  /// What was done, for the report of a difference.
  var log: [String] = []

  mutating func pick(_ values: [String]) -> String? { values.randomElement(using: &random) }
  mutating func number(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &random) }

  mutating func step() async throws {
    switch number(10) {
    case 0..<6: try await save()
    case 6..<9: try await importPage()
    default:
      try await store.export()
      naive.exported()
      log.append("export")
    }
  }

  // MARK: Saves

  private mutating func save() async throws {
    var edits: [@Sendable (SaveTransaction) throws -> Void] = []
    let before = naive
    for _ in 0...number(4) { if let edit = edit() { edits.append(edit) } }
    naive.endSave(before)
    let all = edits
    try await store.save { save in for edit in all { try edit(save) } }
    log.append("save \(try await store.replica.history(HistoryQuery()).transactions.last?.changes ?? [])")
  }

  private mutating func edit() -> (@Sendable (SaveTransaction) throws -> Void)? {
    let (photos, tags, data, albums) = (
      naive.names("Photo"), naive.names("Tag"), naive.names("PhotoData"), naive.names("Album")
    )
    switch number(9) {
    case 0: return insertPhoto(albums, data)
    case 1:
      let name = "T\(number(12))"
      guard naive.objects[name] == nil, !naive.wasDeleted(name) else { return nil }
      naive.insert("Tag", name, ["name": .text(name)])
      return { try $0.insert("Tag", name, ["name": .text(name)]) }
    case 2:
      let name = "D\(number(8))"
      guard naive.objects[name] == nil, !naive.wasDeleted(name) else { return nil }
      let photo: [String: Literal] = pick(photos).map { ["photo": .object($0)] } ?? [:]
      naive.insert("PhotoData", name, photo)
      return { try $0.insert("PhotoData", name, photo) }
    case 3:
      guard let photo = pick(photos) else { return nil }
      let title = Literal.text("t\(number(5))")
      naive.edit(photo, "title", title)
      return { try $0.update("Photo", photo, ["title": title]) }
    case 4:
      guard let photo = pick(photos) else { return nil }
      let target = pick(data)
      naive.edit(photo, "data", target.map { .object($0) } ?? .null)
      return { try $0.update("Photo", photo, ["data": target.map { .object($0) } ?? .null]) }
    case 5, 6:
      guard let photo = pick(photos), let tag = pick(tags) else { return nil }
      let (isLinked, isFromTag) = (number(3) > 0, number(2) == 0)
      naive.setPair(photo, tag, isLinked)
      return {
        isFromTag
          ? try $0.link("Tag", tag, "photos", photo, isLinked) : try $0.link("Photo", photo, "tags", tag, isLinked)
      }
    case 7:
      guard let name = pick(photos + tags + data + albums), let entity = naive.objects[name]?.entity else { return nil }
      naive.delete(name)
      return { try $0.delete(entity, name) }
    default:
      guard let photo = pick(photos) else { return nil }
      let album = pick(albums)
      naive.edit(photo, "album", album.map { .object($0) } ?? .null)
      return { try $0.update("Photo", photo, ["album": album.map { .object($0) } ?? .null]) }
    }
  }

  private mutating func insertPhoto(_ albums: [String], _ data: [String]) -> (
    @Sendable (SaveTransaction) throws -> Void
  )? {
    let name = "P\(number(12))"
    guard naive.objects[name] == nil, !naive.wasDeleted(name) else { return nil }
    var values: [String: Literal] = ["size": .integer(Int64(number(4)))]
    if let album = pick(albums) { values["album"] = .object(album) }
    if let data = pick(data), number(2) == 0 { values["data"] = .object(data) }
    naive.insert("Photo", name, values)
    let all = values
    return { try $0.insert("Photo", name, all) }
  }

  // MARK: Imports

  private mutating func importPage() async throws {
    var changes: [ImportedChange] = []
    for _ in 0...number(5) { changes.append(change()) }
    page += 1
    log.append("import \(changes)")
    try await store.replica.apply(ImportPage(changes: changes, importToken: "\(page)"), event: nil)
  }

  private mutating func change() -> ImportedChange {
    let (photo, tag, album) = ("P\(number(12))", "T\(number(12))", "A\(number(4))")
    switch number(6) {
    case 0:
      let (title, size) = ("i\(number(5))", Int64(number(4)))
      naive.importSave("Photo", photo, ["title": .text(title), "size": .integer(size), "album": .object(album)])
      return saved("Photo", photo, ["title": .string(title), "size": .integer(size)], ["album": album])
    case 1:
      naive.importSave("Tag", tag, ["name": .text("i")])
      return saved("Tag", tag, ["name": .string("i")])
    case 2:
      naive.importSave("Album", album, ["name": .text("i")])
      return saved("Album", album, ["name": .string("i")])
    case 3:
      naive.importPair(photo, tag, true)
      return .link(link(photo, tag))
    case 4:
      naive.importPair(photo, tag, false)
      return .unlink(link(photo, tag))
    default:
      let name = [photo, tag, album][number(3)]
      naive.importDelete(name)
      return .delete(entity: "", objectID: name, zoneID: zone)
    }
  }

  // MARK: Comparison

  /// The first difference; nil: there is none.
  /// - Parameter other: what is compared in place of the store.
  func difference(in other: TestStore? = nil) async throws -> String? {
    let store = other ?? store
    for entity in ["Photo", "Tag", "Album", "PhotoData"] {
      let (own, expected) = (try await store.names(Query(entity)).sorted(), naive.names(entity))
      if own != expected { return "\(entity): \(own), \(expected), \(log.suffix(3))" }
      for name in own {
        let (own, expected) = (try await store.values(entity, name), naive.values(name))
        if own != expected { return "\(name): \(own ?? [:]), \(expected ?? [:]), \(events(of: name))" }
      }
    }
    for photo in naive.names("Photo") {
      let (own, expected) = (try await store.related("Photo", photo, "tags"), Set(naive.tags(photo)))
      if own != expected { return "\(photo): \(own), \(expected), \(events(of: photo))" }
    }
    // Each step comes after a look at the index, and at the figures, which are kept from one commit to the next.
    if let difference = try await store.indexDifference() { return "\(difference), \(log.suffix(3))" }
    let (kept, read) = (try await store.replica.figures(), try await store.replica.readFigures())
    return kept == read ? nil : "figures: \(kept), \(read), \(log.suffix(3))"
  }

  private func events(of name: String) -> ArraySlice<String> {
    log.filter { $0.contains("\(name)\"") || $0.contains("/\(name),") }.suffix(4)
  }
}

@Test(arguments: 0..<16) func `random saves, imports and exports leave what a dictionary has`(seed: Int) async throws {
  var twins = Twins(store: try await TestStore.make(), random: SeededGenerator(seed))
  for _ in 0..<120 {
    try await twins.step()
    let difference = try await twins.difference()
    try #require(difference == nil, "\(difference ?? "")")
  }
  // Another account's file gets all of it, and not twice.
  let copy = try await TestStore.make()
  for _ in 0..<2 {
    try await copy.replica.reupload(twins.store.replica)
    let difference = try await twins.difference(in: copy)
    try #require(difference == nil, "\(difference ?? "")")
    #expect(try await copy.outbox().count == (twins.naive.objects.isEmpty ? 0 : 1))
  }
  for store in [twins.store, copy] { await store.replica.close() }
}

@Test(arguments: NaiveReplica.Rule.allCases) func `a replica that breaks a rule is seen`(rule: NaiveReplica.Rule)
  async throws
{
  for seed in 0..<16 {
    var twins = Twins(store: try await TestStore.make(), random: SeededGenerator(seed))
    twins.naive.broken = rule
    for _ in 0..<120 {
      if await twins.differAfterStep() { return }
    }
    await twins.store.replica.close()
  }
  Issue.record("nobody saw it")
}

extension Twins {
  /// An edit of what one of them does not have is a difference, too.
  fileprivate mutating func differAfterStep() async -> Bool {
    do {
      try await step()
      return try await difference() != nil
    } catch { return true }
  }
}
