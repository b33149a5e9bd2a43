// A device that follows a database from token to token, and notes the changes that it gets.

import Installations
import JSON

/// Reads one page after the other, each once.
actor Reader {
  private let population: Population
  private let database: Database
  private let index: Int
  private var token: String?
  private var isMade = false
  private(set) var feed: Feed
  private(set) var copy: [String: Int64] = [:]

  private static let pause: Duration = .milliseconds(20)

  init(_ population: Population, _ database: Database, index: Int) {
    self.population = population
    self.database = database
    self.index = index
    feed = Feed(reader: "reader-\(index)", database: database.name)
  }

  /// Reads until the ledger says that the run is over.
  func run(_ ledger: Ledger) async {
    do {
      while !ledger.isOver {
        if try await !readPage() { try await Task.sleep(for: Self.pause) }
      }
    } catch {
      ledger.refused("\(error)")
    }
  }

  /// Reads until it has the expected values, or until no new item has come for the time `patience`.
  func read(until expected: [String: Int64], patience: Duration = .seconds(20)) async throws {
    var end = ContinuousClock.now + patience
    var count = feed.items.count
    while copy != expected, ContinuousClock.now < end {
      if try await readPage() { continue }
      if feed.items.count > count {
        count = feed.items.count
        end = ContinuousClock.now + patience
      }
      try await Task.sleep(for: Self.pause)
    }
    // Reads on, because superfluous changes would come last.
    while try await readPage() {}
  }

  /// - Returns: true when more pages follow.
  private func readPage() async throws -> Bool {
    switch database.plane {
    case .records(let zoneName): try await readZone(zoneName)
    case .objects: try await readStore()
    }
  }

  private func readZone(_ zoneName: String) async throws -> Bool {
    let body = object {
      $0.key("zones")
      $0.beginArray()
      $0.beginObject()
      $0.key("zoneID")
      $0.beginObject()
      $0.member("zoneName", zoneName)
      $0.endObject()
      if let token { $0.member("syncToken", token) }
      $0.endObject()
      $0.endArray()
    }
    let answer = try await population.calls.get(
      "POST", population.recordPath("changes/zone", of: database), body: body, preferred: index,
      isLater: { $0["zones"]?.elements.first?["serverErrorCode"]?.string == "TRY_AGAIN_LATER" })
    guard let zone = answer["zones"]?.elements.first, let next = zone["syncToken"]?.string else {
      throw RunError(
        """
        \(feed.reader): changes/zone names no zone or no token: \
        \(answer["zones"]?.elements.first?["reason"]?.string ?? "")
        """
      )
    }
    for record in zone["records"]?.elements ?? [] {
      guard let name = record["recordName"]?.string else { throw RunError("\(feed.reader): a record without a name") }
      let tag = record["recordChangeTag"]?.string.flatMap { Int64($0, radix: 36) }
      note(
        Item(
          name: name, value: record["deleted"]?.bool == true ? nil : record["fields"]?["value"]?["value"]?.int64,
          tag: tag))
    }
    token = next
    return zone["moreComing"]?.bool == true
  }

  private func readStore() async throws -> Bool {
    let store = name(client: 0xFF00 + index, number: 0)
    if !isMade {
      try await population.makeStore(store, of: database)
      isMade = true
    }
    let query = token.map { "&after=" + percentEncoded($0) } ?? ""
    let page = try await population.calls.get(
      "GET", population.storePath(store) + "/changes?limit=200" + query, bearer: database.webAuthToken, preferred: index
    )
    guard let next = page["importToken"]?.string else { throw RunError("\(feed.reader): a page without a token") }
    for change in page["changes"]?.elements ?? [] {
      guard let name = change["objectID"]?.string else { continue }
      switch change["changeType"]?.string {
      case "save": note(Item(name: name, value: change["attributes"]?["value"]?.int64))
      case "delete": note(Item(name: name, value: nil))
      default: throw RunError("\(feed.reader): a change of type \(change["changeType"]?.string ?? "none")")
      }
    }
    token = next
    return page["moreComing"]?.bool == true
  }

  private func note(_ item: Item) {
    feed.items.append(item)
    copy[item.name] = item.value
  }
}
