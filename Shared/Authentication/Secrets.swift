// The keys that all processes of an installation share, fetched once.

public import Records
import ServiceBus
import Synchronization

public actor Secrets {
  private let share: ShareCalls
  private let known = Mutex<[UInt8]?>(nil)

  public init(share: ShareCalls) { self.share = share }

  /// 32 bytes.
  /// - Parameter limit: nil: the client's time.
  public func signingKey(within limit: Duration? = nil) async throws(RecordError) -> [UInt8] {
    if let key = knownSigningKey { return key }
    let key = try await share.call(FetchSecrets(), within: limit).signingKey
    known.withLock { $0 = key }
    return key
  }

  /// The same where nobody can wait; nil until it was fetched, which a gateway that is ready has done.
  public nonisolated var knownSigningKey: [UInt8]? { known.withLock { $0 } }

  /// Why the keys are not known, after asking for them; nil when they are.
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
