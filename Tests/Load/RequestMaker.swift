// The bytes of one client's requests: made from prepared pieces, so that the generator is not the bottleneck.

import Glibc

/// Makes one request after the other for one client.
struct RequestMaker: Sendable {
  private let workload: Workload
  private let batch: Int
  private let head: [UInt8]
  private let bodyStart: [UInt8]
  private var random: FastRandom
  private let words: [UInt8]
  private var body: [UInt8] = []
  private var number = 0

  private static let textByteCount = 800

  /// - Parameters:
  ///   - target: path and query; `bearer` and `host` go into headers.
  ///   - zoneName: of record plane workloads.
  init(_ workload: Workload, batch: Int, target: String, host: String, bearer: String?, zoneName: String) {
    self.workload = workload
    self.batch = workload.recordCount(batch: batch)
    var head = "\(workload == .w0 ? "GET" : "POST") \(target) HTTP/1.1\r\nHost: \(host)\r\n"
    if let bearer { head += "Authorization: Bearer \(bearer)\r\n" }
    if workload != .w0 { head += "Content-Type: application/json\r\nContent-Length: " }
    self.head = Array(head.utf8)
    bodyStart = Array(#"{"zoneID":{"zoneName":"\#(zoneName)"},"atomic":true,"operations":["#.utf8)
    random = FastRandom()
    words = FastRandom.text(64 * 1024, &random)
  }

  /// Replaces what is in `request`.
  mutating func make(into request: inout [UInt8]) {
    request.removeAll(keepingCapacity: true)
    request.append(contentsOf: head)
    guard workload != .w0 else { return append("\r\n", to: &request) }
    body.removeAll(keepingCapacity: true)
    if workload == .w1c { appendTransaction() } else { appendOperations() }
    append(String(body.count), to: &request)
    append("\r\n\r\n", to: &request)
    request.append(contentsOf: body)
  }

  private mutating func appendOperations() {
    body.append(contentsOf: bodyStart)
    for index in 0..<batch {
      if index > 0 { body.append(UInt8(ascii: ",")) }
      append(#"{"operationType":"create","record":{"recordName":""#)
      random.appendUUID(to: &body)
      append(#"","recordType":"CD_Note","fields":{"CD_entityName":{"value":"Note","type":"STRING"},"CD_title":{"value":"Note "#)
      appendNumber()
      append(#"","type":"STRING"},"CD_body":{"value":""#)
      appendText()
      append(#"","type":"STRING"},"CD_moveReceipt":{"value":"AAECAwQFBgcICQoLDA0ODw==","type":"BYTES"},"CD_createdAt":{"value":1790000000000,"type":"TIMESTAMP"},"#)
      append(#""CD_rating":{"value":4,"type":"INT64"},"CD_folder":{"value":""#)
      random.appendUUID(to: &body)
      append(#"","type":"STRING"}}}}"#)
    }
    append("]}")
  }

  private mutating func appendTransaction() {
    append(#"{"transactions":[{"transactionID":""#)
    random.appendUUID(to: &body)
    append(#"","timestamp":"2026-11-20T07:33:24.123Z","author":"load","changes":["#)
    for index in 0..<batch {
      if index > 0 { body.append(UInt8(ascii: ",")) }
      append(#"{"changeType":"insert","entity":"Note","objectID":""#)
      random.appendUUID(to: &body)
      append(#"","attributes":{"title":"Note "#)
      appendNumber()
      append(#"","body":""#)
      appendText()
      append(#"","createdAt":"2026-11-20T07:33:24.123Z","rating":4}}"#)
    }
    append("]}]}")
  }

  private mutating func appendText() {
    let start = Int(random.next() % UInt64(words.count - Self.textByteCount))
    body.append(contentsOf: words[start..<start + Self.textByteCount])
  }

  private mutating func appendNumber() {
    number += 1
    append(String(number))
  }

  private mutating func append(_ text: String) { append(text, to: &body) }

  private func append(_ text: String, to bytes: inout [UInt8]) {
    var text = text
    text.withUTF8 { bytes.append(contentsOf: $0) }
  }
}

/// Fast randomness of no cryptographic worth, seeded by the system.
struct FastRandom: RandomNumberGenerator, Sendable {
  private var state = UInt64.random(in: .min ... .max)

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  /// Upper-case text of a random UUID, version 4.
  mutating func appendUUID(to bytes: inout [UInt8]) {
    var high = next() & 0xffff_ffff_ffff_0fff | 0x4000
    var low = next() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000
    for position in 0..<36 {
      if [8, 13, 18, 23].contains(position) {
        bytes.append(UInt8(ascii: "-"))
        continue
      }
      let digit: UInt64
      if position < 18 {
        digit = high >> 60
        high <<= 4
      } else {
        digit = low >> 60
        low <<= 4
      }
      bytes.append(UInt8(truncatingIfNeeded: digit < 10 ? 0x30 + digit : 0x37 + digit))
    }
  }

  /// Random printable ASCII that JSON needs no escapes for.
  static func text(_ count: Int, _ random: inout FastRandom) -> [UInt8] {
    let alphabet = Array("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .".utf8)
    return (0..<count).map { _ in alphabet[Int(random.next() & 63)] }
  }
}
