// Somebody who edits at a device, also while an answer is on its way to it.

import MirrorWire
import Synchronization

/// A person's saves are random, with few names: they are used again after deletions, and by several people at once.
final class Person: Sendable {
  private let name: String
  private let trace: Trace
  /// Of the saves that the story asks for.
  private let chance: Chance
  /// Of those that the person makes while the device waits for an answer; how many these are depends on the network.
  private let whim: Chance
  /// nil: the person is away.
  private let replica = Mutex<(any JournalReplica)?>(nil)
  /// Names that saves inserted which were acknowledged, with the ends of the zone that the device had heard of. Nobody
  /// edits or deletes them.
  private let kept = Mutex<[String: Int]>([:])
  /// Names of objects that the person deleted.
  private let deleted = Mutex<Set<String>>([])
  private let seen = Mutex(SeenValues())
  private let looks = Mutex(Looks())
  private let ends: ZoneEnds
  /// How many of them the device has heard of.
  private let heardEnds = Mutex(0)

  init(_ name: String, _ trace: Trace, chance: Chance, whim: Chance, _ ends: ZoneEnds) {
    (self.name, self.trace, self.chance, self.whim, self.ends) = (name, trace, chance, whim, ends)
  }

  /// The receipts of saves that must be kept.
  /// - Parameter undo: says whether the device sends again what it has, for each end.
  func receipts(_ undo: [Bool]) -> Set<String> {
    kept.withLock { kept in Set(kept.filter { undo.dropFirst($0.value).allSatisfy(\.self) }.keys) }
  }
  var deletedNames: Set<String> { deleted.withLock { $0 } }
  var setbacks: [SeenValues.Setback] { seen.withLock(\.setbacks) }

  func sit(at replica: any JournalReplica) { self.replica.withLock { $0 = replica } }
  func leave() { replica.withLock { $0 = nil } }

  /// The device has heard of so many ends of the zone.
  func hear(of count: Int) { heardEnds.withLock { $0 = count } }

  func edit(_ replica: any JournalReplica) async throws { try await save(replica, RandomEdits(chance)) }

  /// Sees what the device shows now, or after the look that is under way: of two at once, the older one might be noted
  /// last.
  func look(at replica: any JournalReplica) async {
    guard looks.withLock({ $0.begin(at: replica) }) else { return }
    var next: (any JournalReplica)? = replica
    while let replica = next {
      // Dropped because a replica that died meanwhile shows nothing.
      if let lines = try? await replica.shown() { seen.withLock { $0.note(lines, ends) } }
      next = looks.withLock { $0.next() }
    }
  }

  /// What the person does while an answer is on its way.
  func wait() async {
    if let replica = replica.withLock({ $0 }) { await look(at: replica) }
    await editByWhim()
  }

  private func editByWhim() async {
    guard let replica = replica.withLock({ $0 }), whim.number(3) == 0 else { return }
    // Dropped because a replica that died meanwhile takes no edit.
    try? await save(replica, RandomEdits(whim))
  }

  private func save(_ replica: any JournalReplica, _ edits: RandomEdits) async throws {
    let (receipt, heard) = (edits.receipt(), heardEnds.withLock { $0 })
    try await replica.save { [self] edit in
      if let receipt { edit.insert("Tag", receipt, ["name": .string("receipt")]) }
      let (phrases, names) = edits.make(&edit) { text in
        ends.note(text, heard: heard)
        seen.withLock { $0.noteOwn(text) }
      }
      deleted.withLock { $0.formUnion(names) }
      trace.tell("\(name) saves \(phrases.joined(separator: ", "))")
    }
    if let receipt { kept.withLock { $0[receipt] = heard } }
    await look(at: replica)
  }
}

/// One look at a time.
private struct Looks: Sendable {
  private var isUnderWay = false
  private var wanted: (any JournalReplica)?

  /// - Returns: false when a look is under way; another one follows it then.
  mutating func begin(at replica: any JournalReplica) -> Bool {
    if isUnderWay { wanted = replica } else { isUnderWay = true }
    return wanted == nil
  }

  /// - Returns: the replica of the look that follows; nil when none does.
  mutating func next() -> (any JournalReplica)? {
    defer { wanted = nil }
    isUnderWay = wanted != nil
    return wanted
  }
}

/// What one save does.
private struct RandomEdits: Sendable {
  private let chance: Chance

  private static let attributes = ["Post": "title", "Cover": "name", "Remark": "text", "Tag": "name"]

  init(_ chance: Chance) { self.chance = chance }

  /// A name for an object that shows whether the save is kept; nil: this save has none.
  func receipt() -> String? { chance.number(4) == 0 ? "t-\(chance.number(1_000_000_000))" : nil }

  /// - Parameter writes: takes each text that is written.
  /// - Returns: what is done, a phrase each, and the names of objects that are deleted.
  func make(_ edit: inout any JournalEdit, writes: (String) -> Void) -> (phrases: [String], deleted: Set<String>) {
    var deleted: Set<String> = []
    let phrases = (0...chance.number(2)).compactMap { _ in step(&edit, &deleted, writes) }
    return (phrases, deleted)
  }

  private static func names(_ entity: String, _ edit: any JournalEdit) -> [String] {
    edit.names(entity).filter { !$0.hasPrefix("t-") }
  }

  /// - Parameter deleted: by this save, which can't use their names again.
  private func step(_ edit: inout any JournalEdit, _ deleted: inout Set<String>, _ writes: (String) -> Void) -> String?
  {
    let entity = chance.pick(["Post", "Cover", "Remark", "Tag"])
    let attribute = Self.attributes[entity] ?? ""
    let value = "v\(chance.number(1_000_000_000))"
    let present = Self.names(entity, edit)
    if present.count < 2 + chance.number(3) {
      let name = "\(entity.prefix(1).lowercased())\(chance.number(8))"
      if present.contains(name) || deleted.contains(name) { return nil }
      writes(value)
      edit.insert(entity, name, [attribute: .string(value)])
      return "insert \(name) \(value)"
    }
    let name = chance.pick(present)
    func other(_ entity: String) -> String? {
      let present = Self.names(entity, edit)
      return present.isEmpty ? nil : chance.pick(present)
    }
    switch (chance.number(8), entity) {
    case (0, _), (1, _):
      writes(value)
      edit.set(attribute, of: name, .string(value))
      return "set \(name) \(value)"
    case (2, "Post"):
      let score = chance.number(100)
      edit.set("score", of: name, .integer(Int64(score)))
      return "set \(name) score \(score)"
    case (3, _):
      edit.delete(name)
      deleted.insert(name)
      return "delete \(name)"
    case (4, "Post"): return point("cover", of: name, to: other("Cover"), &edit)
    case (5, "Remark"): return point("post", of: name, to: other("Post"), &edit)
    case (6..., "Post"):
      guard let tag = other("Tag") else { return nil }
      let isMade = chance.number(3) > 0
      edit.pair(name, tag, isMade: isMade)
      return "\(isMade ? "pair" : "part") \(name) \(tag)"
    default: return nil
    }
  }

  private func point(_ relationship: String, of name: String, to target: String?, _ edit: inout any JournalEdit)
    -> String
  {
    edit.point(relationship, of: name, to: target)
    return "point \(name) \(relationship) \(target ?? "nowhere")"
  }
}
