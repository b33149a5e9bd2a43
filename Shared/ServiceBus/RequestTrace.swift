// The client's request behind a piece of work, from the HTTP header through the bus to the ping; for logs only.

/// The identifier of the request that the current task serves. It decides nothing: code that needs an identifier gets
/// it as an argument (`DatabaseRequest.requestID`).
public enum RequestTrace {
  /// nil for work without an HTTP request, and for work of several requests at once.
  @TaskLocal public static var id: String?
}
