// Downloads of asset content by signed, expiring paths: no credentials, ranges allowed.

import Crypto
import HTTPServer
import Records
import WebServices

/// Where asset files are, and what it takes to fetch one.
struct AssetDownloads: Sendable {
  /// nil: this gateway serves no assets.
  let directory: String?
  /// The byte count of a regular file; nil when there is none.
  let fileByteCount: @Sendable (_ path: String) -> UInt64?

  /// - Parameters:
  ///   - key: the installation's signing key.
  ///   - now: seconds since 1970.
  func response(to request: HTTPRequest, key: [UInt8], now: Int64) throws(RecordError) -> HTTPResponse {
    guard let url = AssetURL(segments: request.pathSegments, signedWith: key, now: now) else {
      throw RecordError(.accessDenied, "The asset's address was altered or has expired")
    }
    guard let directory else { throw RecordError(.notFound, "This gateway serves no assets") }
    // Made of hexadecimal digits, it can't leave the folder.
    let path = "\(directory)/\(Asset(hash: url.hash, byteCount: 0).relativePath(inShard: url.shard))"
    guard let byteCount = fileByteCount(path) else { throw RecordError(.notFound, "The asset does not exist") }
    let tag = "\"\(Hex.encode(url.hash))\""
    let headers = Self.headers + [(name: "ETag", value: tag)]
    if let known = request.header("if-none-match"), known == "*" || known.split(separator: ",").contains(where: { Self.tag($0) == tag }) {
      return HTTPResponse(status: 304, headers: headers)
    }
    // A part is of the content the client has another part of, or the whole is sent.
    let isSame = request.header("if-range").map { $0 == tag } ?? true
    let range = ByteRange(isSame ? request.header("range") : nil, of: byteCount)
    let contentRange = (name: "Content-Range", value: range.contentRange(of: byteCount))
    switch range {
    case .whole: return HTTPResponse(status: 200, headers: headers, body: .file(path: path, offset: 0, byteCount: byteCount))
    case .part(let offset, let count):
      return HTTPResponse(status: 206, headers: headers + [contentRange], body: .file(path: path, offset: offset, byteCount: count))
    case .unsatisfiable: return HTTPResponse(status: 416, headers: [contentRange])
    }
  }

  /// A tag of `If-None-Match`, which compares weak ones as strong.
  private static func tag(_ text: Substring) -> Substring {
    let tag = text.drop { $0 == " " || $0 == "\t" }
    let end = tag.lastIndex { $0 != " " && $0 != "\t" }.map { tag.index(after: $0) } ?? tag.endIndex
    return tag[..<end].hasPrefix("W/") ? tag[..<end].dropFirst(2) : tag[..<end]
  }

  /// The content is the uploader's: a browser must neither guess its type nor show it as a page of ours.
  private static let headers: [(name: String, value: String)] = [
    ("Content-Type", "application/octet-stream"), ("Accept-Ranges", "bytes"), ("Content-Disposition", "attachment"), ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "private, max-age=900, immutable"),
  ]
}
