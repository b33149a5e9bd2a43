// What a save may do: the model's rules for values, and the user's rights in zones.

import MirrorWire
import SQLite

struct SaveRules {
  let save: SaveTransaction
  let isShared: Bool
  private var connection: Connection { save.tables.connection }
  private var rights: CachedRights { CachedRights(connection) }

  init(_ save: SaveTransaction, isShared: Bool) {
    self.save = save
    self.isShared = isShared
  }

  /// - Parameters:
  ///   - values: false: the model's rules for values do not count.
  ///   - places: false: neither do zones, and the rights in them.
  func check(values: Bool = true, places: Bool = true) throws {
    var problems: [StoreError.Problem] = []
    for edit in save.orderedEdits where values && edit.kind != .delete { problems += try check(edit) }
    if !problems.isEmpty { throw StoreError.validation(problems) }
    guard places else { return }
    try checkRights()
    try checkZones()
  }

  // MARK: Values

  private func check(_ edit: Edit) throws -> [StoreError.Problem] {
    var problems: [StoreError.Problem] = []
    let places = edit.kind == .insert ? Array(edit.entity.columns.indices) : edit.changed
    for place in places {
      let column = edit.entity.columns[place]
      let value = edit.values[place] ?? .null
      let message: String?
      switch column.kind {
      case .attribute(let attribute): message = Self.problem(value, attribute)
      case .toOne(let relationship): message = try problem(value, relationship)
      }
      if let message { problems.append(.init(object: edit.id, property: column.name, message: message)) }
    }
    return problems
  }

  private static func problem(_ value: Literal, _ attribute: AttributeDescription) -> String? {
    let size: Double
    switch value {
    case .null:
      return attribute.traits.contains(.required) && !attribute.traits.contains(.derived) ? "a value is required" : nil
    case .real(let number):
      if !number.isFinite { return "the number is not finite" }
      size = number
    case .integer(let number): size = Double(number)
    case .text(let text) where attribute.type == .decimal: size = Double(text) ?? .nan
    case .text(let text): size = Double(text.count)
    case .data, .object: return nil
    }
    let isText = attribute.type == .string
    if let minimum = attribute.minimum, size < minimum {
      return isText ? "the text is shorter than \(Int(minimum))" : "the number is smaller than \(minimum)"
    }
    if let maximum = attribute.maximum, size > maximum {
      return isText ? "the text is longer than \(Int(maximum))" : "the number is larger than \(maximum)"
    }
    return nil
  }

  private func problem(_ value: Literal, _ relationship: RelationshipPlan) throws -> String? {
    guard case .object(let name) = value, let found = try save.snapshot.find(name), found.state == Tables.State.here
    else { return nil }
    let kinds = try save.schema.entity(relationship.destination).kindNames
    guard let entity = save.schema.entitiesByKey[found.entity], !kinds.contains(entity.name) else { return nil }
    return "\(name) is no \(relationship.destination)"
  }

  // MARK: Rights

  /// Refuses what cached permissions deny (10).
  private func checkRights() throws {
    for edit in save.orderedEdits where edit.kind != .insert {
      let right = try rights.of(edit.key, zone: edit.zone)
      if edit.toldKind == .delete ? !right.canDelete : !right.canUpdate { throw StoreError.permission(edit.id) }
    }
  }

  // MARK: Zones

  /// A new object comes to lie in the zone of what it is related to. Objects of two zones can't be related (134060);
  /// a new object of a shared store needs a zone (2988), and one that can be written (10).
  private func checkZones() throws {
    let inserted = save.orderedEdits.filter { $0.kind == .insert }
    let edges = try edges()
    guard !edges.isEmpty || !inserted.isEmpty else { return }
    var zones: [Int64: Int64] = [:]
    var named: [Int64: AnyObjectID] = [:]
    for edge in edges {
      for (key, zone, id) in [(edge.keys.0, edge.zones.0, edge.ids.0), (edge.keys.1, edge.zones.1, edge.ids.1)] {
        named[key] = id
        if let zone { zones[key] = zone }
      }
    }
    try settle(&zones, edges)
    // What is made again returns to its zone if nothing leads it elsewhere.
    while let zone = inserted.first(where: { zones[$0.key] == nil && $0.formerZone != nil })?.formerZone {
      for edit in inserted where zones[edit.key] == nil && edit.formerZone == zone { zones[edit.key] = zone }
      try settle(&zones, edges)
    }
    for edit in inserted {
      if isShared, zones[edit.key] == nil { throw StoreError.noZone(edit.id) }
      if let zone = zones[edit.key], try rights.permission(ofZone: zone) == ZonePermission.readOnly.rawValue {
        throw StoreError.permission(edit.id)
      }
    }
    try keep(zones, inserted)
  }

  /// Gives the zones along relations, until no object gets one any more.
  private func settle(_ zones: inout [Int64: Int64], _ edges: [Edge]) throws {
    var isSettled = false
    while !isSettled {
      isSettled = true
      for edge in edges {
        switch (zones[edge.keys.0], zones[edge.keys.1]) {
        case (let zone?, nil): (zones[edge.keys.1], isSettled) = (zone, false)
        case (nil, let zone?): (zones[edge.keys.0], isSettled) = (zone, false)
        case (let one?, let other?) where one != other: throw StoreError.zones(edge.ids.0, edge.ids.1)
        default: break
        }
      }
    }
  }

  /// The server never tells a store its own objects, so the store notes itself where they will lie.
  private func keep(_ zones: [Int64: Int64], _ inserted: [Edit]) throws {
    for (key, zone) in zones {
      let isNew = save.edits[key]?.kind == .insert
      try connection.statement(isNew ? Self.changeZone : Self.enterZone).binding(zone, key).run()
    }
    let homeless = inserted.filter { zones[$0.key] == nil }
    guard !isShared, !homeless.isEmpty, let zone = try connection.statement(Self.defaultZone).first({ $0.int64(0) })
    else { return }
    for edit in homeless { try connection.statement(Self.enterZone).binding(zone, edit.key).run() }
  }

  private typealias Edge = (keys: (Int64, Int64), zones: (Int64?, Int64?), ids: (AnyObjectID, AnyObjectID))

  /// Relations that the save makes.
  private func edges() throws -> [Edge] {
    var edges: [Edge] = []
    for edit in save.orderedEdits where edit.kind != .delete {
      for place in edit.changed {
        guard edit.entity.columns[place].toOne != nil, case .object(let name)? = edit.values[place] else { continue }
        guard let found = try save.snapshot.find(name), found.state == Tables.State.here else { continue }
        let entity = save.schema.entitiesByKey[found.entity]?.name ?? ""
        edges.append(
          (
            (edit.key, found.key), (edit.zone, zone(of: found)),
            (edit.id, AnyObjectID(entityName: entity, recordName: name))
          ))
      }
    }
    for (pair, edit) in save.orderedPairs where edit.isLinked {
      guard let a = try save.snapshot.object(pair.a), let b = try save.snapshot.object(pair.b) else { continue }
      edges.append(((pair.a, pair.b), (zone(of: a.found), zone(of: b.found)), (a.id, b.id)))
    }
    return edges
  }

  /// nil: it has none yet; that of an object's former life does not count.
  private func zone(of found: FoundObject) -> Int64? {
    save.edits[found.key]?.kind == .insert ? nil : found.zone
  }

  private static let enterZone = SQL("enter zone", "UPDATE object SET zone = ?1 WHERE _pk = ?2 AND zone IS NULL")
  private static let changeZone = SQL("change zone", "UPDATE object SET zone = ? WHERE _pk = ?")
  private static let defaultZone = SQL(
    "default zone", "SELECT key FROM zone WHERE zoneName = '\(ZoneID.homeName)' ORDER BY key LIMIT 1")
}
