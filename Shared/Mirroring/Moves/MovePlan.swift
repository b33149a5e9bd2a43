// The records that go along when objects move to another zone: everything that is connected with them (A9).

public import Records

/// A graph of records to move, found in one state of its zone.
public struct MovePlan: Hashable, Sendable {
  public struct Item: Hashable, Sendable {
    public let recordName: String
    /// The sequence number of the record's change tag when it was planned.
    public let sequence: Int64
    public let isObject: Bool
  }

  /// A to-one relationship that ends at a share boundary: no pointer reaches another zone (R16).
  public struct Cut: Hashable, Sendable {
    public let source: String
    public let field: String
    public let target: String

    public init(source: String, field: String, target: String) {
      self.source = source
      self.field = field
      self.target = target
    }
  }

  /// Objects in the order in which they were found, then the links between them.
  public internal(set) var items: [Item] = []
  /// Pointers that the move clears, in records that move and in records that stay.
  public internal(set) var cuts: [Cut] = []
  /// Links that the move deletes because one of their ends stays.
  public internal(set) var cutLinks: [String] = []
  /// Names that records point to and that nobody knows yet; the objects are expected in the new zone.
  public internal(set) var expected: [String] = []
  /// Duplicates that stand for an object of the graph (D5), whether they are still there or not.
  public internal(set) var duplicates: [String] = []
  public internal(set) var byteCount = 0
  /// Every name that was looked up: moving records, expected names, tombstones, shares, and links at a boundary.
  public internal(set) var visited: Set<String> = []

  public init() {}

  public var names: Set<String> { Set(items.map(\.recordName)) }
  public var isEmpty: Bool { items.isEmpty }
}

/// The planner's access to the zone. The planner looks up each name once; nothing needs to be cached.
public struct MoveSource {
  public let record: (String) throws -> SourceRecord?
  /// A record's pointers to others.
  public let outgoing: (Record) -> [RecordPointerTarget]
  /// The live records that point to a name.
  public let incoming: (String) throws -> [RecordPointer]
  /// A name's survivor and its duplicates; nil and empty for a name without redirects.
  public let duplicates: (String) throws -> (survivor: String?, losers: [String])
  /// True if a record with a short GUID is the root of a shared hierarchy.
  public let isShared: (String) throws -> Bool

  public init(
    record: @escaping (String) throws -> SourceRecord?, outgoing: @escaping (Record) -> [RecordPointerTarget],
    incoming: @escaping (String) throws -> [RecordPointer],
    duplicates: @escaping (String) throws -> (survivor: String?, losers: [String]),
    isShared: @escaping (String) throws -> Bool
  ) {
    self.record = record
    self.outgoing = outgoing
    self.incoming = incoming
    self.duplicates = duplicates
    self.isShared = isShared
  }
}

/// A record's field, and the name that it points to.
public struct RecordPointerTarget: Hashable, Sendable {
  public let field: String
  public let target: String

  public init(field: String, target: String) {
    self.field = field
    self.target = target
  }
}

/// The reason why a graph does not move.
public enum MoveRefusal: Error, Hashable, Sendable {
  case unknownObject(String)
  case tooManyRecords(from: String, limit: Int)
  case tooManyBytes(from: String, limit: Int)
  /// An object has a share of its own.
  case sharedByItself(String)
}

/// Follows every relationship from the given objects on, breadth first.
///
/// The walk stops at share boundaries. `finish` decides about the cuts there: a relationship stays if both of its ends
/// move by other paths.
public struct MovePlanner {
  private let source: MoveSource
  private let boundaries: ShareBoundaries
  private let recordLimit: Int
  private let byteLimit: Int
  private var plan = MovePlan()
  private var links: [MovePlan.Item] = []
  private var seen: Set<String> = []
  private var moving: Set<String> = []
  private var queue: [String] = []
  private var possibleCuts: [MovePlan.Cut] = []
  private var possibleLinks: [(item: MovePlan.Item, ends: LinkRecord.Pair)] = []

  public init(
    _ source: MoveSource, boundaries: ShareBoundaries, recordLimit: Int = Limit.moveCount,
    byteLimit: Int = Limit.moveByteCount
  ) {
    self.source = source
    self.boundaries = boundaries
    self.recordLimit = recordLimit
    self.byteLimit = byteLimit
  }

  /// Adds an object with everything that is connected with it.
  /// - Parameter progress: called with the number of records that were looked up.
  /// - Throws: `MoveRefusal`; errors of the source and of `progress`.
  public mutating func add(_ root: String, progress: (Int) throws -> Void = { _ in }) throws {
    if moving.contains(root) { return }
    guard let stored = try source.record(root), !stored.isDeleted else { throw MoveRefusal.unknownObject(root) }
    enqueue(root)
    var next = 0
    while next < queue.count {
      try visit(queue[next], from: root)
      next += 1
      try progress(seen.count)
    }
    queue = []
  }

  private mutating func enqueue(_ name: String) { if seen.insert(name).inserted { queue.append(name) } }

  private mutating func visit(_ name: String, from root: String) throws {
    guard let stored = try source.record(name) else {
      plan.expected.append(name)
      // Other objects that wait for the same name belong to the graph.
      for pointer in try source.incoming(name) { try visit(pointer, to: name) }
      return
    }
    let record = stored.record
    if stored.isDeleted || record.recordType == ReservedName.shareRecordType { return }
    let item = MovePlan.Item(
      recordName: name, sequence: stored.sequence, isObject: !LinkRecord.isLink(recordType: record.recordType))
    if let link = LinkRecord(record), boundaries.cuts(link) { return possibleLinks.append((item, link.ends)) }
    if record.shortGUID != nil, try source.isShared(name) { throw MoveRefusal.sharedByItself(name) }
    try add(item, record, from: root)
    if !item.isObject {
      for pointer in source.outgoing(record) { enqueue(pointer.target) }
      return
    }
    for pointer in source.outgoing(record) {
      if boundaries.cuts(pointer.field, ofRecordType: record.recordType) {
        possibleCuts.append(MovePlan.Cut(source: name, field: pointer.field, target: pointer.target))
      } else {
        enqueue(pointer.target)
      }
    }
    if let parent = record.parent { enqueue(parent) }
    for pointer in try source.incoming(name) { try visit(pointer, to: name) }
    let duplicates = try source.duplicates(name)
    if let survivor = duplicates.survivor { enqueue(survivor) }
    for loser in duplicates.losers {
      plan.duplicates.append(loser)
      enqueue(loser)
    }
  }

  private mutating func visit(_ pointer: RecordPointer, to target: String) throws {
    if boundaries.mayCut(pointer.field), let other = try source.record(pointer.source),
      boundaries.cuts(pointer.field, ofRecordType: other.record.recordType)
    {
      return possibleCuts.append(MovePlan.Cut(source: pointer.source, field: pointer.field, target: target))
    }
    enqueue(pointer.source)
  }

  private mutating func add(_ item: MovePlan.Item, _ record: Record, from root: String) throws {
    moving.insert(item.recordName)
    if item.isObject { plan.items.append(item) } else { links.append(item) }
    plan.byteCount += record.fields.byteCount
    if moving.count > recordLimit { throw MoveRefusal.tooManyRecords(from: root, limit: recordLimit) }
    if plan.byteCount > byteLimit { throw MoveRefusal.tooManyBytes(from: root, limit: byteLimit) }
  }

  public consuming func finish() throws(MoveRefusal) -> MovePlan {
    for (item, ends) in possibleLinks {
      switch (moving.contains(ends.first), moving.contains(ends.second)) {
      case (true, true): links.append(item)
      case (false, false): break
      default: plan.cutLinks.append(item.recordName)
      }
    }
    var known: Set<MovePlan.Cut> = []
    for cut in possibleCuts
    where moving.contains(cut.source) != moving.contains(cut.target) && known.insert(cut).inserted {
      plan.cuts.append(cut)
    }
    plan.items += links
    plan.visited = seen
    if plan.items.count + plan.cuts.count + plan.cutLinks.count > recordLimit {
      throw .tooManyRecords(from: plan.items[0].recordName, limit: recordLimit)
    }
    return plan
  }
}

extension MoveRefusal {
  public var recordError: RecordError {
    switch self {
    case .unknownObject(let name):
      RecordError(.badRequest, "\(name) is not an object of this store", cocoaErrorCode: .mirroring)
    case .tooManyRecords(let root, let limit):
      RecordError(
        .badRequest,
        """
        More than \(limit) records are connected with \(root): \(limit) is the limit of one move; cut the graph by \
        AquiferShareBoundary
        """,
        cocoaErrorCode: .mirroring)
    case .tooManyBytes(let root, let limit):
      RecordError(
        .badRequest,
        "The records that are connected with \(root) have more than \(limit) bytes, which is the limit of one move",
        cocoaErrorCode: .mirroring)
    case .sharedByItself(let name):
      RecordError(
        .badRequest, "\(name) has a share of its own: stop sharing it before it is moved", cocoaErrorCode: .mirroring)
    }
  }
}
