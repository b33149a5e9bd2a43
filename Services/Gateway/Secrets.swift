// The keys that all processes of an installation share, fetched once.

import Records
import ServiceBus

actor Secrets {
  private let share: ShareCalls
  private var known: FetchSecrets.Reply?

  init(share: ShareCalls) { self.share = share }

  /// 32 bytes.
  /// - Parameter limit: nil: the client's time.
  func signingKey(within limit: Duration? = nil) async throws(RecordError) -> [UInt8] {
    if let known { return known.signingKey }
    let reply = try await share.call(FetchSecrets(), within: limit)
    known = reply
    return reply.signingKey
  }

  /// Why the keys are not known, after asking for them; nil when they are.
  var obstacle: String? {
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
