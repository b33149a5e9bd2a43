// The share service's question to notifiers about the pings that they sent lately.

/// Asks a notifier for its latest pings; the answer's body is JSON: `{"pings":[…]}`, oldest first, with the members of
/// the operator API's `pings` and a `number` each, which rises from ping to ping and from start to start.
public struct FetchPings: Message {
  public static let name = "notifier.pings/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  /// Restrictions; nil: none.
  public var container: String?
  public var environment: String?
  public var owner: String?
  public var zone: String?
  /// Only pings for this user's devices: pings of the public database are for everybody's.
  public var userRecordName: String?
  /// For each notifier by its name: only pings with a greater number.
  public var after: [String: Int64]
  /// The most pings, the latest ones.
  public var limit: Int

  public init(after: [String: Int64] = [:], limit: Int) {
    self.after = after
    self.limit = limit
  }
}
