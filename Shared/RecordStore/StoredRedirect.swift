// Names of duplicates that stand for another record, as a store keeps them (D5).

/// A record that proved to be a duplicate of another. Kept for ever, so that uses of the duplicate's name reach the
/// other.
public struct StoredRedirect: Hashable, Sendable {
  /// The steps that must have happened before the duplicate is removed. Numbers are stored: never renumber.
  public struct Progress: OptionSet, Hashable, Sendable {
    public let rawValue: Int

    public init(rawValue: Int) { self.rawValue = rawValue }

    /// All pointers to the duplicate lead elsewhere.
    public static let moved = Progress(rawValue: 1)
    /// A store of the database was exported successfully.
    public static let exported = Progress(rawValue: 2)
    /// A store of the database has imported successfully.
    public static let imported = Progress(rawValue: 4)
    public static let all: Progress = [.moved, .exported, .imported]
  }

  /// The name of the duplicate.
  public let loser: String
  /// The name of the record that it stands for, which is not a duplicate itself when it is stored. If it becomes one,
  /// the redirect leads on.
  public var survivor: String
  /// The time at which the duplicate was found, in milliseconds since 1970.
  public var since: Int64
  /// The rule that found the duplicate, for people.
  public var rule: String
  public var progress: Progress
  /// The time at which the duplicate was removed, in milliseconds since 1970; nil while it exists.
  public var removedAt: Int64?

  public init(
    loser: String, survivor: String, since: Int64, rule: String, progress: Progress = [], removedAt: Int64? = nil
  ) {
    self.loser = loser
    self.survivor = survivor
    self.since = since
    self.rule = rule
    self.progress = progress
    self.removedAt = removedAt
  }

  public var isPending: Bool { removedAt == nil }
}
