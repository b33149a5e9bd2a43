// Uploads: addresses that carry their own authority, and content that goes to the spool as it arrives (wire-protocol 8).

import Assets
import Authentication
import HTTPServer
import JSON
import Records
import ServiceKit
import WebServices

/// Takes content for the workers, who adopt it when a record names it.
struct AssetUploads: Sendable {
  /// Uploads at a time; a further one is told to come again.
  static let countLimit = 512
  /// Half a dozen syncs at a time keep a disk busy; more would only make each slower.
  private static let writerCount = 6

  /// nil: this gateway takes no assets.
  private let store: AssetStore?
  private let byteLimit: Int
  private let writers = AssetWriters(count: writerCount)
  private let log: Log
  private let uploads: Family<Counter>
  private let bytes: Counter

  init(store: AssetStore?, byteLimit: Int, log: Log, metrics: Metrics) {
    self.store = store
    self.byteLimit = byteLimit
    self.log = log
    uploads = metrics.counters("asset_uploads_total", "Uploads that ended, by how.", labels: ["outcome"])
    bytes = metrics.counter("asset_upload_bytes_total", "Bytes of content that was taken.")
    let writers = writers
    metrics.collect("asset_uploads", "Uploads under way.") { [Metrics.Sample(Double(writers.uploadCount))] }
  }

  /// What takes the content that is posted to an upload's address.
  /// - Parameters:
  ///   - key: the installation's signing key, if it is known already.
  ///   - now: seconds since 1970.
  func sink(for segments: [String], key: [UInt8]?, now: Int64) throws(RecordError) -> AssetUploadSink {
    guard let key else { throw RecordError(.tryAgainLater, "The gateway is starting", retryAfter: RetryPlan.retryAfterSeconds) }
    guard let url = AssetUploadURL(segments: segments, signedWith: key, now: now) else {
      throw RecordError(.accessDenied, "The upload's address was altered or has expired")
    }
    let store = try existingStore
    guard writers.uploadCount < Self.countLimit else {
      throw RecordError(.tryAgainLater, "Too many uploads are under way", retryAfter: RetryPlan.retryAfterSeconds)
    }
    let expiry = now + AssetLifetime.receiptSeconds
    let (uploads, bytes) = (uploads, bytes)
    return AssetUploadSink(
      AssetUpload(into: store, until: expiry, writers: writers), user: url.user, expiry: expiry, byteLimit: byteLimit,
      onAbort: { uploads["aborted"].increment() }, onPiece: { bytes.increment(by: $0) })
  }

  /// The receipt of content that has arrived.
  func receipt(of sink: AssetUploadSink) async throws(RecordError) -> AssetReceipt {
    do throws(AssetError) {
      let asset = try await sink.upload.finish()
      uploads["done"].increment()
      return AssetReceipt(asset: asset, expiry: sink.expiry)
    } catch {
      uploads["failed"].increment()
      log.error("an upload could not be stored", ["error": .text(String(describing: error))])
      if case .full = error { throw RecordError(.tryAgainLater, "The server has no space left; nothing was stored", retryAfter: Self.fullRetrySeconds) }
      throw RecordError(.internalError, "The server could not store the content")
    }
  }

  private static let fullRetrySeconds = 30

  var existingStore: AssetStore {
    get throws(RecordError) {
      guard let store else { throw RecordError(.notFound, "This gateway takes no assets") }
      return store
    }
  }
}

/// One upload's body.
final class AssetUploadSink: HTTPBodySink {
  let user: AssetUser
  let expiry: Int64
  let byteLimit: Int
  fileprivate let upload: AssetUpload
  private let onAbort: @Sendable () -> Void
  private let onPiece: @Sendable (_ byteCount: Int) -> Void

  fileprivate init(
    _ upload: AssetUpload, user: AssetUser, expiry: Int64, byteLimit: Int, onAbort: @escaping @Sendable () -> Void,
    onPiece: @escaping @Sendable (_ byteCount: Int) -> Void
  ) {
    self.upload = upload
    self.user = user
    self.expiry = expiry
    self.byteLimit = byteLimit
    self.onAbort = onAbort
    self.onPiece = onPiece
  }

  func receive(_ piece: UnsafeRawBufferPointer, resume: @escaping @Sendable () -> Void) -> Bool {
    onPiece(piece.count)
    return upload.take(piece, resume: resume)
  }

  func abort() {
    upload.abort()
    onAbort()
  }
}

extension Gateway {
  /// `assets/upload`.
  func uploadTokens(_ exchange: Exchange, _ address: Address, user: String) async throws(RecordError) -> HTTPResponse {
    guard let container = address.container, let environment = address.environment else { throw RecordError(.internalError, "The route has no database") }
    _ = try uploads.existingStore
    let request = try UploadAssetsRequest(try JSONValue.request(exchange.request.body)) { random.uuid() }
    let key = try await secrets.signingKey()
    let url = AssetUploadURL(
      user: AssetUser(container: container, environment: environment, userRecordName: user), expiry: wallClock.now / 1000 + AssetLifetime.urlSeconds)
    // One for all: what is uploaded to it is told apart by its content.
    let text = options.publicAddress.url(for: exchange.request) + url.path(signedWith: key)
    return Self.json(request.answer { text })
  }

  /// The content has arrived in the request's sink.
  func upload(_ request: HTTPRequest) async throws(RecordError) -> HTTPResponse {
    guard let sink = request.sink as? AssetUploadSink else { throw RecordError(.internalError, "The content went astray") }
    let receipt = try await uploads.receipt(of: sink)
    let key = try await secrets.signingKey()
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("singleFile")
    receipt.write(for: sink.user, signedWith: key, to: &writer)
    writer.endObject()
    return Self.json(writer.bytes)
  }
}
