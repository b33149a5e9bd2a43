// The demands of references on a batch of writes (docs/protocol/record-plane.md#fields): sources go with their
// target, and targets that are validated against stay.

import RecordStore
import Records

/// Applies references to a batch of saves and deletions. The state after the whole batch decides, so the order of its
/// operations does not matter.
///
/// - `DELETE_SELF`: a record's deletion also deletes its sources, and theirs, in the same commit. This includes sources
///   that the batch saves if they still point there. A record has at most `Limit.sourcesPerTarget` such sources, and a
///   request deletes at most `Limit.cascadeCount` records beyond those it names.
/// - `VALIDATE`: the target must exist, and can't be deleted while a source exists.
/// - Neither reaches beyond its zone, and `NONE` has no effect.
package struct ReferenceRules {
  struct Save {
    let record: Record
    let existing: StoredRecord?
  }

  package struct Verdict {
    /// The reasons why records of the batch can't be saved or deleted, by name.
    var problems: [String: RecordError] = [:]
    /// Further records to delete, in the order of their discovery; some may be among the batch's saves.
    var cascade: [String] = []
    /// For each record of `cascade`, the batch's deletion that caused it.
    var causes: [String: String] = [:]
  }

  let transaction: any ShardTransaction
  /// nil: a zone without any record.
  var zone: Int64?
  /// True if a source may know that its target exists.
  var isVisible: (Record) throws -> Bool = { _ in true }
  /// Records that cascades may still delete. The caller lowers it by the number a verdict deleted.
  var cascadeRoom = Limit.cascadeCount

  /// - Parameters:
  ///   - saves: each record once, and none of `deletions`.
  ///   - deletions: names of live records.
  func verdict(on saves: [Save], deleting deletions: [String]) throws -> Verdict {
    if deletions.isEmpty, !saves.contains(where: \.record.bindsItself) { return Verdict() }
    var judgement = Judgement(rules: self)
    for save in saves { judgement.note(save) }
    try judgement.delete(deletions)
    try judgement.validate()
    try judgement.limitSources()
    return judgement.finished
  }
}

/// A pointer that binds its source.
private struct Binding: Hashable {
  let target: String
  let action: Reference.Action
}

extension Record {
  /// True if the record has any bindings. Nearly every save asks this.
  fileprivate var bindsItself: Bool {
    fields.contains { element in
      switch element.field.value {
      case .reference(let reference): reference.binding != nil
      case .list(element: .reference, _): true
      default: false
      }
    }
  }

  /// The record's bindings with their fields, each target and action once a field.
  fileprivate var bindings: [(field: String, binding: Binding)] {
    var found: [(field: String, binding: Binding)] = []
    for element in fields {
      switch element.field.value {
      case .reference(let reference): if let binding = reference.binding { found.append((element.name, binding)) }
      case .list(element: .reference, let values):
        for case .reference(let reference) in values {
          if let binding = reference.binding { found.append((element.name, binding)) }
        }
      default: break
      }
    }
    return found
  }
}

extension Reference {
  fileprivate var binding: Binding? {
    action == .none || zoneID != nil ? nil : Binding(target: recordName, action: action)
  }
}

/// The state of one batch during its check.
private struct Judgement {
  let rules: ReferenceRules
  var verdict = ReferenceRules.Verdict()

  /// Names of the batch's saves.
  private var saved: Set<String> = []
  /// Saves with bindings, in the order of the batch.
  private var binding:
    [(name: String, recordType: String, later: [(field: String, binding: Binding)], earlier: Set<Binding>)] = []
  private var sources: [Binding: [String]] = [:]
  /// Deleted names, in the order of their discovery.
  private var gone: [String] = []
  /// For each deleted name, the batch's deletion that caused it.
  private var causes: [String: String] = [:]

  var finished: ReferenceRules.Verdict {
    var verdict = verdict
    for name in verdict.cascade { verdict.causes[name] = causes[name] }
    return verdict
  }

  init(rules: ReferenceRules) { self.rules = rules }

  mutating func note(_ save: ReferenceRules.Save) {
    let name = save.record.recordName
    saved.insert(name)
    let later = save.record.bindings
    if later.isEmpty { return }
    let earlier = save.existing.map { $0.isDeleted ? [] : Set($0.record.bindings.map(\.binding)) } ?? []
    binding.append((name, save.record.recordType, later, earlier))
    for key in Set(later.map(\.binding)) { sources[key, default: []].append(name) }
  }

  // MARK: DELETE_SELF

  mutating func delete(_ deletions: [String]) throws {
    gone = deletions
    for name in deletions { causes[name] = name }
    var next = 0
    while next < gone.count {
      let cause = causes[gone[next]] ?? gone[next]
      for source in try living(boundTo: gone[next], by: .deleteSelf, atMost: rules.cascadeRoom + 1) {
        if verdict.cascade.count >= rules.cascadeRoom {
          verdict.problems[cause] = RecordError(
            .badRequest,
            """
            The deletion of '\(cause)' would delete more than \(Limit.cascadeCount) further records by their \
            DELETE_SELF references, which is the limit of a request
            """
          )
          break
        }
        causes[source] = cause
        gone.append(source)
        verdict.cascade.append(source)
      }
      next += 1
    }
  }

  /// Sources that live on after the batch as known so far; at least `count` if there are so many.
  private func living(boundTo target: String, by action: Reference.Action, atMost count: Int) throws -> [String] {
    let inBatch = (sources[Binding(target: target, action: action)] ?? []).filter { causes[$0] == nil }
    guard let zone = rules.zone else { return inBatch }
    let stored = try rules.transaction.sources(
      boundTo: target, by: action, in: zone, limit: count + saved.count + gone.count)
    return stored.filter { causes[$0] == nil && !saved.contains($0) } + inBatch
  }

  // MARK: VALIDATE

  mutating func validate() throws {
    for name in gone {
      guard let cause = causes[name], verdict.problems[cause] == nil,
        try !living(boundTo: name, by: .validate, atMost: 1).isEmpty
      else { continue }
      verdict.problems[cause] = RecordError(
        .validatingReferenceError, "Record delete would violate validating reference, rejecting update")
    }
    for save in binding where causes[save.name] == nil {
      for (field, binding) in save.later where binding.action == .validate {
        guard try !isLive(binding.target) else { continue }
        verdict.problems[save.name] = RecordError(
          .validatingReferenceError,
          """
          Record save would violate validating reference, rejecting update: \(save.recordType).\(field) names a record \
          that does not exist
          """
        )
        break
      }
    }
  }

  private func isLive(_ name: String) throws -> Bool {
    if causes[name] != nil { return false }
    if saved.contains(name) { return true }
    guard let zone = rules.zone, let stored = try rules.transaction.record(named: name, in: zone) else { return false }
    return try !stored.isDeleted && rules.isVisible(stored.record)
  }

  // MARK: The limit of sources

  mutating func limitSources() throws {
    var added: [String: [(name: String, place: String)]] = [:]
    var targets: [String] = []
    for save in binding where causes[save.name] == nil {
      var seen: Set<String> = []
      for (field, binding) in save.later
      where binding.action == .deleteSelf && !save.earlier.contains(binding) && seen.insert(binding.target).inserted {
        if added[binding.target] == nil { targets.append(binding.target) }
        added[binding.target, default: []].append((save.name, "\(save.recordType).\(field)"))
      }
    }
    for target in targets {
      let new = added[target] ?? []
      let stored =
        try rules.zone.map { try rules.transaction.sourceCount(boundTo: target, by: .deleteSelf, in: $0) } ?? 0
      if stored + new.count <= Limit.sourcesPerTarget { continue }
      // Some stored sources may be part of this batch, or deleted by it.
      let count = try living(boundTo: target, by: .deleteSelf, atMost: Limit.sourcesPerTarget + new.count).count
      for (name, place) in new.suffix(max(0, min(count - Limit.sourcesPerTarget, new.count)))
      where verdict.problems[name] == nil {
        verdict.problems[name] = RecordError(
          .badRequest,
          "\(place): \(Limit.sourcesPerTarget) records have a DELETE_SELF reference to '\(target)', which is the limit")
      }
    }
  }
}
