// One attribute that an edit sets, against the record's value: the attribute's policy decides (C1, C2).

import History
import JSON
import ObjectModel
import Records

/// A record's content of one attribute: its field, and the asset in its place; else those of a former name (R18).
struct FieldContent: Hashable {
  var field: Field?
  var asset: Field?

  init(of attribute: AttributeDescription, in record: Record?) {
    field = record?.fields[attribute.fieldName]
    asset = attribute.assetFieldName.flatMap { record?.fields[$0] }
    if attribute.formers.isEmpty || value != nil { return }
    for former in attribute.formers {
      field = record?.fields[former.fieldName].flatMap { attribute.converted($0.value) }.map {
        Field($0, isEncrypted: attribute.isEncrypted)
      }
      if attribute.assetFieldName != nil { asset = former.assetFieldName.flatMap { record?.fields[$0] } }
      if value != nil { return }
    }
  }

  var value: FieldValue? { field?.value ?? asset?.value }

  func put(into record: inout Record, _ attribute: AttributeDescription) {
    record.fields[attribute.fieldName] = field
    if let name = attribute.assetFieldName { record.fields[name] = asset }
  }
}

extension Record {
  /// The version of an attribute's content. Content under a former name has its own there, unless a later edit of the
  /// attribute left it as it was.
  func version(of attribute: AttributeDescription) -> FieldVersion? {
    let own = version(of: attribute.fieldName)
    func has(_ named: AttributeDescription) -> Bool {
      fields[named.fieldName] != nil || named.assetFieldName.map { fields[$0] != nil } ?? false
    }
    guard !attribute.formers.isEmpty, !has(attribute), let former = attribute.formers.first(where: has),
      let known = version(of: former.fieldName)
    else { return own }
    guard let last = own?.edits.first, let first = known.edits.first else { return known }
    return last.precedes(first) ? known : own
  }
}

/// One edit of an attribute against the present value.
struct FieldContest {
  /// The value that the device saw before its edit, by its own edits or an import.
  enum View {
    case unknown
    case value(FieldValue?)
  }

  let policy: ConflictPolicy
  /// For a counter: the range of its type, and the number that an empty field counts as.
  let range: ClosedRange<Int64>
  let defaultNumber: Int64
  let current: FieldContent
  let sent: FieldContent
  /// The version of the present value; nil if there is none.
  let version: FieldVersion?
  /// No other writer changed the record since the device's base: the device has seen the present value.
  let isSeen: Bool
  /// The content at the device's base, with its version; nil if it is not known.
  let ancestor: (content: FieldContent, version: FieldVersion?)?
  /// Finds the stamp of the change that set the present value after the base; nil if none did. It may look at every
  /// state since, and a contest that needs no setter does not ask.
  let findSetter: () -> Stamp?
  let device: String
  /// The edit's time by its device, milliseconds since 1970.
  let time: Int64
}

extension FieldContest {
  var setter: Stamp? { findSetter() }

  /// The value that the attribute gets.
  enum Outcome: Hashable {
    case sent, current
    /// A value made from both; nil clears the field.
    case merged(FieldValue?)
  }

  enum Loss: Hashable {
    case ofSent, ofCurrent, undecided
  }

  struct Verdict {
    let outcome: Outcome
    /// The field's version after the edit; nil leaves it as it is.
    var version: FieldVersion?
    var loss: Loss?
  }

  /// - Parameter text: reads text, also from an asset; nil if it cannot be read.
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

  /// Another device set the present value, and this device did not know it.
  private var isContested: Bool {
    if isSeen { return false }
    if let winner = version?.edits.first {
      if winner.device == device { return false }
      return ancestor.map { $0.version?.edits.first != winner || $0.content != current } ?? true
    }
    guard let ancestor else {
      // The base is not known: the edit counts as contested only if the model declares a policy.
      return policy != .arrival && isChanged
    }
    return ancestor.content != current && setter.map { $0.deviceID != device } ?? true
  }

  /// The latest time of the field's edits that the device had seen, its own included.
  private var seenTime: Int64? {
    if isSeen { return version?.edits.map(\.time).max() }
    return [ancestor?.version?.edits.map(\.time).max(), version?.edit(of: device)?.time].compactMap { $0 }.max()
  }

  /// This edit, in the form that the field's version keeps.
  private func own(sent value: FieldValue? = nil) -> FieldVersion.Edit {
    FieldVersion.Edit(device: device, time: EditTime.time(time, after: seenTime), sent: value)
  }

  /// The number of devices that a version remembers; the one silent longest is dropped first.
  private static let deviceLimit = 64

  /// - Parameter keepsSent: true notes the present value in the edit that set it, before this edit replaces it.
  private func version(with own: FieldVersion.Edit, wins: Bool, keepsSent: Bool = false) -> FieldVersion {
    var edits = version?.edits ?? []
    if keepsSent, wins, !edits.isEmpty, edits[0].sent == nil { edits[0].sent = current.value ?? nothing }
    edits.removeAll { $0.device == own.device }
    edits.insert(own, at: wins || edits.isEmpty ? 0 : 1)
    if edits.count > Self.deviceLimit, let oldest = edits.indices.dropFirst().min(by: { edits[$0].precedes(edits[$1]) })
    {
      edits.remove(at: oldest)
    }
    return FieldVersion(field: version?.field ?? "", edits: edits, elements: version?.elements ?? [])
  }

  /// The value that an empty field counts as.
  private var nothing: FieldValue { policy == .counter ? .int64(defaultNumber) : .string("[]") }

  // MARK: hlc, manual

  private func latest() -> Verdict {
    let own = own()
    guard isContested else { return Verdict(outcome: .sent, version: version(with: own, wins: true)) }
    func unversioned() -> FieldVersion.Edit {
      let setter = setter
      return FieldVersion.Edit(device: setter?.deviceID ?? "", time: setter?.timestamp ?? .min)
    }
    let winner = version?.edits.first ?? unversioned()
    let wins = winner.precedes(own)
    return Verdict(
      outcome: wins ? .sent : .current, version: version(with: own, wins: wins),
      loss: isChanged ? wins ? .ofCurrent : .ofSent : nil)
  }

  private func undecided() -> Verdict {
    let wins = !isContested || !isChanged
    return Verdict(
      outcome: wins ? .sent : .current, version: version(with: own(), wins: wins), loss: wins ? nil : .undecided)
  }

  // MARK: max, min

  private func extreme() -> Verdict {
    guard let present = current.value, isChanged else { return Verdict(outcome: .sent) }
    guard let sent = sent.value else { return Verdict(outcome: .current) }
    let isLarger = present.precedes(sent)
    return Verdict(outcome: isLarger == (policy == .max) ? .sent : .current)
  }

  // MARK: counter

  /// The device's view: its own last edit if that came after its last import, or else the imported value.
  private var view: View {
    if isSeen { return .value(current.value) }
    if let mine = version?.edit(of: device), ancestor?.version?.edit(of: device)?.time != mine.time {
      return .value(mine.sent ?? current.value)
    }
    return ancestor.map { .value($0.content.value) } ?? .unknown
  }

  private func counted() -> Verdict {
    guard case .value(let before) = view else {
      return Verdict(
        outcome: .sent, version: version(with: own(), wins: true, keepsSent: true), loss: isChanged ? .ofCurrent : nil)
    }
    let said = number(sent.value)
    let sum = Int128(number(current.value)) + Int128(said) - Int128(number(before))
    // A counter stays within the range of its type.
    let result = Int64(min(max(sum, Int128(range.lowerBound)), Int128(range.upperBound)))
    if result == said { return Verdict(outcome: .sent, version: version(with: own(), wins: true, keepsSent: true)) }
    return Verdict(
      outcome: .merged(.int64(result)), version: version(with: own(sent: .int64(said)), wins: true, keepsSent: true))
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
    guard let wanted = set(sent.value), let present = set(current.value) else {
      return Verdict(outcome: .sent, loss: isContested && isChanged ? .ofCurrent : nil)
    }
    let before: Set<String>
    if case .value(let value) = view { before = set(value) ?? [] } else { before = present.intersection(wanted) }
    var elements = Dictionary((version?.elements ?? []).map { ($0.text, $0) }, uniquingKeysWith: { first, _ in first })
    var result = present
    let own = own()
    for element in before.symmetricDifference(wanted) {
      if let known = elements[element], !known.edit.precedes(own) { continue }
      let isPresent = wanted.contains(element)
      elements[element] = FieldVersion.Element(
        text: element, edit: FieldVersion.Edit(device: own.device, time: own.time), isPresent: isPresent)
      if isPresent { result.insert(element) } else { result.remove(element) }
    }
    let said = FieldValue.string(SetText.text(of: wanted))
    var version = version(
      with: result == wanted ? own : FieldVersion.Edit(device: own.device, time: own.time, sent: said), wins: true,
      keepsSent: true)
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
  /// The limit on remembered elements, present and removed ones together.
  private static let elementLimit = 2000
  private static let depth = 16

  /// Each element as JSON text; nil if the text is not an array.
  static func elements(_ text: String) -> Set<String>? {
    // Dropped because nil says it: callers do not merge text that is no set.
    guard let json = try? JSONValue(parsing: Array(text.utf8), maximumDepth: depth), json.kind == .array else {
      return nil
    }
    return Set(
      json.elements.map { element in
        var writer = JSONWriter()
        writer.value(element)
        return String(decoding: writer.bytes, as: UTF8.self)
      })
  }

  /// The array's text; equal sets have equal text.
  static func text(of elements: Set<String>) -> String { "[" + elements.sorted().joined(separator: ",") + "]" }

  static func bounded(_ elements: some Collection<FieldVersion.Element>) -> [FieldVersion.Element] {
    var kept = Array(elements)
    if kept.count > elementLimit {
      // The oldest edits go first: a present element needs no entry while no device disputes it.
      kept = Array(kept.sorted { $1.edit.precedes($0.edit) }.prefix(elementLimit))
    }
    return kept.sorted { $0.text < $1.text }
  }
}
