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

  /// Each mark is lifted out of the way, and lands under the key that its property or pair has now.
  private func remapPending() throws {
    let lift = SQL("lift pending", "UPDATE pending SET property = \(Self.lifted) - property WHERE property > 0")
    try connection.prepare(lift).run()
    var landed: Set<Int64> = []
    for entity in earlier.all {
      guard let plan = mapping.laterEntity(entity.name).flatMap({ later.entities[$0] }) else { continue }
      for column in entity.columns {
        guard let name = mapping.laterProperty(column.name, of: entity.name), let new = plan.column(name),
          landed.insert(column.key).inserted
        else { continue }
        try connection.prepare(Self.landProperty).binding(new.key, Self.lifted - column.key).run()
      }
    }
    for link in later.links { try landPairs(of: link) }
    // Of what is gone.
    try connection.prepare(SQL("drop lifted", "DELETE FROM pending WHERE property <= \(Self.lifted)")).run()
  }

  /// Subentities of one entity may share the key of a relationship's name, so the objects tell whose pairs they are.
  private func landPairs(of link: LinkTable) throws {
    guard let (old, isTurned) = mapping.earlierLink(link, in: earlier), let first = later.entities[link.firstEntity]
    else { return }
    let former = isTurned ? first.toMany[link.firstRelationship].flatMap { later.entities[$0.destination] } : first
    let kinds = (former?.kindNames ?? []).compactMap { later.entities[$0]?.key }.sorted()
    let sql = SQL(
      "land pairs of \(link.table)",
      """
      UPDATE OR REPLACE pending SET property = ?1, object = \(isTurned ? "target, target = object" : "object") \
      WHERE property = ?2 AND target <> 0 AND object IN \
      (SELECT _pk FROM object WHERE entity IN (\(kinds.map(String.init).joined(separator: ", "))))
      """)
    try connection.prepare(sql).binding(link.firstKey, Self.lifted - old.firstKey).run()
  }

  private static let lifted: Int64 = -1_000_000
  private static let landProperty = SQL(
    "land pending", "UPDATE OR REPLACE pending SET property = ? WHERE property = ? AND target = 0")
}
