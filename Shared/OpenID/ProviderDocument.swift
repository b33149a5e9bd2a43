// A document of a provider that many callers want at once.

/// Reads a document once for all callers that wait for it, and remembers a failure for a moment. Belongs to one actor.
final class ProviderDocument<Content: Sendable> {
  /// Strangers may ask as often as they like, and a person waits for the next question. Unit: milliseconds.
  private static var pause: Int64 { 5000 }

  private var kept: (content: Content, read: Int64)?
  private var failure: (error: IdentityError, at: Int64)?
  private var isBeingRead = false
  private var waiting: [CheckedContinuation<Void, Never>] = []

  /// - Parameters:
  ///   - now: milliseconds since 1970.
  ///   - isEnough: whether a document of this age, in milliseconds, may be taken.
  ///   - read: reads the document; one at a time.
  func content(
    _ now: Int64, isolation: isolated (any Actor)? = #isolation, isEnough: (_ age: Int64) -> Bool,
    read: () async throws(IdentityError) -> Content
  ) async throws(IdentityError) -> Content {
    while true {
      if let kept, isEnough(now - kept.read) { return kept.content }
      if let failure, (0..<Self.pause).contains(now - failure.at) { throw failure.error }
      if !isBeingRead { break }
      await withCheckedContinuation { waiting.append($0) }
    }
    isBeingRead = true
    defer {
      isBeingRead = false
      let others = waiting
      waiting = []
      for other in others { other.resume() }
    }
    do throws(IdentityError) {
      let content = try await read()
      kept = (content, now)
      failure = nil
      return content
    } catch {
      // A caller that goes away says nothing about the provider: the next one asks.
      if !Task.isCancelled { failure = (error, now) }
      throw error
    }
  }
}
