// C4: what is left of a set of edits depends on the edits and on what each of them knew, not on the order in which they
// arrive.

import History
import Mirroring
import MirroringWorld
import Records
import Sanitizers
import Testing

/// An edit of the card as its device sends it.
private struct CardEdit {
  let device: Int
  let time: Int64
  let values: [String: AttributeValue]

  var change: HistoryChange {
    HistoryChange(
      changeType: .update, entity: "Card", objectID: "C",
      attributes: values.sorted { $0.key < $1.key }.map { NamedValue(name: $0.key, value: $0.value) })
  }
}

/// The expected result, computed from the edits of all devices without regard to their order.
private struct NaiveCard {
  /// The time and the device of the latest statement about a value or an element.
  struct Said: Comparable {
    let time: Int64
    let device: Int
    static func < (a: Said, b: Said) -> Bool { (a.time, a.device) < (b.time, b.device) }
  }

  var body: (said: Said, value: String) = (Said(time: 0, device: -1), "")
  var highest: Int64 = 0
  var earliest: Int64 = 1_000_000
  var likes: Int64 = 0
  var tags: [String: (said: Said, isPresent: Bool)] = [:]
  /// The time of each device's latest statement about a field.
  var lastTimes: [String: [Int: Int64]] = [:]

  var presentTags: [String] { tags.filter(\.value.isPresent).keys.sorted() }

  mutating func apply(_ rounds: [[CardEdit]]) {
    let start = self
    for (device, edits) in rounds.enumerated() {
      var own = start
      for edit in edits {
        func time(_ field: String) -> Int64 {
          let seen = [start.lastTimes[field]?.values.max(), lastTimes[field]?[device]].compactMap { $0 }.max()
          return seen.map { max(edit.time, $0 + 1) } ?? edit.time
        }
        for (field, value) in edit.values {
          let said = Said(time: time(field), device: device)
          switch (field, value) {
          case ("body", .string(let text)): if body.said < said { body = (said, text) }
          case ("highest", .integer(let number)): highest = max(highest, number)
          case ("earliest", .date(let number)): earliest = min(earliest, number)
          case ("likes", .integer(let number)):
            likes += number - own.likes
            own.likes = number
          case ("tags", .string(let text)):
            let wanted = Set(text.dropFirst().dropLast().split(separator: ",").map(String.init))
            for element in wanted.symmetricDifference(own.presentTags)
            where tags[element].map({ $0.said < said }) ?? true {
              tags[element] = (said, wanted.contains(element))
            }
            own.tags = Dictionary(uniqueKeysWithValues: wanted.map { ($0, (said, true)) })
          default: break
          }
          lastTimes[field, default: [:]][device] = said.time
        }
      }
    }
  }
}

/// One run: rounds of edits made in ignorance of each other; after each round all devices import.
private struct ConflictRun {
  static let zoneCount = 3
  private var generator: SeededGenerator
  private let worlds = (0..<zoneCount).map { _ in ConflictWorld() }
  private var oracle = NaiveCard()
  private let deviceCount: Int
  private var clocks: [Int64]

  init(seed: Int) throws {
    generator = SeededGenerator(seed: seed)
    deviceCount = Int.random(in: 2...5, using: &generator)
    // Some clocks are ahead, some behind.
    clocks = []
    for _ in 0..<deviceCount { clocks.append([0, 0, 5000, -5000, 3].randomElement(using: &generator) ?? 0) }
    for world in worlds {
      try world.save(
        "0", at: 0,
        insert(
          "Card", "C",
          [
            "body": .string(""), "highest": .integer(0), "earliest": .date(1_000_000), "likes": .integer(0),
            "choice": .string(""),
          ]))
    }
    for field in ["body", "likes"] { oracle.lastTimes[field] = [0: 0] }
    oracle.body.said = NaiveCard.Said(time: 0, device: 0)
  }

  mutating func run(rounds: Int) throws {
    for round in 0..<rounds {
      let edits = (0..<deviceCount).map { device in self.edits(of: device, round: round) }
      oracle.apply(edits)
      for world in worlds { try deliver(edits, to: world) }
      try compare()
    }
  }

  private mutating func edits(of device: Int, round: Int) -> [CardEdit] {
    var (likes, tags) = (oracle.likes, Set(oracle.presentTags))
    return (0..<Int.random(in: 0...3, using: &generator)).map { number in
      clocks[device] += Int64.random(in: 1...50, using: &generator)
      var values: [String: AttributeValue] = [:]
      if Bool.random(using: &generator) { values["body"] = .string("\(round).\(device).\(number)") }
      if Bool.random(using: &generator) { values["highest"] = .integer(.random(in: 0...1000, using: &generator)) }
      if Bool.random(using: &generator) { values["earliest"] = .date(.random(in: 0...1_000_000, using: &generator)) }
      if Bool.random(using: &generator) {
        likes += .random(in: -3...5, using: &generator)
        values["likes"] = .integer(likes)
      }
      if Bool.random(using: &generator) {
        tags.formSymmetricDifference([
          String(Int.random(in: 0...9, using: &generator)), String(Int.random(in: 0...9, using: &generator)),
        ])
        values["tags"] = .string("[" + tags.sorted().joined(separator: ",") + "]")
      }
      if Bool.random(using: &generator) { values["choice"] = .string("\(round).\(device).\(number)") }
      return CardEdit(device: device, time: clocks[device], values: values)
    }
  }

  /// Delivers the edits in a random order that keeps each device's own; some are in one export.
  private mutating func deliver(_ edits: [[CardEdit]], to world: ConflictWorld) throws {
    let base = world.zone.sequence
    var waiting = edits.map { $0[...] }
    var choices = Set<AttributeValue>()
    var undecided = Set<AttributeValue>()
    while let device = waiting.indices.filter({ !waiting[$0].isEmpty }).randomElement(using: &generator) {
      let count = Int.random(in: 1...waiting[device].count, using: &generator)
      let transactions = waiting[device].prefix(count).map { edit in
        var saved = transaction([edit.change])
        saved.edit = HistoryTransaction.Edit(base: Int64(base), time: edit.time)
        return saved
      }
      waiting[device].removeFirst(count)
      let plan = try world.zone.export(transactions, from: "\(device)")
      choices.formUnion(
        transactions.flatMap(\.changes).flatMap(\.attributes).filter { $0.name == "choice" }.map(\.value))
      undecided.formUnion(
        plan.losses.filter { $0.kind == .undecided }.flatMap(\.lost).flatMap(\.attributes).map(\.value))
      #expect(plan.leftOut.isEmpty)
    }
    // A decision is asked for each value that was lost, unless the same device has since set another one.
    guard let final = try world.value("choice"), !choices.isEmpty else { return }
    #expect(choices.contains(final))
    let winner = edits.firstIndex { $0.contains { $0.values["choice"] == final } }
    for (device, own) in edits.enumerated() where device != winner {
      for said in own.compactMap({ $0.values["choice"] }) { #expect(undecided.contains(said)) }
    }
  }

  private func compare() throws {
    for world in worlds {
      #expect(try world.value("body") == .string(oracle.body.value))
      #expect(try world.value("highest") == .integer(oracle.highest))
      #expect(try world.value("earliest") == .date(oracle.earliest))
      #expect(try world.value("likes") == .integer(oracle.likes))
      let tags = try world.value("tags")
      #expect(
        tags == .string("[" + oracle.presentTags.joined(separator: ",") + "]")
          || tags == .null && oracle.presentTags.isEmpty)
    }
  }
}

@Test(arguments: Sanitizer.few(2, of: 0..<20))
func `C4 T-C09 what is left of edits depends on them and what they knew, not on the order they arrive in`(_ chunk: Int)
  throws
{
  for seed in chunk * 25..<(chunk + 1) * 25 {
    var run = try ConflictRun(seed: seed + 1)
    try run.run(rounds: 4)
  }
}
