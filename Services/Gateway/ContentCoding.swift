// Decides whether an answer is sent compressed: what the client accepts, and which answers gain by it.

import HTTPServer

/// The codings that a request's `Accept-Encoding` headers accept (RFC 9110, 12.5.3).
enum ContentCoding {
  /// True when the client accepts gzip and does not prefer the plain answer. A client without the header gets it plain.
  static func prefersGzip(_ headers: [(name: String, value: String)]) -> Bool {
    var gzip: Int?
    var identity: Int?
    var others: Int?
    for header in headers where header.name == "accept-encoding" {
      for element in header.value.split(separator: ",") {
        let parts = element.split(separator: ";", omittingEmptySubsequences: false)
        // A weight that is none could mean either, and the plain answer is always right.
        let weight = weight(parts.dropFirst()) ?? 0
        switch parts[0].trimmingSpaces().lowercased() {
        case "gzip", "x-gzip": gzip = max(gzip ?? 0, weight)
        case "identity": identity = weight
        case "*": others = weight
        default: break
        }
      }
    }
    let accepted = gzip ?? others ?? 0
    return accepted > 0 && accepted >= identity ?? 0
  }

  /// The weight in thousandths; nil when the parameter is malformed.
  private static func weight(_ parameters: ArraySlice<Substring>) -> Int? {
    guard let parameter = parameters.first else { return 1000 }
    let text = parameter.trimmingSpaces().lowercased()
    guard parameters.count == 1, text.hasPrefix("q=") else { return nil }
    let parts = text.dropFirst(2).split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    let fraction = parts.count == 2 ? parts[1] : ""
    guard parts[0] == "0" || parts[0] == "1", fraction.utf8.count <= 3,
      fraction.utf8.allSatisfy({ (0x30...0x39).contains($0) })
    else { return nil }
    let padded = String(fraction) + String(repeating: "0", count: 3 - fraction.utf8.count)
    guard let thousandths = Int(parts[0] + padded), thousandths <= 1000 else { return nil }
    return thousandths
  }
}

extension HTTPResponse {
  /// Shorter answers gain less than the work costs.
  private static let compressedFrom = 1024

  /// True for JSON that gains by compression. Content of assets is compressed by its app.
  var isCompressible: Bool {
    guard case .bytes(let bytes) = body, bytes.count > Self.compressedFrom else { return false }
    return headers.contains { $0.name == "Content-Type" && $0.value == ErrorAnswer.jsonHeader.value }
  }
}
