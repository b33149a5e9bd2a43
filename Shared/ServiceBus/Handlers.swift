// The table of a process's handlers: typed closures by the wire names of their messages.

extension BusHandlers {
  /// Serves messages of one type.
  ///
  /// Arguments that do not decode are answered with `badMessage`. A `BusError` of `handle` reaches the caller
  /// unchanged, a `CancellationError` as `cancelled`, any other error as `internalError` with a fixed text; its
  /// description goes to `report` only.
  /// - Parameters:
  ///   - isBrief: gets a request's ordering key (empty: none) and the bytes of its arguments and body. True says that
  ///     the handler takes only short steps and never blocks: the bus may serve the request on its own thread.
  ///   - handle: gets the message, its opaque body and the call's context; runs in a task that is cancelled with the
  ///     call.
  public mutating func on<M: Message>(
    _ type: M.Type, isBrief: @escaping @Sendable (_ key: String, _ byteCount: Int) -> Bool = { _, _ in false },
    _ handle:
      @escaping @Sendable (_ message: M, _ body: [UInt8], _ context: CallContext) async throws -> Answer<M.Reply>
  ) {
    let report = report
    let handler: Handler = { arguments, body, context in
      let message: M
      do {
        message = try M.decoded(from: arguments)
      } catch {
        report(M.name, "arguments that do not decode: \(error)")
        throw BusError(.badMessage, "the arguments of \(M.name) do not decode")
      }
      let answer = try await handle(message, body, context)
      return (try M.encoded(answer.reply), answer.body)
    }
    set(Entry(handler: handler, senders: M.senders, lane: M.lane, isBrief: isBrief), for: M.name)
  }

  /// Runs a handler and turns its result or error into the caller's outcome.
  /// - Parameter entry: of the message's name; nil if it is not served.
  func serve(_ name: String, by entry: Entry?, arguments: [UInt8], body: [UInt8], context: CallContext) async
    -> Outcome
  {
    guard let entry else { return .failure(BusError(.unknownMessage, "\(name) is not served here")) }
    do {
      let answer = try await entry.handler(arguments, body, context)
      return .success(Payload(arguments: answer.reply, body: answer.body))
    } catch let error as BusError {
      return .failure(error)
    } catch is CancellationError {
      return .failure(BusError(.cancelled, "the call was cancelled"))
    } catch {
      report(name, String(describing: error))
      return .failure(BusError(.internalError, "the handler failed"))
    }
  }
}

/// The content of an answer: an encoded reply and its opaque body.
package struct Payload: Sendable, Equatable {
  var arguments: [UInt8] = []
  var body: [UInt8] = []
}

package typealias Outcome = Result<Payload, BusError>
