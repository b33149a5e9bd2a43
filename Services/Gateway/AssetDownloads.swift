// Downloads of asset content by signed, expiring paths: no credentials, ranges allowed.

import Assets
import Crypto
import HTTPServer
import Records
import ServiceKit
import Synchronization
import WebServices

/// An asset's file, ready to be sent.
struct ServedFile: Sendable {
  /// Length of the content, not of the sealed file.
  let byteCount: UInt64
  let content: any HTTPContent
}

/// Answers downloads from the folder of asset files.
struct AssetDownloads: Sendable {
  /// nil: this gateway serves no assets.
  let directory: String?
  let find: @Sendable (_ path: String) throws(RecordError) -> ServedFile?

  /// Reads and verifies the address of a download.
  /// - Parameters:
  ///   - key: the installation's signing key.
  ///   - now: seconds since 1970.
  /// - Throws: `accessDenied` when the address was altered or has expired.
  static func url(of request: HTTPRequest, key: [UInt8], now: Int64) throws(RecordError) -> AssetURL {
    guard let url = AssetURL(segments: request.pathSegments, signedWith: key, now: now) else {
      throw RecordError(.accessDenied, "The asset's address was altered or has expired")
    }
    return url
  }

  func response(to request: HTTPRequest, of url: AssetURL) throws(RecordError) -> HTTPResponse {
    guard let directory else { throw RecordError(.notFound, "This gateway does not serve assets") }
    // The path consists of hexadecimal digits, so it can't leave the folder.
    let path = "\(directory)/\(Asset(hash: url.hash, byteCount: 0).relativePath(inShard: url.shard))"
    guard let file = try find(path) else { throw RecordError(.notFound, "The asset does not exist") }
    let byteCount = file.byteCount
    let tag = "\"\(Hex.encode(url.hash))\""
    let headers = Self.headers + [(name: "ETag", value: tag)]
    if let known = request.header("if-none-match"),
      known == "*" || known.split(separator: ",").contains(where: { Self.tag($0) == tag })
    {
      return HTTPResponse(status: 304, headers: headers)
    }
    // A range is only sent when the client's other part is of the same content; otherwise the whole file is sent.
    let isSame = request.header("if-range").map { $0 == tag } ?? true
    let range = ByteRange(isSame ? request.header("range") : nil, of: byteCount)
    let contentRange = (name: "Content-Range", value: range.contentRange(of: byteCount))
    switch range {
    case .whole:
      return HTTPResponse(status: 200, headers: headers, body: .content(file.content, offset: 0, byteCount: byteCount))
    case .part(let offset, let count):
      return HTTPResponse(
        status: 206, headers: headers + [contentRange], body: .content(file.content, offset: offset, byteCount: count))
    case .unsatisfiable: return HTTPResponse(status: 416, headers: [contentRange])
    }
  }

  /// An entity tag of `If-None-Match`, without `W/`: that header compares weak tags like strong ones.
  private static func tag(_ text: Substring) -> Substring {
    let tag = text.drop { $0 == " " || $0 == "\t" }
    let end = tag.lastIndex { $0 != " " && $0 != "\t" }.map { tag.index(after: $0) } ?? tag.endIndex
    return tag[..<end].hasPrefix("W/") ? tag[..<end].dropFirst(2) : tag[..<end]
  }

  /// The content comes from an uploader: a browser must neither guess its type nor show it as a page of this server.
  private static let headers: [(name: String, value: String)] = [
    ("Content-Type", "application/octet-stream"), ("Accept-Ranges", "bytes"), ("Content-Disposition", "attachment"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "private, max-age=900, immutable"),
  ]
}

/// A file's content, opened while it is sent. Each piece of a sealed file is authenticated; an unsealed file is first
/// compared with its name, which is its hash.
private final class VerifiedContent: HTTPContent {
  private let file: AssetFile
  private let log: Log
  private let isVerified: Mutex<Bool>

  init(_ file: AssetFile, log: Log) {
    self.file = file
    self.log = log
    isVerified = Mutex(file.isSealed)
  }

  func read(at offset: UInt64, limit: Int) -> [UInt8]? {
    do throws(AssetError) {
      try isVerified.withLock { isVerified throws(AssetError) in
        if !isVerified { try file.compareWithName() }
        isVerified = true
      }
      return try file.read(at: Int64(clamping: offset), limit: limit)
    } catch {
      log.error("an asset can't be read", ["error": .text(String(describing: error))])
      return nil
    }
  }
}

extension ServedFile {
  /// Looks a file up. It reads only the file's head, so it may run on a request's own thread.
  /// - Returns: nil when the file does not exist.
  /// - Throws: `TRY_AGAIN_LATER` while this process lacks the key, `INTERNAL_ERROR` for a damaged file.
  static func find(_ path: String, keys: KeyRing, log: Log) throws(RecordError) -> ServedFile? {
    do throws(AssetError) {
      guard let file = try AssetFile(path: path, keys: keys) else { return nil }
      return ServedFile(byteCount: UInt64(file.byteCount), content: VerifiedContent(file, log: log))
    } catch {
      log.error("an asset can't be read", ["error": .text(String(describing: error))])
      if case .missingKey = error {
        throw RecordError(.tryAgainLater, "The server lacks the key of the asset", retryAfter: keyRetrySeconds)
      }
      throw RecordError(.internalError, "The server could not read the asset")
    }
  }

  /// Long, because an operator has to supply the key first. Unit: seconds.
  private static let keyRetrySeconds = 60
}
