// What a save has done to one object so far.

/// Not Sendable: it lives within the writer's transaction.
final class Edit {
  enum Kind { case insert, update, delete }

  let key: Int64
  let id: AnyObjectID
  let entity: EntityPlan
  let zone: Int64?
  /// Of an inserted object: where it lay before it was deleted.
  let formerZone: Int64?
  var kind: Kind
  /// Values before the save, by the place of the column, of columns that changed. Relationships are `.object`s.
  private(set) var originals: [Int: Literal] = [:]
  /// Values now; all stored ones of an inserted object.
  private(set) var values: [Int: Literal] = [:]
  /// Of a deletion: the preserved attributes.
  var tombstone: [String: Literal] = [:]
  /// A change that the server refused and the tables still have: it is told again.
  private(set) var refused: (kind: Kind, values: [Int: Literal])?

  init(key: Int64, id: AnyObjectID, entity: EntityPlan, zone: Int64?, formerZone: Int64? = nil, kind: Kind) {
    self.key = key
    self.id = id
    self.entity = entity
    self.zone = zone
    self.formerZone = formerZone
    self.kind = kind
  }

  /// Notes a change; one that returns to the original is none.
  func note(_ place: Int, from old: Literal, to new: Literal) {
    if kind == .insert {
      values[place] = new
      return
    }
    let original = originals[place] ?? old
    if kind == .update, original == new {
      originals[place] = nil
      values[place] = nil
    } else {
      originals[place] = original
      values[place] = new
    }
  }

  /// Notes a refused change.
  /// - Parameter values: of the places that it tells.
  func noteRefused(_ kind: Kind, _ values: [Int: Literal]) { refused = (kind, values) }

  /// Nothing changes, and nothing is told again.
  var isEmpty: Bool { kind == .update && changed.isEmpty && refused == nil }

  // MARK: What the server is told

  var toldKind: Kind { kind == .update ? refused?.kind ?? kind : kind }
  var toldPlaces: [Int] {
    guard let refused, toldKind != .delete else { return changed }
    return Set(changed + refused.values.keys.filter { toldKind == .update || told($0) != .null }).sorted()
  }
  func told(_ place: Int) -> Literal { values[place] ?? refused?.values[place] ?? .null }

  /// Places of changed columns, ascending; of an insertion those that have a value.
  var changed: [Int] {
    let places = kind == .insert ? values.keys.filter { values[$0] != .null } : Array(values.keys)
    return places.sorted()
  }
}

/// A pair of a many-to-many relationship, named from column `a`.
struct Pair: Hashable {
  let link: LinkTable
  let a: Int64
  let b: Int64
}

/// A pair that a save made or ended.
struct PairEdit {
  let isLinked: Bool
  /// The end from which it was edited, whose history tells it.
  let owner: Int64
  let relationship: RelationshipPlan
  let target: AnyObjectID
  /// The server refused it and the tables still have it so: it is told again.
  var isRefused = false
}
