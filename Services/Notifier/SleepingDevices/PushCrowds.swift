// Finds the line, or the user, with most pushes that wait or rest. They give one up when there is no room.

/// Lines or users by the number of their pushes that wait or rest. A change costs the same however many there are.
struct PushCrowds<Name: Hashable & Sendable>: Sendable {
  private struct Entry: Sendable {
    let count: Int
    /// In the list of names with this count.
    let place: Int
  }

  private var entries: [Name: Entry] = [:]
  /// The names with as many such pushes as the index says.
  private var names: [[Name]] = []
  /// The number of the fullest one's.
  private(set) var most = 0

  /// One with most of them; nil when there is none.
  var fullest: Name? { most > 0 ? names[most].last : nil }

  func count(of name: Name) -> Int { entries[name]?.count ?? 0 }

  mutating func set(_ count: Int, of name: Name) {
    let earlier = entries[name]
    guard count != earlier?.count ?? 0 else { return }
    if let earlier { remove(name, earlier) }
    while names.count <= count { names.append([]) }
    if count > 0 {
      entries[name] = Entry(count: count, place: names[count].count)
      names[count].append(name)
    }
    most = max(most, count)
    while most > 0, names[most].isEmpty { most -= 1 }
  }

  private mutating func remove(_ name: Name, _ entry: Entry) {
    entries[name] = nil
    guard let last = names[entry.count].popLast(), last != name else { return }
    names[entry.count][entry.place] = last
    entries[last] = entry
  }
}
