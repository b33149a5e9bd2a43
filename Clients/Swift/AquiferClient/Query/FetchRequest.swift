// What to fetch, with the type of the results.

public import ReplicaStore

/// What to fetch (`NSFetchRequest`). Requests are values; each method answers a narrower one.
public struct FetchRequest<Object: ManagedObject>: Sendable {
  var query = Query(Object.entityName)
  /// nil: all stores that have the entity (`affectedStores`).
  var stores: [PersistentStore]?

  public init() {}

  /// The objects of a to-many relationship.
  public init(related relationship: String, of object: AnyObjectID) {
    query.related = Query.Related(relationship, of: object)
  }

  public var condition: Condition { query.condition }

  public func filter(_ condition: (Object.Columns) -> Condition) -> Self {
    with { request in
      let added = condition(Object.columns)
      request.query.condition = request.query.condition == .always ? added : .and(request.query.condition, added)
    }
  }

  /// Sorts by the first order, then by the next where the first says nothing. Results of equal standing come in the
  /// order in which the store first heard of them.
  public func sorted(_ by: (Object.Columns) -> Order...) -> Self {
    with { $0.query.order += by.map { $0(Object.columns) } }
  }

  /// At most so many of the results so far.
  public func prefix(_ count: Int) -> Self { with { $0.query.limit = min($0.query.limit ?? .max, count) } }
  /// The results so far without the first ones.
  public func dropFirst(_ count: Int) -> Self {
    with { request in
      request.query.offset += count
      request.query.limit = request.query.limit.map { max($0 - count, 0) }
    }
  }

  public func inStores(_ stores: PersistentStore...) -> Self { with { $0.stores = stores } }

  private func with(_ change: (inout Self) -> Void) -> Self {
    var copy = self
    change(&copy)
    return copy
  }
}

extension ManagedObject {
  public static var all: FetchRequest<Self> { FetchRequest() }
  public static func filter(_ condition: (Columns) -> Condition) -> FetchRequest<Self> { all.filter(condition) }
}
