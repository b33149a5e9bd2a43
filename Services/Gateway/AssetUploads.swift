// Uploads (docs/protocol/record-plane.md#assets): addresses that carry their own authority, and content that goes
// to the spool as it arrives.

import Assets
import Authentication
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import WebServices

/// Writes uploaded content to the spool. Workers adopt it when a record names it.
struct AssetUploads: Sendable {
  struct Limits: Sendable {
    /// Uploads at a time; the next one gets `tryAgainLater`.
    var count = 512
    /// Bytes of memory for the parts that a bucket takes; the senders of further parts wait (`PartMemory`).
    var memoryByteCount: Int64 = 128 << 20
    /// Limits of one user.
    var book = UploadBook.Limits()
    /// Bytes of the file system that uploads leave free for records. With less free space no upload is accepted.
    var reserveByteCount: Int64 = 1_000_000_000
  }

  /// Six syncs at a time keep a disk busy; more would only slow each other down. A bucket takes more requests at a
  /// time.
  private static let (diskWriterCount, bucketWriterCount) = (6, 24)

  /// nil: this gateway accepts no assets.
  private let store: (any AssetStore)?
  private let byteLimit: Int
  private let limits: Limits
  private let obstacle: @Sendable () -> String?
  private let freeByteCount: @Sendable () -> Int64?
  private let book: SharedUploadBook
  /// Bytes that uploads under way may still write.
  private let expected = ExpectedBytes()
  /// nil for a store that collects no parts.
  private let memory: PartMemory?
  private let writers: AssetWriters
  private let log: Log
  private let uploads: Family<Counter>
  private let bytes: Counter

  /// - Parameters:
  ///   - obstacle: the reason, for operators, why the folder is not in use; nil when it is in use.
  ///   - freeByteCount: free bytes of the assets' file system; nil when unknown.
  init(
    store: (any AssetStore)?, byteLimit: Int, limits: Limits = Limits(),
    obstacle: @escaping @Sendable () -> String? = { nil },
    freeByteCount: @escaping @Sendable () -> Int64? = { nil }, log: Log, metrics: Metrics
  ) {
    self.store = store
    self.byteLimit = byteLimit
    self.limits = limits
    self.obstacle = obstacle
    self.freeByteCount = freeByteCount
    book = SharedUploadBook(limits.book)
    let partByteCount = store?.uploadMemoryByteCount ?? 0
    memory =
      partByteCount > 0 ? PartMemory(byteCount: limits.memoryByteCount, partByteCount: partByteCount) : nil
    writers = AssetWriters(count: store?.keepsFiles == false ? Self.bucketWriterCount : Self.diskWriterCount)
    self.log = log
    uploads = metrics.counters("asset_uploads_total", "Finished uploads, by outcome.", labels: ["outcome"])
    bytes = metrics.counter("asset_upload_bytes_total", "Bytes of uploaded content.")
    let (writers, memory) = (writers, memory)
    metrics.collect("asset_uploads", "Uploads under way.") { [Metrics.Sample(Double(writers.uploadCount))] }
    metrics.collect("asset_uploads_waiting", "Uploads whose next part waits for memory.") {
      [Metrics.Sample(Double(memory?.waitingCount ?? 0))]
    }
  }

  /// The sink for the content that a client posts to an upload address.
  /// - Parameters:
  ///   - byteCount: the length that the client announces; nil without one.
  ///   - key: the installation's signing key, if it is known already.
  ///   - take: counts the upload as a request of its user; throws when there were too many.
  func sink(
    for segments: [String], byteCount: Int?, key: [UInt8]?, wallClock: any WallClock,
    take: (_ user: String) throws(RecordError) -> Void = { _ in }
  ) throws(RecordError) -> AssetUploadSink {
    guard let key else {
      throw RecordError(.tryAgainLater, "The gateway is starting", retryAfter: RetryPlan.retryAfterSeconds)
    }
    let now = wallClock.now / 1000
    guard let url = AssetUploadURL(segments: segments, signedWith: key, now: now) else {
      throw RecordError(.accessDenied, "The upload's address was altered or has expired")
    }
    let store = try existingStore
    try take(url.user.userRecordName)
    guard writers.uploadCount < limits.count else {
      throw refused(
        "crowded",
        RecordError(.tryAgainLater, "Too many uploads are under way", retryAfter: RetryPlan.retryAfterSeconds))
    }
    let user = url.user.userRecordName
    let most = Int64(min(byteCount ?? byteLimit, byteLimit))
    let room = freeByteCount().map { $0 - limits.reserveByteCount } ?? .max
    let space: ExpectedBytes.Share
    switch expected.take(most, of: room, for: user) {
    case .success(let taken): space = taken
    case .failure(.user): throw refused("user", Self.tooMany)
    case .failure(.all):
      throw refused(
        "full",
        RecordError(
          .tryAgainLater, "The server has no space left for uploads; nothing was stored",
          retryAfter: RecordError.noSpace.retryAfter))
    }
    let slot: UploadSlot
    switch book.begin(user, space, wallClock) {
    case .success(let taken): slot = taken
    case .failure(let error):
      space.giveBack()
      throw refused("user", error)
    }
    let expiry = now + AssetLifetime.receiptSeconds
    let (uploads, bytes) = (uploads, bytes)
    return AssetUploadSink(
      AssetUpload(
        into: store, until: expiry, writers: writers, room: memory?.room(for: user, atMost: most)),
      user: url.user, expiry: expiry, byteLimit: byteLimit, slot: slot,
      onAbort: { uploads["aborted"].increment() },
      onPiece: {
        bytes.increment(by: $0)
        space.wrote(Int64($0))
      })
  }

  fileprivate static let tooMany = RecordError(
    .throttled, "You have too many uploads under way", retryAfter: RetryPlan.retryAfterSeconds)

  private func refused(_ outcome: String, _ error: RecordError) -> RecordError {
    uploads["refused_" + outcome].increment()
    return error
  }

  /// The receipt for content that has arrived completely.
  func receipt(of sink: AssetUploadSink) async throws(RecordError) -> AssetReceipt {
    do throws(AssetError) {
      let asset = try await sink.upload.finish()
      sink.slot.release(byteCount: asset.byteCount)
      uploads["done"].increment()
      return AssetReceipt(asset: asset, expiry: sink.expiry)
    } catch {
      sink.slot.release(byteCount: 0)
      uploads["failed"].increment()
      log.error("an upload could not be stored", ["error": .text(String(describing: error))])
      switch error {
      case .full: throw .noSpace
      case .unavailable: throw .assetsAway
      case .corrupt, .io, .missingKey: break
      }
      throw RecordError(.internalError, "The server could not store the content")
    }
  }

  var existingStore: any AssetStore {
    get throws(RecordError) {
      guard let store else { throw RecordError(.notFound, "This gateway does not take assets") }
      try checkFolder()
      return store
    }
  }

  /// - Throws: `tryAgainLater` when the folder does not belong to this installation. The content asked for is elsewhere
  ///   then, and uploaded content would be lost.
  func checkFolder() throws(RecordError) {
    if obstacle() == nil { return }
    throw .assetsAway
  }
}

/// The body of one upload.
final class AssetUploadSink: HTTPBodySink {
  let user: AssetUser
  let expiry: Int64
  let byteLimit: Int
  fileprivate let upload: AssetUpload
  fileprivate let slot: UploadSlot
  private let onAbort: @Sendable () -> Void
  private let onPiece: @Sendable (_ byteCount: Int) -> Void

  fileprivate init(
    _ upload: AssetUpload, user: AssetUser, expiry: Int64, byteLimit: Int, slot: UploadSlot,
    onAbort: @escaping @Sendable () -> Void,
    onPiece: @escaping @Sendable (_ byteCount: Int) -> Void
  ) {
    self.upload = upload
    self.slot = slot
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

  /// Discards the content, unless it is stored or discarded already.
  func abort() {
    guard slot.release(byteCount: 0) else { return }
    upload.abort()
    onAbort()
  }
}

/// The bytes of disk space that uploads under way have reserved, for all threads that read sockets.
///
/// Bytes that have arrived no longer count here, because the file system's free space reflects them.
fileprivate final class ExpectedBytes: Sendable {
  final class Share: Sendable {
    private let rest: Mutex<Int64>
    private let user: String
    private let owner: ExpectedBytes

    fileprivate init(_ byteCount: Int64, for user: String, of owner: ExpectedBytes) {
      rest = Mutex(byteCount)
      self.user = user
      self.owner = owner
    }

    func wrote(_ byteCount: Int64) {
      let given = rest.withLock { rest in
        let given = min(byteCount, rest)
        rest -= given
        return given
      }
      owner.giveBack(given, of: user)
    }

    func giveBack() { wrote(.max) }
  }

  /// The limit that a reservation would exceed.
  enum Refusal: Error {
    case user, all
  }

  private struct State {
    var total: Int64 = 0
    var users: [String: Int64] = [:]
  }

  /// The part of the room that one user may reserve is one over this number.
  private static let userDivisor: Int64 = 6

  private let state = Mutex(State())

  /// - Parameters:
  ///   - room: bytes that all uploads together may reserve.
  ///   - user: may reserve a share of the room, and in any case the bytes of one upload.
  func take(_ byteCount: Int64, of room: Int64, for user: String) -> Result<Share, Refusal> {
    state.withLock { state in
      // A full disk is nobody's own fault.
      guard room >= 0, byteCount <= room else { return .failure(.all) }
      let own = state.users[user] ?? 0
      guard own == 0 || own + byteCount <= room / Self.userDivisor else { return .failure(.user) }
      guard state.total <= room - byteCount else { return .failure(.all) }
      if byteCount > 0 {
        state.total += byteCount
        state.users[user] = own + byteCount
      }
      return .success(Share(byteCount, for: user, of: self))
    }
  }

  private func giveBack(_ byteCount: Int64, of user: String) {
    guard byteCount > 0 else { return }
    state.withLock { state in
      state.total -= byteCount
      let own = (state.users[user] ?? 0) - byteCount
      state.users[user] = own > 0 ? own : nil
    }
  }
}

/// The upload book, shared by all threads that read sockets.
fileprivate final class SharedUploadBook: Sendable {
  private let book: Mutex<UploadBook>

  init(_ limits: UploadBook.Limits) {
    book = Mutex(UploadBook(limits: limits, memory: AssetLifetime.receiptSeconds / 3600))
  }

  /// - Parameter share: given back when the upload ends.
  func begin(_ user: String, _ share: ExpectedBytes.Share, _ wallClock: any WallClock) -> Result<
    UploadSlot, RecordError
  > {
    switch book.withLock({ $0.begin(user, now: wallClock.now / 1000) }) {
    case nil:
      .success(
        UploadSlot { [self] byteCount in
          share.giveBack()
          book.withLock { $0.end(user, byteCount: byteCount, now: wallClock.now / 1000) }
        })
    case .slots: .failure(AssetUploads.tooMany)
    case .bytes(let seconds):
      .failure(RecordError(.throttled, "You have reached the limit of uploads in a day", retryAfter: seconds))
    }
  }
}

/// A user's place among the uploads, given back exactly once.
fileprivate final class UploadSlot: Sendable {
  private let end: Mutex<(@Sendable (_ byteCount: Int64) -> Void)?>

  init(_ end: @escaping @Sendable (_ byteCount: Int64) -> Void) { self.end = Mutex(end) }
  deinit { release(byteCount: 0) }

  /// - Returns: false when the place was given back before.
  @discardableResult func release(byteCount: Int64) -> Bool {
    let end = end.withLock { end in
      defer { end = nil }
      return end
    }
    end?(byteCount)
    return end != nil
  }
}

extension Gateway {
  /// `assets/upload`: hands out upload addresses.
  func uploadTokens(_ exchange: IncomingRequest, _ address: Address, user: String) async throws(RecordError)
    -> HTTPResponse
  {
    guard let container = address.container, let environment = address.environment else {
      throw RecordError(.internalError, "The route has no database")
    }
    _ = try uploads.existingStore
    let requestID = try Self.requestID(exchange, Caller(userRecordName: user))
    var count = 0
    let request = try UploadAssetsRequest(try JSONValue.request(exchange.request.body)) {
      count += 1
      return Self.name(drawnFor: "\(requestID) \(count)")
    }
    let key = try await secrets.signingKey()
    let url = AssetUploadURL(
      user: AssetUser(container: container, environment: environment, userRecordName: user),
      expiry: wallClock.now / 1000 + AssetLifetime.urlSeconds)
    // One address serves all tokens of the request: the hash tells the uploaded contents apart.
    let text = options.publicAddress.url(for: exchange.request) + url.path(signedWith: key)
    return Self.json(request.answer { text })
  }

  /// Answers the upload itself; the content has already arrived in the request's sink.
  func upload(_ request: HTTPRequest) async throws(RecordError) -> HTTPResponse {
    guard let sink = request.sink as? AssetUploadSink else {
      throw RecordError(.internalError, "The content got lost on its way")
    }
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
