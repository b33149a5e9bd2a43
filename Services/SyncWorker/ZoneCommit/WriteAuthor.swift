// The author of a commit's writes.

/// The author of a commit's writes.
package struct WriteAuthor: Hashable, Sendable {
  /// nil: the server by itself.
  package let userRecordName: String?
  /// The author's device, which is not told of its own writes; nil: none, or one without a name.
  package let device: String?
  /// The key of the mirrored store whose export this is, or 0 (`StoredRecord.origin`).
  package var mirror: Int64 = 0

  package init(userRecordName: String?, device: String?, mirror: Int64 = 0) {
    self.userRecordName = userRecordName
    self.device = device
    self.mirror = mirror
  }

  /// The server on behalf of a user: every device is told of the writes.
  static let server = WriteAuthor(userRecordName: nil, device: nil)
}
