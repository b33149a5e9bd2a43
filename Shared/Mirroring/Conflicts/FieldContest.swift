// One attribute that an edit sets, against the record's value: the attribute's policy decides (C1, C2).

import History
import JSON
import ObjectModel
import Records

/// What a record has of an attribute: its field, or the asset in its place.
struct FieldContent: Hashable {
  var field: Field?
  var asset: Field?

  init(of attribute: AttributeDescription, in record: Record?) {
    field = record?.fields[attribute.fieldName]
    asset = attribute.assetFieldName.flatMap { record?.fields[$0] }
  }

  var value: FieldValue? { field?.value ?? asset?.value }

  func put(into record: inout Record, _ attribute: AttributeDescription) {
    record.fields[attribute.fieldName] = field
    if let name = attribute.assetFieldName { record.fields[name] = asset }
  }
}

/// An edit against what is there.
struct FieldContest {
  /// What the device had before it as its own doing or by importing.
  enum View {
    case unknown
    case value(FieldValue?)
  }

  let policy: ConflictPolicy
  /// Of a counter: what it can hold, and what stands for no value.
  let range: ClosedRange<Int64>
  let defaultNumber: Int64
  let current: FieldContent
  let sent: FieldContent
  /// What is known of the present value.
  let version: FieldVersion?
  /// Nobody else has changed the record since the device's base: it had seen everything.
  let isSeen: Bool
  /// What was there at the base, with what is known of it; nil: it is not known what was there.
  let ancestor: (content: FieldContent, version: FieldVersion?)?
  /// Who set the present value, where that was after the base.
  let setter: Stamp?
  let device: String
  /// The edit's time by its device.
  let time: Int64
}

extension FieldContest {
  /// What becomes of the attribute.
  enum Outcome: Hashable {
    case sent, current
    /// Neither, or both; nil clears the field.
    case merged(FieldValue?)
  }

  enum Loss: Hashable {
    case ofSent, ofCurrent, undecided
  }

  struct Verdict {
    let outcome: Outcome
    /// What is known of the field from now on; nil: as before.
    var version: FieldVersion?
    var loss: Loss?
  }

  /// - Parameter text: reads text that lies in an asset; nil for what can't be read.
  func verdict(text: (FieldValue) -> String?) -> Verdict {
    switch policy {
    case .arrival: return Verdict(outcome: .sent, loss: isContested && isChanged ? .ofCurrent : nil)
    case .hlc: return latest()
    case .manual: return undecided()
    case .max, .min: return extreme()
    case .counter: return counted()
    case .setUnion: return united(text)
    }
  }

  private var isChanged: Bool { sent != current }

  /// Somebody else set the present value, and the device did not know it.
  private var isContested: Bool {
    if isSeen { return false }
    if let winner = version?.edits.first {
      if winner.device == device { return false }
      return ancestor.map { $0.version?.edits.first != winner || $0.content != current } ?? true
    }
    guard let ancestor else {
      // Nothing is known of it: only where somebody declared that it matters is it taken for one.
      return policy != .arrival && isChanged
    }
    return ancestor.content != current && setter.map { $0.deviceID != device } ?? true
  }

  /// The latest time that the device had seen of the field, its own edits included.
  private var seenTime: Int64? {
    if isSeen { return version?.edits.map(\.time).max() }
    return [ancestor?.version?.edits.map(\.time).max(), version?.edit(of: device)?.time].compactMap { $0 }.max()
  }

  /// This edit, as it is remembered.
  private func own(sent value: FieldValue? = nil) -> FieldVersion.Edit {
    FieldVersion.Edit(device: device, time: EditTime.time(time, after: seenTime), sent: value)
  }

  /// More devices than this are not remembered; the ones that were silent longest go.
  private static let deviceLimit = 64

  /// - Parameter keepsSent: of a device whose value is no longer the field's, what it sent stays known.
  private func version(with own: FieldVersion.Edit, wins: Bool, keepsSent: Bool = false) -> FieldVersion {
    var edits = version?.edits ?? []
    if keepsSent, wins, !edits.isEmpty, edits[0].sent == nil { edits[0].sent = current.value ?? nothing }
    edits.removeAll { $0.device == own.device }
    edits.insert(own, at: wins || edits.isEmpty ? 0 : 1)
    if edits.count > Self.deviceLimit, let oldest = edits.indices.dropFirst().min(by: { edits[$0].precedes(edits[$1]) }) { edits.remove(at: oldest) }
    return FieldVersion(field: version?.field ?? "", edits: edits, elements: version?.elements ?? [])
  }

  /// What stands for no value where one has to.
  private var nothing: FieldValue { policy == .counter ? .int64(defaultNumber) : .string("[]") }

  // MARK: hlc, manual

  private func latest() -> Verdict {
    let own = own()
    guard isContested else { return Verdict(outcome: .sent, version: version(with: own, wins: true)) }
    let winner = version?.edits.first ?? FieldVersion.Edit(device: setter?.deviceID ?? "", time: setter?.timestamp ?? .min)
    let wins = winner.precedes(own)
    return Verdict(
      outcome: wins ? .sent : .current, version: version(with: own, wins: wins), loss: isChanged ? wins ? .ofCurrent : .ofSent : nil)
  }

  private func undecided() -> Verdict {
    let wins = !isContested || !isChanged
    return Verdict(outcome: wins ? .sent : .current, version: version(with: own(), wins: wins), loss: wins ? nil : .undecided)
  }

  // MARK: max, min

  private func extreme() -> Verdict {
    guard let present = current.value, isChanged else { return Verdict(outcome: .sent) }
    guard let sent = sent.value else { return Verdict(outcome: .current) }
    let isLarger = present.precedes(sent)
    return Verdict(outcome: isLarger == (policy == .max) ? .sent : .current)
  }

  // MARK: counter

  /// What the device had: its own last word if it has not imported since, else what it had imported.
  private var view: View {
    if isSeen { return .value(current.value) }
    if let mine = version?.edit(of: device), ancestor?.version?.edit(of: device)?.time != mine.time {
      return .value(mine.sent ?? current.value)
    }
    return ancestor.map { .value($0.content.value) } ?? .unknown
  }

  private func counted() -> Verdict {
    guard case .value(let before) = view else {
      return Verdict(outcome: .sent, version: version(with: own(), wins: true, keepsSent: true), loss: isChanged ? .ofCurrent : nil)
    }
    let said = number(sent.value)
    let sum = Int128(number(current.value)) + Int128(said) - Int128(number(before))
    // A counter that is full stays full.
    let result = Int64(min(max(sum, Int128(range.lowerBound)), Int128(range.upperBound)))
    if result == said { return Verdict(outcome: .sent, version: version(with: own(), wins: true, keepsSent: true)) }
    return Verdict(outcome: .merged(.int64(result)), version: version(with: own(sent: .int64(said)), wins: true, keepsSent: true))
  }

  private func number(_ value: FieldValue?) -> Int64 {
    if case .int64(let number)? = value { number } else { defaultNumber }
  }

  // MARK: set-union

  private func united(_ text: (FieldValue) -> String?) -> Verdict {
    func set(_ value: FieldValue?) -> Set<String>? {
      guard let value else { return [] }
      return text(value).flatMap(SetText.elements)
    }
    guard let wanted = set(sent.value), let present = set(current.value) else { return Verdict(outcome: .sent, loss: isContested && isChanged ? .ofCurrent : nil) }
    let before: Set<String>
    if case .value(let value) = view { before = set(value) ?? [] } else { before = present.intersection(wanted) }
    var elements = Dictionary((version?.elements ?? []).map { ($0.text, $0) }, uniquingKeysWith: { first, _ in first })
    var result = present
    let own = own()
    for element in before.symmetricDifference(wanted) {
      if let known = elements[element], !known.edit.precedes(own) { continue }
      let isPresent = wanted.contains(element)
      elements[element] = FieldVersion.Element(text: element, edit: FieldVersion.Edit(device: own.device, time: own.time), isPresent: isPresent)
      if isPresent { result.insert(element) } else { result.remove(element) }
    }
    let said = FieldValue.string(SetText.text(of: wanted))
    var version = version(with: result == wanted ? own : FieldVersion.Edit(device: own.device, time: own.time, sent: said), wins: true, keepsSent: true)
    version.elements = SetText.bounded(elements.values)
    if result.isEmpty, sent.value == nil { return Verdict(outcome: .sent, version: version) }
    return Verdict(outcome: .merged(.string(SetText.text(of: result))), version: version)
  }
}

extension FieldValue {
  fileprivate func precedes(_ other: FieldValue) -> Bool {
    switch (self, other) {
    case (.int64(let a), .int64(let b)), (.timestamp(let a), .timestamp(let b)): a < b
    case (.double(let a), .double(let b)): a < b
    default: false
    }
  }
}

/// Sets as text: a JSON array.
enum SetText {
  /// Elements that went are remembered up to this number, together with those that are there.
  private static let elementLimit = 2000
  private static let depth = 16

  /// The elements as JSON, each by itself; nil for what is no array.
  static func elements(_ text: String) -> Set<String>? {
    // Dropped because text that is no set can't be merged, and is told apart by the caller.
    guard let json = try? JSONValue(parsing: Array(text.utf8), maximumDepth: depth), json.kind == .array else { return nil }
    return Set(
      json.elements.map { element in
        var writer = JSONWriter()
        writer.value(element)
        return String(decoding: writer.bytes, as: UTF8.self)
      })
  }

  /// The same text for the same set.
  static func text(of elements: Set<String>) -> String { "[" + elements.sorted().joined(separator: ",") + "]" }

  static func bounded(_ elements: some Collection<FieldVersion.Element>) -> [FieldVersion.Element] {
    var kept = Array(elements)
    if kept.count > elementLimit {
      // What is there needs no memory of its own as long as nobody disputes it; the oldest go first.
      kept = Array(kept.sorted { $1.edit.precedes($0.edit) }.prefix(elementLimit))
    }
    return kept.sorted { $0.text < $1.text }
  }
}
