// The records an export run has touched, over the zone as it is stored: changes are applied here in order, and only what differs in
// the end is written. That is how insert-and-delete, repeated edits and edits that change nothing collapse.

import Records

/// A record under the hands of the exporter.
struct OverlayEntry {
  /// Kept apart, because entries are moved about, and most have none.
  private final class Base: Sendable {
    let stored: SourceRecord
    init(_ stored: SourceRecord) { self.stored = stored }
  }

  private let origin: Base?
  /// As it is now; nil while it is not alive.
  var record: Record?
  /// Fields whose present value the server decided on: pointers it cleared that the client did not name.
  var serverFields: Set<String> = []
  /// Those among them that it cleared because of what became of others: of this record nobody said anything.
  var clearedFields: Set<String> = []
  /// The store is sent the record again, whatever it says.
  var isToldAgain = false
  /// The server decided on the deletion: a superfluous link record of a pair.
  var isServersDeletion = false
  /// It was alive in this run, and deleted.
  var isRemoved = false

  init(base: SourceRecord?) {
    origin = base.map(Base.init)
    record = base.flatMap { $0.isDeleted ? nil : $0.record }
  }

  /// As the zone holds it; nil when the name was never used.
  var base: SourceRecord? { origin?.stored }

  /// A tombstone, or deleted earlier in this run: unlike a name nobody knows yet, nothing may point here any more.
  var isGone: Bool {
    // Asked without comparing records, which copies them.
    if case .some = record { return false }
    return origin != nil || isRemoved
  }

  /// Whether what is written of it is a link record's.
  var isLink: Bool { (record?.recordType ?? baseRecord?.recordType).map { LinkRecord.isLink(recordType: $0) } ?? false }

  var baseRecord: Record? { base.flatMap { $0.isDeleted ? nil : $0.record } }
}

/// A zone with changes on top.
struct ExportOverlay {
  let source: any RecordSource
  /// In the order they were first loaded, so that nothing depends on a dictionary's order.
  private(set) var entries: [OverlayEntry] = []
  private var places: [String: Int] = [:]
  /// Pointers that were set here, by target; some may have been cleared again since.
  private var added: [String: [RecordPointer]] = [:]
  private var stored: [String: [RecordPointer]] = [:]
  /// Of objects with many pointers.
  private var crowds: [String: Crowd] = [:]
  /// Names of link records that were gone through so far.
  private(set) var linkCost = 0

  /// The link records of an object with so many that each pair's can't be searched among them.
  private struct Crowd {
    private(set) var ordered: [String] = []
    private(set) var all: Set<String> = []

    mutating func note(_ name: String) { if all.insert(name).inserted { ordered.append(name) } }
  }

  /// Objects with more pointers than this have their link records indexed.
  private static let crowdCount = 64

  init(source: any RecordSource) { self.source = source }

  /// Makes room for as many more, at least doubling it: entries are large, and moved whenever they outgrow it.
  mutating func reserve(_ count: Int) {
    let needed = entries.count + count
    if needed > entries.capacity { entries.reserveCapacity(max(needed, 2 * entries.capacity)) }
  }

  var hasRedirects: Bool { source.hasRedirects }

  func redirect(of name: String) throws -> RecordRedirect? { try source.redirect(of: name) }

  mutating func entry(_ name: String) throws -> OverlayEntry { entries[try place(of: name)] }

  /// One that was looked at before.
  func known(_ name: String) -> OverlayEntry? { places[name].map { entries[$0] } }

  mutating func set(_ entry: OverlayEntry, named name: String) {
    if let place = places[name] {
      entries[place] = entry
    } else {
      add(entry, name)
    }
  }

  /// Looks at an entry, or changes it, in its place: neither is it copied, nor are its record's fields.
  mutating func with<Value>(_ name: String, _ body: (inout OverlayEntry) throws -> Value) throws -> Value {
    try body(&entries[try place(of: name)])
  }

  private mutating func place(of name: String) throws -> Int {
    let next = entries.count
    // Looked for and noted in one step, so that a name is hashed once.
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

  /// The place, which is kept where it was only the default: that is why it is taken by reference.
  private static func resolved(_ place: inout Int) -> Int { place }

  private mutating func add(_ entry: OverlayEntry, _ name: String) {
    places[name] = entries.count
    entries.append(entry)
  }

  /// Gives the entries away, in their order, and has none afterwards.
  mutating func takeEntries() -> [OverlayEntry] {
    // Exchanged, so that they are nobody else's for a moment: changing them would copy them all.
    var taken: [OverlayEntry] = []
    swap(&taken, &entries)
    places = [:]
    return taken
  }

  mutating func notePointer(from source: String, field: String, to target: String) {
    added[target, default: []].append(RecordPointer(field: field, source: source))
    if field == ReservedName.linkRecordNames, !crowds.isEmpty { crowds[target]?.note(source) }
  }

  /// Live pointers to `target` as of now, each once, stored ones first.
  mutating func pointers(to target: String) throws -> [RecordPointer] {
    try candidates(to: target).filter { pointer in
      guard let record = try entry(pointer.source).record else { return false }
      if pointer.field == ReservedName.linkRecordNames {
        guard let link = LinkRecord(record) else { return false }
        return link.ends.first == target || link.ends.second == target
      }
      return record.fields.string(pointer.field) == target
    }
  }

  /// Names of link records that name both objects, live or deleted in this run, stored ones first. No record is read for it, and of the two the
  /// object with fewer links is gone through: a tag with ten thousand photos costs one list of names, however many pairs are looked for.
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

  /// Everything that points to `target`, or did before this run changed it.
  private mutating func candidates(to target: String) throws -> [RecordPointer] {
    // A name that was never used can be pointed to all the same: links and to-ones may arrive before their target.
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
