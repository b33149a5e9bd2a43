// Rules of containers' environments: unique attributes, and the fate of duplicates.

import JSON
import ObjectModel
import Records
import SQLite
import ServiceBus
import WebServices

extension Directory {
  /// - Throws: `notFound` for the container.
  func rules(of key: EnvironmentKey) throws -> EnvironmentRules {
    let text =
      try connection.statement(SQL("rules.get", "SELECT rules FROM environment WHERE container = ?1 AND name = ?2"))
      .binding(try self.key(of: key.container), key.environment.rawValue).first { $0.optionalText(0) } ?? nil
    return try text.map { try RulesDocument.rules(try JSONValue.request(Array($0.utf8))) } ?? .none
  }

  /// Replaces an environment's rules.
  /// - Parameter isDryRun: true: checks and answers the same, but changes nothing.
  /// - Throws: `notFound` for the container; `badRequest` naming every entity and attribute whose rule can't hold in
  ///   any model.
  func setRules(_ rules: EnvironmentRules, of key: EnvironmentKey, isDryRun: Bool) throws {
    let state = try environment(key)
    if !rules.unique.isEmpty {
      guard !state.models.isEmpty else {
        throw RecordError(.badRequest, "\(key) has no model yet: push one first, because rules name its entities")
      }
      let problems = rules.problems(in: NamedModel.all(of: state.models, latest: state.latestModelHash))
      guard problems.isEmpty else { throw RecordError(.badRequest, problems.joined(separator: " ")) }
    }
    if isDryRun { return }
    try change {
      try store(rules, of: key)
      try raiseVersion(of: key)
    }
    environments[key] = nil
  }

  /// Within a change: adds those of development's rules to production's that can hold in one of its models.
  /// Production's other rules stay.
  func promoteRules(from source: EnvironmentKey, to target: EnvironmentKey, models: [NamedModel]) throws {
    var added = try rules(of: source)
    added.unique.removeAll { rule in !models.contains { rule.fits($0.index) } }
    if !added.unique.isEmpty { try store(try rules(of: target).merging(added), of: target) }
  }

  /// Within a change: the hash as stored at this point of the change.
  func latestModelHash(of key: EnvironmentKey) throws -> String? {
    try connection.statement(
      SQL("environment.latest", "SELECT latestModel FROM environment WHERE container = ?1 AND name = ?2")
    )
    .binding(try self.key(of: key.container), key.environment.rawValue).first { $0.optionalText(0) } ?? nil
  }

  /// Within a change. An environment without a row keeps having no rules.
  func store(_ rules: EnvironmentRules, of key: EnvironmentKey) throws {
    let text = rules.unique.isEmpty ? nil : String(decoding: RulesDocument.json(rules), as: UTF8.self)
    try connection.statement(SQL("rules.set", "UPDATE environment SET rules = ?3 WHERE container = ?1 AND name = ?2"))
      .binding(try self.key(of: key.container), key.environment.rawValue, text).run()
  }
}
