// Which client's request it is that something is done for: for logs only, from the HTTP header through the bus to the ping.

/// The identifier of the request in whose task this runs. It decides nothing; what does is passed in (`DatabaseRequest.requestID`).
public enum RequestTrace {
  /// nil: work that nobody asked for by HTTP, or of several requests at once.
  @TaskLocal public static var id: String?
}
