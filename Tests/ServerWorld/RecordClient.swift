// A client of the record plane: edits records beside the devices, and reads all of them at the end.

import JSON
import MirroringWorld
import ObjectModel
import Records
import ServiceBus

final class RecordClient {
  let user: String
  private let server: Server
  private let shape: ModelShape
  private var counter = 0
  /// Records that it deleted or that went with their zone. References to them stay, as with CloudKit, and devices
  /// ignore them.
  private var deleted: Set<String> = []
  /// Records that it made unreadable for devices.
  private var spoiled: [Spoiled] = []
  private var everSpoiled: [String: Spoiled] = [:]

  private struct Spoiled {
    let name: String
    let type: String
    let entity: String
  }

  init(user: String, server: Server, shape: ModelShape) {
    self.user = user
    self.server = server
    self.shape = shape
  }

  // MARK: Reading

  /// A record as its feed has it.
  struct Row {
    let name: String
    let type: String
    let zone: String
    let json: JSONValue

    func text(_ field: String) -> String? { json["fields"]?[field]?["value"]?.string }
  }

  /// The records of all zones.
  func rows() async throws -> [Row] {
    var rows: [Row] = []
    let zones =
      try await server.ask(.record, "POST", "changes/database", [:], "{}", user: user)?.json["zones"]?.elements ?? []
    for name in zones.filter({ $0["deleted"]?.bool != true }).compactMap({ $0["zoneID"]?["zoneName"]?.string }).sorted()
    {
      for record in try await feed(of: name) where record["deleted"]?.bool != true {
        rows.append(
          Row(
            name: record["recordName"]?.string ?? "", type: record["recordType"]?.string ?? "", zone: name, json: record
          ))
      }
    }
    return rows
  }

  /// The names of a zone's records, including deleted ones. A deleted zone no longer has them.
  func names(everIn zone: String) async throws -> [String] {
    try await feed(of: zone).compactMap { $0["recordName"]?.string }
  }

  private func feed(of name: String) async throws -> [JSONValue] {
    var records: [JSONValue] = []
    var token: String?
    var more = true
    while more {
      let since = token.map { #","syncToken":"\#($0)""# } ?? ""
      let body = #"{"zones":[{"zoneID":{"zoneName":"\#(name)"}\#(since)}]}"#
      guard
        let zone = try await server.ask(.record, "POST", "changes/zone", [:], body, user: user)?.json["zones"]?.elements
          .first
      else { break }
      records += zone["records"]?.elements ?? []
      token = zone["syncToken"]?.string
      more = zone["moreComing"]?.bool ?? false
    }
    return records
  }

  /// The objects and links that the records describe, with the records' faults.
  func picture() async throws -> (picture: Replica.Picture, problems: [String]) {
    let rows = try await rows()
    var objects: [String: Replica.Object] = [:]
    var links: Set<Link> = []
    var problems: [String] = []
    let replica = Replica(shape)
    for row in rows where row.type.hasPrefix("CD_") && !row.type.hasPrefix("CD_M2M_") {
      guard let entity = row.text("CD_entityName") else {
        problems.append("record \(row.name) has no entity")
        continue
      }
      if objects[row.name] != nil {
        problems.append("\(entity) \(row.name) is in two zones, \(objects[row.name]?.zone ?? "") and \(row.zone)")
      }
      objects[row.name] = object(of: row, entity)
    }
    for row in rows where row.type == "CDMR" {
      let names = row.text("CD_recordNames")?.split(separator: ":").map(String.init) ?? []
      let entities = row.text("CD_entityNames")?.split(separator: ":").map(String.init) ?? []
      let relationships = row.text("CD_relationships")?.split(separator: ":").map(String.init) ?? []
      guard names.count == 2, entities.count == 2, relationships.count == 2,
        let relationship = shape.relationship(relationships[0], of: entities[0])
      else {
        problems.append("link record \(row.name) can't be read: \(row.json.line)")
        continue
      }
      for name in names {
        if objects[name] == nil, !deleted.contains(name) {
          problems.append(
            """
            link \(relationships.joined(separator: "/")) \(names.joined(separator: "–")) points to nothing: there is \
            no \(name)
            """
          )
        }
        if let zone = objects[name]?.zone, zone != row.zone {
          problems.append("link \(names.joined(separator: "–")) is in \(row.zone), \(name) in \(zone)")
        }
      }
      if !links.insert(replica.link(relationship, names[0], names[1])).inserted {
        problems.append("link \(names.joined(separator: "–")) is there twice")
      }
    }
    for (id, object) in objects.sorted(by: { $0.key < $1.key }) {
      problems += self.problems(ofPointersOf: id, object, objects)
    }
    let gone = deleted.filter { objects[$0] == nil }
    for (id, object) in objects { objects[id]?.pointers = object.pointers.filter { !gone.contains($0.value) } }
    links = links.filter { objects[$0.first] != nil && objects[$0.second] != nil }
    return (Replica.Picture(objects: objects, links: links), problems)
  }

  private func object(of row: Row, _ entity: String) -> Replica.Object {
    var object = Replica.Object(entity: entity, zone: row.zone)
    for attribute in shape.attributes(of: entity) {
      guard let value = row.json["fields"]?["CD_" + attribute.name]?["value"], value.line != "null" else { continue }
      switch attribute.type {
      case .boolean: object.attributes[attribute.name] = value.int64 == 0 ? "false" : "true"
      case .date: object.attributes[attribute.name] = "\"\(Dates.text(value.int64 ?? 0))\""
      default: object.attributes[attribute.name] = value.line
      }
    }
    for relationship in shape.relationships(of: entity) where !relationship.isToMany {
      object.pointers[relationship.name] = row.text("CD_" + relationship.name)
    }
    return object
  }

  /// Dangling references, and pairs whose sides disagree.
  private func problems(ofPointersOf id: String, _ object: Replica.Object, _ objects: [String: Replica.Object])
    -> [String]
  {
    object.pointers.sorted { $0.key < $1.key }.compactMap { name, target in
      guard let other = objects[target] else {
        return deleted.contains(target)
          ? nil : "\(object.entity) \(id).\(name) points to nothing: there is no \(target)"
      }
      if other.zone != object.zone { return "\(object.entity) \(id).\(name) points to \(target) in another zone" }
      guard let relationship = shape.relationship(name, of: object.entity),
        let inverse = shape.inverse(of: relationship), !inverse.isToMany
      else { return nil }
      return other.pointers[inverse.name] == id
        ? nil
        : """
        \(object.entity) \(id).\(name) points to \(target), whose \(inverse.name) is \
        \(other.pointers[inverse.name] ?? "nil")
        """
    }
  }

  // MARK: Editing

  /// Edits, makes or deletes a random record or link.
  /// - Returns: a description of the edit.
  func edit(_ editor: inout Editor, _ ledger: inout Ledger, _ generator: inout SeededGenerator) async throws -> String {
    let rows = try await rows().filter { $0.type.hasPrefix("CD") }.sorted { $0.name < $1.name }
    guard let row = rows.randomElement(using: &generator) else { return "finds nothing" }
    counter += 1
    let roll = Int.random(in: 0..<10, using: &generator)
    guard row.type != "CDMR", let entity = row.text("CD_entityName") else {
      if roll < 5 { return "leaves a link alone" }
      return try await modify(
        #"{"operationType":"forceDelete","record":{"recordName":"\#(row.name)"}}"#, in: row.zone,
        "deletes link \(row.name)", [], &ledger)
    }
    switch roll {
    case 0..<2:
      let change = Change(kind: .delete, entity: entity, objectID: row.name)
      deleted.insert(row.name)
      return try await modify(
        #"{"operationType":"forceDelete","record":{"recordName":"\#(row.name)"}}"#, in: row.zone,
        "deletes \(entity) \(row.name)", [change], &ledger)
    case 2..<4:
      let made = Change(
        kind: .insert, entity: entity, objectID: "record-\(counter)", attributes: editor.attributes(entity, &generator))
      return try await modify(operation("forceReplace", made), in: row.zone, "makes \(made.json)", [made], &ledger)
    default:
      let change = Change(
        kind: .update, entity: entity, objectID: row.name, attributes: editor.attributes(entity, &generator))
      return try await modify(operation("forceUpdate", change), in: row.zone, "edits \(change.json)", [change], &ledger)
    }
  }

  /// Makes a record unreadable for devices, or repairs an earlier one.
  func spoil(_ generator: inout SeededGenerator, _ ledger: inout Ledger) async throws -> String {
    if let place = spoiled.first, Bool.random(using: &generator) {
      spoiled.removeFirst()
      return try await mend(place, &ledger).line
    }
    let rows = try await rows().filter { $0.type.hasPrefix("CD_") && !$0.type.hasPrefix("CD_M2M_") }.sorted {
      $0.name < $1.name
    }
    guard let row = rows.randomElement(using: &generator), let entity = row.text("CD_entityName"), entity != "Nothing"
    else {
      return "the record client finds nothing to spoil"
    }
    counter += 1
    spoiled.append(Spoiled(name: row.name, type: row.type, entity: entity))
    everSpoiled[row.name] = spoiled.last
    let operation =
      #"""
      {"operationType":"forceUpdate","record":{"recordName":"\#(row.name)","recordType":"\#(row.type)",\#
      "fields":{"CD_entityName":{"value":"Nothing"}}}}
      """#
    return "the record client " + (try await modify(operation, in: row.zone, "spoils \(row.name)", [], &ledger))
  }

  /// Repairs all records that it made unreadable, also ones that an edit restored to that state.
  /// - Returns: true when any record was repaired.
  func mendAll(_ ledger: inout Ledger) async throws -> Bool {
    var isMended = false
    for place in everSpoiled.sorted(by: { $0.key < $1.key }).map(\.value) {
      isMended = try await mend(place, &ledger).isDone || isMended
    }
    spoiled = []
    return isMended
  }

  /// Notes records that go with their zone.
  func forget(_ names: Set<String>) { deleted.formUnion(names) }

  private func mend(_ place: Spoiled, _ ledger: inout Ledger) async throws -> (line: String, isDone: Bool) {
    // The record may have moved meanwhile, or be gone.
    guard let row = try await rows().first(where: { $0.name == place.name }), row.text("CD_entityName") == "Nothing"
    else {
      return ("\(place.name) needs no mending", false)
    }
    counter += 1
    let operation =
      #"""
      {"operationType":"forceUpdate","record":{"recordName":"\#(place.name)","recordType":"\#(place.type)",\#
      "fields":{"CD_entityName":{"value":"\#(place.entity)"}}}}
      """#
    let attempt = "mends \(place.name)"
    let line = try await modify(operation, in: row.zone, attempt, [], &ledger)
    return ("the record client " + line, line == attempt)
  }

  private func operation(_ kind: String, _ change: Change) -> String {
    var fields = [#""CD_entityName":{"value":"\#(change.entity)"}"#]
    for (name, value) in change.attributes.sorted(by: { $0.key < $1.key }) {
      fields.append(#""CD_\#(name)":{"value":\#(wire(value, name, change.entity))}"#)
    }
    return
      #"""
      {"operationType":"\#(kind)","record":{"recordName":"\#(change.objectID)",\#
      "recordType":"CD_\#(shape.root(of: change.entity))","fields":{\#(fields.joined(separator: ","))}}}
      """#
  }

  private func wire(_ value: String, _ name: String, _ entity: String) -> String {
    switch shape.attribute(name, of: entity)?.type {
    case .boolean: value == "null" ? value : value == "true" ? "1" : "0"
    // All dates are on one day.
    case .date: value == "null" ? value : Self.milliseconds(value)
    default: value
    }
  }

  private static func milliseconds(_ text: String) -> String {
    let digits = text.split(whereSeparator: { !$0.isNumber }).compactMap { Int64($0) }
    guard digits.count == 7 else { return "0" }
    return String(1_795_132_800_000 + ((digits[3] * 60 + digits[4]) * 60 + digits[5]) * 1000 + digits[6])
  }

  private func modify(_ operation: String, in zone: String, _ line: String, _ changes: [Change], _ ledger: inout Ledger)
    async throws -> String
  {
    let body = #"{"operations":[\#(operation)],"zoneID":{"zoneName":"\#(zone)"}}"#
    let reply = try await server.ask(
      .record, "POST", "records/modify", [:], body, user: user, requestID: "\(user):record \(counter)")
    guard let reply else {
      ledger.doubt(changes)
      return line + ": no answer"
    }
    let code =
      reply.json["records"]?.elements.first?["serverErrorCode"]?.string ?? (reply.status == 200 ? nil : reply.text)
    if code == nil { ledger.accept("record \(counter)", changes) }
    return line + (code.map { ": \($0)" } ?? "")
  }
}
