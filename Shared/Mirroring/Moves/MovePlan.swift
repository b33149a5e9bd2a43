// The records that go along when objects move to another zone: everything that is connected with them (A9).

public import Records

/// A graph that is to move, as it was found in one state of its zone.
public struct MovePlan: Hashable, Sendable {
  public struct Item: Hashable, Sendable {
    public let recordName: String
    /// The record's change tag when it was planned.
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

  /// Objects in the order they were found, then the links between them.
  public internal(set) var items: [Item] = []
  /// Pointers that are cleared, of records that move or that stay.
  public internal(set) var cuts: [Cut] = []
  /// Links that are deleted, because one of their ends stays.
  public internal(set) var cutLinks: [String] = []
  /// Names that are pointed to and that nobody has heard of yet: they are expected in the new zone.
  public internal(set) var expected: [String] = []
  /// Duplicates that stand for an object of the graph (D5), whether they are still there or not.
  public internal(set) var duplicates: [String] = []
  public internal(set) var byteCount = 0
  /// Every name that was looked at: of what moves, of what is expected, and of what has ended or stays behind a boundary.
  public internal(set) var visited: Set<String> = []

  public init() {}

  public var names: Set<String> { Set(items.map(\.recordName)) }
  public var isEmpty: Bool { items.isEmpty }
}

/// What the planner asks of the zone: each name once, and nothing is kept of the answers.
public struct MoveSource {
  public let record: (String) throws -> SourceRecord?
  /// The pointers out of a record.
  public let outgoing: (Record) -> [RecordPointerTarget]
  /// Live records that point to a name.
  public let incoming: (String) throws -> [RecordPointer]
  /// What stands for a name or is stood for by it; empty where there are no duplicates.
  public let duplicates: (String) throws -> (survivor: String?, losers: [String])
  /// Whether a record with a short GUID is shared with what hangs below it.
  public let isShared: (String) throws -> Bool

  public init(
    record: @escaping (String) throws -> SourceRecord?, outgoing: @escaping (Record) -> [RecordPointerTarget],
    incoming: @escaping (String) throws -> [RecordPointer], duplicates: @escaping (String) throws -> (survivor: String?, losers: [String]),
    isShared: @escaping (String) throws -> Bool
  ) {
    self.record = record
    self.outgoing = outgoing
    self.incoming = incoming
    self.duplicates = duplicates
    self.isShared = isShared
  }
}

/// A field of a record and the name it points to.
public struct RecordPointerTarget: Hashable, Sendable {
  public let field: String
  public let target: String

  public init(field: String, target: String) {
    self.field = field
    self.target = target
  }
}

/// Why a graph does not move.
public enum MoveRefusal: Error, Hashable, Sendable {
  case unknownObject(String)
  case tooManyRecords(from: String, limit: Int)
  case tooManyBytes(from: String, limit: Int)
  /// It has a share of its own.
  case sharedByItself(String)
}

/// Follows every relationship from some objects on, breadth first.
///
/// It stops at share boundaries. What is cut there is decided at the end: a relationship whose two ends move on other ways stays as it is.
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

  public init(_ source: MoveSource, boundaries: ShareBoundaries, recordLimit: Int = Limit.moveCount, byteLimit: Int = Limit.moveByteCount) {
    self.source = source
    self.boundaries = boundaries
    self.recordLimit = recordLimit
    self.byteLimit = byteLimit
  }

  /// Adds an object with all that is connected with it.
  /// - Parameter progress: told how many records were looked at.
  /// - Throws: `MoveRefusal`; what the source throws.
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
      // Whoever waits for it, too, will be connected by it.
      for pointer in try source.incoming(name) { try visit(pointer, to: name) }
      return
    }
    let record = stored.record
    if stored.isDeleted || record.recordType == ReservedName.shareRecordType { return }
    let item = MovePlan.Item(recordName: name, sequence: stored.sequence, isObject: !LinkRecord.isLink(recordType: record.recordType))
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
    if boundaries.mayCut(pointer.field), let other = try source.record(pointer.source), boundaries.cuts(pointer.field, ofRecordType: other.record.recordType) {
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
    for cut in possibleCuts where moving.contains(cut.source) != moving.contains(cut.target) && known.insert(cut).inserted { plan.cuts.append(cut) }
    plan.items += links
    plan.visited = seen
    if plan.items.count + plan.cuts.count + plan.cutLinks.count > recordLimit { throw .tooManyRecords(from: plan.items[0].recordName, limit: recordLimit) }
    return plan
  }
}

extension MoveRefusal {
  public var recordError: RecordError {
    switch self {
    case .unknownObject(let name): RecordError(.badRequest, "\(name) is no object of this store", cocoaErrorCode: .mirroring)
    case .tooManyRecords(let root, let limit):
      RecordError(
        .badRequest, "More than \(limit) records are connected with \(root): \(limit) is the limit of one move; cut the graph by AquiferShareBoundary",
        cocoaErrorCode: .mirroring)
    case .tooManyBytes(let root, let limit):
      RecordError(.badRequest, "The records that are connected with \(root) have more than \(limit) bytes, which is the limit of one move", cocoaErrorCode: .mirroring)
    case .sharedByItself(let name):
      RecordError(.badRequest, "\(name) has a share of its own: stop sharing it before it is moved", cocoaErrorCode: .mirroring)
    }
  }
}
