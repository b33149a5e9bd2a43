// Says in the later model's words what waits to be sent, and what is pending because of it (K12).

import MirrorWire
import SQLite

struct OutboxRewrite {
  private let connection: Connection
  private let mapping: ModelMapping
  private let earlier: StoreSchema
  private let later: StoreSchema

  init(_ connection: Connection, _ mapping: ModelMapping, _ earlier: StoreSchema, _ later: StoreSchema) {
    self.connection = connection
    self.mapping = mapping
    self.earlier = earlier
    self.later = later
  }

  func run() throws {
    try remapPending()
    guard !mapping.isIdentity else { return }
    for (table, key) in [("outbox", "key"), ("exported", "key"), ("rejected", "identifier")] {
      let rows = try connection.prepare(SQL("bodies of \(table)", "SELECT \(key), body FROM \(table)")).all {
        ($0.text(0), $0.blob(1))
      }
      for (row, body) in rows {
        guard var transaction = try? Transaction(json: body) else {
          throw StoreError.damaged("a transaction of the \(table) can't be read")
        }
        transaction.changes = transaction.changes.compactMap(rewritten)
        // A transaction without changes stays in the outbox: nobody knows whether it was sent before.
        let update = try connection.prepare(SQL("rewrite", "UPDATE \(table) SET body = ? WHERE \(key) = ?"))
        try update.binding(try transaction.json(), row).run()
      }
    }
  }

  /// nil: the entity is gone, or nothing of an update is left.
  private func rewritten(_ change: ObjectChange) -> ObjectChange? {
    guard let entity = mapping.laterEntity(change.entity), let plan = later.entities[entity] else { return nil }
    var copy = change
    copy.entity = entity
    copy.attributes = change.attributes.map { converted($0, change.entity, plan) }
    copy.tombstone = change.tombstone.map { converted($0, change.entity, plan) }
    copy.relationships = change.relationships.map { renamed($0, change.entity) { plan.relationship($0) != nil } }
    if copy.changeType == .update, copy.attributes?.isEmpty ?? true, copy.relationships?.isEmpty ?? true { return nil }
    return copy
  }

  /// Values under their later names, as the later types have them (`Migration.canConvert`).
  private func converted(_ values: [String: AttributeValue], _ entity: String, _ plan: EntityPlan) -> [String:
    AttributeValue]
  {
    let kept = renamed(values, entity) { plan.column($0)?.isMirrored == true }
    return Dictionary(
      uniqueKeysWithValues: kept.map { name, value in
        (name, plan.column(name)?.attribute.map { Self.converted(value, to: $0.type) } ?? value)
      })
  }

  private static func converted(_ value: AttributeValue, to type: AttributeType) -> AttributeValue {
    var value = value
    if case .boolean(let flag) = value, type != .boolean { value = .integer(flag ? 1 : 0) }
    if case .integer(let number) = value, [.decimal, .string].contains(type) { value = .string(String(number)) }
    return value
  }

  private func renamed<Value>(_ values: [String: Value], _ entity: String, _ isThere: (String) -> Bool) -> [String:
    Value]
  {
    var renamed: [String: Value] = [:]
    for (name, value) in values {
      if let later = mapping.laterProperty(name, of: entity), isThere(later) { renamed[later] = value }
    }
    return renamed
  }

  private func remapPending() throws {
    var moves: [Int64: Int64?] = [:]
    for entity in earlier.all {
      for (name, key) in entity.columns.map({ ($0.name, $0.key) }) + entity.toMany.values.map({ ($0.name, $0.key) }) {
        let plan = mapping.laterEntity(entity.name).flatMap { later.entities[$0] }
        let new = mapping.laterProperty(name, of: entity.name)
        let to = new.flatMap { new in plan?.column(new)?.key ?? plan?.toMany[new]?.key }
        if moves[key] == nil || to != nil { moves[key] = .some(to) }
      }
    }
    for (from, to) in moves.sorted(by: { $0.key < $1.key }) where from != to {
      try connection.prepare(
        SQL("lift pending", "UPDATE pending SET property = -1000000 - property WHERE property = ?")
      ).binding(from).run()
    }
    for (from, to) in moves.sorted(by: { $0.key < $1.key }) where from != to {
      let sql =
        to == nil
        ? "DELETE FROM pending WHERE property = ?2" : "UPDATE OR REPLACE pending SET property = ?1 WHERE property = ?2"
      try connection.prepare(SQL("land pending", sql)).binding(to ?? nil, -1_000_000 - from).run()
    }
  }
}
