// Follows a feed of changes on either plane, and checks that a device got everything.

import JSON

/// A source of changes, read page by page.
enum Feed: Sendable {
  /// The record plane's `changes/zone`. - Parameter path: with credentials.
  case zone(String, path: String)
  /// The object plane's `changes` of a store.
  case store(path: String, bearer: String)

  static let pageSize = 200

  /// - Parameter token: of the previous page; nil: from the beginning.
  func request(after token: String?, host: String) -> [UInt8] {
    switch self {
    case .zone(let name, let path):
      let token = token.map { #","syncToken":"\#($0)""# } ?? ""
      let body = #"{"zones":[{"zoneID":{"zoneName":"\#(name)"},"resultsLimit":\#(Self.pageSize)\#(token)}]}"#
      return httpRequest("POST", path, host: host, body: Array(body.utf8))
    case .store(let path, let bearer):
      let token = token.map { "&after=\(Scenario.percentEncoded($0))" } ?? ""
      return httpRequest(
        "GET", "\(path)/changes?limit=\(Self.pageSize)\(token)", host: host,
        headers: ["Authorization: Bearer \(bearer)"])
    }
  }

  /// The token and continuation of a page; nil when the page has none.
  func page(_ bytes: [UInt8]) -> Page? {
    let key: String
    switch self {
    case .zone: key = #""syncToken":""#
    case .store: key = #""importToken":""#
    }
    // A search from the end instead of a parser, so that the generator is not the bottleneck. Names are checked after
    // the measurement.
    guard let start = bytes.lastPosition(of: Array(key.utf8)).map({ $0 + key.utf8.count }),
      let end = bytes[start...].firstIndex(of: UInt8(ascii: "\"")),
      let moreComing = bytes.lastPosition(of: Self.moreComing)
    else { return nil }
    return Page(
      token: String(decoding: bytes[start..<end], as: UTF8.self),
      moreComing: bytes[(moreComing + Self.moreComing.count)...].starts(with: "true".utf8))
  }

  private static let moreComing = Array(#""moreComing":"#.utf8)

  /// The tokens in the zone's pings, in order; other zones' pings are skipped.
  func pingTokens(in bytes: [UInt8]) -> [String] {
    guard case .zone(let name, _) = self else { return [] }
    let (zone, token) = (Array(#""zid":"\#(name)""#.utf8), Array(#""tok":""#.utf8))
    var tokens: [String] = []
    var place = 0
    while let found = bytes.position(of: zone, from: place),
      let start = bytes.position(of: token, from: found).map({ $0 + token.count }),
      let end = bytes[start...].firstIndex(of: UInt8(ascii: "\""))
    {
      tokens.append(String(decoding: bytes[start..<end], as: UTF8.self))
      place = end
    }
    return tokens
  }

  struct Page: Equatable {
    let token: String
    let moreComing: Bool
  }

  /// The names of saved records or objects in a page.
  func names(_ body: [UInt8]) throws(JSONError) -> [String] {
    let page = try JSONValue(parsing: body)
    switch self {
    case .zone:
      let records = page["zones"]?.elements.flatMap { $0["records"]?.elements ?? [] } ?? []
      return records.filter { $0["deleted"]?.bool != true }.compactMap { $0["recordName"]?.string }
    case .store:
      return page["changes"]?.elements.filter { $0["changeType"]?.string == "save" }.compactMap {
        $0["objectID"]?.string
      } ?? []
    }
  }
}

/// Compares the items that a device got with the expected ones.
enum FeedCheck {
  /// - Parameters:
  ///   - expected: names that must occur exactly once.
  ///   - told: the names in page order.
  ///   - possible: names that may occur besides: saves without an answer.
  /// - Returns: the fault with names; nil when there is none.
  static func problem(expected: [String], told: [String], possible: Set<String> = []) -> String? {
    let seen = Set(told)
    let missing = expected.filter { !seen.contains($0) }
    if !missing.isEmpty { return "\(missing.count) of \(expected.count) records never arrived: \(list(missing))" }
    if seen.count < told.count {
      var once: Set<String> = []
      return "records arrived twice: \(list(told.filter { !once.insert($0).inserted }))"
    }
    let strangers = seen.subtracting(expected).subtracting(possible)
    return strangers.isEmpty ? nil : "records arrived that nobody saved: \(list(strangers.sorted()))"
  }

  private static func list(_ names: [String]) -> String {
    names.prefix(10).joined(separator: " ") + (names.count > 10 ? " …" : "")
  }
}
