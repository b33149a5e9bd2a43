// The seam between a store's file and what speaks with the server: what mirroring asks of a store.

package import FoundationEssentials
package import MirrorWire

/// A store as mirroring sees it. Every call is one commit, durable before it answers; a call that throws changes
/// nothing. `Replica` is the implementation.
package protocol MirroredStore: Sendable {
  // MARK: Positions

  func position() async throws(StoreError) -> MirrorPosition
  /// Changes the position in one commit. The tokens of imports and exports are not set here, but with what they cover.
  func updatePosition(_ change: @escaping @Sendable (inout MirrorPosition) -> Void) async throws(StoreError)
  /// Told after every commit, the store's own imports too. Ends with the store.
  func commits() -> AsyncStream<Commit>
  func figures() async throws(StoreError) -> MirrorFigures

  // MARK: Export

  /// The next saves to send, in order. A batch that was handed out before is handed out again with the same
  /// transactions, until it is acknowledged or refused (K3). It is marked as sent in a commit before this answers.
  /// - Parameters:
  ///   - transactionLimit: 1 to 1000. It does not change a batch that was handed out before.
  ///   - byteLimit: of all bodies together; one transaction is handed out even if it is larger.
  /// - Returns: nil when nothing is pending.
  func nextBatch(transactionLimit: Int, byteLimit: Int) async throws(StoreError) -> ExportBatch?
  /// The server has stored the batch. Its properties and pairs are the server's from now on.
  func acknowledge(_ batch: ExportBatch, historyToken: String) async throws(StoreError)
  /// The server was restored from a backup: all saves of the last time go again, before those that wait.
  func sendAgain() async throws(StoreError)
  /// The server refused the batch for its content, and stored none of it (K14). A batch of several transactions is
  /// halved; the only transaction of a batch, and later ones that build on it, move to the rejected ones.
  /// - Parameter index: of the refused transaction in the batch, if the server says it; then no halving is needed.
  /// - Returns: the rejected transactions; none when the batch was only made smaller.
  func refuse(_ batch: ExportBatch, at index: Int?, error: ServerError) async throws(StoreError) -> [Rejected]
  func rejected() async throws(StoreError) -> [Rejected]
  /// The rejected transactions without a decision: neither `revert` nor `keep` nor `adopt` has named them. They outlive
  /// the process.
  func undecided() async throws(StoreError) -> [Rejected]
  /// Decides that the objects of a rejected transaction become what the server has. It waits until it is retried or
  /// discarded. One that sends objects again is kept: it changed nothing here.
  func revert(_ identifier: String) async throws(StoreError)
  /// What a rejected transaction did stays the user's, as if it waited to be sent: the app shows it, and imports leave
  /// it alone, until it is retried or discarded.
  func keep(_ identifier: String) async throws(StoreError)
  /// Sends a rejected transaction again, behind all that is pending: of one that is kept what the server has taken
  /// of no later save and none that waits tells, else what it did, as a save of now.
  func retry(_ identifier: String) async throws(StoreError)
  /// Forgets it. Its objects become what the server has (`objectsToReread`): those that were to be sent again go, but
  /// for those that another device has sent.
  func discard(_ identifier: String) async throws(StoreError)
  /// Makes what leads to duplicates lead to the objects that the server prefers, and sends the rest of rejected
  /// transactions again. Where the model does not let these take the duplicates' places, the transactions are reverted.
  /// - Parameter winners: record names, by the duplicates.
  func adopt(_ winners: [AnyObjectID: String], for identifiers: [String]) async throws(StoreError)

  // MARK: Import

  /// Applies a page with its token, history and event in one commit (K10). Pages of a reset go to a second file, which
  /// replaces what the store shows when the reset is done (K13).
  /// - Parameter event: identifies the import event that the page belongs to.
  @discardableResult func apply(_ page: ImportPage, event: UUID?) async throws(StoreError) -> AppliedPage
  /// Begins a reset: the next page is asked for without a token.
  func beginReset(reason: String) async throws(StoreError)
  /// Gives a reset up and counts it; the store stays as it is shown.
  func abandonReset() async throws(StoreError)
  /// Objects to ask the server for one by one, since a transaction that changed them was refused. The list is durable.
  /// It leaves out those that a save names which waits to be sent: the server's answer is to have it.
  func objectsToReread(limit: Int) async throws(StoreError) -> [AnyObjectID]
  /// What the server has of such an object; nil: it has none.
  func reread(_ object: AnyObjectID, as answer: ObjectAnswer?) async throws(StoreError)

  // MARK: Events

  /// Keeps an event, or replaces the one with the same identifier.
  func record(_ event: MirrorEvent) async throws(StoreError)
  /// Oldest first.
  func mirrorEvents(after date: Date?, afterEvent: UUID?, type: MirrorEvent.Kind?) async throws(StoreError)
    -> [MirrorEvent]

  // MARK: Zones, shares, permissions

  func zones() async throws(StoreError) -> [CachedZone]
  /// Keeps the share of a zone (JSON as the server answered it) and what the user may do there; nil: no share.
  func cacheShare(_ share: Data?, permission: ZonePermission, of zoneID: ZoneID) async throws(StoreError)
  /// Keeps what the server says of single objects; they override their zone's permission.
  func cachePermissions(_ answer: PermissionsAnswer) async throws(StoreError)

  // MARK: Contents

  /// Contents that a batch names and the server has no valid receipt for.
  func contentsToUpload(for batch: ExportBatch, validAt date: Date) async throws(StoreError) -> [Content]
  func keepReceipt(_ receipt: AssetReference, for checksum: String, until expiry: Date) async throws(StoreError)
  /// Contents of objects that are not here, smallest first; without those that were here and had to go.
  /// - Parameter byteLimit: larger ones are left for their first read.
  func contentsToDownload(byteLimit: Int64, limit: Int) async throws(StoreError) -> [Content]
  /// A content, and the object that the server told it with last, to ask for a new address; its name is empty: none.
  func content(_ checksum: String) async throws(StoreError) -> (content: Content, owner: AnyObjectID)?
  /// Objects that have the content now; those whose zone the server has told come first.
  func holders(of checksum: String, limit: Int) async throws(StoreError) -> [AnyObjectID]
  /// - Parameter owner: the object at which the server has the content.
  func keepAddress(
    _ downloadURL: String, of owner: AnyObjectID, for checksum: String, until expiry: Date
  ) async throws(StoreError)
  /// The server has no such content any more. It is asked for again when it is read, or told anew; one that no object
  /// has is forgotten.
  func forgetAddress(of checksum: String) async throws(StoreError)
  /// Where a download is written to; the file may exist from an earlier attempt.
  func partialPath(of checksum: String) -> String
  /// Takes the file at `partialPath` as the content, after its checksum is compared. Others may go for it.
  /// - Returns: false when the bytes are others; the file is removed then.
  func acceptContent(_ checksum: String) async throws(StoreError) -> Bool
}
