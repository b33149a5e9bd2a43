// A way to bring a value across an await, with its known result.

/// One such way, tried for each number of `Pattern.numbers`.
struct Pattern: Sendable {
  typealias Outcome = Result<String, Refusal>
  typealias Pairs = [(place: Int, outcome: Outcome)]

  static let numbers = Array(0..<20)

  let name: String
  /// True when Tests/Style forbids the pattern, because optimised Swift code gets it wrong.
  let isRefused: Bool
  let body: @Sendable () async -> Pairs

  init(_ name: String, isRefused: Bool = false, _ body: @escaping @Sendable () async -> Pairs) {
    self.name = name
    self.isRefused = isRefused
    self.body = body
  }

  /// A body that runs for one number after the other.
  init(_ name: String, isRefused: Bool = false, each body: @escaping @Sendable (Int) async -> (Int, Outcome)) {
    self.init(name, isRefused: isRefused) {
      var pairs: Pairs = []
      for number in Self.numbers { pairs.append(await body(number)) }
      return pairs
    }
  }

  /// True when each number has its own answer.
  func holds() async -> Bool {
    let pairs = await body().sorted { $0.place < $1.place }
    guard pairs.map(\.place) == Self.numbers else { return false }
    return pairs.allSatisfy { $0.outcome == (isAnswered($0.place) ? .success(text($0.place)) : .failure(refusal)) }
  }
}

/// Has several words, like the product's errors.
struct Refusal: Error, Equatable {
  let code: Int
  let reason: String
  let retryAfter: Double?
}

let refusal = Refusal(code: 3, reason: "This number is refused", retryAfter: nil)

func isAnswered(_ number: Int) -> Bool { number % 5 != 3 }

func text(_ number: Int) -> String { "the answer to number \(number)" }

@inline(never) func answer(_ number: Int) async throws(Refusal) -> String {
  await Task.yield()
  if !isAnswered(number) { throw refusal }
  await Task.yield()
  return text(number)
}

@inline(never) func untypedAnswer(_ number: Int) async throws -> String { try await answer(number) }

@inline(never) func outcome(_ number: Int) async -> Pattern.Outcome {
  do throws(Refusal) { return .success(try await answer(number)) } catch { return .failure(error) }
}

/// Returns a closure's result through a generic function, like `withTaskCancellationHandler` or a task-local's
/// `withValue`.
@inline(never) func through<Value: Sendable>(_ body: @Sendable () async -> Value) async -> Value {
  await Task.yield()
  return await body()
}
