// The result of a check of a whole shard.

/// The findings of `ShardStore.verify`.
public struct VerificationReport: Hashable, Sendable {
  /// Descriptions that name tables and keys, at most `problemLimit`; empty for a sound shard.
  public var problems: [String] = []
  /// The structure differs from the written one, so any read may be wrong. Other problems affect only the rows that
  /// they name.
  public var isStructureDamaged = false
  /// Rows whose checksum was verified.
  public var recordCount = 0
  public var transactionCount = 0
  public var pastStateCount = 0
  /// Assets whose presence and length were checked, and on request their content.
  public var assetCount = 0

  public static let problemLimit = 100

  public init() {}

  mutating func note(_ problem: String) {
    if problems.count < Self.problemLimit { problems.append(problem) }
  }
}
