// A save in progress: edits go to the tables at once, so that the save reads its own writes.

import FoundationEssentials
import SQLite

/// The edits of one save, on the writer's connection.
package final class SaveTransaction {
  package let snapshot: Snapshot
  let tables: ObjectTables
  let schema: StoreSchema
  private(set) var edits: [Int64: Edit] = [:]
  /// In the order in which they began.
  private(set) var orderedEdits: [Edit] = []
  private(set) var pairs: [Pair: PairEdit] = [:]
  private(set) var pairOrder: [Pair] = []
  private(set) var contents: [String: ContentSource] = [:]
  private var deleting: Set<Int64> = []
  private let base: MergeBase?
  /// The history transaction of the refused save that this one does again.
  var retriedNumber: Int64?

  init(_ snapshot: Snapshot, _ tables: ObjectTables, base: MergeBase? = nil) {
    self.snapshot = snapshot
    self.base = base
    self.tables = tables
    schema = snapshot.schema
  }

  var isEmpty: Bool { pairs.isEmpty && edits.values.allSatisfy(\.isEmpty) }
  var orderedPairs: [(pair: Pair, edit: PairEdit)] { pairOrder.compactMap { pair in pairs[pair].map { (pair, $0) } } }

  /// A writer for the columns of an entity.
  package func makeWriter(_ entityName: String) throws(StoreError) -> RowWriter {
    RowWriter(columnCount: try schema.entity(entityName).columns.count)
  }

  /// The store's error for what a call of this type threw.
  package static func error(_ error: any Error) -> StoreError { storeError(error) }

  // MARK: Objects

  /// - Parameter values: of the columns of `Row` from 1 on.
  package func insert(_ id: AnyObjectID, _ values: [Literal], contents: [String: ContentSource] = [:]) throws {
    let entity = try schema.entity(id.entityName)
    guard !entity.isAbstract else { throw StoreError.invalid("\(entity.name) is abstract") }
    guard RecordName.isValid(id.recordName) else {
      throw StoreError.invalid("a record name has 1 to 255 ASCII characters without spaces")
    }
    let found = try snapshot.find(id.recordName)
    if let found {
      guard found.state != Tables.State.here else {
        throw StoreError.validation([.init(object: id, property: "id", message: "an object of this name exists")])
      }
      guard edits[found.key] == nil else { throw StoreError.invalid("\(id) was deleted by this save") }
    }
    let key = try tables.makeHere(id.recordName, entity, found: found)
    let edit = Edit(key: key, id: id, entity: entity, zone: nil, formerZone: found?.zone, kind: .insert)
    edits[key] = edit
    orderedEdits.append(edit)
    try tables.insertRow(key, entity) { place in
      let column = entity.columns[place]
      guard column.toOne == nil, column.isWritable else { return .null }
      edit.note(place, from: .null, to: values[place])
      return values[place]
    }
    for (place, column) in entity.columns.enumerated() where column.toOne != nil {
      if case .object(let name) = values[place] { try setToOne(edit, place, name) }
    }
    self.contents.merge(contents) { first, _ in first }
  }

  /// Changes what differs between two readings of an object.
  package func update(
    _ id: AnyObjectID, from old: [Literal], to new: [Literal], contents: [String: ContentSource] = [:]
  ) throws {
    guard let found = try snapshot.find(id.recordName), found.state == Tables.State.here else {
      throw StoreError.missing(id)
    }
    let edit = try edit(found.key)
    let entity = try schema.entity(id.entityName)
    for (place, column) in entity.columns.enumerated() where old[place] != new[place] {
      guard column.isWritable, let own = edit.entity.columnPlaces[column.name] else { continue }
      if column.toOne != nil {
        if case .object(let name) = new[place] { try setToOne(edit, own, name) } else { try setToOne(edit, own, nil) }
      } else {
        try tables.set(column, of: edit.entity, found.key, to: new[place])
        edit.note(own, from: old[place], to: new[place])
      }
    }
    self.contents.merge(contents) { first, _ in first }
  }

  /// The edit of an object that is here, begun if need be.
  func edit(_ key: Int64) throws -> Edit {
    if let edit = edits[key] { return edit }
    guard let (id, found) = try snapshot.object(key), let entity = schema.entitiesByKey[found.entity] else {
      throw StoreError.damaged("an object of an unknown entity")
    }
    let edit = Edit(key: key, id: id, entity: entity, zone: found.zone, kind: .update)
    edits[key] = edit
    orderedEdits.append(edit)
    return edit
  }

  /// Sets a column to a value that it had.
  func set(_ edit: Edit, _ place: Int, _ value: Literal) throws {
    let column = edit.entity.columns[place]
    guard column.toOne == nil else {
      if case .object(let name) = value { try setToOne(edit, place, name) } else { try setToOne(edit, place, nil) }
      return
    }
    let current =
      try edit.values[place] ?? snapshot.row(edit.key, of: edit.entity) { $0.literal(Int32(place + 1)) } ?? .null
    try tables.set(column, of: edit.entity, edit.key, to: value)
    edit.note(place, from: current, to: value)
  }

  // MARK: Relationships

  /// Sets a to-one relationship. Of a one-to-one relationship it sets the other end, and ends the former pairs, as far
  /// as their other ends agree (K8).
  func setToOne(_ edit: Edit, _ place: Int, _ name: String?) throws {
    let column = edit.entity.columns[place]
    guard let relationship = column.toOne else { return }
    let destination = try schema.entity(relationship.destination)
    let former = try tables.toOne(column, of: edit.entity, edit.key)
    let target = try name.map { try tables.key(of: $0, destination) }
    guard former != target else { return }
    try write(edit, place, former, target)
    guard !relationship.isInverseToMany, let inverse = destination.column(relationship.inverse) else { return }
    if let former, former != edit.key, try tables.toOne(inverse, of: destination, former) == edit.key {
      try clear(inverse, of: destination, former)
    }
    guard let target, target != edit.key, try tables.hasRow(destination, target) else { return }
    let rival = try tables.toOne(inverse, of: destination, target)
    guard rival != edit.key else { return }
    if let rival, try tables.toOne(column, of: edit.entity, rival) == target {
      try clear(column, of: edit.entity, rival)
    }
    let other = try self.edit(target)
    if let inversePlace = other.entity.columnPlaces[inverse.name] { try write(other, inversePlace, rival, edit.key) }
  }

  private func clear(_ column: Column, of entity: EntityPlan, _ key: Int64) throws {
    let former = try tables.toOne(column, of: entity, key)
    let edit = try self.edit(key)
    if let place = edit.entity.columnPlaces[column.name] { try write(edit, place, former, nil) }
  }

  private func write(_ edit: Edit, _ place: Int, _ former: Int64?, _ target: Int64?) throws {
    try tables.set(edit.entity.columns[place], of: edit.entity, edit.key, to: target.map { .integer($0) } ?? .null)
    edit.note(place, from: try name(former), to: try name(target))
  }

  private func name(_ key: Int64?) throws -> Literal {
    guard let key, let (id, _) = try snapshot.object(key) else { return .null }
    return .object(id.recordName)
  }

  /// Makes or ends a pair of a to-many relationship.
  package func setPair(_ name: String, of id: AnyObjectID, with other: AnyObjectID, isLinked: Bool) throws {
    try setPair(name, of: id, with: other, isLinked: isLinked, isRefused: false)
  }

  /// - Parameter isRefused: the server refused it, so it is told again even if the tables still have it.
  func setPair(_ name: String, of id: AnyObjectID, with other: AnyObjectID, isLinked: Bool, isRefused: Bool) throws {
    guard let found = try snapshot.find(id.recordName), found.state == Tables.State.here else {
      throw StoreError.missing(id)
    }
    let owner = try schema.entitiesByKey[found.entity] ?? schema.entity(id.entityName)
    let relationship = try schema.toMany(name, of: owner)
    let destination = try schema.entity(relationship.destination)
    switch relationship.storage {
    case .column: return
    case .link:
      let target = try tables.key(of: other.recordName, destination)
      try setPair(
        relationship, owner: found.key, target: target, other, isLinked: isLinked, isRefused: isRefused)
    case .inverseColumn:
      guard let member = try snapshot.find(other.recordName), member.state == Tables.State.here else {
        throw StoreError.missing(other)
      }
      let edit = try edit(member.key)
      guard let place = edit.entity.columnPlaces[relationship.inverse] else {
        throw StoreError.invalid("\(other) can't be in \(owner.name).\(name)")
      }
      if isLinked {
        try setToOne(edit, place, id.recordName)
      } else if try tables.toOne(edit.entity.columns[place], of: edit.entity, member.key) == found.key {
        try setToOne(edit, place, nil)
      }
      if edit.isEmpty { forget(edit.key) }
    }
  }

  private func setPair(
    _ relationship: RelationshipPlan, owner: Int64, target: Int64, _ targetID: AnyObjectID, isLinked: Bool,
    isRefused: Bool = false
  ) throws {
    guard case .link(let link, let isFirst) = relationship.storage else { return }
    let isOrdered = link.isSymmetric ? owner <= target : isFirst
    let pair = Pair(link: link, a: isOrdered ? owner : target, b: isOrdered ? target : owner)
    let isChanged = try tables.setPair(pair, isLinked: isLinked)
    guard isChanged || isRefused && pairs[pair] == nil else { return }
    let known = pairs[pair]
    if let known, known.isLinked != isLinked, !known.isRefused {
      pairs[pair] = nil
    } else {
      pairs[pair] = PairEdit(
        isLinked: isLinked, owner: owner, relationship: relationship, target: targetID, isRefused: !isChanged)
      if known == nil { pairOrder.append(pair) }
      _ = try edit(owner)
    }
  }

  func forget(_ key: Int64) {
    edits[key] = nil
    orderedEdits.removeAll { $0.key == key }
  }

  func hasPairs(of owner: Int64) -> Bool { pairs.values.contains { $0.owner == owner } }

  func undoPairs(of owner: Int64) throws {
    for (pair, edit) in orderedPairs where edit.owner == owner {
      _ = try tables.setPair(pair, isLinked: !edit.isLinked)
      pairs[pair] = nil
    }
  }

  // MARK: Deletion

  /// Deletes an object, with what the delete rules say (K9).
  package func delete(_ id: AnyObjectID) throws {
    guard let found = try snapshot.find(id.recordName), found.state == Tables.State.here else {
      throw StoreError.missing(id)
    }
    try delete(found.key)
  }

  private func delete(_ key: Int64) throws {
    guard deleting.insert(key).inserted else { return }
    if let base, try ConflictResolver(base: base, save: self).keeps(key) { return }
    let edit = try edit(key)
    for relationship in edit.entity.relationships { try leave(relationship, edit) }
    try preserve(edit)
    try tables.deleteRow(edit.entity, key)
    for pair in pairOrder where pair.a == key || pair.b == key {
      if pairs[pair]?.owner == key { pairs[pair] = nil }
    }
    if edit.kind == .insert { forget(key) } else { edit.kind = .delete }
  }

  private func leave(_ relationship: RelationshipPlan, _ edit: Edit) throws {
    let destination = try schema.entity(relationship.destination)
    let members = try tables.members(of: relationship, edit.entity, edit.key, destination)
    for member in members where !deleting.contains(member) {
      switch relationship.deleteRule {
      case .noAction: break
      case .cascade: try delete(member)
      case .nullify:
        if let inverse = destination.column(relationship.inverse) {
          if try tables.toOne(inverse, of: destination, member) == edit.key {
            try clear(inverse, of: destination, member)
          }
        } else if let (_, found) = try snapshot.object(member), found.state == Tables.State.here {
          let inverse = try schema.toMany(relationship.inverse, of: destination)
          try setPair(inverse, owner: member, target: edit.key, edit.id, isLinked: false)
        }
      }
    }
    // An import may have told one end of a one-to-one relationship alone.
    if case .column = relationship.storage, !relationship.isInverseToMany,
      let inverse = destination.column(relationship.inverse)
    {
      for key in try tables.pointing(inverse, of: destination, to: edit.key) where !deleting.contains(key) {
        try clear(inverse, of: destination, key)
      }
    }
    if case .link(let link, _) = relationship.storage { try tables.deletePairs(link, edit.key) }
  }

  private func preserve(_ edit: Edit) throws {
    let places = edit.entity.columns.indices.filter {
      edit.entity.columns[$0].attribute?.traits.contains(.preservedOnDeletion) == true
    }
    guard !places.isEmpty else { return }
    edit.tombstone =
      try snapshot.row(edit.key, of: edit.entity) { row in
        Dictionary(uniqueKeysWithValues: places.map { (edit.entity.columns[$0].name, row.literal(Int32($0 + 1))) })
          .filter { $0.value != .null }
      } ?? [:]
  }
}
