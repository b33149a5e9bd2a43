// What somebody saw on a device, so that a value that goes back is noticed (K18).

import MirrorWire

/// Texts by object and attribute, in the order in which they were seen. No edit writes a text that another one wrote.
struct SeenValues: Sendable {
  /// A text that was seen again after another one.
  struct Setback: Sendable, CustomStringConvertible {
    let object: String
    let attribute: String
    let text: String
    let former: String

    var description: String { "the \(attribute) of \(object) went back from \(former) to \(text)" }
  }

  private var texts: [Property: [String]] = [:]
  /// What was shown last: most of it is shown again.
  private var lines: Set<String> = []
  /// The texts that the person wrote on this device.
  private var own: Set<String> = []
  private(set) var setbacks: [Setback] = []

  mutating func noteOwn(_ text: String) { own.insert(AttributeValue.string(text).shown) }

  /// Notes what is shown now. The device that first sends an object of an ended zone again may not have heard of its
  /// latest texts (P8), so an end may take these back. It takes back none that was written on a device that had heard
  /// of it, unless its own device comes back to a text from before: the server held that edit back, because it lacked
  /// the object, and others had written the object meanwhile.
  /// - Parameter lines: what a replica shows, a line for each object: `Post p1: title=…`.
  mutating func note(_ lines: [String], _ ends: ZoneEnds) {
    let former = self.lines
    self.lines = Set(lines)
    for line in lines where !former.contains(line) {
      let words = line.split(separator: " ")
      guard words.count > 2, words[1].hasSuffix(":") else { continue }
      for word in words.dropFirst(2) {
        let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
        // Scores are few, so that several edits write the same one.
        if parts.count == 2, parts[0] != "score" { note(String(words[1].dropLast()), parts[0], parts[1], ends) }
      }
    }
  }

  private mutating func note(_ object: String, _ attribute: String, _ text: String, _ ends: ZoneEnds) {
    let property = Property(object: object, name: attribute)
    let seen = texts[property] ?? []
    guard seen.last != text else { return }
    if let former = seen.last, seen.contains(text) {
      if ends.isCurrent(former), ends.isCurrent(text) || !own.contains(text) {
        setbacks.append(Setback(object: object, attribute: attribute, text: text, former: former))
      }
    }
    texts[property, default: []].append(text)
  }
}
