// The records that an export run touches, on top of the zone as it is stored. The run applies changes here in order and
// writes only the final differences: insert and delete, repeated edits and edits without effect collapse.

import Records

/// A record during an export run.
struct OverlayEntry {
  /// A reference, because entries move in memory and most have no stored record.
  private final class Base: Sendable {
    let stored: SourceRecord
    init(_ stored: SourceRecord) { self.stored = stored }
  }

  private let origin: Base?
  /// The record's present state; nil while it is not alive.
  var record: Record?
  /// Fields with a present value that the server decided: it cleared a pointer.
  var serverFields: Set<String> = []
  /// Those of `serverFields` that the server cleared because another object changed: no client named this record.
  var clearedFields: Set<String> = []
  /// The store imports the record again, even if nothing of it changed.
  var isToldAgain = false
  /// The server decided on the deletion: of a superfluous link record, for example.
  var isServersDeletion = false
  /// The record was deleted in this run.
  var isRemoved = false

  init(base: SourceRecord?) {
    origin = base.map(Base.init)
    record = base.flatMap { $0.isDeleted ? nil : $0.record }
  }

  /// The record as the zone holds it; nil if the name was never used.
  var base: SourceRecord? { origin?.stored }

  /// A tombstone, or deleted earlier in this run. Nothing may point here any more, unlike to a name that is still
  /// unknown.
  var isGone: Bool {
    // A pattern match: comparing with nil would copy the record.
    if case .some = record { return false }
    return origin != nil || isRemoved
  }

  /// True if the entry is of a link record.
  var isLink: Bool { (record?.recordType ?? baseRecord?.recordType).map { LinkRecord.isLink(recordType: $0) } ?? false }

  var baseRecord: Record? { base.flatMap { $0.isDeleted ? nil : $0.record } }
}

/// A zone, with the changes of a run on top.
struct ExportOverlay {
  let source: any RecordSource
  /// In the order in which they were first loaded, so that no result depends on a dictionary's order.
  private(set) var entries: [OverlayEntry] = []
  private var places: [String: Int] = [:]
  /// Pointers that this run set, by target; some may have been cleared again.
  private var added: [String: [RecordPointer]] = [:]
  private var stored: [String: [RecordPointer]] = [:]
  /// Link records of the objects with many pointers, by the object's name.
  private var crowds: [String: Crowd] = [:]
  /// The number of link records' names that searches went through.
  private(set) var linkCost = 0
  /// The pointers to objects with many, by the target's name.
  private var followings: [String: Following] = [:]
  /// Where `followings` leave out pointers that do not point any more, by the pointers' source.
  private var asleep: [String: [(target: String, place: Int)]] = [:]
  /// The number of records that searches for pointers looked at.
  private(set) var pointerCost = 0

  /// The pointers to one object. A set that is emptied again and again would otherwise look at all former members each
  /// time: a pointer that was found not to point is left out until its record is touched.
  private struct Following {
    private(set) var all: [RecordPointer] = []
    private var known: Set<RecordPointer> = []
    /// Places in `all` of the pointers that may point.
    var awake: [Int] = []

    mutating func note(_ pointer: RecordPointer) {
      guard known.insert(pointer).inserted else { return }
      awake.append(all.count)
      all.append(pointer)
    }
  }

  /// The link records of one object, indexed because searching a list for every pair would take too long.
  private struct Crowd {
    private(set) var ordered: [String] = []
    private(set) var all: Set<String> = []

    mutating func note(_ name: String) { if all.insert(name).inserted { ordered.append(name) } }
  }

  /// Objects with more pointers than this have their pointers and their link records indexed.
  private static let crowdCount = 64

  init(source: any RecordSource) { self.source = source }

  /// Makes room for as many more entries, and at least doubles the capacity: entries are large, and growing moves them
  /// all.
  mutating func reserve(_ count: Int) {
    let needed = entries.count + count
    if needed > entries.capacity { entries.reserveCapacity(max(needed, 2 * entries.capacity)) }
  }

  var hasRedirects: Bool { source.hasRedirects }

  func redirect(of name: String) throws -> RecordRedirect? { try source.redirect(of: name) }

  mutating func entry(_ name: String) throws -> OverlayEntry { entries[try place(of: name)] }

  /// Reads or changes all entries of records that were loaded before, in that order.
  mutating func forEach(_ body: (inout OverlayEntry) -> Void) {
    (followings, asleep) = ([:], [:])
    for place in entries.indices { body(&entries[place]) }
  }

  /// The entry of a record that was loaded before; nil for other names.
  func known(_ name: String) -> OverlayEntry? { places[name].map { entries[$0] } }

  mutating func set(_ entry: OverlayEntry, named name: String) {
    wake(name)
    if let place = places[name] {
      entries[place] = entry
    } else {
      add(entry, name)
    }
  }

  /// Reads or changes an entry in place, without a copy of the entry or of its record's fields.
  mutating func with<Value>(_ name: String, _ body: (inout OverlayEntry) throws -> Value) throws -> Value {
    wake(name)
    return try body(&entries[try place(of: name)])
  }

  private mutating func place(of name: String) throws -> Int {
    let next = entries.count
    // Looks the name up and adds it in one step, so that it is hashed once.
    let place = Self.resolved(&places[name, default: next])
    if place < next { return place }
    do {
      entries.append(OverlayEntry(base: try source.record(named: name)))
    } catch {
      places[name] = nil
      throw error
    }
    return place
  }

  /// The stored place. Passing it by reference makes the dictionary keep the default of a name that was absent.
  private static func resolved(_ place: inout Int) -> Int { place }

  private mutating func add(_ entry: OverlayEntry, _ name: String) {
    places[name] = entries.count
    entries.append(entry)
  }

  /// Hands the entries over in their order, and leaves none.
  mutating func takeEntries() -> [OverlayEntry] {
    // A swap makes the caller the only owner: with a second reference, every change would copy all entries.
    var taken: [OverlayEntry] = []
    swap(&taken, &entries)
    places = [:]
    return taken
  }

  mutating func notePointer(from source: String, field: String, to target: String) {
    let pointer = RecordPointer(field: field, source: source)
    added[target, default: []].append(pointer)
    if !followings.isEmpty {
      wake(source)
      followings[target]?.note(pointer)
    }
    if field == ReservedName.linkRecordNames, !crowds.isEmpty { crowds[target]?.note(source) }
  }

  /// The pointers to `target` that are alive at present, each once, stored ones first.
  /// - Parameter field: the only field that counts; records that point by another are not read. nil: all count.
  mutating func pointers(to target: String, by field: String? = nil) throws -> [RecordPointer] {
    if followings[target] == nil {
      let candidates = try candidates(to: target)
      guard candidates.count > Self.crowdCount else {
        return try candidates.filter { try (field == nil || $0.field == field) && points($0, to: target) }
      }
      var following = Following()
      for pointer in candidates { following.note(pointer) }
      followings[target] = following
    }
    return try followers(of: target, by: field)
  }

  private mutating func followers(of target: String, by field: String?) throws -> [RecordPointer] {
    // Taken out for the search, so that no second reference makes a change copy all pointers.
    guard var following = followings.removeValue(forKey: target) else { return [] }
    defer { followings[target] = following }
    var (found, kept, ended): ([RecordPointer], [Int], [Int]) = ([], [], [])
    for place in following.awake.sorted() {
      let pointer = following.all[place]
      if let field, pointer.field != field {
        kept.append(place)
      } else if try points(pointer, to: target) {
        found.append(pointer)
        kept.append(place)
      } else {
        ended.append(place)
      }
    }
    following.awake = kept
    for place in ended { asleep[following.all[place].source, default: []].append((target, place)) }
    return found
  }

  private mutating func points(_ pointer: RecordPointer, to target: String) throws -> Bool {
    pointerCost += 1
    guard let record = try entry(pointer.source).record else { return false }
    if pointer.field == ReservedName.linkRecordNames {
      guard let link = LinkRecord(record) else { return false }
      return link.ends.first == target || link.ends.second == target
    }
    return record.fields.string(pointer.field) == target
  }

  /// A record that changes may point again where it did not.
  private mutating func wake(_ source: String) {
    if asleep.isEmpty { return }
    for (target, place) in asleep.removeValue(forKey: source) ?? [] { followings[target]?.awake.append(place) }
  }

  /// Names of link records that name both objects, alive or deleted in this run, stored ones first. It reads no record,
  /// and searches the shorter of the two lists: a tag with ten thousand photos costs one list of names for any number
  /// of pairs.
  mutating func linkCandidates(_ a: String, _ b: String) throws -> [String] {
    let first = try linkNames(a)
    if first.isEmpty || a == b { return first }
    let second = try linkNames(b)
    let (few, many) = first.count <= second.count ? (first, b) : (second, a)
    linkCost += few.count
    if let crowd = crowds[many] { return few.filter(crowd.all.contains) }
    let others = Set(many == b ? second : first)
    linkCost += others.count
    return few.filter(others.contains)
  }

  private mutating func linkNames(_ target: String) throws -> [String] {
    if let crowd = crowds[target] { return crowd.ordered }
    let names = try candidates(to: target).compactMap { $0.field == ReservedName.linkRecordNames ? $0.source : nil }
    linkCost += names.count
    guard names.count > Self.crowdCount else { return names }
    var crowd = Crowd()
    for name in names { crowd.note(name) }
    crowds[target] = crowd
    return crowd.ordered
  }

  /// All records that point to `target`, or did so before this run changed them.
  private mutating func candidates(to target: String) throws -> [RecordPointer] {
    // The name may be unused: links and to-one fields may arrive before their target.
    let known: [RecordPointer]
    if let cached = stored[target] {
      known = cached
    } else {
      known = try source.pointers(to: target)
      stored[target] = known
    }
    guard let more = added[target] else { return known }
    var seen = Set(known)
    return known + more.filter { seen.insert($0).inserted }
  }
}
