// zones/list, zones/lookup and changes/zone of the shared database: asks each zone's owner, answers in the request's
// order.

import JSON
import Records
import ServiceBus
import WebServices

extension SharedDatabase {
  /// Zones of an owner who can't be reached are listed as errors, so that a client that compares lists does not take
  /// them for deleted.
  func listZones() async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    let owners = try await sharedZones().filter { $0.zones.contains(where: \.isActive) }
    // The call has no parameters; only the body's syntax is checked.
    _ = try document()
    let ask = Array("{}".utf8)
    let outcomes = await outcomes(of: owners.map(\.owner)) { _ in ask }
    if let answer = try wholeAnswer(outcomes) { return answer }
    var output = JSONWriter(reservingByteCount: 256 * (owners.count + 1))
    output.beginObject()
    output.key("zones")
    output.beginArray()
    for (owner, outcome) in zip(owners, outcomes) {
      switch outcome {
      case .answered(let answer, _): for zone in answer.parts { output.raw(zone.json) }
      case .away(let error): Self.writeErrors(error, of: owner, to: &output)
      case .refused: continue
      }
    }
    output.endArray()
    output.endObject()
    return Self.answer(output)
  }

  /// Writes an error for each zone that the user should have from this owner.
  static func writeErrors(_ error: RecordError, of owner: FetchSharedZones.Reply.Owner, to output: inout JSONWriter) {
    for zone in owner.zones where zone.isActive {
      ZoneDictionary.writeError(
        error, of: ZoneReference(zoneName: zone.zoneName, ownerRecordName: owner.owner), defaultOwner: owner.owner,
        to: &output)
    }
  }

  func lookUpZones() async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    let zones = try LookupZonesRequest.zones(of: try document())
    return try await splitByZone(zones, pagesRecords: false) { places, _ in
      LookupZonesRequest.body(of: places.map { zones[$0] })
    }
  }

  func fetchZoneChanges() async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    let json = try document()
    let zones = try ZoneChangesRequest.zones(of: json).map(\.zone)
    let parts = try ZoneChangesParts(of: json)
    return try await splitByZone(zones, pagesRecords: true) { places, isShort in
      parts.part(ofZonesAt: places, isShort: isShort)
    }
  }

  /// An owner's items of `zones`, by their places in the request.
  private struct Part {
    let owner: String
    var places: [Int] = []
  }

  /// - Parameter body: makes the part with the zones at some places. Short parts ask for one record of each zone at
  ///   most: progress, but no more.
  private func splitByZone(
    _ zones: [ZoneReference], pagesRecords: Bool,
    body: @escaping @Sendable (_ places: [Int], _ isShort: Bool) -> [UInt8]
  ) async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    var parts: [Part] = []
    for (place, zone) in zones.enumerated() {
      let owner = owner(of: zone)
      if let index = parts.firstIndex(where: { $0.owner == owner }) {
        parts[index].places.append(place)
      } else {
        parts.append(Part(owner: owner, places: [place]))
      }
    }
    // A request to a single owner passes unchanged, and its failure fails the request, as in a private database.
    if parts.count <= 1 {
      return try await forwarding.forward(asked(of: parts.first?.owner ?? caller), body: self.body)
    }
    var outcomes: [Outcome] = []
    var byteCount = 0
    // Pages of records are asked for in waves: the bytes received so far decide how much the next owners may send.
    let stride = pagesRecords ? Self.parallelCount : parts.count
    for start in Swift.stride(from: 0, to: parts.count, by: stride) {
      let isFull = pagesRecords && byteCount > Self.pageByteCount
      let wave = Array(parts[start..<min(start + stride, parts.count)])
      for outcome in await self.outcomes(of: wave.map(\.owner), body: { body(wave[$0].places, isFull) }) {
        if case .answered(_, let count) = outcome { byteCount += count }
        outcomes.append(outcome)
      }
    }
    if let answer = try wholeAnswer(outcomes) { return answer }
    var items: [Int: Result<AnswerParts.Part, RecordError>] = [:]
    for (part, outcome) in zip(parts, outcomes) {
      for (place, result) in zip(part.places, try Self.items(of: outcome, count: part.places.count)) {
        items[place] = result
      }
    }
    var output = JSONWriter(reservingByteCount: byteCount + 256)
    output.beginObject()
    output.array("zones", of: zones.enumerated()) { item, output in
      switch items[item.offset] {
      case .success(let value)?: output.raw(value.json)
      case .failure(let error)?: ZoneDictionary.writeError(error, of: item.element, defaultOwner: caller, to: &output)
      case nil: return
      }
    }
    output.endObject()
    return Self.answer(output)
  }

  private static func items(of outcome: Outcome, count: Int) throws(RecordError) -> [Result<
    AnswerParts.Part, RecordError
  >] {
    switch outcome {
    case .away(let error): return Array(repeating: .failure(error), count: count)
    case .refused: return []
    case .answered(let answer, _):
      guard answer.parts.count == count else {
        throw RecordError(.internalError, "A worker's answer has zones that the request did not name")
      }
      return answer.parts.map { .success($0) }
    }
  }
}
