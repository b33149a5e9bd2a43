// Several zones in memory with one sequence: naive assignment, export and moves of objects.

package import History
package import Mirroring
import ObjectModel
import Records

package final class TestDatabase {
  /// The default zone first.
  package let zones: [TestZone]
  private var assigned: [String: TestZone] = [:]
  private let model: ModelIndex
  /// The incarnation in move receipts.
  package static let incarnation: UInt64 = 7

  package init(_ zone: TestZone) {
    zones = [zone]
    model = Sample.index
  }

  package init(zones names: [String]) {
    let clock = TestClock()
    zones = names.map { TestZone(name: $0, clock: clock) }
    model = Sample.index
    for zone in zones { zone.others = { [zones] name in zones.first { $0.name == name } } }
  }

  package var sequence: Int { zones[0].sequence }
  package func zone(named name: String) -> TestZone? { zones.first { $0.name == name } }

  // MARK: Places of objects

  private struct Place {
    let zone: TestZone?
    var isTombstone = false
  }

  private func place(of name: String) -> Place {
    if let zone = zones.first(where: { $0[name] != nil }) { return Place(zone: zone) }
    if let zone = assigned[name] { return Place(zone: zone) }
    let buried = zones.first { zone in zone.rows[name].map { Tombstone.movedTo($0.stored.record) == nil } ?? false }
    return Place(zone: buried, isTombstone: buried != nil)
  }

  package func zone(of name: String) -> TestZone? { zones.first { $0[name] != nil } }

  private func id(_ zone: TestZone) -> Zone.ID { Zone.ID(zoneName: zone.name, ownerName: "_user") }

  private func home(of name: String) -> ObjectHome {
    let place = place(of: name)
    guard let zone = place.zone else { return zones[0].pointers(to: name).isEmpty ? .nowhere : .zone(id(zones[0])) }
    return place.isTombstone ? .tombstone(id(zone)) : .zone(id(zone))
  }

  /// Assigns zones to the objects of a save.
  /// - Returns: false for a save that connects two zones.
  package func accepts(_ transaction: HistoryTransaction, after pending: [HistoryTransaction]) throws -> Bool {
    if zones.count == 1 { return true }
    var assignment = ZoneAssignment(model: model, defaultZone: id(zones[0])) { self.home(of: $0) }
    do {
      for earlier in pending + [transaction] { try assignment.add(earlier, place: "") }
      for (name, zone) in try assignment.assignments() { assigned[name] = self.zone(named: zone.zoneName) }
      return true
    } catch is ZoneAssignment.Refusal {
      return false
    }
  }

  // MARK: Exporting

  package func export(_ transactions: [HistoryTransaction], from store: String) throws -> ExportPlan {
    let inserted = Set(transactions.flatMap(\.changes).filter { $0.changeType == .insert }.map(\.objectID))
    var places: [String: Place] = [:]
    func known(_ name: String) -> Place {
      let place = places[name] ?? place(of: name)
      places[name] = place
      return place
    }
    for change in transactions.flatMap(\.changes) { _ = known(change.objectID) }
    var plans: [ExportPlan] = []
    for zone in zones {
      var exporter = zone.exporter(
        of: store,
        elsewhere: zones.count == 1
          ? nil
          : { name in
            guard let other = known(name).zone else {
              return zone === self.zones[0]
                ? nil : inserted.contains(name) ? .alive(zoneName: self.zones[0].name) : .unknown
            }
            if other === zone { return nil }
            return known(name).isTombstone ? .tombstone : .alive(zoneName: other.name)
          })
      for transaction in transactions { try exporter.apply(transaction) }
      plans.append(zone.write(exporter.plan(), from: store))
    }
    for change in transactions.flatMap(\.changes) { assigned[change.objectID] = nil }
    return ExportPlan(writes: plans.flatMap(\.writes), leftOut: plans.flatMap(\.leftOut))
  }

  // MARK: Moving

  /// Moves objects with everything connected to them.
  /// - Parameter leavesFirst: true: the old zones' feeds have the move before the new zone's.
  /// - Returns: the names of the moved records.
  @discardableResult
  package func move(_ names: [String], to target: TestZone, leavesFirst: Bool = false, at time: Int64 = 1000) throws
    -> [String]
  {
    let start = Int64(sequence + 1)
    var moved: [String] = []
    for zone in zones where zone !== target {
      let roots = names.filter { zone[$0] != nil }
      if roots.isEmpty { continue }
      for item in try plan(roots, in: zone).items {
        guard var record = zone[item.recordName] else { continue }
        let old = record
        MoveReceipts.add(
          MoveReceipts.Move(zoneName: zone.name, movedAt: time, sequence: start), to: &record, in: Self.incarnation)
        if leavesFirst { zone.put(old, isDeleted: true, movedTo: target.name) }
        target.put(record)
        if !leavesFirst { zone.put(old, isDeleted: true, movedTo: target.name) }
        moved.append(item.recordName)
      }
    }
    return moved
  }

  private func plan(_ roots: [String], in zone: TestZone) throws -> MovePlan {
    let source = MoveSource {
      zone.record(named: $0)
    } outgoing: { record in
      zone.fields.references(of: record).map { RecordPointerTarget(field: $0.field, target: $0.target) }
    } incoming: {
      zone.pointers(to: $0)
    } duplicates: { _ in
      (nil, [])
    } isShared: { _ in
      true
    }
    var planner = MovePlanner(source, boundaries: ShareBoundaries(model, LinkResolver(model)))
    for root in roots { try planner.add(root) }
    return try planner.finish()
  }

  // MARK: Importing

  /// A row of the feed for a store.
  struct Row {
    let zone: TestZone
    let stored: SourceRecord
    let sequence: Int
  }

  /// The rows of all zones in the order of their changes.
  func feed(after token: Int, seen: Int, for store: String) -> [Row] {
    zones.flatMap { zone in
      zone.feed(after: token, seen: seen, for: store).map {
        Row(zone: zone, stored: $0, sequence: zone.rows[$0.record.recordName]?.sequence ?? 0)
      }
    }.sorted { $0.sequence < $1.sequence }
  }

  /// True when the zone to which a tombstone's record moved tells of it.
  func isTold(of tombstone: Record) -> Bool {
    Tombstone.movedTo(tombstone).flatMap { zone(named: $0) }?.rows[tombstone.recordName] != nil
  }
}
