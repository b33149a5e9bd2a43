// Reads one state of the stores, with types.

public import ReplicaStore

/// Reads one state. Not Sendable: it ends with the call that lends it.
public class ReadContext {
  private let snapshots: [StoreSnapshot]

  init(_ snapshots: [StoreSnapshot]) { self.snapshots = snapshots }

  public func fetch<Object>(_ request: FetchRequest<Object>) throws(StoreError) -> [Object] {
    do {
      var objects: [Object] = []
      try forEach(request) { objects.append($0) }
      return objects
    } catch { throw StoreError(error) }
  }

  public func first<Object>(_ request: FetchRequest<Object>) throws(StoreError) -> Object? {
    try fetch(request.prefix(1)).first
  }

  public func count<Object>(_ request: FetchRequest<Object>) throws(StoreError) -> Int {
    let found = snapshots(for: request)
    if found.count == 1 { return try found[0].snapshot.count(request.query) }
    var whole = request.query
    (whole.limit, whole.offset) = (nil, 0)
    var count = 0
    for snapshot in found { count += try snapshot.snapshot.count(whole) }
    return min(max(count - request.query.offset, 0), request.query.limit ?? .max)
  }

  /// - Returns: nil: it is not here.
  public func object<Object>(_ id: ObjectID<Object>) throws(StoreError) -> Object? {
    do {
      for snapshot in snapshots where snapshot.snapshot.hasEntity(Object.entityName) {
        if let object = try snapshot.snapshot.object(id.any, { Object($0) }) { return object }
      }
      return nil
    } catch { throw StoreError(error) }
  }

  /// Objects with what they are related to, in two statements a store, however many they are.
  public func fetch<Object, Other>(
    _ request: FetchRequest<Object>, including relationship: KeyPath<Object.Columns, ToMany<Other>>
  ) throws(StoreError) -> [(Object, [Other])] {
    let name = Object.columns[keyPath: relationship].path.property
    do {
      var others: [String: [Other]] = [:]
      let found = snapshots(for: request)
      let query = found.count > 1 ? request.query.fromStart : request.query
      for snapshot in found {
        try snapshot.snapshot.forEach(related: name, of: query.withoutOrder) { row, owner in
          others[owner, default: []].append(Other(row))
        }
      }
      return try fetch(request).map { ($0, others[$0.id.recordName] ?? []) }
    } catch { throw StoreError(error) }
  }

  /// One by one, for results that are too large for memory; `body` may read, too.
  public func forEach<Object>(_ request: FetchRequest<Object>, _ body: (Object) throws -> Void) throws {
    let found = snapshots(for: request)
    guard found.count > 1 else {
      try found.first?.snapshot.forEach(request.query) { try body(Object($0)) }
      return
    }
    let objects = try merged(request, found) { Object($0) }
    for object in objects { try body(object) }
  }

  /// The tables as they are, for what no request says. The statement may only read.
  /// - Parameter store: nil: the first one.
  public func rows(_ sql: String, _ arguments: Literal..., in store: PersistentStore? = nil) throws(StoreError)
    -> [[Literal]]
  {
    guard let found = snapshots.first(where: { store == nil || $0.store?.store == store }) else {
      throw .invalid("the store is none of this container")
    }
    return try found.snapshot.rows(sql, arguments)
  }

  func objectIDs<Object>(_ request: FetchRequest<Object>) throws -> [AnyObjectID] {
    let found = snapshots(for: request)
    if found.count > 1, request.query.isPart { return Array(try merged(request, found) { Object($0).id.any }) }
    return try found.flatMap { try $0.snapshot.objectIDs(request.query) }
  }

  private func snapshots<Object>(for request: FetchRequest<Object>) -> [StoreSnapshot] {
    snapshots.filter { found in
      guard found.snapshot.hasEntity(Object.entityName) else { return false }
      guard let stores = request.stores, let store = found.store?.store else { return true }
      return stores.contains(store)
    }
  }

  /// Results of several stores in the request's order.
  private func merged<Object, Result>(
    _ request: FetchRequest<Object>, _ found: [StoreSnapshot], _ make: (borrowing Row) -> Result
  ) throws -> ArraySlice<Result> {
    let query = request.query.fromStart
    var results: [(result: Result, keys: [Literal])] = []
    for snapshot in found {
      try snapshot.snapshot.forEachSorted(query) { row, keys in results.append((make(row), keys)) }
    }
    let order = query.order
    // Equal ones stay in the order of stores: the sort is stable.
    results.sort { one, other in
      for (place, order) in order.enumerated() where one.keys[place] != other.keys[place] {
        return order.isAscending
          ? one.keys[place].precedes(other.keys[place]) : other.keys[place].precedes(one.keys[place])
      }
      return false
    }
    return results.map(\.result).dropFirst(request.query.offset).prefix(request.query.limit ?? .max)
  }
}

extension Query {
  fileprivate var isPart: Bool { limit != nil || offset != 0 }

  /// What one of several stores may have of the results.
  fileprivate var fromStart: Query {
    var copy = self
    copy.limit = limit.map { count in
      let (sum, overflow) = count.addingReportingOverflow(offset)
      return overflow ? .max : sum
    }
    copy.offset = 0
    return copy
  }

  /// For statements that ask for the same objects in no order.
  fileprivate var withoutOrder: Query {
    if isPart { return self }
    var copy = self
    copy.order = []
    return copy
  }
}

extension Literal {
  /// The order of the file: nothing, numbers, texts, bytes.
  fileprivate func precedes(_ other: Literal) -> Bool {
    switch (self, other) {
    case (.integer(let one), .integer(let other)): one < other
    case (.integer(let one), .real(let other)): Double(one) < other
    case (.real(let one), .integer(let other)): one < Double(other)
    case (.real(let one), .real(let other)): one < other
    case (.text(let one), .text(let other)), (.object(let one), .object(let other)):
      one.utf8.lexicographicallyPrecedes(other.utf8)
    case (.data(let one), .data(let other)): one.lexicographicallyPrecedes(other)
    default: rank < other.rank
    }
  }

  private var rank: Int {
    switch self {
    case .null: 0
    case .integer, .real: 1
    case .text, .object: 2
    case .data: 3
    }
  }
}
