// How a process says which messages it serves: typed closures behind a table of wire names.

extension BusHandlers {
  /// Serves messages of one type.
  ///
  /// Arguments that don't decode are answered `badMessage`. A `BusError` that `handle` throws reaches the caller as it is, a
  /// `CancellationError` as `cancelled`, anything else as `internalError` with a static text, described to `report` only.
  /// - Parameters:
  ///   - isBrief: told a request's ordering key (empty: none) and the bytes of its arguments and body, says whether the handler only takes
  ///     short steps for it and never blocks: such a request may be served on the bus's own thread.
  ///   - handle: gets the message, its opaque body and the call's context; runs in a task that is cancelled with the call.
  public mutating func on<M: Message>(
    _ type: M.Type, isBrief: @escaping @Sendable (_ key: String, _ byteCount: Int) -> Bool = { _, _ in false },
    _ handle: @escaping @Sendable (_ message: M, _ body: [UInt8], _ context: CallContext) async throws -> Answer<M.Reply>
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

  /// What a handler's end means for the caller.
  func serve(_ name: String, arguments: [UInt8], body: [UInt8], context: CallContext) async -> Outcome {
    guard let entry = entries[name] else { return .failure(BusError(.unknownMessage, "\(name) is not served here")) }
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

/// What travels back: an encoded reply and its opaque body.
struct Payload: Sendable, Equatable {
  var arguments: [UInt8] = []
  var body: [UInt8] = []
}

typealias Outcome = Result<Payload, BusError>
