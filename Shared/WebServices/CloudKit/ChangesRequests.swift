// The bodies of the change feeds, old and new (docs/protocol/record-plane.md#changes).

public import JSON
public import Records

/// The position from which a feed continues.
public enum ChangesPosition: Hashable, Sendable {
  /// No token: the feed begins with everything.
  case beginning
  /// An empty token: the feed skips present records and returns only its present token.
  case caughtUp
  /// A token, not yet read.
  case token(String)

  init(of value: JSONValue, keys: String...) throws(RecordError) {
    for key in keys {
      guard let text = try value.optionalString(key) else { continue }
      self = text.isEmpty ? .caughtUp : .token(text)
      return
    }
    self = .beginning
  }
}

/// The number of records or zones of a page.
enum ResultsLimit {
  /// Larger limits are clamped, not refused: clients send 400.
  static func clamped(_ value: JSONValue, otherwise inherited: Int = Limit.recordsPerResponse) throws(RecordError)
    -> Int
  {
    guard let limit = try value.optionalInteger("resultsLimit") else { return inherited }
    guard limit > 0 else { throw RecordError(.badRequest, "resultsLimit must be positive") }
    return Int(min(limit, Int64(Limit.recordsPerResponse)))
  }
}

/// One zone's part of `changes/zone`, or all of `records/changes`.
public struct ZoneChangesRequest: Hashable, Sendable {
  public let zone: ZoneReference
  public let position: ChangesPosition
  public let resultsLimit: Int
  public let presentation: RecordPresentation
  /// Limits live records to these types, but not tombstones; nil means all.
  public let desiredRecordTypes: Set<String>?
  /// Newest first, page after page.
  public let isReversed: Bool

  /// The values for zones that do not set their own.
  private struct Defaults {
    var presentation = RecordPresentation.complete
    var resultsLimit = Limit.recordsPerResponse
    var desiredRecordTypes: Set<String>?
    var isReversed = false
  }

  private init(_ value: JSONValue, zone: ZoneReference, defaults: Defaults) throws(RecordError) {
    self.zone = zone
    position = try ChangesPosition(of: value, keys: "syncToken")
    resultsLimit = try ResultsLimit.clamped(value, otherwise: defaults.resultsLimit)
    presentation = try RecordPresentation(of: value, otherwise: defaults.presentation)
    desiredRecordTypes = try value.optionalStrings("desiredRecordTypes").map(Set.init) ?? defaults.desiredRecordTypes
    isReversed = try value.optionalBool("reverse") ?? defaults.isReversed
  }

  /// The zones of `changes/zone`; each zone's keys override the keys of the request.
  public static func zones(of request: JSONValue) throws(RecordError) -> [ZoneChangesRequest] {
    let whole = try ZoneChangesRequest(request, zone: .defaultZone, defaults: Defaults())
    let defaults = Defaults(
      presentation: whole.presentation, resultsLimit: whole.resultsLimit, desiredRecordTypes: whole.desiredRecordTypes,
      isReversed: whole.isReversed)
    return try request.requiredList("zones", limit: Limit.operationsPerRequest) { json throws(RecordError) in
      guard json.member("zoneID") != nil else { throw RecordError(.badRequest, "zoneID is missing") }
      return try ZoneChangesRequest(json, zone: try ZoneReference(of: json), defaults: defaults)
    }
  }

  /// The keys of a zone in `changes/zone` besides `zoneID` and `syncToken`, and of the request for zones that lack
  /// them.
  private static let options = [
    "resultsLimit", "desiredKeys", "desiredRecordTypes", "reverse", "numbersAsStrings", "numberAsStrings",
  ]

  /// A `changes/zone` request for some of another request's zones, with known keys only.
  /// - Parameters:
  ///   - request: a request that `zones(of:)` can read.
  ///   - places: indexes of the zones in the request's list.
  ///   - isShort: limits the answer to one record per zone.
  public static func part(of request: JSONValue, places: [Int], isShort: Bool) -> [UInt8] {
    let zones = request["zones"]?.elements ?? []
    let names = isShort ? options.filter { $0 != "resultsLimit" } : options
    var output = JSONWriter(reservingByteCount: 1024)
    output.beginObject()
    copy(names, of: request, to: &output)
    if isShort { output.member("resultsLimit", 1) }
    output.key("zones")
    output.beginArray()
    for place in places {
      output.beginObject()
      copy(["zoneID", "syncToken"] + names, of: zones[place], to: &output)
      output.endObject()
    }
    output.endArray()
    output.endObject()
    return output.bytes
  }

  private static func copy(_ names: [String], of object: JSONValue, to output: inout JSONWriter) {
    for name in names {
      guard let value = object.member(name) else { continue }
      output.key(name)
      output.value(value)
    }
  }

  /// Reads `records/changes`.
  public init(records request: JSONValue) throws(RecordError) {
    try self.init(request, zone: try ZoneReference(of: request), defaults: Defaults())
  }
}

/// Reads `changes/database`, and `zones/changes` with its other key for the token.
public struct DatabaseChangesRequest: Hashable, Sendable {
  public let position: ChangesPosition
  public let resultsLimit: Int

  public init(_ request: JSONValue) throws(RecordError) {
    position = try ChangesPosition(of: request, keys: "metaSyncToken", "syncToken")
    resultsLimit = try ResultsLimit.clamped(request)
  }
}
