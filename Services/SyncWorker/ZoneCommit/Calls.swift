// The parts that calls of all planes share: their answers, their reads and commits, and background work on shards.

package import RecordStore
package import Records
package import ServiceBus
import ServiceKit

/// A plane's HTTP answer.
package struct PlaneAnswer: Sendable {
  package var status = 200
  /// nil: JSON.
  package var contentType: String?
  package var retryAfter: Int?
  package var mayWait = false
  /// The error that the body tells; nil for an answer that is none.
  package var error: RecordError?
  package var body: [UInt8]

  package init(
    status: Int = 200, contentType: String? = nil, retryAfter: Int? = nil, mayWait: Bool = false,
    error: RecordError? = nil,
    body: [UInt8]
  ) {
    self.error = error
    self.status = status
    self.contentType = contentType
    self.retryAfter = retryAfter
    self.mayWait = mayWait
    self.body = body
  }
}

/// One call on one shard. Errors of its store become a `RecordError`.
package protocol ShardCall: Sendable {
  associatedtype Context: CommittingContext
  var store: any ShardStore { get }
  var context: Context { get }
}

/// A client's, operator's or home's call about one database.
package protocol DatabaseCall: ShardCall {
  var request: DatabaseRequest { get }
}

extension ShardCall {
  package func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value)
    async throws(RecordError) -> Value
  {
    do {
      return try await store.read(body)
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
  }

  package func value<Value: Sendable>(of commit: PendingCommit<Value>) async throws(RecordError) -> Value {
    do {
      return try await commit.value
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
  }
}

extension DatabaseRequest {
  /// The request's identifier as answers show it.
  package var uuid: String {
    if let traceID { return traceID }
    // A gateway of an earlier release sends no trace identifier: drops the prefix that it put before the client's own.
    guard let colon = requestID.firstIndex(of: ":") else { return requestID }
    return String(requestID[requestID.index(after: colon)...])
  }
}
