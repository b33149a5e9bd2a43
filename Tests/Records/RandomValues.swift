// Seeded random records: every type, sizes from 0 up, text beyond ASCII.

import Records

struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &self) }
  mutating func flip() -> Bool { Bool.random(using: &self) }

  mutating func text(upTo count: Int = 40) -> String {
    let scalars: [Unicode.Scalar] = ["a", "b", "c", "Z", "0", " ", "_", "é", "€", "😀", "\u{0}"]
    var text = ""
    for _ in 0..<below(count) { text.unicodeScalars.append(scalars[below(scalars.count)]) }
    return text
  }

  mutating func number() -> Int64 { flip() ? Int64(below(200) - 100) : Int64.random(in: .min ... .max, using: &self) }
  mutating func double() -> Double { Double.random(in: -1e9...1e9, using: &self) }
  mutating func bytes(upTo count: Int = 300) -> [UInt8] {
    (0..<below(count)).map { _ in UInt8.random(in: 0...255, using: &self) }
  }
}

extension FieldValue {
  static func random(_ type: FieldType, _ generator: inout SplitMix) -> FieldValue {
    if let element = type.element {
      return .list(element: element, (0..<generator.below(5)).map { _ in random(element, &generator) })
    }
    switch type {
    case .int64: return .int64(generator.number())
    case .double: return .double(generator.double())
    case .string: return .string(generator.text(upTo: 400))
    case .bytes: return .bytes(generator.bytes())
    case .timestamp: return .timestamp(generator.number())
    case .reference:
      let zoneID = generator.flip() ? Zone.ID(zoneName: generator.text(), ownerName: generator.text()) : nil
      return .reference(
        Reference(recordName: generator.text(), action: Reference.Action.allCases[generator.below(3)], zoneID: zoneID))
    case .location:
      var location = Location(latitude: generator.double(), longitude: generator.double())
      if generator.flip() { location.horizontalAccuracy = generator.double() }
      if generator.flip() { location.verticalAccuracy = generator.double() }
      if generator.flip() { location.altitude = generator.double() }
      if generator.flip() { location.speed = generator.double() }
      if generator.flip() { location.course = generator.double() }
      if generator.flip() { location.timestamp = generator.number() }
      return .location(location)
    default: return .asset(Asset(hash: generator.bytes(upTo: 33), byteCount: generator.number()))
    }
  }
}

extension Record {
  static func random(_ generator: inout SplitMix) -> Record {
    func stamp() -> Stamp {
      let users = ["_alice", "_bob", generator.text()]
      let devices = ["", "phone", generator.text()]
      return Stamp(
        timestamp: generator.number(), userRecordName: users[generator.below(3)], deviceID: devices[generator.below(3)])
    }
    var fields = Fields()
    for _ in 0..<generator.below(12) {
      let type = FieldType.allCases[generator.below(FieldType.allCases.count)]
      fields[generator.text()] = Field(.random(type, &generator), isEncrypted: generator.flip())
    }
    return Record(
      recordName: "record", recordType: "CD_Note", fields: fields, created: stamp(), modified: stamp(),
      parent: generator.flip() ? generator.text() : nil,
      shortGUID: generator.flip() ? generator.text() : nil)
  }
}
