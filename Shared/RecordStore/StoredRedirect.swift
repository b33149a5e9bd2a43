// Names of duplicates that stand for another record, as a store keeps them (D5).

/// A record that turned out to be a duplicate of another. Kept for ever, so that whoever still speaks of the one means the other.
public struct StoredRedirect: Hashable, Sendable {
  /// What has happened since, all of which must before the duplicate is removed. Numbers are stored: never renumber.
  public struct Progress: OptionSet, Hashable, Sendable {
    public let rawValue: Int

    public init(rawValue: Int) { self.rawValue = rawValue }

    /// Nothing points to the duplicate any more.
    public static let moved = Progress(rawValue: 1)
    /// A store of the database was exported successfully.
    public static let exported = Progress(rawValue: 2)
    /// A store of the database has imported successfully.
    public static let imported = Progress(rawValue: 4)
    public static let all: Progress = [.moved, .exported, .imported]
  }

  /// The duplicate.
  public let loser: String
  /// What it stands for: never itself a duplicate when it was stored, and followed when it becomes one.
  public var survivor: String
  /// When they were found to be the same: milliseconds since 1970.
  public var since: Int64
  /// By which rule, for people.
  public var rule: String
  public var progress: Progress
  /// When the duplicate was removed: milliseconds since 1970; nil: it is to be.
  public var removedAt: Int64?

  public init(loser: String, survivor: String, since: Int64, rule: String, progress: Progress = [], removedAt: Int64? = nil) {
    self.loser = loser
    self.survivor = survivor
    self.since = since
    self.rule = rule
    self.progress = progress
    self.removedAt = removedAt
  }

  public var isPending: Bool { removedAt == nil }
}
