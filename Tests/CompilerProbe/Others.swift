// Pairs that functions, actors, tasks and `async let` return.

extension Pattern {
  static let others = [
    Pattern("task: a pair whose second part awaits an error", isRefused: true) { number in
      await Task { () async -> (Int, Outcome) in
        do throws(Refusal) { return (number, .success(try await answer(number))) } catch {
          return (number, .failure(error))
        }
      }.value
    },
    Pattern("task: a pair whose second part awaits, in a throwing task") { number in
      let task = Task { () async throws -> (Int, String) in (number, try await answer(number)) }
      guard let (place, text) = try? await task.value else { return (number, .failure(refusal)) }
      return (place, .success(text))
    },
    Pattern("generic function: a closure's pair whose second part awaits an error") { number in
      await through {
        do throws(Refusal) { return (number, .success(try await answer(number))) } catch {
          return (number, Outcome.failure(error))
        }
      }
    },
    Pattern("cancellation handler: a pair whose second part awaits an error", isRefused: true) { number in
      await withTaskCancellationHandler {
        do throws(Refusal) { return (number, .success(try await answer(number))) } catch {
          return (number, Outcome.failure(error))
        }
      } onCancel: {
      }
    },
    Pattern("task-local value: a pair whose second part awaits an error") { number in
      await $traced.withValue(number) {
        do throws(Refusal) { return (number, .success(try await answer(number))) } catch {
          return (number, Outcome.failure(error))
        }
      }
    },
    Pattern("generic function: a closure's enum whose payload awaits an error") { number in
      let outcome: Outcome = await through {
        do throws(Refusal) { return .success(try await answer(number)) } catch { return .failure(error) }
      }
      return (number, outcome)
    },
    Pattern("async let: a closure's pair") { number in
      async let pair: (Int, Outcome) = {
        do throws(Refusal) { return (number, .success(try await answer(number))) } catch {
          return (number, .failure(error))
        }
      }()
      return await pair
    },
    Pattern("async let: a pair") { number in
      async let pair = (number, outcome(number))
      return await pair
    },
    Pattern("async let: two, awaited in one tuple") { number in
      async let first = answer(number)
      async let second = outcome(number)
      do {
        let (text, other) = (try await first, await second)
        return (
          number, other == .success(text) ? other : .failure(Refusal(code: 0, reason: "They differ", retryAfter: nil))
        )
      } catch {
        return (number, await second)
      }
    },
    Pattern("function: a pair whose second part awaits, throwing a typed error") { number in
      func pair(_ number: Int) async throws(Refusal) -> (Int, String) { (number, try await answer(number)) }
      do throws(Refusal) {
        let (place, text) = try await pair(number)
        return (place, .success(text))
      } catch {
        return (number, .failure(error))
      }
    },
    Pattern("function: a pair or nil, throwing a typed error") { number in
      func pair(_ number: Int) async throws(Refusal) -> (text: String?, place: Int)? {
        number < 0 ? nil : (try await answer(number), number)
      }
      do throws(Refusal) {
        guard let pair = try await pair(number), let text = pair.text else { return (-1, .failure(refusal)) }
        return (pair.place, .success(text))
      } catch {
        return (number, .failure(error))
      }
    },
    Pattern("actor: a pair whose second part awaits, throwing a typed error") { number in
      do throws(Refusal) {
        let (place, text) = try await Teller().pair(number)
        return (place, .success(text))
      } catch {
        return (number, .failure(error))
      }
    },
    Pattern("closure: a pair whose second part awaits a typed error") { number in
      let pair: @Sendable (Int) async -> (Int, Outcome) = { number in
        do throws(Refusal) { return (number, .success(try await answer(number))) } catch {
          return (number, .failure(error))
        }
      }
      return await pair(number)
    },
    Pattern("array: a pair that is appended while its second part awaits") {
      var pairs: Pairs = []
      for number in numbers {
        do throws(Refusal) { pairs.append((number, .success(try await answer(number)))) } catch {
          pairs.append((number, .failure(error)))
        }
      }
      return pairs
    },
    Pattern("continuation: a pair") { number in
      let outcome = await outcome(number)
      return await withCheckedContinuation { continuation in Task { continuation.resume(returning: (number, outcome)) }
      }
    },
  ]

  @TaskLocal private static var traced = 0

  private actor Teller {
    func pair(_ number: Int) async throws(Refusal) -> (Int, String) { (number, try await answer(number)) }
  }
}
