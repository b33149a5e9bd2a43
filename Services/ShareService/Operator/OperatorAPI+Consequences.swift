// Tells operators, before a schema change, what it means for stored records.

import ObjectModel
import Records
import ServiceBus
import WebServices

extension OperatorAPI {
  /// The changes that a model's push would make, the number of records concerned, and further notes.
  /// - Throws: `notFound` for the container.
  func consequences(of model: PushedModel, in key: EnvironmentKey) async throws -> SchemaConsequences {
    let state = try await directory.environment(key)
    let lost =
      state.latestModelHash.flatMap { state.models[$0] }.map { model.index.lostAttributes(since: ModelIndex($0)) } ?? []
    // Production refuses these.
    let conflicts = key.environment == .development ? state.nameConflicts(of: model.index) : []
    var consequences = try await counted(
      SchemaConsequences(of: try await directory.difference(model, key)), in: key, and: lost, conflicts)
    if key.environment == .development {
      let changed = state.changedIdentifiers(of: model.index)
      if !changed.isEmpty {
        consequences.notes.append("\(Directory.identifiersSentence(changed)) Production refuses such a push.")
      }
    }
    if let latest = state.latestModelHash.flatMap({ state.models[$0] }) {
      let rules = try await directory.rules(of: key).unique
      consequences.notes += Self.ruleNotes(on: lost, rules, ModelIndex(latest))
      consequences.notes += model.index.renamedToOnes(since: ModelIndex(latest)).map {
        "\($0.message) Devices refuse to migrate to this model."
      }
      consequences.notes += model.index.lostEntities(since: ModelIndex(latest)).map { type, successor in
        let stay = "Records of \(type) stay, but devices with this model don't see them: the model has no such entity"
        return successor.map {
          stay + " but \($0), which begins empty (renamingIdentifier moves nothing on the server)."
        } ?? stay + "."
      }
    }
    if key.environment == .production {
      consequences.notes += try await directory.promotionProblems(after: model, in: key.container).map {
        "`schema promote` will refuse: \($0.reason) Push the model to development, too."
      }
    }
    return consequences
  }

  /// Rules on attributes that the model renames: keys are those of one field, and not of former ones.
  private static func ruleNotes(on lost: [LostAttribute], _ rules: [EnvironmentRules.Unique], _ latest: ModelIndex)
    -> [String]
  {
    rules.flatMap { rule in
      rule.attributes.compactMap { name -> String? in
        guard let entity = latest.entity(named: rule.entity), let field = entity.attribute(named: name)?.fieldName,
          let renamed = lost.first(where: {
            $0.isDeclared && $0.name.recordType == entity.recordType && $0.name.field == field
          }), let successor = renamed.successor
        else { return nil }
        return
          """
          A rule makes \(rule.entity).\(name) unique, and compares \(field) alone. Import a rule for the new name: it \
          compares \(successor), and objects with the value in \(field) when it is set again.
          """
      }
    }
  }

  /// Adds the numbers of records to the consequences. It asks the workers only where there is something to count.
  func counted(
    _ consequences: SchemaConsequences, in key: EnvironmentKey, and lost: [LostAttribute] = [],
    _ conflicts: [NameConflict] = []
  ) async throws -> SchemaConsequences {
    var consequences = consequences
    consequences.notes += conflicts.filter { $0.field == nil }.map { $0.note(nil) }
    let conflicts = conflicts.filter { $0.field != nil }
    let fields = Set(consequences.retyped.map(\.name) + lost.map(\.name) + conflicts.compactMap(\.field)).sorted()
    if fields.isEmpty { return consequences }
    let (counts, isPartial) = try await recordCounts(of: fields, in: key)
    for index in consequences.retyped.indices {
      consequences.retyped[index].records = counts[consequences.retyped[index].name]
      consequences.retyped[index].isAtLeast = isPartial
    }
    consequences.notes += lost.map { $0.note(RecordCount.text(counts[$0.name], isAtLeast: isPartial)) }
    consequences.notes += conflicts.map { conflict in
      conflict.note(conflict.field.map { RecordCount.text(counts[$0], isAtLeast: isPartial) })
    }
    return consequences
  }
}

extension NameConflict {
  /// - Parameter records: the number of records with the field.
  fileprivate func note(_ records: String?) -> String {
    let count = records.map { " (\($0))" } ?? ""
    return "\(message) Production refuses such a model\(count). \(remedy)"
  }
}

extension LostAttribute {
  /// A sentence about the old values.
  fileprivate func note(_ records: String) -> String {
    let field = name.field ?? ""
    let place = "\(name.recordType).\(field)"
    guard let successor else {
      return
        """
        The model no longer has \(place): its values stay (\(records)), and devices with this model neither read nor \
        clear them.
        """
    }
    if isDeclared {
      return
        """
        \(place) is now called \(successor) (renamingIdentifier). The old values stay in \(field) (\(records)): \
        devices with this model read them until \(successor) is set, and devices with earlier models see \(field) alone.
        """
    }
    return
      """
      The model no longer has \(place), and \(successor) is new: the old values stay in \(field) (\(records)), and \
      devices with this model don't read them. If the attribute only has a new name, set its renamingIdentifier, or \
      devices' own stores lose the values, too.
      """
  }
}
