// Edits objects, with types; what it does is one save.

public import ReplicaStore

/// Edits one store, and reads its own edits.
public final class SaveContext: ReadContext {
  private let save: SaveTransaction
  /// Finds the store that has an entity or object, if it is another one.
  private let router: StoreRouter?

  init(_ save: SaveTransaction, _ router: StoreRouter?) {
    self.save = save
    self.router = router
    super.init([StoreSnapshot(nil, save.snapshot)])
  }

  /// - Throws: `validation` if an object of this name is here.
  @discardableResult public func insert<Object: ManagedObject>(_ object: Object) throws(StoreError) -> Object {
    try run(Object.self, nil) {
      var writer = try save.makeWriter(Object.entityName)
      object.write(to: &writer)
      try save.insert(object.id.any, writer.values, contents: writer.contents)
    }
    return object
  }

  /// One save, which goes to the server in parts of 1000 objects or 2 MB.
  public func insertAll<Object: ManagedObject>(_ objects: some Sequence<Object>) throws(StoreError) {
    for object in objects { try insert(object) }
  }

  /// Changes an object; properties that are equal afterwards are not changed.
  /// - Throws: what `change` throws; `missing` if the object is not here.
  @discardableResult public func update<Object: ManagedObject>(
    _ id: ObjectID<Object>, _ change: (inout Object) throws -> Void
  ) throws -> Object {
    try router?.check(Object.entityName, id.any, save.snapshot)
    guard var object = try object(id) else { throw StoreError.missing(id.any) }
    try apply(change, to: &object)
    return object
  }

  /// Changes all that a request finds (`NSBatchUpdateRequest`, with history).
  /// - Returns: how many it found.
  @discardableResult public func updateAll<Object: ManagedObject>(
    _ request: FetchRequest<Object>, _ change: (inout Object) throws -> Void
  ) throws -> Int {
    try router?.check(Object.entityName, nil, save.snapshot)
    let objects = try fetch(request)
    for var object in objects { try apply(change, to: &object) }
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
    try save.update(id.any, from: before.values, to: after.values, contents: after.contents)
  }

  /// Deletes an object, with what the delete rules say.
  public func delete<Object>(_ id: ObjectID<Object>) throws(StoreError) {
    try run(Object.self, id.any) { try save.delete(id.any) }
  }

  /// Deletes all that a request finds, with what the delete rules say (`NSBatchDeleteRequest`, with history).
  /// - Returns: how many it found.
  @discardableResult public func deleteAll<Object: ManagedObject>(_ request: FetchRequest<Object>) throws(StoreError)
    -> Int
  {
    try run(Object.self, nil) {
      let ids = try save.snapshot.objectIDs(request.query)
      // Deleting one may have deleted another by a rule.
      for id in ids { do { try save.delete(id) } catch StoreError.missing { continue } }
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
    try run(Object.self, id.any) {
      try save.setPair(
        Object.columns[keyPath: relationship].path.property, of: id.any, with: other.any, isLinked: isLinked)
    }
  }

  /// - Throws: `StoreError`, also for what SQLite throws.
  private func run<Object: ManagedObject, Value>(_ type: Object.Type, _ id: AnyObjectID?, _ body: () throws -> Value)
    throws(StoreError) -> Value
  {
    do {
      try router?.check(Object.entityName, id, save.snapshot)
      return try body()
    } catch is OtherStore {
      // The save is run again elsewhere; whatever the body makes of this error is forgotten.
      throw .missing(id ?? AnyObjectID(entityName: Object.entityName, recordName: ""))
    } catch { throw SaveTransaction.error(error) }
  }
}
