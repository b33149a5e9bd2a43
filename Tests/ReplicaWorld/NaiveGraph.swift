// The journal as dictionaries: what a replica must show, written as simply as it can be.

import MirrorWire
import ReplicaStore

/// A pair of `Post.tags`.
struct Pair: Hashable, Sendable {
  let post: String
  let tag: String
}

/// A property, or (with a target) a pair of an object.
struct Property: Hashable, Sendable {
  let object: String
  let name: String
  var target = ""
}

struct NaiveObject: Hashable, Sendable {
  let entity: String
  var zoneID: ZoneID?
  var attributes: [String: AttributeValue] = [:]
  /// Pointers as they came; a target may be missing.
  var pointers: [String: String] = [:]
}

/// Objects and pairs.
struct NaiveGraph: Hashable, Sendable {
  var objects: [String: NaiveObject] = [:]
  var pairs: Set<Pair> = []

  /// What a person sees: pointers and pairs whose ends are there, values that are not null.
  var shown: [String] {
    var lines: [String] = []
    for (name, object) in objects {
      let values = object.attributes.filter { $0.value != .null }.map { "\($0.key)=\(Self.text($0.value))" }
      let pointers = object.pointers.filter { objects[$0.value] != nil }.map { "\($0.key)→\($0.value)" }
      lines.append("\(object.entity) \(name): " + (values + pointers).sorted().joined(separator: " "))
    }
    for pair in pairs where objects[pair.post] != nil && objects[pair.tag] != nil {
      lines.append("\(pair.post)–\(pair.tag)")
    }
    return lines.sorted()
  }

  private static func text(_ value: AttributeValue) -> String {
    if case .asset(let asset) = value { return "asset \(asset.fileChecksum)" }
    return value.shown
  }
}

extension AttributeValue {
  /// As stories show it: the description of an enumeration takes much longer.
  var shown: String {
    switch self {
    case .string(let text): "string(\"\(text)\")"
    case .integer(let number): "integer(\(number))"
    default: "\(self)"
    }
  }
}

extension Link {
  /// nil: of a relationship that the journal does not have.
  var pair: Pair? {
    switch relationship {
    case "tags": Pair(post: objectID, tag: targetID)
    case "posts": Pair(post: targetID, tag: objectID)
    default: nil
    }
  }
}
