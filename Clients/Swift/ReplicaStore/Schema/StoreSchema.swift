// A model as a store's tables: entities of the configuration, resolved once when the store opens.

/// The entities of one store.
final class StoreSchema: Sendable {
  let model: ManagedObjectModel
  /// By name.
  let entities: [String: EntityPlan]
  /// By key.
  let entitiesByKey: [Int64: EntityPlan]
  /// Ascending by table.
  let links: [LinkTable]
  /// Names of properties by key.
  let propertyNames: [Int64: String]

  init(model: ManagedObjectModel, entities: [EntityPlan], links: [LinkTable], propertyNames: [Int64: String]) {
    self.model = model
    self.entities = Dictionary(uniqueKeysWithValues: entities.map { ($0.name, $0) })
    entitiesByKey = Dictionary(uniqueKeysWithValues: entities.map { ($0.key, $0) })
    self.links = links
    self.propertyNames = propertyNames
  }

  func entity(_ name: String) throws(StoreError) -> EntityPlan {
    guard let entity = entities[name] else { throw .invalid("the store has no entity \(name)") }
    return entity
  }

  func toMany(_ name: String, of entity: EntityPlan) throws(StoreError) -> RelationshipPlan {
    guard let relationship = entity.toMany[name] else {
      throw .invalid("\(entity.name) has no to-many relationship \(name)")
    }
    return relationship
  }

  /// In the order of names.
  var all: [EntityPlan] { entities.values.sorted { $0.name < $1.name } }
  var roots: [EntityPlan] { all.filter { $0.rootName == $0.name } }
}

/// Numbers for names, which a file assigns for good.
protocol NameKeys {
  func entityKey(_ name: String) throws(StoreError) -> Int64
  func propertyKey(root: String, _ name: String) throws(StoreError) -> Int64
}

/// Resolves a model.
struct SchemaBuilder {
  let model: ManagedObjectModel
  private let keys: any NameKeys
  private let described: [String: EntityDescription]
  /// Of each entity: itself and its superentities, root first.
  private let lines: [String: [EntityDescription]]

  /// - Parameter configuration: nil, or one of the model's.
  init(model: ManagedObjectModel, configuration: String?, keys: any NameKeys) throws(StoreError) {
    self.model = model
    self.keys = keys
    var named = model.entities
    if let configuration {
      guard let names = model.configurations[configuration] else {
        throw .invalid("the model has no configuration \(configuration)")
      }
      named = named.filter { names.contains($0.name) }
    }
    described = Dictionary(named.map { ($0.name, $0) }) { first, _ in first }
    guard described.count == named.count else { throw .invalid("two entities of the model have one name") }
    var lines: [String: [EntityDescription]] = [:]
    for entity in named {
      var line = [entity]
      while let parent = line[0].parentName {
        guard let description = described[parent], line.count < 100 else {
          throw .invalid("\(line[0].name) has no superentity \(parent)")
        }
        line.insert(description, at: 0)
      }
      lines[entity.name] = line
    }
    self.lines = lines
  }

  func build() throws(StoreError) -> StoreSchema {
    var plans: [EntityPlan] = []
    var links: Set<LinkTable> = []
    var propertyNames: [Int64: String] = [:]
    for entity in model.entities where described[entity.name] != nil {
      let plan = try plan(entity)
      plans.append(plan)
      for column in plan.columns { propertyNames[column.key] = column.name }
      for relationship in plan.toMany.values {
        propertyNames[relationship.key] = relationship.name
        if case .link(let table, _) = relationship.storage { links.insert(table) }
      }
    }
    return StoreSchema(
      model: model, entities: plans, links: links.sorted { $0.table < $1.table }, propertyNames: propertyNames)
  }

  private func line(_ entity: String) -> [EntityDescription] { lines[entity] ?? [] }

  private func plan(_ entity: EntityDescription) throws(StoreError) -> EntityPlan {
    let line = line(entity.name)
    let root = line[0].name
    var columns: [Column] = []
    for attribute in line.flatMap(\.attributes) where !attribute.traits.contains(.transient) {
      let derivation = attribute.traits.contains(.derived) ? try derivation(attribute, of: entity, line: line) : nil
      let key = try keys.propertyKey(root: root, attribute.name)
      columns.append(
        Column(name: attribute.name, kind: .attribute(attribute), key: key, derivation: derivation, root: root))
    }
    var toMany: [RelationshipPlan] = []
    for owner in line {
      for relationship in owner.relationships {
        let plan = try self.relationship(relationship, declaredBy: owner.name, root: root)
        if relationship.isToMany {
          toMany.append(plan)
        } else {
          columns.append(Column(name: plan.name, kind: .toOne(plan), key: plan.key, derivation: nil, root: root))
        }
      }
    }
    let names = columns.map(\.name) + toMany.map(\.name)
    guard Set(names.map { $0.lowercased() }).count == names.count, !names.contains("_pk") else {
      throw .invalid("two properties of \(entity.name) have one name, without regard to case, or one is called _pk")
    }
    let kinds = described.keys.filter { self.line($0).contains { $0.name == entity.name } }
    let isWhole = described.keys.allSatisfy { self.line($0)[0].name != root || kinds.contains($0) }
    var kindKeys: [Int64] = []
    for kind in kinds { kindKeys.append(try keys.entityKey(kind)) }
    return EntityPlan(
      name: entity.name, rootName: root, key: try keys.entityKey(entity.name), isAbstract: entity.isAbstract,
      kindKeys: isWhole ? nil : kindKeys.sorted(), kindNames: Set(kinds), columns: columns, toMany: toMany)
  }

  /// The relationship `name` that `entity` declares or inherits, with the entity that declares it.
  private func find(_ name: String, of entity: String) throws(StoreError) -> (
    owner: String, root: String, relationship: RelationshipDescription
  )? {
    let line = line(entity)
    for owner in line.reversed() {
      if let relationship = owner.relationships.first(where: { $0.name == name }) {
        return (owner.name, line[0].name, relationship)
      }
    }
    return nil
  }

  private func relationship(_ relationship: RelationshipDescription, declaredBy owner: String, root: String)
    throws(StoreError) -> RelationshipPlan
  {
    guard let inverse = try find(relationship.inverse, of: relationship.destination) else {
      throw .invalid(
        "\(owner).\(relationship.name) has no inverse \(relationship.destination).\(relationship.inverse) in this store"
      )
    }
    let key = try keys.propertyKey(root: root, relationship.name)
    let storage: RelationshipPlan.Storage
    if !relationship.isToMany {
      storage = .column
    } else if !inverse.relationship.isToMany {
      storage = .inverseColumn(table: "e_\(inverse.root)".quoted, column: inverse.relationship.name.quoted)
    } else {
      let isFirst = (owner, relationship.name) <= (inverse.owner, inverse.relationship.name)
      let first = isFirst ? (owner, relationship.name, root) : (inverse.owner, inverse.relationship.name, inverse.root)
      let table = LinkTable(
        table: "l_\(first.0)_\(first.1)".quoted,
        isSymmetric: owner == inverse.owner && relationship.name == inverse.relationship.name,
        firstEntity: first.0, firstRelationship: first.1, firstKey: try keys.propertyKey(root: first.2, first.1))
      storage = .link(table, isFirst: isFirst)
    }
    return RelationshipPlan(
      name: relationship.name, destination: relationship.destination, inverse: relationship.inverse,
      isInverseToMany: inverse.relationship.isToMany, isToMany: relationship.isToMany,
      deleteRule: relationship.deleteRule, storage: storage,
      key: key)
  }

  // MARK: Derived attributes

  private func derivation(_ attribute: AttributeDescription, of entity: EntityDescription, line: [EntityDescription])
    throws(StoreError) -> String?
  {
    guard let text = attribute.derivation else {
      throw .invalid("\(entity.name).\(attribute.name) is derived from nothing")
    }
    // Kept by saves: the column is stored.
    if text == "now()" { return nil }
    for (name, function) in [
      ("canonical:", "aquifer_fold"), ("uppercase:", "aquifer_upper"), ("lowercase:", "aquifer_lower"),
    ] {
      if text.hasPrefix("\(name)("), text.hasSuffix(")") {
        let source = String(text.dropFirst(name.count + 1).dropLast())
        if line.flatMap(\.attributes).contains(where: { $0.name == source }) {
          return "\(function)($.\(source.quoted))"
        }
      }
    }
    let parts = text.split(separator: ".").map(String.init)
    if parts.count >= 2, let (owner, root, found) = try find(parts[0], of: entity.name) {
      let plan = try relationship(found, declaredBy: owner, root: root)
      if let sql = try derivation(parts, over: plan) { return sql }
    }
    throw .invalid("\(entity.name).\(attribute.name) is derived from \(text), which no store can compute")
  }

  private func derivation(_ parts: [String], over relationship: RelationshipPlan) throws(StoreError) -> String? {
    guard let root = line(relationship.destination).first else { return nil }
    let table = "e_\(root.name)".quoted
    if !relationship.isToMany, parts.count == 2 {
      return "(SELECT d.\(parts[1].quoted) FROM \(table) d WHERE d._pk = $.\(relationship.name.quoted))"
    }
    let functions = [
      "@count": "count(*)", "@sum": "coalesce(sum(d.#), 0)", "@min": "min(d.#)", "@max": "max(d.#)", "@avg": "avg(d.#)",
    ]
    guard let function = functions[parts[parts.count - 1]], parts.count == (function.contains("#") ? 3 : 2),
      relationship.isToMany
    else { return nil }
    let value = function.replacing("#", with: parts[1].quoted)
    return
      "(SELECT \(value) FROM \(RelationshipSQL.members(of: relationship, owner: "$._pk", table: table, alias: "d")))"
  }
}

enum RelationshipSQL {
  /// `FROM` and `WHERE` of a to-many relationship's objects, under `alias`.
  /// - Parameter owner: SQL for the owner's key.
  static func members(of relationship: RelationshipPlan, owner: String, table: String, alias: String) -> String {
    switch relationship.storage {
    case .column: "\(table) \(alias) WHERE \(alias)._pk = \(owner)"
    case .inverseColumn(_, let column): "\(table) \(alias) WHERE \(alias).\(column) = \(owner)"
    case .link(let link, let isFirst):
      "\(link.table) \(alias)_l JOIN \(table) \(alias) ON \(alias)._pk = \(alias)_l.\(isFirst ? "b" : "a") "
        + "WHERE \(alias)_l.\(isFirst ? "a" : "b") = \(owner)"
    }
  }
}
