// The bytes of one client's requests: written once, then changed in place, so that the generator is not the bottleneck.

import Glibc

/// A request as sent on the connection.
/// - Parameter path: with the query.
func httpRequest(_ method: String, _ path: String, host: String, headers: [String] = [], body: [UInt8]? = nil)
  -> [UInt8]
{
  var head = "\(method) \(path) HTTP/1.1\r\nHost: \(host)\r\n"
  for header in headers { head += header + "\r\n" }
  if let body { head += "Content-Type: application/json\r\nContent-Length: \(body.count)\r\n" }
  return Array((head + "\r\n").utf8) + (body ?? [])
}

/// Makes the requests of one client, which all have the same length.
struct RequestMaker: Sendable {
  /// The request to send; `advance` turns it into the next one.
  private(set) var request: [UInt8]
  private let uuidPlaces: [Int]
  private let textPlaces: [Int]
  /// The places of the number that a query looks for.
  private let numberPlaces: [Int]
  private let numbers: Range<Int>
  private let isTransaction: Bool
  private var random: FastRandom
  private let words: [UInt8]
  /// Between the groups of a UUID.
  private let separator: UInt8

  private static let separator = UInt8(ascii: "-")
  private static let textByteCount = 800
  private static let wordsByteCount = 64 * 1024

  /// - Parameters:
  ///   - target: path and query; `bearer` and `host` go into headers.
  ///   - count: the number of records or objects in one request.
  ///   - zoneName: for workloads of the record plane.
  ///   - population: for queries.
  init(
    _ workload: Workload, count: Int, target: String, host: String, bearer: String? = nil, zoneName: String = "",
    population: QueryPopulation? = nil,
    random: FastRandom = FastRandom()
  ) {
    self.random = random
    var body = Template()
    switch workload {
    case .w1c: body.transaction(count)
    case .qe:
      body.query(
        zoneName, #""filterBy":[{"fieldName":"CD_rating","comparator":"EQUALS","fieldValue":{"type":"INT64","value":"#,
        "}}]")
    case .qs:
      body.query(
        zoneName,
        #"""
        "filterBy":[{"fieldName":"CD_createdAt","comparator":"GREATER_THAN","fieldValue":{"type":"TIMESTAMP","value":
        """#,
        #"000000}}],"sortBy":[{"fieldName":"CD_createdAt"}]"#)
    case .w0: break
    default: body.operations(count, zoneName: zoneName)
    }
    request = httpRequest(
      workload == .w0 ? "GET" : "POST", target, host: host,
      headers: bearer.map { ["Authorization: Bearer \($0)"] } ?? [], body: workload == .w0 ? nil : body.bytes)
    let start = request.count - body.bytes.count
    isTransaction = workload == .w1c
    uuidPlaces = body.uuidPlaces.map { $0 + start }
    textPlaces = body.textPlaces.map { $0 + start }
    numberPlaces = body.numberPlaces.map { $0 + start }
    numbers = population?.numbers(workload) ?? 0..<1
    words = FastRandom.text(Self.wordsByteCount, &self.random)
    separator = Self.separator
    advance()
  }

  /// Requests of another system, whose body is a template.
  /// - Parameters:
  ///   - path: with the query.
  ///   - isBase64: random names and texts are pieces of base64.
  init(
    _ body: Template, path: String, host: String, headers: [String], isBase64: Bool, random: FastRandom
  ) {
    self.random = random
    request = httpRequest("POST", path, host: host, headers: headers, body: body.bytes)
    let start = request.count - body.bytes.count
    uuidPlaces = body.uuidPlaces.map { $0 + start }
    textPlaces = body.textPlaces.map { $0 + start }
    (numberPlaces, numbers, isTransaction) = ([], 0..<1, false)
    let words = FastRandom.text(Self.wordsByteCount, &self.random)
    self.words = isBase64 ? words.map { $0 == 0x20 ? 0x2b : $0 == 0x2e ? 0x2f : $0 } : words
    separator = isBase64 ? UInt8(ascii: "A") : Self.separator
    advance()
  }

  /// The names of the records or objects that the request creates.
  var names: [String] {
    // The places of records alternate with their folders'; a transaction begins with its own name.
    let places =
      isTransaction
      ? Array(uuidPlaces.dropFirst()) : stride(from: 0, to: uuidPlaces.count, by: 2).map { uuidPlaces[$0] }
    return places.map { String(decoding: request[$0..<$0 + 36], as: UTF8.self) }
  }

  mutating func advance() {
    for place in numberPlaces {
      let number = Int.random(in: numbers, using: &random)
      request.replaceSubrange(place..<place + QueryPopulation.digitCount, with: String(number).utf8)
    }
    request.withUnsafeMutableBufferPointer { request in
      for place in uuidPlaces {
        random.writeUUID(to: UnsafeMutableBufferPointer(rebasing: request[place..<place + 36]), separator)
      }
      for place in textPlaces {
        let start = Int(random.next() % UInt64(Self.wordsByteCount - Self.textByteCount))
        words.withUnsafeBufferPointer { words in
          _ = UnsafeMutableBufferPointer(rebasing: request[place..<place + Self.textByteCount])
            .update(fromContentsOf: words[start..<start + Self.textByteCount])
        }
      }
    }
  }

  /// A body with gaps to fill.
  struct Template {
    var bytes: [UInt8] = []
    var uuidPlaces: [Int] = []
    var textPlaces: [Int] = []
    var numberPlaces: [Int] = []

    mutating func add(_ text: String) { bytes.append(contentsOf: text.utf8) }

    mutating func addUUID() {
      uuidPlaces.append(bytes.count)
      bytes.append(contentsOf: repeatElement(UInt8(ascii: "-"), count: 36))
    }

    mutating func addText() {
      textPlaces.append(bytes.count)
      bytes.append(contentsOf: repeatElement(UInt8(ascii: "."), count: RequestMaker.textByteCount))
    }

    mutating func query(_ zoneName: String, _ head: String, _ tail: String) {
      add(
        #"""
        {"zoneID":{"zoneName":"\#(zoneName)"},"resultsLimit":\#(QueryPopulation.pageSize),\#
        "query":{"recordType":"CD_Note",\#(head)
        """#
      )
      numberPlaces.append(bytes.count)
      add(String(repeating: "1", count: QueryPopulation.digitCount))
      add(tail + "}}")
    }

    mutating func operations(_ count: Int, zoneName: String) {
      add(#"{"zoneID":{"zoneName":"\#(zoneName)"},"atomic":true,"operations":["#)
      for index in 0..<count {
        add(index > 0 ? "," : "")
        add(#"{"operationType":"create","record":{"recordName":""#)
        addUUID()
        add(
          #"""
          ","recordType":"CD_Note","fields":{"CD_entityName":{"value":"Note","type":"STRING"},\#
          "CD_title":{"value":"Note \#(index)","type":"STRING"},
          """#
        )
        add(#""CD_body":{"value":""#)
        addText()
        add(#"","type":"STRING"},"CD_moveReceipt":{"value":"AAECAwQFBgcICQoLDA0ODw==","type":"BYTES"},"#)
        add(
          #"""
          "CD_createdAt":{"value":1790000000000,"type":"TIMESTAMP"},"CD_rating":{"value":4,"type":"INT64"},\#
          "CD_folder":{"value":"
          """#
        )
        addUUID()
        add(#"","type":"STRING"}}}}"#)
      }
      add("]}")
    }

    mutating func transaction(_ count: Int) {
      add(#"{"transactions":[{"transactionID":""#)
      addUUID()
      add(#"","timestamp":"2026-11-20T07:33:24.123Z","author":"load","changes":["#)
      for index in 0..<count {
        add(index > 0 ? "," : "")
        add(#"{"changeType":"insert","entity":"Note","objectID":""#)
        addUUID()
        add(#"","attributes":{"title":"Note \#(index)","body":""#)
        addText()
        add(#"","createdAt":"2026-11-20T07:33:24.123Z","rating":4}}"#)
      }
      add("]}]}")
    }
  }
}

/// Fast random numbers, not for cryptography.
struct FastRandom: RandomNumberGenerator, Sendable {
  private var state: UInt64

  init(seed: UInt64 = UInt64.random(in: .min ... .max)) { state = seed }

  /// Another generator, independent of this one.
  mutating func split() -> FastRandom { FastRandom(seed: next()) }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  /// Writes a random UUID, version 4, as 36 bytes of upper-case text.
  mutating func writeUUID(to text: UnsafeMutableBufferPointer<UInt8>, _ separator: UInt8 = UInt8(ascii: "-")) {
    var high = next() & 0xffff_ffff_ffff_0fff | 0x4000
    var low = next() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000
    for position in 0..<36 {
      if position == 8 || position == 13 || position == 18 || position == 23 {
        text[position] = separator
        continue
      }
      let digit = UInt8(truncatingIfNeeded: (position < 18 ? high : low) >> 60)
      if position < 18 { high <<= 4 } else { low <<= 4 }
      text[position] = digit < 10 ? 0x30 + digit : 0x37 + digit
    }
  }

  mutating func uuid() -> String {
    String(
      decoding: [UInt8](unsafeUninitializedCapacity: 36) { text, count in
        writeUUID(to: UnsafeMutableBufferPointer(rebasing: text[..<36]))
        count = 36
      }, as: UTF8.self)
  }

  /// Random printable ASCII that needs no escapes in JSON.
  static func text(_ count: Int, _ random: inout FastRandom) -> [UInt8] {
    let alphabet = Array("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .".utf8)
    return (0..<count).map { _ in alphabet[Int(random.next() & 63)] }
  }
}
