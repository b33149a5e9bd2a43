// Downloads of asset content by signed, expiring paths: no credentials, ranges allowed.

import Assets
import Crypto
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import Synchronization
import WebServices

/// An asset's content, ready to be sent.
struct ServedContent: Sendable {
  /// Length of the content, not of its sealed form.
  let byteCount: UInt64
  /// The URL by which the client fetches the content from the store itself; nil when this process sends it.
  var address: String?
  /// Memory that the content holds while it is sent. Unit: bytes.
  var heldByteCount = 0
  let body: @Sendable (_ offset: UInt64, _ byteCount: UInt64) -> HTTPResponse.Body
  /// Called before the body is made and sent, because a damaged content must not be sent.
  /// - Parameter party: whose turn the look at the content takes.
  var check: @Sendable (_ party: String) async throws(RecordError) -> Void = { _ in }
}

/// Answers downloads from the store of assets.
struct AssetDownloads: Sendable {
  /// - Parameter party: whose turn the look for the content takes, and reading it.
  typealias Find =
    @Sendable (_ hash: [UInt8], _ shard: Int, _ party: String) async throws(RecordError) -> ServedContent?

  /// Finds a shard's content; nil: this gateway serves no assets.
  let find: Find?

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

  /// - Parameter shards: those that can have the content.
  func response(to request: HTTPRequest, of url: AssetURL, in shards: [Int]) async throws(RecordError) -> HTTPResponse {
    guard let find else { throw RecordError(.notFound, "This gateway does not serve assets") }
    var found: ServedContent?
    let party = Self.party(request, url)
    for shard in shards where found == nil { found = try await find(url.hash, shard, party) }
    guard let content = found else { throw RecordError(.notFound, "The asset does not exist") }
    let byteCount = content.byteCount
    let tag = "\"\(Hex.encode(url.hash))\""
    let headers = Self.headers + [(name: "ETag", value: tag)]
    if let known = request.header("if-none-match"),
      known == "*" || known.split(separator: ",").contains(where: { Self.tag($0) == tag })
    {
      return HTTPResponse(status: 304, headers: headers)
    }
    // The client repeats its range there. Another answer must not reuse the address, which expires sooner than this
    // one.
    if let address = content.address {
      return HTTPResponse(status: 302, headers: [("Location", address), ("Cache-Control", "no-store")])
    }
    // A range is only sent when the client's other part is of the same content; otherwise the whole file is sent.
    let isSame = request.header("if-range").map { $0 == tag } ?? true
    let range = ByteRange(isSame ? request.header("range") : nil, of: byteCount)
    let contentRange = (name: "Content-Range", value: range.contentRange(of: byteCount))
    if range != .unsatisfiable, !request.isHead { try await content.check(party) }
    var response: HTTPResponse
    switch range {
    case .whole:
      response = HTTPResponse(status: 200, headers: headers, body: content.body(0, byteCount))
    case .part(let offset, let count):
      response = HTTPResponse(status: 206, headers: headers + [contentRange], body: content.body(offset, count))
    case .unsatisfiable: return HTTPResponse(status: 416, headers: [contentRange])
    }
    response.heldByteCount = content.heldByteCount
    return response
  }

  /// A participant's address names them. An owner's names nobody, and counts for the network that the request is from.
  static func party(_ request: HTTPRequest, _ url: AssetURL) -> String {
    url.reader.map { Caller(userRecordName: $0.userRecordName).party(in: $0.container) }
      ?? request.clientNetwork.description
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

/// A content that is read while it is sent.
private final class ReadContent: HTTPContent {
  private let content: AssetContent
  private let log: Log

  init(_ content: AssetContent, log: Log) {
    self.content = content
    self.log = log
  }

  func read(at offset: UInt64, limit: Int) -> [UInt8]? {
    do throws(AssetError) {
      return try content.read(at: Int64(clamping: offset), limit: limit)
    } catch {
      log.error("an asset can't be read", ["error": .text(String(describing: error))])
      return nil
    }
  }
}

extension ServedContent {
  /// Bytes that are read ahead of a client.
  private static let pieceByteCount = 64 * 1024

  private init(
    _ content: AssetContent, in store: any AssetStore, for party: String, _ checks: ContentChecks, log: Log
  ) {
    let read = ReadContent(content, log: log)
    self.init(byteCount: UInt64(content.byteCount), address: content.address) { offset, byteCount in
      if content.isLocal { return .content(read, offset: offset, byteCount: byteCount) }
      let position = Mutex(offset)
      // A sequence that ends too early breaks the connection, because the answer has announced its length.
      let pieces = AsyncStream<[UInt8]> {
        let start = position.withLock(\.self)
        let limit = Int(min(offset + byteCount - start, UInt64(Self.pieceByteCount)))
        if limit == 0 || Task.isCancelled { return nil }
        // Dropped because the calls throw nothing.
        let piece = try? await store.apart(of: party) { _ in read.read(at: start, limit: limit) }
        guard let piece else { return nil }
        position.withLock { $0 += UInt64(piece.count) }
        return piece
      }
      return .pieces(pieces, byteCount: byteCount)
    } check: { party throws(RecordError) in
      try await checks.check(content, in: store, for: party)
    }
    // One piece is being sent, and the next one waits for that.
    let most = content.windowByteCount + 2 * Self.pieceByteCount
    if !content.isLocal { heldByteCount = Int(min(Int64(most), 3 * content.byteCount)) }
  }

  /// Finds contents of a store.
  static func finder(in store: any AssetStore, timing: Timing, log: Log) -> AssetDownloads.Find {
    let checks = ContentChecks(timing, log: log)
    return { hash, shard, party throws(RecordError) in
      do throws(AssetError) {
        let content = try await store.apart(of: party) { store throws(AssetError) in try store.open(hash, of: shard) }
        return content.map { ServedContent($0, in: store, for: party, checks, log: log) }
      } catch {
        throw RecordError(of: error, log)
      }
    }
  }
}

extension RecordError {
  /// Logs why a content can't be read, and tells its client less.
  init(of error: AssetError, _ log: Log) {
    log.error("an asset can't be read", ["error": .text(String(describing: error))])
    switch error {
    case .missingKey:
      self.init(.tryAgainLater, "The server lacks the key of the asset", retryAfter: Self.keyRetrySeconds)
    case .unavailable: self = .assetsAway
    case .full, .corrupt, .io: self.init(.internalError, "The server could not read the asset")
    }
  }

  /// Long, because an operator has to supply the key first. Unit: seconds.
  private static let keyRetrySeconds = 60
}
