// A replica as a dictionary: what the store is compared with. It knows the rules, and neither SQL nor the store's code.

import Foundation
import MirrorWire

@testable import ReplicaStore

/// Objects by name, pairs as a set. One property is one entry.
struct NaiveReplica {
  struct Object {
    var entity: String
    /// Set properties; relationships are `.object`s of names.
    var values: [String: Literal] = [:]
  }

  /// Rules of docs/design/replica.md that can be left out, to show that the comparison sees each.
  enum Rule: CaseIterable, Sendable {
    case pendingStays, deletionApplies, deletedStays, pointersStay, oneToOne
  }

  /// The rule that this replica breaks.
  var broken: Rule?

  private(set) var objects: [String: Object] = [:]
  /// `PHOTO TAG`
  private(set) var pairs: Set<[String]> = []
  /// What a save changed and no export has taken: `NAME PROPERTY`, `NAME *` for a new object, `NAME -` for a deleted
  /// one.
  private var mine: Set<String> = []
  /// What imports deleted: edits that are not exported come back with the object.
  private var lost: [String: Object] = [:]
  /// Deleted by the save under way.
  private var deletedNow: Set<String> = []

  // MARK: Saves

  mutating func insert(_ entity: String, _ name: String, _ values: [String: Literal]) {
    objects[name] = Object(entity: entity, values: values.filter { $0.key != "photo" && $0.key != "data" })
    for (property, value) in values where property == "photo" || property == "data" {
      if case .object(let target) = value { setPartner(name, property, target) }
    }
  }

  /// What a user sets: nothing changes if it is what they see.
  mutating func edit(_ name: String, _ property: String, _ value: Literal) {
    guard values(name)?[property] ?? .null != value else { return }
    if property == "data" {
      if case .object(let target) = value {
        setPartner(name, property, target)
      } else {
        setPartner(name, property, nil)
      }
    } else {
      set(name, property, value)
    }
  }

  private mutating func set(_ name: String, _ property: String, _ value: Literal) {
    guard objects[name] != nil, objects[name]?.values[property] ?? .null != value else { return }
    objects[name]?.values[property] = value == .null ? nil : value
  }

  /// `data` of a photo and `photo` of its data are one relationship.
  private mutating func setPartner(_ name: String, _ property: String, _ target: String?) {
    let inverse = property == "data" ? "photo" : "data"
    let former = self.target(of: name, property)
    guard former != target else { return }
    set(name, property, target.map { .object($0) } ?? .null)
    if broken == .oneToOne { return }
    if let former, self.target(of: former, inverse) == name { set(former, inverse, .null) }
    guard let target, objects[target] != nil else { return }
    if let rival = self.target(of: target, inverse), rival != name, self.target(of: rival, property) == target {
      set(rival, property, .null)
    }
    set(target, inverse, .object(name))
  }

  private func target(of name: String, _ property: String) -> String? {
    if case .object(let target)? = objects[name]?.values[property] { target } else { nil }
  }

  mutating func setPair(_ photo: String, _ tag: String, _ isLinked: Bool) {
    guard pairs.contains([photo, tag]) != isLinked else { return }
    if isLinked { pairs.insert([photo, tag]) } else { pairs.remove([photo, tag]) }
  }

  mutating func delete(_ name: String) {
    guard let object = objects[name] else { return }
    if object.entity == "Photo", let data = target(of: name, "data"), objects[data] != nil {
      objects[name]?.values["data"] = nil
      delete(data)
    }
    for (other, _) in objects {
      for property in ["album", "photo", "data"] where target(of: other, property) == name {
        set(other, property, .null)
      }
    }
    for pair in pairs where pair.contains(name) {
      let other = pair[0] == name ? pair[1] : pair[0]
      if objects[other] != nil { setPair(pair[0], pair[1], false) } else { pairs.remove(pair) }
    }
    objects[name] = nil
    deletedNow.insert(name)
  }

  /// Notes what differs from before the save.
  mutating func endSave(_ before: NaiveReplica) {
    deletedNow = []
    for name in Set(before.objects.keys).union(objects.keys) {
      switch (before.objects[name], objects[name]) {
      case (let old?, let new?):
        for property in Set(old.values.keys).union(new.values.keys) where old.values[property] != new.values[property] {
          mine.insert("\(name) \(property)")
        }
      case (nil, _?): mine.insert("\(name) *")
      case (_?, nil): mine.insert("\(name) -")
      case (nil, nil): break
      }
    }
    for pair in before.pairs.symmetricDifference(pairs) where pair.contains(where: { objects[$0] != nil }) {
      mine.insert("\(pair[0])+\(pair[1])")
    }
  }

  /// Deleted by a save that is not exported; its name is not taken again meanwhile.
  func wasDeleted(_ name: String) -> Bool { mine.contains("\(name) -") || deletedNow.contains(name) }

  mutating func exported() {
    mine = []
    lost = [:]
  }

  // MARK: Imports

  mutating func importSave(_ entity: String, _ name: String, _ values: [String: Literal]) {
    if broken != .deletedStays, mine.contains("\(name) -") { return }
    if broken != .pendingStays, mine.contains("\(name) *"), objects[name] != nil { return }
    var object = objects[name] ?? Object(entity: entity)
    let former = objects[name] == nil ? lost[name] : nil
    if let former {
      for (property, value) in former.values where mine.contains("\(name) \(property)") {
        object.values[property] = value
      }
    }
    for (property, value) in values where broken == .pendingStays || !mine.contains("\(name) \(property)") {
      if broken == .pointersStay, case .object(let target) = value, objects[target] == nil { continue }
      object.values[property] = value == .null || isDeletedHere(value) ? nil : value
    }
    objects[name] = object
  }

  /// An object that was made here and is not exported stays: the server makes it again.
  mutating func importDelete(_ name: String) {
    if mine.contains("\(name) *") { return }
    if broken == .deletionApplies, mine.contains(where: { $0.hasPrefix("\(name) ") }) { return }
    if let object = objects.removeValue(forKey: name) { lost[name] = object }
    // Another object may get the name.
    pairs = pairs.filter { !$0.contains(name) || mine.contains("\($0[0])+\($0[1])") }
    for other in objects.keys where !mine.contains("\(other) *") {
      for property in ["album", "photo", "data"]
      where target(of: other, property) == name && !mine.contains("\(other) \(property)") {
        set(other, property, .null)
      }
    }
  }

  /// The server clears what points to it when it hears of the deletion.
  private func isDeletedHere(_ value: Literal) -> Bool {
    if case .object(let target) = value { mine.contains("\(target) -") } else { false }
  }

  mutating func importPair(_ photo: String, _ tag: String, _ isLinked: Bool) {
    guard broken == .pendingStays || !mine.contains("\(photo)+\(tag)") else { return }
    if isLinked, [photo, tag].contains(where: { mine.contains("\($0) -") }) { return }
    if isLinked { pairs.insert([photo, tag]) } else { pairs.remove([photo, tag]) }
  }

  // MARK: Reads

  /// What the store shows of an object: a pointer to nothing is nothing.
  func values(_ name: String) -> [String: Literal]? {
    guard let object = objects[name] else { return nil }
    var values = object.values.filter { _, value in
      if case .object(let target) = value { objects[target] != nil } else { true }
    }
    if object.entity == "Photo" { values["tagCount"] = .integer(Int64(tags(name).count)) }
    return values
  }

  func tags(_ photo: String) -> [String] { pairs.filter { $0[0] == photo && objects[$0[1]] != nil }.map { $0[1] } }

  func names(_ entity: String) -> [String] { objects.filter { $0.value.entity == entity }.map(\.key).sorted() }
}
