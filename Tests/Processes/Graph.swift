// The oracle: an object graph as a plain dictionary, filled by hand on one side and by imports on the other.

struct Graph: Hashable, Sendable {
  struct Object: Hashable, Sendable {
    var entity: String
    /// Without nils.
    var attributes: [String: Value] = [:]
    /// To-one relationships, without nils.
    var toOnes: [String: String] = [:]
    /// The latest known zone; not compared.
    var zone = Value.null

    static func == (left: Object, right: Object) -> Bool {
      left.entity == right.entity && left.attributes == right.attributes && left.toOnes == right.toOnes
    }

    func hash(into hasher: inout Hasher) {
      hasher.combine(entity)
      hasher.combine(attributes)
      hasher.combine(toOnes)
    }
  }

  /// A many-to-many pair, the same from both sides.
  struct Pair: Hashable, Sendable {
    let ends: [String]
    init(_ a: String, _ b: String) { ends = [a, b].sorted() }
  }

  var objects: [String: Object] = [:]
  var pairs: Set<Pair> = []

  /// Applies a change from an import.
  mutating func apply(_ change: Value) throws {
    guard let kind = change["changeType"].string else { throw Unexpected("a change without changeType: \(change)") }
    if kind == "zone" || kind == "share" { return apply(zone: change) }
    guard let id = change["objectID"].string else { throw Unexpected("a change without objectID: \(change)") }
    switch kind {
    case "save":
      guard let entity = change["entity"].string else { throw Unexpected("a save without entity: \(change)") }
      var object = objects[id] ?? Object(entity: entity)
      object.entity = entity
      for (name, value) in change["attributes"].members {
        // `nil` in a conditional expression would be the JSON null.
        if value == .null { object.attributes.removeValue(forKey: name) } else { object.attributes[name] = value }
      }
      for (name, value) in change["relationships"].members { object.toOnes[name] = value.string }
      object.zone = change["zoneID"]
      objects[id] = object
    case "move": objects[id]?.zone = change["to"]
    case "delete":
      objects[id] = nil
      pairs = pairs.filter { !$0.ends.contains(id) }
    case "link", "unlink":
      guard let target = change["target"]["objectID"].string else {
        throw Unexpected("a link without target: \(change)")
      }
      if kind == "link" { pairs.insert(Pair(id, target)) } else { pairs.remove(Pair(id, target)) }
    default: throw Unexpected("a change of kind \(kind)")
    }
  }

  /// Removes the objects of a zone that ended, if the change tells the store to delete them.
  private mutating func apply(zone change: Value) {
    guard change["changeType"].string == "zone", ["delete", nil].contains(change["action"].string) else { return }
    guard ["deleted", "purged", "encryptedDataReset", "left"].contains(change["reason"].string) else { return }
    let gone = Set(objects.filter { $0.value.zone["zoneName"] == change["zoneID"]["zoneName"] }.keys)
    objects = objects.filter { !gone.contains($0.key) }
    pairs = pairs.filter { pair in !pair.ends.contains { gone.contains($0) } }
  }
}

/// An answer that the test did not expect.
struct Unexpected: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
