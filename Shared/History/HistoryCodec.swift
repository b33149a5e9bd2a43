// The stored form of a history transaction. One file encodes and decodes it, so that the two directions agree.
//
// One MessagePack array; its first value is the number of the format:
//
//   format, transaction ID, timestamp, author, context name, bundle ID, process ID (each of the last four may be null),
//   format 2 only: base and time of the edit,
//   then for each change: change type, entity, object ID, [attributes], [relationships], [tombstone]
//
// Attributes and tombstone are flat arrays of name, tag, payload. A composite's elements follow its tag and count in
// the same array: values nest as deep as they like while the MessagePack stays three levels deep.
//
//   0 null –           3 decimal text      6 date integer     9 binary bytes
//   1 integer integer  4 string text       7 uuid text       10 asset hash, byte count
//   2 double double    5 boolean boolean   8 uri text        11 composite count, elements
//
// Relationships are name, kind, payload: 1 to-one, text or null · 2 to-many, [targets] · 3 delta, [added], [removed].

import MessagePack
public import Records

extension HistoryTransaction {
  /// 3 is that of `HeldTransactions`.
  private static let format: Int64 = 1
  /// The format of a transaction that carries an `Edit`.
  private static let editFormat: Int64 = 2

  /// The transaction as the store keeps it. Equal transactions have equal bytes.
  public func encoded() -> [UInt8] {
    var writer = MessagePackWriter(reservingByteCount: 128 + 256 * changes.count)
    writer.arrayHeader((edit == nil ? 7 : 9) + 6 * changes.count)
    writer.integer(edit == nil ? Self.format : Self.editFormat)
    writer.string(transactionID)
    writer.integer(timestamp)
    writer.string(author)
    writer.string(contextName)
    writer.string(bundleID)
    writer.string(processID)
    if let edit {
      writer.integer(edit.base)
      writer.integer(edit.time)
    }
    for change in changes {
      writer.integer(Int64(change.changeType.rawValue))
      writer.string(change.entity)
      writer.string(change.objectID)
      writer.attributes(change.attributes)
      writer.relationships(change.relationships)
      writer.attributes(change.tombstone)
    }
    return writer.bytes
  }

  /// Reads the bytes that `encoded` wrote.
  /// - Throws: `StoredFormatError` for a format of a later release and for bytes that `encoded` does not write.
  public init(decoding blob: [UInt8]) throws(StoredFormatError) {
    self = try blob.withUnsafeBufferPointer { blob throws(StoredFormatError) in
      try HistoryTransaction(decoding: UnsafeRawBufferPointer(blob))
    }
  }

  /// Reads a transaction straight from a database's memory, and keeps no reference to that memory.
  public init(decoding blob: UnsafeRawBufferPointer) throws(StoredFormatError) {
    var unknownFormat: Int64?
    do throws(MessagePackError) {
      self = try MessagePackCursor.read(blob) { cursor throws(MessagePackError) in
        let format = try cursor.integer()
        guard format == Self.format || format == Self.editFormat else {
          unknownFormat = format
          throw MessagePackError("format \(format)")
        }
        return try HistoryTransaction(&cursor, hasEdit: format == Self.editFormat)
      }
    } catch {
      throw unknownFormat.map { .unknownFormat($0) } ?? StoredFormatError(error)
    }
  }

  private init(_ cursor: inout MessagePackCursor, hasEdit: Bool) throws(MessagePackError) {
    self.init(
      transactionID: try cursor.string(), timestamp: try cursor.integer(), author: try cursor.optionalString(),
      contextName: try cursor.optionalString(),
      bundleID: try cursor.optionalString(), processID: try cursor.optionalString(), changes: [])
    if hasEdit { edit = Edit(base: try cursor.integer(), time: try cursor.integer()) }
    changes.reserveCapacity(cursor.remainingCount / 6)
    while cursor.remainingCount > 0 {
      guard let changeType = HistoryChange.ChangeType(rawValue: try cursor.count()) else {
        throw MessagePackError("a change is of an unknown type")
      }
      changes.append(
        HistoryChange(
          changeType: changeType, entity: try cursor.string(), objectID: try cursor.string(),
          attributes: try cursor.attributes(),
          relationships: try cursor.relationships(), tombstone: try cursor.attributes()))
    }
  }
}

// MARK: Attributes

/// Stored: never renumber.
private enum AttributeTag: Int64 {
  case null, integer, double, decimal, string, boolean, date, uuid, uri, binary, asset, composite
}

/// How deep composites nest: deeper than any request (`Limit.jsonDepth`), and shallow enough for the stack.
private let compositeDepthLimit = 64

extension AttributeValue {
  /// The number of values of the flat array that this value takes, its tag included.
  fileprivate var storedCount: Int {
    switch self {
    case .null: 1
    case .asset: 3
    case .composite(let elements): elements.reduce(2) { $0 + 1 + $1.value.storedCount }
    default: 2
    }
  }
}

extension MessagePackWriter {
  fileprivate mutating func attributes(_ attributes: [NamedValue<AttributeValue>]) {
    arrayHeader(attributes.reduce(0) { $0 + 1 + $1.value.storedCount })
    for attribute in attributes {
      string(attribute.name)
      value(attribute.value)
    }
  }

  private mutating func tag(_ tag: AttributeTag) { integer(tag.rawValue) }

  private mutating func value(_ value: AttributeValue) {
    switch value {
    case .null: tag(.null)
    case .integer(let number): tag(.integer); integer(number)
    case .double(let number): tag(.double); double(number)
    case .decimal(let text): tag(.decimal); string(text)
    case .string(let text): tag(.string); string(text)
    case .boolean(let flag): tag(.boolean); bool(flag)
    case .date(let milliseconds): tag(.date); integer(milliseconds)
    case .uuid(let text): tag(.uuid); string(text)
    case .uri(let text): tag(.uri); string(text)
    case .binary(let data): tag(.binary); bytes(data)
    case .asset(let asset): tag(.asset); bytes(asset.hash); integer(asset.byteCount)
    case .composite(let elements):
      tag(.composite)
      integer(Int64(elements.count))
      for element in elements {
        string(element.name)
        self.value(element.value)
      }
    }
  }
}

extension MessagePackCursor {
  fileprivate mutating func attributes() throws(MessagePackError) -> [NamedValue<AttributeValue>] {
    try array { cursor throws(MessagePackError) in
      var attributes: [NamedValue<AttributeValue>] = []
      attributes.reserveCapacity(cursor.remainingCount / 3)
      while cursor.remainingCount > 0 {
        attributes.append(NamedValue(name: try cursor.string(), value: try cursor.value(depth: 0)))
      }
      return attributes
    }
  }

  private mutating func value(depth: Int) throws(MessagePackError) -> AttributeValue {
    guard let tag = AttributeTag(rawValue: try integer()) else {
      throw MessagePackError("an attribute is of an unknown type")
    }
    switch tag {
    case .null: return .null
    case .integer: return .integer(try integer())
    case .double: return .double(try double())
    case .decimal: return .decimal(try string())
    case .string: return .string(try string())
    case .boolean: return .boolean(try bool())
    case .date: return .date(try integer())
    case .uuid: return .uuid(try string())
    case .uri: return .uri(try string())
    case .binary: return .binary(try bytes())
    case .asset: return .asset(Asset(hash: try bytes(), byteCount: try integer()))
    case .composite:
      guard depth < compositeDepthLimit else {
        throw MessagePackError("composites nest deeper than \(compositeDepthLimit) levels")
      }
      let count = try count(upTo: remainingCount)
      var elements: [AttributeValue.CompositeElement] = []
      for _ in 0..<count {
        elements.append(AttributeValue.CompositeElement(name: try string(), value: try value(depth: depth + 1)))
      }
      return .composite(elements)
    }
  }
}

// MARK: Relationships

/// Stored: never renumber.
private enum RelationshipTag: Int64 {
  case toOne = 1
  case toMany, delta
}

extension MessagePackWriter {
  fileprivate mutating func relationships(_ relationships: [NamedValue<RelationshipValue>]) {
    let count = relationships.reduce(0) { count, relationship in
      if case .toManyDelta = relationship.value { count + 4 } else { count + 3 }
    }
    arrayHeader(count)
    for relationship in relationships {
      string(relationship.name)
      switch relationship.value {
      case .toOne(let target):
        integer(RelationshipTag.toOne.rawValue)
        string(target)
      case .toMany(let targets):
        integer(RelationshipTag.toMany.rawValue)
        strings(targets)
      case .toManyDelta(let added, let removed):
        integer(RelationshipTag.delta.rawValue)
        strings(added)
        strings(removed)
      }
    }
  }

  private mutating func strings(_ values: [String]) {
    arrayHeader(values.count)
    for value in values { string(value) }
  }
}

extension MessagePackCursor {
  fileprivate mutating func relationships() throws(MessagePackError) -> [NamedValue<RelationshipValue>] {
    try array { cursor throws(MessagePackError) in
      var relationships: [NamedValue<RelationshipValue>] = []
      while cursor.remainingCount > 0 {
        relationships.append(NamedValue(name: try cursor.string(), value: try cursor.relationship()))
      }
      return relationships
    }
  }

  private mutating func relationship() throws(MessagePackError) -> RelationshipValue {
    guard let tag = RelationshipTag(rawValue: try integer()) else {
      throw MessagePackError("a relationship is of an unknown kind")
    }
    switch tag {
    case .toOne: return .toOne(try optionalString())
    case .toMany: return .toMany(try strings())
    case .delta: return .toManyDelta(add: try strings(), remove: try strings())
    }
  }

  private mutating func strings() throws(MessagePackError) -> [String] {
    try array { cursor throws(MessagePackError) in
      var values: [String] = []
      values.reserveCapacity(cursor.remainingCount)
      while cursor.remainingCount > 0 { values.append(try cursor.string()) }
      return values
    }
  }
}
