// The messages of the bus's own tests, with their handlers for both implementations.

import ServiceBus
import Synchronization

/// Answers with its text and body.
struct Echo: Message {
  static let name = "test.echo/1"
  static let senders = Set(Role.allCases)
  static let isRepeatable = true
  struct Reply: Codable, Sendable, Equatable {
    let text: String
    let servedBy: String
  }
  let text: String
}

/// Runs until its task is cancelled or `Release` names it.
struct Hold: Message {
  static let name = "test.hold/1"
  static let senders = Set(Role.allCases)
  static let isRepeatable = true
  typealias Reply = Acknowledgement
  let id: String
  var key: String?
  var startsNext = false
  var crowd: String?
  var orderingKey: String? { key }
  var party: String { crowd ?? "" }
}

/// Lets a `Hold` return.
struct Release: Message {
  static let name = "test.release/1"
  static let senders = Set(Role.allCases)
  static let isRepeatable = true
  typealias Reply = Acknowledgement
  let id: String
}

/// Returns the journal of the handlers.
struct Journal: Message {
  static let name = "test.journal/1"
  static let senders = Set(Role.allCases)
  static let isRepeatable = true
  struct Reply: Codable, Sendable, Equatable {
    let entries: [String]
  }
}

/// Keeps the bus's own thread until the served process is told to go on.
struct Stall: Message {
  static let name = "test.stall/1"
  static let senders = Set(Role.allCases)
  static let isRepeatable = false
  typealias Reply = Acknowledgement
}

/// Throws the given error.
struct Fail: Message {
  static let name = "test.fail/1"
  static let senders = Set(Role.allCases)
  static let isRepeatable = false
  typealias Reply = Acknowledgement
  enum Way: String, Codable {
    case busError, newCode, otherError, hugeReply
  }
  let way: Way
}

/// Appends to the journal, in order within its key.
struct Append: Message {
  static let name = "test.append/1"
  static let senders = Set(Role.allCases)
  static let isRepeatable = false
  typealias Reply = Acknowledgement
  let key: String
  let number: Int
  var orderingKey: String? { key }
}

/// The message in a later version, with one more field, and without a field that is no longer sent.
struct EvolvedEcho: Message {
  static let name = "test.echo/1"
  static let senders = Set(Role.allCases)
  static let isRepeatable = true
  struct Reply: Codable, Sendable {
    let text: String
    /// Not sent by the present version.
    let note: String?
  }
  let text: String
  var added = [1, 2, 3]
  var more: [String: String] = ["a": "b"]
}

/// The message in an incompatible version.
struct BrokenEcho: Message {
  static let name = "test.echo/1"
  static let senders = Set(Role.allCases)
  static let isRepeatable = true
  typealias Reply = Acknowledgement
  let text: Int
}

struct NobodyServesThis: Message {
  static let name = "test.nobody/1"
  static let senders = Set(Role.allCases)
  static let isRepeatable = true
  typealias Reply = Acknowledgement
}

/// The journal of one process's handlers, and its holds.
final class HandlerState: Sendable {
  private struct State {
    var entries: [String] = []
    var holds: [String: AsyncStream<Void>.Continuation] = [:]
    var released: Set<String> = []
  }
  private let state = Mutex(State())
  let name: String

  init(name: String) { self.name = name }

  var entries: [String] { state.withLock(\.entries) }
  func write(_ entry: String) { state.withLock { $0.entries.append(entry) } }

  func hold(_ id: String) async throws {
    let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    let isReleased = state.withLock { state in
      state.holds[id] = continuation
      return state.released.remove(id) != nil
    }
    if !isReleased { for await _ in stream { break } }
    try Task.checkCancellation()
  }

  func release(_ id: String) {
    state.withLock { state in
      if let hold = state.holds.removeValue(forKey: id) { hold.yield() } else { state.released.insert(id) }
    }
  }

  /// - Parameter reports: gets the errors that became `internalError`.
  func handlers(areBrief: Bool = false, reports: @escaping @Sendable (String) -> Void = { _ in }) -> BusHandlers {
    var handlers = BusHandlers { name, description in reports("\(name): \(description)") }
    let isBrief: @Sendable (String, Int) -> Bool = { _, _ in areBrief }
    handlers.on(Echo.self, isBrief: isBrief) { [self] message, body, _ in
      Answer(Echo.Reply(text: message.text, servedBy: name), body: body)
    }
    handlers.on(Hold.self, isBrief: isBrief) { [self] message, _, context in
      write("start \(message.id)")
      if message.startsNext { context.startNext() }
      do {
        try await hold(message.id)
        write("end \(message.id)")
      } catch {
        write("cancelled \(message.id)")
        throw error
      }
      return Answer(Acknowledgement())
    }
    handlers.on(Release.self, isBrief: isBrief) { [self] message, _, _ in
      release(message.id)
      return Answer(Acknowledgement())
    }
    handlers.on(Journal.self, isBrief: isBrief) { [self] _, _, _ in Answer(Journal.Reply(entries: entries)) }
    handlers.on(Append.self, isBrief: isBrief) { [self] message, _, _ in
      let isEven = message.number.isMultiple(of: 2)
      if isEven { await Task.yield() }
      write("\(message.key) \(message.number)")
      return Answer(Acknowledgement())
    }
    handlers.on(Fail.self, isBrief: isBrief) { message, _, _ in
      switch message.way {
      case .busError: throw BusError(.notMine, "shard 7 is held by worker-2")
      case .newCode: throw BusError(BusError.Code(rawValue: "fromTheFuture"), "a code of a later version")
      case .otherError: throw SecretlyNamedError(detail: "the inner reason")
      case .hugeReply: return Answer(Acknowledgement(), body: Array(repeating: 1, count: 3 << 20))
      }
    }
    return handlers
  }
}

struct SecretlyNamedError: Error {
  let detail: String
}
