// What a generator writes for an entity: a value type, its columns, and the names of its objects.

import FoundationEssentials
@_exported public import ReplicaStore
import ReplicaSync

/// The type of an entity's objects, as values. A generator writes the conformance.
public protocol ManagedObject: Sendable, Identifiable, Equatable where ID == ObjectID<Self> {
  /// Typed names of the properties, for requests.
  associatedtype Columns: Sendable
  static var entityName: String { get }
  static var columns: Columns { get }
  /// Reads the columns in the order that `Row` describes.
  init(_ row: borrowing Row)
  /// Writes attributes and to-one relationships to the same columns, except derived ones.
  func write(to row: inout RowWriter)
}

/// The name of an object for good, and its entity (`NSManagedObjectID`); never temporary.
public struct ObjectID<Object: ManagedObject>: Hashable, Sendable, Codable, CustomStringConvertible {
  /// 1 to 255 ASCII characters; a UUID in upper case unless somebody chose another name.
  public let recordName: String

  /// A fresh one.
  public init() { recordName = UUID.random().uuidString }
  public init(recordName: String) { self.recordName = recordName }

  public var description: String { "\(Object.entityName)/\(recordName)" }
  public var any: AnyObjectID { AnyObjectID(entityName: Object.entityName, recordName: recordName) }
}

extension AnyObjectID {
  /// nil: the object is of another entity. An object of a subentity is none of its superentity here.
  public func of<Object: ManagedObject>(_ type: Object.Type) -> ObjectID<Object>? {
    entityName == Object.entityName ? ObjectID(recordName: recordName) : nil
  }
}

extension Row {
  public func objectID<Object: ManagedObject>(_ type: Object.Type) -> ObjectID<Object> {
    ObjectID(recordName: recordName(0))
  }
  /// nil: the relationship is empty, or its target is not here (yet).
  public func toOne<Object: ManagedObject>(_ column: Int) -> ObjectID<Object>? {
    isNull(column) ? nil : ObjectID(recordName: recordName(column))
  }
}

extension RowWriter {
  public mutating func toOne<Object: ManagedObject>(_ column: Int, _ id: ObjectID<Object>?) {
    literal(column, id.map { .object($0.recordName) } ?? .null)
  }
}
