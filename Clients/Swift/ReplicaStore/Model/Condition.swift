// Conditions and orders of requests, as trees over named properties.

/// What a request's objects have in common (`NSPredicate`). Paths lead over to-one relationships to the last name.
public indirect enum Condition: Sendable, Equatable {
  case always
  case compare(Path, Comparison, Literal)
  case isIn(Path, [Literal])
  /// Whether some object of a to-many relationship meets a condition.
  case any(Path, Condition)
  /// How many objects of a to-many relationship meet a condition.
  case count(Path, Condition, Comparison, Int)
  case and(Condition, Condition)
  case or(Condition, Condition)
  case not(Condition)

  public enum Comparison: Sendable, Equatable {
    case equal, notEqual, less, lessOrEqual, greater, greaterOrEqual
    /// Without regard to case and diacritics (`[cd]`).
    case contains, hasPrefix, hasSuffix, equalFolded
  }
}

/// A property, and the to-one relationships on the way to it. `id` is the object's name.
public struct Path: Sendable, Hashable {
  public var relationships: [String]
  public var property: String

  public init(_ property: String, over relationships: [String] = []) {
    self.relationships = relationships
    self.property = property
  }

  /// No attribute can have this name.
  public static let id = Path("@id")
}

/// How a request's results are sorted. Objects without a value come first, and last in a descending order.
public struct Order: Sendable, Equatable {
  public let path: Path
  public let isAscending: Bool

  public init(_ path: Path, isAscending: Bool) {
    self.path = path
    self.isAscending = isAscending
  }
}

/// A request without the type of its results.
public struct Query: Sendable, Equatable {
  public var entityName: String
  public var condition = Condition.always
  public var order: [Order] = []
  public var limit: Int?
  public var offset = 0
  /// The to-many relationship that the results are at the other end of.
  public var related: Related?

  public struct Related: Sendable, Equatable {
    public let relationship: String
    public let object: AnyObjectID

    public init(_ relationship: String, of object: AnyObjectID) {
      self.relationship = relationship
      self.object = object
    }
  }

  public init(_ entityName: String) { self.entityName = entityName }
}

extension Query {
  /// Whether something leads over two relationships or more.
  var hasLongPaths: Bool { condition.pathLength > 1 || order.contains { $0.path.relationships.count > 1 } }
}

extension Condition {
  /// Relationships on the longest way.
  fileprivate var pathLength: Int {
    switch self {
    case .always: 0
    case .compare(let path, _, _), .isIn(let path, _): path.relationships.count
    case .any(let path, let condition), .count(let path, let condition, _, _):
      path.relationships.count + 1 + condition.pathLength
    case .and(let one, let other), .or(let one, let other): max(one.pathLength, other.pathLength)
    case .not(let condition): condition.pathLength
    }
  }
}
