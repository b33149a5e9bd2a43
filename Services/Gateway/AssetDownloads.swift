// Downloads of asset content by signed, expiring paths: no credentials, ranges allowed.

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
    let headers = Self.headers
    let range = ByteRange(request.header("range"), of: byteCount)
    let contentRange = (name: "Content-Range", value: range.contentRange(of: byteCount))
    switch range {
    case .whole: return HTTPResponse(status: 200, headers: headers, body: .file(path: path, offset: 0, byteCount: byteCount))
    case .part(let offset, let count):
      return HTTPResponse(status: 206, headers: headers + [contentRange], body: .file(path: path, offset: offset, byteCount: count))
    case .unsatisfiable: return HTTPResponse(status: 416, headers: [contentRange])
    }
  }

  /// The content is the uploader's: a browser must neither guess its type nor show it as a page of ours.
  private static let headers: [(name: String, value: String)] = [
    ("Content-Type", "application/octet-stream"), ("Accept-Ranges", "bytes"), ("Content-Disposition", "attachment"), ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "private, max-age=900, immutable"),
  ]
}
