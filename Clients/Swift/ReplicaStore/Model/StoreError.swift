// The errors of stores, each with what the caller needs to act.

/// An error of a store or of the server behind it.
public enum StoreError: Error, Sendable, Equatable {
  /// Another process writes to the file.
  case inUse(processID: Int32)
  /// The file has a version of the model that is neither the app's nor among its earlier ones: a later one, or one that
  /// was edited after it made files.
  case unknownModel(hash: String)
  /// The file can't be brought to the model; the file is unchanged.
  case migration(problems: [String])
  /// The file, or something in it, is not what was written. The text says where.
  case damaged(String)
  /// The disk is full; the save is refused whole.
  case full
  /// All problems of a save at once.
  case validation([Problem])
  /// A relationship between objects of two zones (134060).
  case zones(AnyObjectID, AnyObjectID)
  /// A new object of a shared store that nothing connects to a zone (2988).
  case noZone(AnyObjectID)
  /// The object may not be changed by this user (10).
  case permission(AnyObjectID)
  case conflicts([PropertyConflict])
  /// No store has the object.
  case missing(AnyObjectID)
  /// The object is in another store than the save: a save writes to one store, and a relationship stays in one.
  case otherStore(AnyObjectID)
  /// A request or save that the model does not allow. The text names entity and property.
  case invalid(String)
  case readOnly
  case closed
  case generationExpired
  /// History before the token was purged (134301).
  case historyTokenExpired
  case offline
  case signedOut
  /// The store has the objects of another account than the one that is signed in.
  case accountChanged
  /// The server's environment lacks something of the model: `aquifer model push` comes before the app.
  /// - Parameter missing: as `CD_Type.field`; empty if the server does not know the model at all.
  case modelUnknown(missing: [String])
  /// What the server said: CKError's number, Core Data's where there is one, its reason, and the request's name in the
  /// server's logs.
  case server(ckErrorCode: Int, cocoaErrorCode: Int?, reason: String, requestID: String)

  public struct Problem: Sendable, Equatable {
    public let object: AnyObjectID
    public let property: String
    public let message: String

    public init(object: AnyObjectID, property: String, message: String) {
      self.object = object
      self.property = property
      self.message = message
    }
  }

  public struct PropertyConflict: Sendable, Equatable {
    public let object: AnyObjectID
    public let property: String
    /// The author of the latest transaction that changed it.
    public let changedBy: String?

    public init(object: AnyObjectID, property: String, changedBy: String?) {
      self.object = object
      self.property = property
      self.changedBy = changedBy
    }
  }
}
