// Reads answers of the mirror API into changes, and writes changes for it.

import Foundation
import JSON
import ObjectModel
import Records
import ServiceBus

extension Replica {
  mutating func apply(page change: JSONValue, _ flaw: Device.Flaw?) {
    let id = change["objectID"]?.string ?? ""
    switch change["changeType"]?.string {
    case "save":
      var object = Object(entity: change["entity"]?.string ?? "", zone: change["zoneID"]?["zoneName"]?.string ?? "")
      for (name, value) in change["attributes"]?.members ?? [] where value.line != "null" {
        object.attributes[name] = value.line
      }
      object.attributes = object.attributes.filter { shape.attribute($0.key, of: object.entity) != nil }
      for (name, value) in change["relationships"]?.members ?? [] { object.pointers[name] = value.string }
      put(id, object)
    case "delete": if flaw != .ignoresDeletions { delete(id) }
    case "move": move(id, to: change["to"]?["zoneName"]?.string ?? "")
    case "link", "unlink":
      guard
        let relationship = shape.relationship(change["relationship"]?.string ?? "", of: change["entity"]?.string ?? "")
      else { return }
      let target = change["target"]?["objectID"]?.string ?? ""
      var pair = link(relationship, id, target)
      if flaw == .doublesLinks { pair = Link(relationship: relationship.name, first: id, second: target) }
      if change["changeType"]?.string == "link" { insert(pair) } else if flaw != .ignoresUnlinks { remove(pair) }
    case "zone": if change["action"]?.string != "pause" { removeZone(change["zoneID"]?["zoneName"]?.string ?? "") }
    default: break
    }
  }
}

extension JSONValue {
  /// Text in one canonical form.
  var line: String {
    var writer = JSONWriter()
    writer.value(self)
    return String(decoding: writer.bytes, as: UTF8.self)
  }
}

extension Change {
  var json: String {
    var text = #"{"changeType":"\#(kind.rawValue)","entity":"\#(entity)","objectID":"\#(objectID)""#
    if kind != .delete {
      let values = attributes.sorted { $0.key < $1.key }.map { #""\#($0.key)":\#($0.value)"# }
      let pointers = relationships.sorted { $0.key < $1.key }.map { #""\#($0.key)":\#($0.value.json)"# }
      text +=
        #","attributes":{\#(values.joined(separator: ","))},"relationships":{\#(pointers.joined(separator: ","))}"#
    }
    return text + "}"
  }
}

extension Change {
  /// True when the change concerns one of these objects.
  func names(_ objects: Set<String>) -> Bool {
    if objects.contains(objectID) { return true }
    return relationships.values.contains { relation in
      switch relation {
      case .toOne(let target): target.map(objects.contains) ?? false
      case .toMany(let targets): !objects.isDisjoint(with: targets)
      case .delta(let added, let removed): !objects.isDisjoint(with: added + removed)
      }
    }
  }
}

extension Change.Relation {
  var json: String {
    func list(_ names: [String]) -> String { "[" + names.map { #""\#($0)""# }.joined(separator: ",") + "]" }
    switch self {
    case .toOne(let target): return target.map { #""\#($0)""# } ?? "null"
    case .toMany(let targets): return list(targets)
    case .delta(let added, let removed): return #"{"add":\#(list(added)),"remove":\#(list(removed))}"#
    }
  }
}

/// Dates in the mirror API's format.
enum Dates {
  static func text(_ milliseconds: Int64) -> String {
    var seconds = time_t(milliseconds / 1000)
    var parts = tm()
    gmtime_r(&seconds, &parts)
    func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let fraction = String(1000 + milliseconds % 1000).dropFirst()
    return
      """
      \(1900 + parts.tm_year)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))T\(two(parts.tm_hour)):\
      \(two(parts.tm_min)):\(two(parts.tm_sec)).\(fraction)Z
      """
  }
}
