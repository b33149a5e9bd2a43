// Typed names of properties, and the conditions that can be written with them: what compiles, runs.

public import ReplicaStore

/// An attribute of an entity, or of an object that to-one relationships lead to.
public struct Attribute<Value: Sendable>: Sendable {
  var path: Path

  public init(_ name: String) { path = Path(name) }

  public var ascending: Order { Order(path, isAscending: true) }
  public var descending: Order { Order(path, isAscending: false) }
}

/// A to-one relationship.
public struct ToOne<Object: ManagedObject>: Sendable {
  var path: Path

  public init(_ name: String) { path = Path(name) }

  private var wayOn: [String] { path.relationships + [path.property] }

  /// An attribute of the object that the relationship leads to: `$0.photo[\.displayName]`.
  public subscript<Value>(column: KeyPath<Object.Columns, Attribute<Value>>) -> Attribute<Value> {
    var attribute = Object.columns[keyPath: column]
    attribute.path.relationships = wayOn + attribute.path.relationships
    return attribute
  }

  /// A to-one relationship of the object that this one leads to.
  public subscript<Other>(column: KeyPath<Object.Columns, ToOne<Other>>) -> ToOne<Other> {
    var relationship = Object.columns[keyPath: column]
    relationship.path.relationships = wayOn + relationship.path.relationships
    return relationship
  }

  /// A to-many relationship of the object that this one leads to.
  public subscript<Other>(column: KeyPath<Object.Columns, ToMany<Other>>) -> ToMany<Other> {
    var relationship = Object.columns[keyPath: column]
    relationship.path.relationships = wayOn + relationship.path.relationships
    return relationship
  }
}

/// A to-many relationship.
public struct ToMany<Object: ManagedObject>: Sendable {
  var path: Path

  public init(_ name: String) { path = Path(name) }

  public func any(_ condition: (Object.Columns) -> Condition) -> Condition { .any(path, condition(Object.columns)) }
  public func all(_ condition: (Object.Columns) -> Condition) -> Condition {
    .not(.any(path, .not(condition(Object.columns))))
  }
  public func contains(_ id: ObjectID<Object>) -> Condition {
    .any(path, .compare(.id, .equal, .object(id.recordName)))
  }
  public var isEmpty: Condition { .not(.any(path, .always)) }
  public var count: Count { count { _ in .always } }
  /// The number of objects that meet a condition: `$0.ratings.count { $0.value < 3 } > 2`.
  public func count(where condition: (Object.Columns) -> Condition) -> Count {
    Count(path: path, condition: condition(Object.columns))
  }

  /// How many objects a relationship has.
  public struct Count: Sendable {
    let path: Path
    let condition: Condition
    fileprivate func compared(_ comparison: Condition.Comparison, _ number: Int) -> Condition {
      .count(path, condition, comparison, number)
    }

    public static func == (count: Count, number: Int) -> Condition { count.compared(.equal, number) }
    public static func != (count: Count, number: Int) -> Condition { count.compared(.notEqual, number) }
    public static func < (count: Count, number: Int) -> Condition { count.compared(.less, number) }
    public static func > (count: Count, number: Int) -> Condition { count.compared(.greater, number) }
    public static func <= (count: Count, number: Int) -> Condition { count.compared(.lessOrEqual, number) }
    public static func >= (count: Count, number: Int) -> Condition { count.compared(.greaterOrEqual, number) }
  }
}

extension Attribute where Value: Storable {
  public static func == (column: Self, value: Value) -> Condition { .compare(column.path, .equal, value.literal) }
  public static func != (column: Self, value: Value) -> Condition { .compare(column.path, .notEqual, value.literal) }
  public static func < (column: Self, value: Value) -> Condition { .compare(column.path, .less, value.literal) }
  public static func > (column: Self, value: Value) -> Condition { .compare(column.path, .greater, value.literal) }
  public static func <= (column: Self, value: Value) -> Condition { .compare(column.path, .lessOrEqual, value.literal) }
  public static func >= (column: Self, value: Value) -> Condition {
    .compare(column.path, .greaterOrEqual, value.literal)
  }
  public func isIn(_ values: some Sequence<Value>) -> Condition { .isIn(path, values.map(\.literal)) }
}

/// Searches in texts, without regard to case and diacritics (`[cd]`).
extension Attribute {
  public func contains(_ text: String) -> Condition where Value == String? { .compare(path, .contains, .text(text)) }
  public func contains(_ text: String) -> Condition where Value == String { .compare(path, .contains, .text(text)) }
  public func hasPrefix(_ text: String) -> Condition where Value == String? { .compare(path, .hasPrefix, .text(text)) }
  public func hasPrefix(_ text: String) -> Condition where Value == String { .compare(path, .hasPrefix, .text(text)) }
  public func hasSuffix(_ text: String) -> Condition where Value == String? { .compare(path, .hasSuffix, .text(text)) }
  public func hasSuffix(_ text: String) -> Condition where Value == String { .compare(path, .hasSuffix, .text(text)) }
  /// Equal but for case and diacritics.
  public func isLike(_ text: String) -> Condition where Value == String? { .compare(path, .equalFolded, .text(text)) }
  public func isLike(_ text: String) -> Condition where Value == String { .compare(path, .equalFolded, .text(text)) }
}

extension ToOne {
  public static func == (column: Self, id: ObjectID<Object>?) -> Condition {
    .compare(column.path, .equal, literal(id))
  }
  public static func != (column: Self, id: ObjectID<Object>?) -> Condition {
    .compare(column.path, .notEqual, literal(id))
  }
  public func isIn(_ ids: some Sequence<ObjectID<Object>>) -> Condition {
    .isIn(path, ids.map { .object($0.recordName) })
  }
  private static func literal(_ id: ObjectID<Object>?) -> Literal { id.map { .object($0.recordName) } ?? .null }
}

public func && (left: Condition, right: Condition) -> Condition { .and(left, right) }
public func || (left: Condition, right: Condition) -> Condition { .or(left, right) }
public prefix func ! (condition: Condition) -> Condition { .not(condition) }
