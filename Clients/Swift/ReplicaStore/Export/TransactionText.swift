// Makes the bytes of a save once: one transaction, or parts of one that is too large for a request.

import FoundationEssentials
import MirrorWire

/// What all parts of a transaction say.
struct TransactionHeader {
  let transactionID: String
  let timestamp: Int64
  let author: String?
  let contextName: String?
  let bundleID: String?
  let processID: String?
  let importToken: String?
}

/// One object's change as JSON.
struct ChangeText {
  let bytes: [UInt8]
  let isDeletion: Bool
}

enum TransactionText {
  /// What one row of the outbox has.
  struct Part {
    let body: [UInt8]
    let savedCount: Int
    let deletedCount: Int
  }

  /// The limits of a part (K11).
  static let changeLimit = 1000
  static let byteLimit = 2 * 1024 * 1024

  /// - Returns: parts of the changes, in order. One part has the transaction's ID; of several, part `n` has `ID.n`.
  static func parts(_ header: TransactionHeader, _ changes: [ChangeText]) -> [Part] {
    var parts: [ArraySlice<ChangeText>] = []
    var start = 0
    var byteCount = 0
    for place in changes.indices {
      if place > start, place - start == changeLimit || byteCount + changes[place].bytes.count > byteLimit {
        parts.append(changes[start..<place])
        (start, byteCount) = (place, 0)
      }
      byteCount += changes[place].bytes.count
    }
    if start < changes.count { parts.append(changes[start...]) }
    return parts.enumerated().map { place, changes in
      let deletedCount = changes.count { $0.isDeletion }
      return Part(
        body: body(header, parts.count == 1 ? nil : place + 1, changes), savedCount: changes.count - deletedCount,
        deletedCount: deletedCount)
    }
  }

  private static func body(_ header: TransactionHeader, _ part: Int?, _ changes: ArraySlice<ChangeText>) -> [UInt8] {
    var text = JSONText()
    text.open("{")
    text.member("transactionID", part.map { "\(header.transactionID).\($0)" } ?? header.transactionID)
    text.member("timestamp", WireDate.text(milliseconds: header.timestamp))
    text.member("author", header.author)
    text.member("contextName", header.contextName)
    text.member("bundleID", header.bundleID)
    text.member("processID", header.processID)
    text.member("importToken", header.importToken)
    text.key("changes")
    text.open("[")
    for change in changes {
      text.separate()
      text.raw(change.bytes)
    }
    text.close("]")
    text.close("}")
    return text.bytes
  }

  /// One object's change.
  /// - Parameter pairs: those that its history tells.
  /// - Returns: nil if nothing of it is mirrored.
  static func change(_ edit: Edit, _ pairs: [PairEdit]) -> ChangeText? {
    let (kind, places) = (edit.toldKind, edit.toldPlaces.filter { edit.entity.columns[$0].isMirrored })
    if kind == .update, places.isEmpty, pairs.isEmpty { return nil }
    var text = JSONText()
    text.open("{")
    text.member("changeType", kind == .insert ? "insert" : kind == .update ? "update" : "delete")
    text.member("entity", edit.entity.name)
    text.member("objectID", edit.id.recordName)
    if kind == .delete {
      tombstone(edit, &text)
    } else {
      attributes(edit, places.filter { edit.entity.columns[$0].toOne == nil }, &text)
      relationships(edit, places.filter { edit.entity.columns[$0].toOne != nil }, pairs, &text)
    }
    text.close("}")
    return ChangeText(bytes: text.bytes, isDeletion: kind == .delete)
  }

  private static func tombstone(_ edit: Edit, _ text: inout JSONText) {
    let kept = edit.entity.columns.filter { edit.tombstone[$0.name] != nil && $0.isMirrored && !$0.isExternal }
    guard !kept.isEmpty else { return }
    text.key("tombstone")
    text.open("{")
    for column in kept {
      guard let attribute = column.attribute, let value = edit.tombstone[column.name] else { continue }
      text.key(column.name)
      text.value(value, of: attribute)
    }
    text.close("}")
  }

  private static func attributes(_ edit: Edit, _ places: [Int], _ text: inout JSONText) {
    guard !places.isEmpty else { return }
    text.key("attributes")
    text.open("{")
    for place in places {
      guard let attribute = edit.entity.columns[place].attribute else { continue }
      text.key(attribute.name)
      text.value(edit.told(place), of: attribute)
    }
    text.close("}")
  }

  private static func relationships(_ edit: Edit, _ places: [Int], _ pairs: [PairEdit], _ text: inout JSONText) {
    guard !places.isEmpty || !pairs.isEmpty else { return }
    text.key("relationships")
    text.open("{")
    for place in places {
      text.key(edit.entity.columns[place].name)
      if case .object(let name) = edit.told(place) { text.string(name) } else { text.raw("null") }
    }
    for name in Set(pairs.map(\.relationship.name)).sorted() {
      text.key(name)
      text.open("{")
      for (verb, isLinked) in [("add", true), ("remove", false)] {
        let targets = pairs.filter { $0.relationship.name == name && $0.isLinked == isLinked }
        guard !targets.isEmpty else { continue }
        text.key(verb)
        text.open("[")
        for target in targets {
          text.separate()
          text.string(target.target.recordName)
        }
        text.close("]")
      }
      text.close("}")
    }
    text.close("}")
  }
}
