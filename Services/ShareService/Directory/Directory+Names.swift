// Names of properties over all models of an environment: production takes no model that makes them ambiguous (R19).

import ObjectModel
import Records

extension EnvironmentState {
  /// What a model makes ambiguous beside the models that are here.
  func nameConflicts(of index: ModelIndex) -> [NameConflict] {
    index.nameConflicts(
      beside: models.sorted { $0.key < $1.key }.map(\.value), latest: latestModelHash.flatMap { models[$0] })
  }

  /// Properties to which a model gives another renaming identifier than the equal model that is here.
  func changedIdentifiers(of index: ModelIndex) -> [String] {
    models[index.modelHash].map { index.changedIdentifiers(since: $0) } ?? []
  }
}

extension Directory {
  /// - Throws: `badRequest` for a model that production can't take because of its names.
  static func checkNames(of index: ModelIndex, in state: EnvironmentState) throws {
    if let conflict = state.nameConflicts(of: index).first {
      throw RecordError(.badRequest, "\(conflict.message) \(conflict.remedy.dropLast())")
    }
    let changed = state.changedIdentifiers(of: index)
    if changed.isEmpty { return }
    throw RecordError(.badRequest, identifiersSentence(changed) + " " + identifiersRemedy)
  }

  static func identifiersSentence(_ paths: [String]) -> String {
    """
    The model differs from the pushed one in renaming identifiers alone (\(paths.joined(separator: ", "))). Devices \
    that have the model would not be sent again what they then read under other names.
    """
  }

  static let identifiersRemedy = "Change the identifiers in a version that also adds an attribute to the entity"

  /// Development's models that the merged schema covers, without earlier ones whose names are ambiguous beside
  /// production's or the latest.
  /// - Throws: `badRequest` if the latest is ambiguous.
  static func promotable(_ development: EnvironmentState, to production: EnvironmentState, _ merged: Schema) throws
    -> [String: ManagedObjectModel]
  {
    let covered = development.models.filter { SchemaGate.schemaGap(ModelIndex($0.value), merged).isEmpty }
    var state = production
    var promoted: [String: ManagedObjectModel] = [:]
    let latest = development.latestModelHash.flatMap { hash in covered[hash].map { (hash, $0) } }
    if let (hash, model) = latest {
      try checkNames(of: ModelIndex(model), in: state)
      (promoted[hash], state.models[hash]) = (model, model)
    }
    for (hash, model) in covered.sorted(by: { $0.key < $1.key }) where promoted[hash] == nil {
      if production.models[hash] == model {
        promoted[hash] = model
        continue
      }
      let index = ModelIndex(model)
      // The models that stay are earlier ones, so no name of theirs is new.
      guard index.nameConflicts(beside: state.models.map(\.value), latest: nil).isEmpty,
        state.changedIdentifiers(of: index).isEmpty
      else { continue }
      if let (_, latest) = latest {
        let others = production.models.merging([hash: model]) { $1 }.map(\.value)
        guard ModelIndex(latest).nameConflicts(beside: others, latest: production.latest).isEmpty else { continue }
      }
      (promoted[hash], state.models[hash]) = (model, model)
    }
    return promoted
  }
}

extension EnvironmentState {
  fileprivate var latest: ManagedObjectModel? { latestModelHash.flatMap { models[$0] } }
}
