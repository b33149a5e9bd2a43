// Finds the place where most pushes wait or rest, which gives one up when there is no room.

/// Lines by the number of their pushes that wait or rest. A change costs the same however many lines there are.
struct PushCrowds: Sendable {
  private struct Entry: Sendable {
    let count: Int
    /// In the list of lines with this count.
    let place: Int
  }

  private var entries: [PushLines.Name: Entry] = [:]
  /// The names of the lines with as many such pushes as the index says.
  private var names: [[PushLines.Name]] = []
  private var most = 0

  /// A line with most of them; nil when there is none.
  var fullest: PushLines.Name? { most > 0 ? names[most].last : nil }

  mutating func set(_ count: Int, of name: PushLines.Name) {
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

  private mutating func remove(_ name: PushLines.Name, _ entry: Entry) {
    entries[name] = nil
    guard let last = names[entry.count].popLast(), last != name else { return }
    names[entry.count][entry.place] = last
    entries[last] = entry
  }
}
