// Chooses the index that gives a query's candidates, without a store; the filters then decide about each record.

public import Indexing
import Records

/// A part of an index that contains every record that passes a filter.
public struct IndexAccess: Hashable, Sendable {
  public let index: FieldIndex
  /// Each passing record is in at least one range; empty if no record can pass.
  public let ranges: [IndexRange]

  public init(index: FieldIndex, ranges: [IndexRange]) {
    self.index = index
    self.ranges = ranges
  }

  /// True if its records come in the order of their names.
  public var isInNameOrder: Bool { ranges.count == 1 && ranges[0].isSingleKey }
}

/// A path through a zone.
public enum QueryPath: Hashable, Sendable {
  /// The records of these names, each once.
  case names([String])
  /// All records of the ranges, without an order; a single key gives them by record name.
  case candidates(IndexAccess)
  /// The index of the first order within a range, in its order, until the page is full.
  case walk(FieldIndex, IndexRange)
  /// All records of the type, by name.
  case type(FieldIndex)
}

/// The indexes that can serve a query.
public struct QueryPlan: Sendable {
  /// The only names that can pass, each once, if a filter lists names.
  public let names: [String]?
  /// One access per filter that an index can serve; several for a filter that asks for several words or elements at
  /// once. Kinds that usually leave the fewest records come first.
  public let accesses: [IndexAccess]
  /// The index of the first order.
  public let walk: IndexAccess?
  /// All records of the type.
  public let type: FieldIndex
  private let isOrdered: Bool

  public init(_ query: RecordQuery) {
    names = query.recordNames
    isOrdered = !query.orders.isEmpty
    type = FieldIndex(recordsOfType: query.recordType)
    let accesses = query.filters.flatMap { filter in
      filter.accesses(query.recordType).map { (access: $0, rank: filter.comparator.rank) }
    }
    .enumerated().sorted { ($0.element.rank, $0.offset) < ($1.element.rank, $1.offset) }.map(\.element.access)
    self.accesses = accesses
    walk = query.orders.first.flatMap { order in
      if order.relativeLocation != nil { return nil }
      let index = FieldIndex(recordType: query.recordType, key: order.key, kind: .value)
      // Filters on the same field bound the walk.
      let range = accesses.filter { $0.index == index && $0.ranges.count == 1 }.reduce(IndexKey.everything) {
        $0.intersection($1.ranges[0])
      }
      return IndexAccess(index: index, ranges: [range])
    }
  }

  /// The path through a zone.
  /// - Parameters:
  ///   - usable: whether an index exists and is ready.
  ///   - recordCount: the number of records in the zone.
  ///   - limit: the number of records in the page.
  ///   - count: the number of an access's entries in the zone; it may stop counting at its limit.
  public func path(
    usable: (FieldIndex) -> Bool, recordCount: Int, limit: Int, count: (IndexAccess, _ limit: Int) throws -> Int
  ) rethrows -> QueryPath {
    if let names { return .names(names) }
    if let impossible = accesses.first(where: { $0.ranges.isEmpty }) { return .candidates(impossible) }
    let helpful = accesses.filter { usable($0.index) }
    // Looking at n candidates costs n. A walk until `limit` of `recordCount` records are found, of which n pass, costs
    // limit × recordCount / n. The two are equal if n is the square root of limit × recordCount.
    let enough = max(limit, Int(Double(limit * max(recordCount, 1)).squareRoot()))
    var best: (access: IndexAccess, count: Int)?
    for access in helpful {
      let found = try count(access, best?.count ?? enough)
      if found < best?.count ?? enough { best = (access, found) }
    }
    if let best { return .candidates(best.access) }
    if let walk, usable(walk.index) { return .walk(walk.index, walk.ranges[0]) }
    // Without an order the page fills early, from one key's records or from all.
    if let access = isOrdered ? helpful.first : helpful.first(where: \.isInNameOrder) { return .candidates(access) }
    return .type(type)
  }

  /// The field indexes that would help, the most helpful first.
  public var wishes: [FieldIndex] {
    if names != nil { return [] }
    var wishes = accesses.filter { !$0.isOneSpan }.map(\.index)
    if let walk { wishes.append(walk.index) }
    wishes += accesses.map(\.index)
    var seen: Set<FieldIndex> = []
    return wishes.filter { seen.insert($0).inserted }
  }
}

extension IndexAccess {
  /// True if the access is one span of values: with a small page, a walk through the index of the order reads as few
  /// records.
  fileprivate var isOneSpan: Bool { index.kind == .value && ranges.count == 1 && !ranges[0].isSingleKey }
}

extension RecordQuery.Comparator {
  /// Ranks comparators by the number of records that usually pass; the fewest first.
  fileprivate var rank: Int {
    switch self {
    case .equals: 0
    case .in: 1
    case .beginsWith: 3
    case .lessThan, .lessThanOrEquals, .greaterThan, .greaterThanOrEquals: 4
    default: 2
    }
  }
}

extension RecordQuery.Filter {
  /// The index ranges that contain the passing records; several accesses where each alone is enough, none where no
  /// index helps.
  fileprivate func accesses(_ recordType: String) -> [IndexAccess] {
    if key == .system(.share) { return [] }
    func access(_ kind: FieldIndex.Kind, _ ranges: [IndexRange]) -> IndexAccess {
      IndexAccess(index: FieldIndex(recordType: recordType, key: key, kind: kind), ranges: ranges)
    }
    func values(_ range: IndexRange?) -> [IndexAccess] { range.map { [access(.value, [$0])] } ?? [] }
    func eachElement() -> [IndexAccess] {
      value.listElements.compactMap(IndexKey.equalElement).map { access(.value, [$0, IndexKey.overflowRange]) }
    }
    switch comparator {
    case .equals:
      if case .location(let place) = value { return [access(.place, [PlaceKey.range(of: place)])] }
      // Equal lists share their first element.
      return value.type.element == nil ? values(IndexKey.equal(value)) : Array(eachElement().prefix(1))
    case .in:
      let ranges = value.listElements.map(IndexKey.equal)
      return ranges.contains(nil) ? [] : [access(.value, Self.distinct(ranges.compactMap { $0 }))]
    case .lessThan, .lessThanOrEquals: return values(IndexKey.atMost(value))
    case .greaterThan, .greaterThanOrEquals: return values(IndexKey.atLeast(value))
    case .beginsWith, .listMemberBeginsWith:
      guard case .string(let prefix) = value else { return [] }
      let isMember = comparator == .listMemberBeginsWith
      return [
        access(.value, [IndexKey.begins(prefix, asElement: isMember)] + (isMember ? [IndexKey.overflowRange] : []))
      ]
    case .listContains:
      return IndexKey.equalElement(value).map { [access(.value, [$0, IndexKey.overflowRange])] } ?? []
    case .listContainsAny:
      let ranges = value.listElements.map(IndexKey.equalElement)
      return ranges.contains(nil)
        ? []
        : [access(.value, ranges.isEmpty ? [] : Self.distinct(ranges.compactMap { $0 }) + [IndexKey.overflowRange])]
    case .listContainsAll: return eachElement()
    case .near:
      guard case .location(let center) = value, let distance else { return [] }
      return [access(.place, PlaceKey.ranges(near: center, within: distance))]
    case .containsAllTokens: return words.map { access(.words, [Words.range(of: $0), IndexKey.overflowRange]) }
    case .containsAnyTokens:
      let ranges = words.map(Words.range)
      return [access(.words, ranges.isEmpty ? [] : Self.distinct(ranges) + [IndexKey.overflowRange])]
    case .notEquals, .notIn, .notListContains, .notListContainsAny, .notListContainsAll, .notBeginsWith,
      .notListMemberBeginsWith:
      return []
    }
  }

  private static func distinct(_ ranges: [IndexRange]) -> [IndexRange] {
    var seen: Set<IndexRange> = []
    return ranges.filter { seen.insert($0).inserted }
  }
}
