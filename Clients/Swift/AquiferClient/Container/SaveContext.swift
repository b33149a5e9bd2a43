// Edits objects, with types; what it does is one save.

public import ReplicaStore

/// Edits one store, and reads its own edits. A save for which no store was named also finds the objects of the others.
public final class SaveContext: ReadContext {
  private let save: SaveTransaction
  /// nil: there is one store.
  private let router: StoreRouter?

  /// - Parameter readable: the save's own store, and the others that it finds objects in.
  init(_ save: SaveTransaction, _ router: StoreRouter?, readable: [StoreSnapshot]) {
    self.save = save
    self.router = router
    super.init(readable)
  }

  /// Makes an object in the store of the objects that the save names, such as those that a relationship leads to.
  /// - Throws: `validation` if an object of this name is here.
  @discardableResult public func insert<Object: ManagedObject>(_ object: Object) throws(StoreError) -> Object {
    try run {
      try router?.insert(object.id.any)
      var writer = try save.makeWriter(Object.entityName)
      object.write(to: &writer)
      try router?.follow(writer.values)
      try save.insert(object.id.any, writer.values, contents: writer.contents)
    }
    return object
  }

  /// One save, which goes to the server in parts of 1000 objects or 2 MB.
  public func insertAll<Object: ManagedObject>(_ objects: some Sequence<Object>) throws(StoreError) {
    for object in objects { try insert(object) }
  }

  /// Changes an object; properties that are equal afterwards are not changed.
  /// - Throws: what `change` throws; `missing` if the object is not here, `otherStore` if it is in another store than
  ///   what the save named before.
  @discardableResult public func update<Object: ManagedObject>(
    _ id: ObjectID<Object>, _ change: (inout Object) throws -> Void
  ) throws -> Object {
    guard var object = try run({ try here(id) }) else { throw StoreError.missing(id.any) }
    try apply(change, to: &object)
    return object
  }

  /// Changes all that a request finds (`NSBatchUpdateRequest`, with history).
  /// - Returns: how many it found.
  @discardableResult public func updateAll<Object: ManagedObject>(
    _ request: FetchRequest<Object>, _ change: (inout Object) throws -> Void
  ) throws -> Int {
    let objects = try fetch(request)
    for var object in objects {
      try run { try router?.follow(object.id.recordName) }
      try apply(change, to: &object)
    }
    return objects.count
  }

  private func apply<Object: ManagedObject>(_ change: (inout Object) throws -> Void, to object: inout Object) throws {
    var before = try save.makeWriter(Object.entityName)
    object.write(to: &before)
    let id = object.id
    try change(&object)
    guard object.id == id else { throw StoreError.invalid("\(id) can't become \(object.id)") }
    var after = try save.makeWriter(Object.entityName)
    object.write(to: &after)
    let (old, new, contents) = (before.values, after.values, after.contents)
    try run {
      try router?.follow(zip(old, new).filter { $0 != $1 }.map(\.1))
      try save.update(id.any, from: old, to: new, contents: contents)
    }
  }

  private func here<Object>(_ id: ObjectID<Object>) throws -> Object? {
    try router?.follow(id.recordName)
    return try object(id)
  }

  /// Deletes an object, with what the delete rules say.
  public func delete<Object>(_ id: ObjectID<Object>) throws(StoreError) {
    try run {
      try router?.follow(id.recordName)
      try save.delete(id.any)
    }
  }

  /// Deletes all that a request finds, with what the delete rules say (`NSBatchDeleteRequest`, with history).
  /// - Returns: how many it found.
  @discardableResult public func deleteAll<Object: ManagedObject>(_ request: FetchRequest<Object>) throws(StoreError)
    -> Int
  {
    try run {
      let ids = try objectIDs(request)
      for id in ids {
        try router?.follow(id.recordName)
        // Deleting one may have deleted another by a rule.
        do { try save.delete(id) } catch StoreError.missing { continue }
      }
      return ids.count
    }
  }

  public func add<Object, Other>(
    _ other: ObjectID<Other>, to relationship: KeyPath<Object.Columns, ToMany<Other>>, of id: ObjectID<Object>
  ) throws(StoreError) { try setPair(other, relationship, id, isLinked: true) }

  public func remove<Object, Other>(
    _ other: ObjectID<Other>, from relationship: KeyPath<Object.Columns, ToMany<Other>>, of id: ObjectID<Object>
  ) throws(StoreError) { try setPair(other, relationship, id, isLinked: false) }

  private func setPair<Object, Other>(
    _ other: ObjectID<Other>, _ relationship: KeyPath<Object.Columns, ToMany<Other>>, _ id: ObjectID<Object>,
    isLinked: Bool
  ) throws(StoreError) {
    try run {
      for name in [id.recordName, other.recordName] { try router?.follow(name) }
      try save.setPair(
        Object.columns[keyPath: relationship].path.property, of: id.any, with: other.any, isLinked: isLinked)
    }
  }

  /// - Throws: `StoreError`, also for what SQLite throws.
  private func run<Value>(_ body: () throws -> Value) throws(StoreError) -> Value {
    do { return try body() } catch let other as OtherStore {
      // The save is run again there; whatever the body makes of this error is forgotten.
      throw .otherStore(other.object)
    } catch { throw SaveTransaction.error(error) }
  }
}
