// The seam to the services that wake sleeping devices. A push is a hint: a lost one loses no data.

import HTTPClient
import JSON
import ServiceBus

/// One vendor's way of waking a device.
protocol PushSender: Sendable {
  /// Sends one push, once. The caller decides about further attempts.
  /// - Parameter user: the device's.
  func send(_ content: PushContent, to address: PushAddress, of user: String) async -> PushOutcome
}

/// The vendor's answer to a push.
enum PushOutcome: Hashable, Sendable {
  case delivered
  /// The vendor no longer knows the device.
  case gone
  /// The vendor is busy or away, or the device gets too many pushes.
  /// - Parameters:
  ///   - pause: the time that the vendor asked for; nil: it named none.
  ///   - reason: for operators.
  case later(PushLine.Failure, pause: Duration?, reason: String)
  /// The vendor will refuse the next attempt, too.
  /// - Parameter reason: the vendor's word for it, for operators.
  case refused(reason: String)
}

extension PushOutcome {
  /// The outcome of a push without a usable answer from a host that a client has named.
  init(of error: HTTPClientError) {
    self =
      switch error.kind {
      case .badURL: .gone
      // The host may be well: it was not asked, because of the user's other hosts.
      case .crowded: .later(.device, pause: nil, reason: error.reason)
      // The answer was too long, or broke off, or did not come.
      case _ where error.wasSent: .later(.address, pause: nil, reason: error.reason)
      default: .later(.service, pause: nil, reason: error.reason)
      }
  }
}

/// The content of a push.
struct PushContent: Hashable, Sendable {
  /// `{"aps":…,"ck":…}` (docs/protocol/record-plane.md#web-courier)
  let json: [UInt8]
  /// True without a text, a number or a sound for the person.
  let isSilent: Bool
  /// Pushes with the same one replace each other while they wait for a device: 32 characters of base64url.
  let collapseID: String

  /// - Parameters:
  ///   - ping: its key decides which pushes replace each other.
  ///   - byteLimit: the vendor's; content beyond it goes without the fields' values, or with the notification's name
  ///     only.
  init(_ ping: Ping, byteLimit: Int) {
    collapseID = ping.collapseID
    // Dropped because the notifier or a worker has written it: text that is no JSON goes as it is, and silently.
    guard let document = try? JSONValue(parsing: ping.json) else {
      (json, isSilent) = (ping.json, true)
      return
    }
    let isForNobody = !["alert", "badge", "sound"].contains { document["aps"]?[$0].map { !$0.isNull } ?? false }
    guard ping.json.count > byteLimit else {
      (json, isSilent) = (ping.json, isForNobody)
      return
    }
    let short = Self.shortened(document)
    (json, isSilent) = short.count <= byteLimit ? (short, isForNobody) : (Self.named(document), true)
  }

  /// Without the fields' values, which the device can fetch.
  private static func shortened(_ document: JSONValue) -> [UInt8] {
    var writer = JSONWriter()
    func copy(_ object: JSONValue, _ path: [String]) {
      writer.beginObject()
      for (key, value) in object.members where path + [key] != ["ck", "qry", "af"] {
        writer.key(key)
        if value.kind == .object { copy(value, path + [key]) } else { writer.value(value) }
      }
      writer.endObject()
    }
    copy(document, [])
    return writer.bytes
  }

  private static func named(_ document: JSONValue) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("aps")
    writer.beginObject()
    writer.member("content-available", 1)
    writer.endObject()
    writer.key("ck")
    writer.beginObject()
    for key in ["ce", "cid", "nid"] {
      guard let value = document["ck"]?[key] else { continue }
      writer.key(key)
      writer.value(value)
    }
    writer.endObject()
    writer.endObject()
    return writer.bytes
  }
}

extension HTTPClient.Response {
  /// The time of `Retry-After` in seconds; nil for a date, which vendors don't send, and without one.
  var retryAfter: Duration? {
    self["Retry-After"].flatMap { Int($0) }.flatMap { (0...86_400).contains($0) ? .seconds($0) : nil }
  }
}
