// Deadlines of calls: a hashed wheel of 8 ms slots, because most calls end long before their deadlines and a timer for
// each costs too much.

/// An entry of a wheel; the wheel writes `place`.
protocol TimerEntry: AnyObject {
  /// Milliseconds of the exchange's clock.
  var deadline: Int64 { get }
  var place: TimerPlace? { get set }
}

struct TimerPlace {
  var slot: Int
  var index: Int
}

/// Entries by deadline. Insertion and removal take constant time; an entry expires up to one slot late, never early.
struct TimerWheel<Entry: TimerEntry> {
  private static var slotSpan: Int64 { 8 }
  private var slots: [[Entry]] = Array(repeating: [], count: 512)
  private(set) var count = 0
  /// The number (not wrapped) of the last slot that was checked.
  private var cursor: Int64
  /// No entry is due before this time; it may be too early.
  private var bound = Int64.max

  init(now: Int64) { cursor = now / Self.slotSpan }

  /// The time for the next call of `expire`; nil if there are no entries.
  var nextCheck: Int64? { count == 0 ? nil : bound }

  mutating func insert(_ entry: Entry) {
    let number = max(entry.deadline / Self.slotSpan + 1, cursor + 1)
    let slot = Int(number % Int64(slots.count))
    entry.place = TimerPlace(slot: slot, index: slots[slot].count)
    slots[slot].append(entry)
    bound = count == 0 ? number * Self.slotSpan : min(bound, number * Self.slotSpan)
    count += 1
  }

  mutating func remove(_ entry: Entry) {
    guard let place = entry.place else { return }
    entry.place = nil
    let last = slots[place.slot].removeLast()
    if last !== entry {
      slots[place.slot][place.index] = last
      last.place = place
    }
    count -= 1
  }

  /// Removes and returns the entries due at `now`; those of one slot in no particular order.
  mutating func expire(now: Int64) -> [Entry] {
    let target = now / Self.slotSpan
    guard target > cursor else { return [] }
    guard count > 0, now >= bound else {
      cursor = target
      return []
    }
    var due: [Entry] = []
    let first = max(cursor + 1, target - Int64(slots.count) + 1)
    for number in first...target {
      for entry in slots[Int(number % Int64(slots.count))] where entry.deadline < now { due.append(entry) }
    }
    cursor = target
    for entry in due { remove(entry) }
    bound = nextOccupied()
    return due
  }

  /// The start of the next slot with an entry, for whichever turn of the wheel.
  private func nextOccupied() -> Int64 {
    guard count > 0 else { return .max }
    for number in cursor + 1...cursor + Int64(slots.count) where !slots[Int(number % Int64(slots.count))].isEmpty {
      return number * Self.slotSpan
    }
    return .max
  }
}
