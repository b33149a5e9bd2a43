// History as an app reads it: every filter against a ledger of what was saved, named readers, purges, remote changes.

import AquiferClient
import Foundation
import ReplicaSync
import Synchronization
import Testing

private func bothStores(in folder: String) -> [StoreDescription] {
  ["Cloud", "Local"].map { (name: String) in StoreDescription(path: "\(folder)/\(name).sqlite", configuration: name) }
}

/// What one save did, as the test knows it.
private struct Entry: Sendable {
  let author: String?
  let contextName: String?
  let kind: HistoryChange.Kind
  let entity: String
  let properties: Set<String>
  let date: Date
}

/// A clock that goes on by a second with each look, so that dates tell saves apart.
private final class Clock: Sendable {
  private let time = Mutex(1_700_000_000.0)

  var now: Date { Date(timeIntervalSince1970: time.withLock { $0 }) }
  func next() -> Date {
    Date(
      timeIntervalSince1970: time.withLock { time in
        time += 1
        return time
      })
  }
}

private struct Story {
  let container: PersistentContainer
  let clock = Clock()
  let folder: String
  private(set) var ledger: [Entry] = []

  init() async throws {
    folder = try TestContainer.makeFolder()
    container = try await Self.open(bothStores(in: folder), clock)
  }

  static func open(_ stores: [StoreDescription], _ clock: Clock) async throws -> PersistentContainer {
    var surroundings = Surroundings.system
    surroundings.now = { clock.now }
    return try await PersistentContainer(
      .photos, stores: stores, account: nil, surroundings: surroundings, transport: CurlTransport())
  }

  /// Thirty saves of several authors, contexts, entities and kinds.
  mutating func tell() async throws {
    var photos: [ObjectID<Photo>] = []
    for number in 0..<30 {
      let author = [nil, "app", "sync"][number % 3]
      let context = [nil, "view"][number % 2]
      let date = clock.next()
      func note(_ kind: HistoryChange.Kind, _ entity: String, _ properties: Set<String> = []) {
        ledger.append(
          Entry(
            author: author, contextName: context, kind: kind, entity: entity, properties: properties, date: date))
      }
      switch number % 5 {
      case 0, 1:
        let photo = Photo(title: "photo \(number)")
        try await container.save(author: author, contextName: context) { try $0.insert(photo) }
        photos.append(photo.id)
        note(.insert, "Photo", ["title", "size"])
      case 2:
        let id = photos[number / 5]
        try await container.save(author: author, contextName: context) { try $0.update(id) { $0.size += 1 } }
        note(.update, "Photo", ["size"])
      case 3:
        try await container.save(author: author, contextName: context) { try $0.insert(Draft(text: "\(number)")) }
        note(.insert, "Draft", ["text"])
      default:
        let id = photos.removeLast()
        try await container.save(author: author, contextName: context) { try $0.delete(id) }
        note(.delete, "Photo")
      }
    }
  }
}

/// A request, and the same asked of the ledger.
private struct Question: CustomTestStringConvertible, Sendable {
  let testDescription: String
  let change: @Sendable (inout HistoryRequest) -> Void
  let filter: @Sendable (Entry) -> Bool

  init(
    _ description: String, _ change: @escaping @Sendable (inout HistoryRequest) -> Void,
    _ filter: @escaping @Sendable (Entry) -> Bool
  ) { (testDescription, self.change, self.filter) = (description, change, filter) }

  static let date = Date(timeIntervalSince1970: 1_700_000_012)
  static let all = [
    Question("everything", { _ in }, { _ in true }),
    Question("authors", { $0.authors = ["app"] }, { $0.author == "app" }),
    Question("excluded authors", { $0.excludedAuthors = ["app", "sync"] }, { $0.author == nil }),
    Question("contexts", { $0.contextNames = ["view"] }, { $0.contextName == "view" }),
    Question("entities", { $0.entityNames = ["Draft"] }, { $0.entity == "Draft" }),
    Question("change types", { $0.changeTypes = [.insert, .delete] }, { $0.kind != .update }),
    Question(
      "properties", { $0.updatedProperties = ["title"] }, { $0.kind != .update || $0.properties.contains("title") }),
    Question(
      "properties that updates touch",
      {
        $0.updatedProperties = ["size"]
        $0.changeTypes = [.update]
      }, { $0.kind == .update && $0.properties.contains("size") }),
    Question("a date", { $0.afterDate = date }, { $0.date > date }),
    Question(
      "several at once",
      {
        $0.authors = ["app", "sync"]
        $0.entityNames = ["Photo"]
        $0.changeTypes = [.insert]
        $0.afterDate = date
      }, { $0.author != nil && $0.entity == "Photo" && $0.kind == .insert && $0.date > date }),
  ]
}

@Test(arguments: Question.all.indices) func `a history request finds what a filter over the saves finds`(_ place: Int)
  async throws
{
  var story = try await Story()
  defer { try? FileManager.default.removeItem(atPath: story.folder) }
  try await story.tell()
  let question = Question.all[place]
  var request = HistoryRequest()
  question.change(&request)
  request.limit = 4
  var found: [HistoryTransaction] = []
  while true {
    let page = try await story.container.history(request)
    found += page.transactions
    request.after = page.token
    if !page.moreComing { break }
  }
  found.sort { $0.timestamp < $1.timestamp }
  let expected = story.ledger.filter(question.filter)
  #expect(!expected.isEmpty)
  #expect(found.map(\.timestamp) == expected.map(\.date))
  #expect(found.map(\.author) == expected.map(\.author) && found.map(\.contextName) == expected.map(\.contextName))
  #expect(found.flatMap(\.changes).map(\.kind) == expected.map(\.kind))
  #expect(found.flatMap(\.changes).map(\.object.entityName) == expected.map(\.entity))
  for (transaction, entry) in zip(found, expected) where entry.kind == .update {
    #expect(transaction.changes[0].updatedProperties == entry.properties)
  }
  #expect(found.allSatisfy { $0.processID == "\(ProcessInfo.processInfo.processIdentifier)" && $0.bundleID != nil })
  await story.container.close()
}

@Test func `history of one store is asked for alone, and purged where nobody needs it any more`() async throws {
  var story = try await Story()
  defer { try? FileManager.default.removeItem(atPath: story.folder) }
  try await story.tell()
  let (container, cloud, local) = (story.container, story.container.stores[0], story.container.stores[1])
  var request = HistoryRequest()
  request.stores = [local]
  #expect(try await container.history(request).transactions.count == story.ledger.count { $0.entity == "Draft" })
  // A reader that has seen the first ten keeps the others.
  let start = HistoryToken()
  request.stores = [cloud]
  request.limit = 10
  struct Enough: Error {}
  let pages = Mutex(0)
  await #expect(throws: Enough.self) {
    try await container.consume("reader", request) { _ in
      if pages.withLock({ pages in
        pages += 1
        return pages == 2
      }) {
        throw Enough()
      }
    }
  }
  let count = story.ledger.count { $0.entity == "Photo" }
  #expect(try await container.purgeHistory(before: .distantFuture, in: cloud) == 10)
  #expect(try await container.history(request).transactions.first?.transactionNumber == 11)
  #expect(try await container.purgeHistory(before: .distantFuture, in: cloud, force: true) == count - 10)
  var late = HistoryRequest(after: start)
  late.stores = [cloud]
  #expect(try await container.history(late).transactions.isEmpty)
  await #expect(throws: StoreError.historyTokenExpired) {
    try await container.consume("reader", request) { _ in }
  }
  try await container.removeConsumer("reader")
  try await container.consume("reader", late) { _ in Issue.record("nothing is left to be read") }
  await container.close()
}

@Test func `history is kept for a new named reader before it has read its first page`() async throws {
  let test = try await TestContainer()
  let (container, store) = (test.container, test.container.stores[0])
  for title in ["a", "b", "c"] { try await container.save { try $0.insert(Photo(title: title)) } }
  var request = HistoryRequest()
  request.limit = 1
  let told = Mutex<[Int64]>([])
  for _ in 0..<2 {
    try await container.consume("slow", request) { page in
      try await container.purgeHistory(before: .distantFuture, in: store)
      told.withLock { $0 += page.transactions.map(\.transactionNumber) }
    }
  }
  #expect(told.withLock(\.self) == [1, 2, 3])
  // One whose beginning was purged does not begin, and so it keeps nothing.
  try await container.purgeHistory(before: .distantFuture, in: store)
  let early = HistoryRequest(after: HistoryToken([store.identifier: 1]))
  await #expect(throws: StoreError.historyTokenExpired) { try await container.consume("late", early) { _ in } }
  try await container.consume("late") { _ in Issue.record("nothing is left to be read") }
}

@Test(arguments: [false, true])
func `history older than a store keeps is gone when it opens again, unless it was not sent`(_ isMirrored: Bool)
  async throws
{
  let (folder, clock) = (try TestContainer.makeFolder(), Clock())
  defer { try? FileManager.default.removeItem(atPath: folder) }
  var store = StoreDescription(
    path: "\(folder)/photos.sqlite", configuration: "Cloud", cloudOptions: isMirrored ? .photos() : nil)
  store.historyRetention = .seconds(100)
  for _ in 0..<3 {
    let container = try await Story.open([store], clock)
    try await container.save { try $0.insert(Tag(name: "sea")) }
    await container.close()
    for _ in 0..<80 { _ = clock.next() }
  }
  let container = try await Story.open([store], clock)
  try await container.save { try $0.insert(Tag(name: "sand")) }
  let numbers = try await container.history(HistoryRequest()).transactions.map(\.transactionNumber)
  #expect(numbers == (isMirrored ? [1, 2, 3, 4] : [3, 4]))
  #expect(try await container.count(Tag.all) == 4)
  await container.close()
}

@Test func `remote changes tell of each commit, and of several at once to a slow reader`() async throws {
  let test = try await TestContainer(bothStores)
  let (container, local) = (test.container, test.container.stores[1])
  var all = container.remoteChanges().makeAsyncIterator()
  var own = container.remoteChanges(of: local).makeAsyncIterator()
  try await container.save { try $0.insert(Photo(title: "a")) }
  try await container.save { try $0.insert(Tag(name: "sea")) }
  let saved = try await container.save { try $0.insert(Draft(text: "later")) }
  let first = try #require(try await all.next())
  #expect(first.store == container.stores[0] && first.entityNames == ["Photo", "Tag"] && !first.isImport)
  #expect(try await all.next()?.store == local)
  let change = try #require(try await own.next())
  #expect(change.entityNames == ["Draft"] && change.historyToken == saved.token)
  #expect(try await container.history(HistoryRequest(after: first.historyToken)).transactions.map(\.store) == [local])
  await container.close()
  #expect(try await own.next() == nil)
}

@Test func `history without a limit is one page`() async throws {
  let test = try await TestContainer()
  for title in ["a", "b", "c"] { try await test.container.save { try $0.insert(Photo(title: title)) } }
  var request = HistoryRequest()
  request.limit = .max
  let page = try await test.container.history(request)
  #expect(page.transactions.count == 3 && !page.moreComing)
}
