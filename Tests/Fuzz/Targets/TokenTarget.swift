// Values that clients keep and send back: tokens, markers, signed texts and addresses, keys.

import Crypto
import Indexing
import Records
@testable import WebServices

extension FuzzTarget {
  /// Reads the input as every kind of token. It is also used as a token's content, with a right checksum, signature or
  /// seal, so that the code behind those checks is reached.
  static let tokens = FuzzTarget(name: "tokens", seeds: { try seeds() }) { bytes in
    let text = String(decoding: bytes, as: UTF8.self)
    try readSyncTokens(text, bytes)
    try readMarker(bytes)
    try readSigned(bytes)
    try readAddresses(text)
    if let key = P256PublicKey(pem: text) {
      try hold(P256PublicKey(pem: pem(key)) == key, "a public key is read as another")
    }
    if let signature = P256Signature(der: bytes) {
      try holdEqual(signature.r.count, 32, "r of a signature has another length")
    }
    if let decoded = Base64.decode(text) { try holdEqual(Base64.encode(decoded), text, "base64 has two spellings") }
    if let decoded = Hex.decode(text) {
      try holdEqual(Hex.encode(decoded), text.lowercased(), "hexadecimal digits have two spellings")
    }
  }

  private static func readSyncTokens(_ text: String, _ bytes: [UInt8]) throws {
    let kinds: [SyncToken.Kind] = [.zone, .database, .importBatch, .history, .query, .sharedDatabase]
    let repaired = Base64.encode(bytes + SHA256.hash(bytes).prefix(16))
    for text in [text, repaired] {
      for kind in kinds {
        guard let token = try taken({ try SyncToken(text, as: kind) }) else { continue }
        try holdEqual(token.text, text, "a token has two spellings")
        try hold(token.positions.allSatisfy { $0.sequence >= 0 }, "a token with a sequence below 0")
      }
      guard let shared = try taken({ try SharedFeedToken(text) }) else { continue }
      try holdEqual(try SharedFeedToken(shared.text), shared, "a token of the shared database is read as another")
    }
  }

  // MARK: Sealed and signed

  private static let query = RecordQuery(
    recordType: "Note",
    orders: [
      RecordQuery.Order(key: .field("f0"), isAscending: true),
      RecordQuery.Order(key: .system(.recordName), isAscending: false),
    ])
  private static let maker = QueryMarker.Maker(
    key: Fixture.key, database: Fixture.database, userRecordName: Fixture.user)
  private static let markerContext = Array(
    [
      Fixture.container.rawValue, Fixture.database.environment.rawValue, Fixture.user, Fixture.user,
      String(describing: query),
    ].joined(separator: "\n").utf8)
  private static let marker = QueryMarker(zoneName: "Notes", recordName: Fixture.name, sortKeys: [[0, 1], [255]])
  private static let markerSeal = Seal(key: Fixture.key, purpose: "aquifer query marker")

  /// Uses the input as the content of a marker.
  private static func readMarker(_ content: [UInt8]) throws {
    let text = Base64.encode(markerSeal.seal(content, in: markerContext))
    guard let marker = try taken({ try QueryMarker(text, for: query, by: maker) }, orRefused: checkRefusal) else {
      return
    }
    try holdEqual(
      try QueryMarker(marker.text(for: query, by: maker), for: query, by: maker), marker, "a marker is read as another")
    try holdEqual(marker.sortKeys.count, query.orders.count, "a marker has another number of keys")
  }

  private static func readSigned(_ content: [UInt8]) throws {
    func signed(_ purpose: [UInt8]) -> String {
      let bytes = [1] + content
      let text = Base64.encode(bytes + HMACSHA256.code(for: purpose + bytes, key: Fixture.key))
      return String(text.filter { $0 != "=" }).replacing("+", with: "-").replacing("/", with: "_")
    }
    func check<Token: Equatable>(_ purpose: String, _ read: (String) -> Token?, _ write: (Token) -> String) throws {
      guard let token = read(signed(Array(purpose.utf8))) else { return }
      try holdEqual(read(write(token)), token, "\(purpose): read as another")
    }
    let now = Fixture.now
    try check(
      "aquifer asset upload",
      { AssetUploadURL(segments: AssetUploadURL.prefix + [$0], signedWith: Fixture.key, now: now) },
      { $0.path(signedWith: Fixture.key).split(separator: "/").last.map(String.init) ?? "" })
    try check(
      "aquifer courier", { CourierToken(text: $0, verifiedWith: Fixture.key, now: now) },
      { $0.text(signedWith: Fixture.key) })
    try check(
      "aquifer share page", { ShareTicket(text: $0, verifiedWith: Fixture.key, now: now) },
      { $0.text(signedWith: Fixture.key) })
    try check(
      "aquifer kept sign-in", { KeptSignIn(text: $0, for: .shares, verifiedWith: Fixture.key, now: now) },
      { $0.text(signedWith: Fixture.key) })
    try check(
      "aquifer account", { KeptSignIn(text: $0, for: .account, verifiedWith: Fixture.key, now: now) },
      { $0.text(signedWith: Fixture.key) })
    try check(
      "aquifer sign-in", { SignInState(text: $0, verifiedWith: Fixture.key, now: now) },
      { $0.text(signedWith: Fixture.key) })
    var purpose = "aquifer asset receipt"
    for part in [Fixture.container.rawValue, Fixture.database.environment.rawValue, Fixture.user] {
      var bytes: [UInt8] = []
      SignedText.append(part, to: &bytes)
      purpose += String(decoding: bytes, as: UTF8.self)
    }
    try check(
      purpose, { AssetReceipt(text: $0, of: Fixture.assetUser, signedWith: Fixture.key, now: now) },
      { $0.text(for: Fixture.assetUser, signedWith: Fixture.key) })
  }

  // MARK: Addresses

  private static func readAddresses(_ text: String) throws {
    let segments = text.split(separator: "/").map(String.init)
    if let url = AssetURL(segments: segments, signedWith: Fixture.key, now: Fixture.now / 1000) {
      let again = url.path(signedWith: Fixture.key).split(separator: "/").map(String.init)
      try holdEqual(
        AssetURL(segments: again, signedWith: Fixture.key, now: Fixture.now / 1000), url,
        "an asset's address is read as another")
    }
    _ = AssetUploadURL(segments: segments, signedWith: Fixture.key, now: Fixture.now)
    if let guid = ShortGUID(text) {
      try holdEqual(guid.text, text, "a short GUID has two spellings")
      try hold((0..<62 * 62 * 62).contains(guid.shard), "a short GUID of shard \(guid.shard)")
    }
    if let tag = RecordChangeTag(text) {
      try holdEqual(tag.text, text, "a change tag has two spellings")
      try hold(tag.sequence > 0, "a change tag of sequence \(tag.sequence)")
    }
  }

  private static func pem(_ key: P256PublicKey) -> String {
    let lines = stride(from: 0, to: key.der.count, by: 48).map {
      Base64.encode(Array(key.der[$0..<min($0 + 48, key.der.count)]))
    }
    return "-----BEGIN PUBLIC KEY-----\n" + lines.joined(separator: "\n") + "\n-----END PUBLIC KEY-----\n"
  }

  // MARK: Seeds

  private static func seeds() throws -> [[UInt8]] {
    // The test's seal must be the server's, or no marker's content would be reached.
    let own = Base64.encode(
      markerSeal.seal(
        Array((#"["Notes","\#(Fixture.name)","AAE=","/w=="]"# + String(repeating: " ", count: 64)).utf8.prefix(64)),
        in: markerContext))
    try holdEqual(try QueryMarker(own, for: query, by: maker), marker, "markers are sealed otherwise")
    let sync = SyncToken(
      .sharedDatabase,
      [SyncToken.Position(incarnation: 7, sequence: 1), SyncToken.Position(incarnation: 1 << 60, sequence: .max)])
    let parts: [[String]] = [
      [Fixture.container.rawValue, "development", Fixture.user, String(Int64.max)],
      [Fixture.user, "guid", String(Int64.max)],
      [Fixture.container.rawValue, "development", Fixture.user, "phone", "grant", String(Int64.max)],
      [Fixture.container.rawValue, "production", "https://app.example", "", String(Int64.max), "grant"],
      [Hex.encode(Fixture.key), "1200", String(Int64.max)],
    ]
    let texts = [
      sync.text, SyncToken(.zone, incarnation: 1, sequence: 2).text,
      ShortGUID(shard: 3) { [UInt8](0..<UInt8($0)) }.text, RecordChangeTag(sequence: .max).text,
      AssetURL(shard: 3, hash: Fixture.key, expiry: .max).path(signedWith: Fixture.key),
      #"["Notes","n","AAE=","/w=="]"#,
    ]
    return texts.map { Array($0.utf8) } + [Base64.decode(sync.text).map { Array($0.dropLast(16)) } ?? []]
      + parts.map { $0.reduce(into: []) { bytes, part in SignedText.append(part, to: &bytes) } }
  }
}
