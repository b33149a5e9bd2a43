// Fetches the keys that all processes of an installation share, once for each process.

public import Records
import ServiceBus
import Synchronization

public actor Secrets {
  private let share: ShareCalls
  private let known = Mutex<[UInt8]?>(nil)

  public init(share: ShareCalls) { self.share = share }

  /// The installation's signing key, fetched on first use: 32 bytes.
  /// - Parameter limit: the time for the call; nil for a client's time.
  /// - Throws: the error of the call to the share service.
  public func signingKey(within limit: Duration? = nil) async throws(RecordError) -> [UInt8] {
    if let key = knownSigningKey { return key }
    let key = try await share.call(FetchSecrets(), within: limit).signingKey
    known.withLock { $0 = key }
    return key
  }

  /// The signing key, for callers that cannot wait; nil until it was fetched. A gateway fetches it before it is ready.
  public nonisolated var knownSigningKey: [UInt8]? { known.withLock { $0 } }

  /// The reason why the keys are unknown, after an attempt to fetch them; nil when they are known.
  public var obstacle: String? {
    get async {
      do throws(RecordError) {
        _ = try await signingKey(within: .milliseconds(500))
        return nil
      } catch {
        return "the share service has not answered yet"
      }
    }
  }
}
