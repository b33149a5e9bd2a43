// The commands of scenarios: devices around one zone, controlled line by line. Only the pure modules are involved.

import History
import Mirroring
import MirroringWorld
import ObjectModel
import Records

/// A line that is no valid command.
struct ScenarioMistake: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// The world of one scenario. Its commands:
///
/// - `devices A B [without=Tag,Post.title]`: devices, whose apps know the sample model or an older version of it.
/// - `A insert Post p title=x tags={t} author=a ; delete Tag t`: a transaction; also `update`, `tags+=t`, `tags-=t`,
///   `author=nil`.
/// - `A inserts Tag t 500`: one transaction that inserts t1 to t500.
/// - `A export`, `A import [page=2] [reversed] [crash]`: print the written or arrived changes. After `crash` the device
///   has the changes but not the token.
/// - `A upgrade [without=…]`: another version of the app.
/// - `A show`, `A pending`, `A places`: the visible state, pending references and links, and the zones of imported
///   objects.
/// - `zones home Trips`: several zones; must come first. `move p t to=Trips [leaving]` moves objects with everything
///   connected to them; with `leaving` the old zone's feed has the move first.
/// - `client put CD_Tag t CD_name=x`, `client delete t`: writes of another program.
/// - `zone`: the records.
final class ScenarioWorld {
  private var database = TestDatabase(TestZone())
  private var zone: TestZone { database.zones[0] }
  private var devices: [String: TestClient] = [:]
  private var transactionCount = 0
  /// Pages with more changes than this show only their number.
  private static let listedCount = 20

  /// - Returns: the line's output.
  func run(_ line: String) throws -> [String] {
    let words = line.split(separator: " ").map(String.init)
    guard let subject = words.first else { return [] }
    let rest = Array(words.dropFirst())
    switch subject {
    case "devices":
      let model = try model(rest)
      for name in rest where !name.contains("=") { devices[name] = TestClient(name, database, model: model) }
      return []
    case "zones":
      database = TestDatabase(zones: rest)
      return []
    case "move":
      guard let target = option("to", rest).flatMap({ database.zone(named: $0) }) else {
        throw ScenarioMistake("move OBJECT… to=ZONE")
      }
      let names = rest.filter { !$0.contains("=") && $0 != "leaving" }
      return [
        "moved " + (try database.move(names, to: target, leavesFirst: rest.contains("leaving"))).joined(separator: " ")
      ]
    case "client": return try client(rest)
    case "zone":
      let shown = try rest.first.map { name in
        guard let zone = database.zone(named: name) else { throw ScenarioMistake("there is no zone \(name)") }
        return zone
      }
      return orNothing((shown ?? zone).live.map { "\($0.recordType) \($0.recordName)\(fields($0.fields))" })
    default:
      guard let device = devices[subject] else { throw ScenarioMistake("there is no device \(subject)") }
      return try run(rest, on: device)
    }
  }

  private func run(_ words: [String], on device: TestClient) throws -> [String] {
    switch words.first {
    case "insert", "update", "delete":
      return try save(try words.split(separator: ";").map { try change(Array($0)) }, on: device) ? [] : ["refused"]
    case "inserts":
      guard words.count == 4, let count = Int(words[3]) else { throw ScenarioMistake("inserts ENTITY PREFIX COUNT") }
      return try save((1...count).map { MirroringWorld.insert(words[1], "\(words[2])\($0)") }, on: device)
        ? [] : ["refused"]
    case "export": return texts(try device.exportPlan().plan)
    case "import":
      let limit = try option("page", words).map { try number($0) } ?? .max
      let page = try device.fetch(limit: limit) { if words.contains("reversed") { $0.reverse() } }
      device.apply(page, keepsToken: !words.contains("crash"))
      return texts(page)
    case "upgrade":
      device.replaceModel(by: try model(words))
      return []
    case "show": return show(device.graph.picture)
    case "places": return orNothing(device.places.sorted { $0.key < $1.key }.map { "\($0.key) in \($0.value)" })
    case "pending":
      let pending = device.graph.pending
      return orNothing(
        pending.pointers.map { "\($0.key.owner).\($0.key.relationship) waits for \($0.value)" }.sorted()
          + pending.links.map { "link \($0.relationship) \($0.first) \($0.second)" }.sorted())
    default: throw ScenarioMistake("a device does not \(words.first ?? "do nothing")")
    }
  }

  private func save(_ changes: [HistoryChange], on device: TestClient) throws -> Bool {
    transactionCount += 1
    return try device.save(transaction(changes, id: "T\(transactionCount)"))
  }

  private func client(_ words: [String]) throws -> [String] {
    switch words.first {
    case "put" where words.count >= 3:
      var fields = Fields()
      for word in words.dropFirst(3) {
        let (name, value) = try pair(word)
        fields[name] = Field(Int64(value).map { .int64($0) } ?? .string(value))
      }
      zone.put(record(words[1], words[2], fields))
    case "delete" where words.count == 2: zone.delete(words[1])
    default: throw ScenarioMistake("client put TYPE NAME FIELD=VALUE… or client delete NAME")
    }
    return []
  }

  // MARK: Reading

  private func option(_ name: String, _ words: [String]) -> String? {
    words.first { $0.hasPrefix(name + "=") }.map { String($0.dropFirst(name.count + 1)) }
  }

  private func number(_ text: String) throws -> Int {
    guard let number = Int(text) else { throw ScenarioMistake("\(text) is no number") }
    return number
  }

  private func pair(_ word: String) throws -> (String, String) {
    guard let equals = word.firstIndex(of: "=") else { throw ScenarioMistake("\(word) gives nothing a value") }
    return (String(word[..<equals]), String(word[word.index(after: equals)...]))
  }

  /// The sample model without the entities and properties of `without=`. Relationships to removed entities are removed,
  /// too.
  private func model(_ words: [String]) throws -> ManagedObjectModel {
    let gone = Set((option("without", words) ?? "").split(separator: ",").map(String.init))
    for name in gone where Sample.model.entity(named: String(name.prefix { $0 != "." })) == nil {
      throw ScenarioMistake("no model has \(name)")
    }
    var model = Sample.model
    model.entities.removeAll { gone.contains($0.name) }
    for index in model.entities.indices {
      let entity = model.entities[index].name
      model.entities[index].attributes.removeAll { gone.contains("\(entity).\($0.name)") }
      model.entities[index].relationships.removeAll { gone.contains($0.destinationName) }
    }
    return model
  }

  private func change(_ words: [String]) throws -> HistoryChange {
    guard words.count >= 3,
      let kind = ["insert": HistoryChange.ChangeType.insert, "update": .update, "delete": .delete][words[0]]
    else {
      throw ScenarioMistake("\(words.joined(separator: " ")): insert, update or delete, an entity, an object")
    }
    let relationships = Graph.relationships(of: words[1])
    var attributes: [NamedValue<AttributeValue>] = []
    var values: [NamedValue<RelationshipValue>] = []
    for word in words.dropFirst(3) {
      var (name, value) = try pair(word)
      let sign = name.last.flatMap { "+-".contains($0) ? name.removeLast() : nil }
      if let relationship = relationships.first(where: { $0.name == name }) {
        values.append(NamedValue(name: name, value: Self.value(value, sign: sign, isToMany: relationship.isToMany)))
      } else {
        attributes.append(
          NamedValue(name: name, value: value == "nil" ? .null : Int64(value).map { .integer($0) } ?? .string(value)))
      }
    }
    return HistoryChange(
      changeType: kind, entity: words[1], objectID: words[2], attributes: attributes.sorted { $0.name < $1.name },
      relationships: values.sorted { $0.name < $1.name })
  }

  private static func value(_ text: String, sign: Character?, isToMany: Bool) -> RelationshipValue {
    if !isToMany { return .toOne(text == "nil" ? nil : text) }
    let names = text.split { "{},".contains($0) }.map(String.init)
    switch sign {
    case "+": return .toManyDelta(add: names, remove: [])
    case "-": return .toManyDelta(add: [], remove: names)
    default: return .toMany(names)
    }
  }

  // MARK: Printing

  private func orNothing(_ lines: [String]) -> [String] { lines.isEmpty ? ["nothing"] : lines }

  private func fields(_ fields: Fields) -> String {
    fields.map { field in
      if case .string(let text) = field.field.value { return " \(field.name)=\(text)" }
      if case .int64(let number) = field.field.value { return " \(field.name)=\(number)" }
      return " \(field.name)=…"
    }.joined()
  }

  private func texts(_ plan: ExportPlan) -> [String] {
    let writes = plan.writes.map { write in
      let server = write.isServersOwn ? " (server)" : ""
      switch write.item {
      case .save(let record, let keys):
        return "save \(record.recordType) \(record.recordName) \(keys.joined(separator: " "))\(server)"
      case .delete(let record): return "delete \(record.recordType) \(record.recordName)\(server)"
      }
    }
    let listed = writes.count > Self.listedCount ? ["\(writes.count) writes"] : writes
    return orNothing(listed + plan.problems.map { "problem \($0.recordName): \($0.reason)" })
  }

  private func texts(_ page: TestClient.Page) -> [String] {
    let texts = page.entries.flatMap { entry -> [String] in
      let move = entry.move.map { ["move \(entry.recordName) from \($0.from) to \($0.to)"] } ?? []
      switch entry.outcome {
      case .nothing: return move
      case .problem(let problem): return move + ["problem \(problem.recordName): \(problem.reason)"]
      case .change(let change): return move + [text(change)]
      }
    }
    let listed = texts.count > Self.listedCount ? ["\(texts.count) changes"] : texts
    return orNothing(listed) + (page.isLast ? [] : ["more"])
  }

  private func text(_ change: ImportChange) -> String {
    func pair(_ link: MirroredLink) -> String {
      "\(link.entity.name).\(link.relationship.name) \(link.objectID) \(link.targetID)"
    }
    switch change {
    case .save(let object, let record):
      let pointers = object.relationships.compactMap { relationship in
        relationship.value.map { " \(relationship.name)=\($0)" }
      }
      return
        """
        save \(object.entity) \
        \(record.recordName)\(attributes(object.attributes.map { ($0.name, $0.value) }))\(pointers.joined())
        """
    case .delete(let entity, let id): return "delete \(entity) \(id)"
    case .link(let link): return "link \(pair(link))"
    case .unlink(let link): return "unlink \(pair(link))"
    }
  }

  private func attributes(_ attributes: [(String, AttributeValue)]) -> String {
    attributes.compactMap { name, value -> String? in
      switch value {
      case .null: nil
      case .string(let text): " \(name)=\(text)"
      case .integer(let number): " \(name)=\(number)"
      default: " \(name)=…"
      }
    }.joined()
  }

  private func show(_ picture: Graph.Picture) -> [String] {
    let objects = picture.objects.sorted { $0.key < $1.key }.map { id, object in
      "\(object.entity) \(id)\(attributes(object.attributes.map { ($0.key, $0.value) }.sorted { $0.0 < $1.0 }))"
    }
    let listed = objects.count > Self.listedCount ? ["\(objects.count) objects"] : objects
    return orNothing(
      listed + picture.pointers.map { "\($0.key.owner).\($0.key.relationship) = \($0.value)" }.sorted()
        + picture.links.map { "link \($0.relationship) \($0.first) \($0.second)" }.sorted())
  }
}
