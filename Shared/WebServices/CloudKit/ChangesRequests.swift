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
    desiredRecordTypes = try value.optionalAskedNames("desiredRecordTypes").map(Set.init) ?? defaults.desiredRecordTypes
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

  /// Reads `records/changes`.
  public init(records request: JSONValue) throws(RecordError) {
    try self.init(request, zone: try ZoneReference(of: request), defaults: Defaults())
  }
}

/// Makes `changes/zone` requests for some of another request's zones, with known keys only.
public struct ZoneChangesParts: Sendable {
  private let zones: [JSONValue]
  /// The keys of the request for zones that lack them, and their values in JSON.
  private let options: [(name: String, json: [UInt8])]

  private static let names = [
    "resultsLimit", "desiredKeys", "desiredRecordTypes", "reverse", "numbersAsStrings", "numberAsStrings",
  ]

  /// - Parameter request: a request that `ZoneChangesRequest.zones(of:)` has read.
  public init(of request: JSONValue) throws(RecordError) {
    zones = request["zones"]?.elements ?? []
    var options: [(name: String, json: [UInt8])] = []
    for name in Self.names {
      guard let value = request.member(name) else { continue }
      var output = JSONWriter()
      // Each owner gets this list, so it has each name once.
      if value.kind == .array, let names = try request.optionalAskedNames(name) {
        output.beginArray()
        for name in names { output.string(name) }
        output.endArray()
      } else {
        output.value(value)
      }
      options.append((name, output.bytes))
    }
    self.options = options
  }

  /// - Parameters:
  ///   - places: indexes of the zones in the request's list.
  ///   - isShort: limits the answer to one record per zone.
  public func part(ofZonesAt places: [Int], isShort: Bool) -> [UInt8] {
    var output = JSONWriter(reservingByteCount: 1024 + options.reduce(0) { $0 + $1.json.count })
    output.beginObject()
    for option in options where !isShort || option.name != "resultsLimit" {
      output.key(option.name)
      output.raw(option.json)
    }
    if isShort { output.member("resultsLimit", 1) }
    output.key("zones")
    output.beginArray()
    for place in places {
      output.beginObject()
      for name in ["zoneID", "syncToken"] + Self.names where !isShort || name != "resultsLimit" {
        guard let value = zones[place].member(name) else { continue }
        output.key(name)
        output.value(value)
      }
      output.endObject()
    }
    output.endArray()
    output.endObject()
    return output.bytes
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
