// Pairs that child tasks of a group return.

extension Pattern {
  static let groups = [
    Pattern("group: a pair whose second part awaits a typed error", isRefused: true) {
      await withTaskGroup(of: (Int, Outcome).self) { group in
        for number in numbers {
          group.addTask {
            do throws(Refusal) { return (number, .success(try await answer(number))) } catch {
              return (number, .failure(error))
            }
          }
        }
        return await group.reduce(into: []) { $0.append($1) }
      }
    },
    Pattern("group: a pair whose second part awaits any error", isRefused: true) {
      await withTaskGroup(of: (Int, Outcome).self) { group in
        for number in numbers {
          group.addTask {
            do { return (number, .success(try await untypedAnswer(number))) } catch {
              return (number, .failure(refusal))
            }
          }
        }
        return await group.reduce(into: []) { $0.append($1) }
      }
    },
    Pattern("group: a pair that is awaited as a whole", isRefused: true) {
      await withTaskGroup(of: (Int, Outcome).self) { group in
        for number in numbers {
          group.addTask {
            do { return try await (number, .success(answer(number))) } catch { return (number, .failure(refusal)) }
          }
        }
        return await group.reduce(into: []) { $0.append($1) }
      }
    },
    Pattern("group: a pair whose first part awaits") {
      await withTaskGroup(of: (Outcome, Int).self) { group in
        for number in numbers {
          group.addTask {
            do throws(Refusal) { return (.success(try await answer(number)), number) } catch {
              return (.failure(error), number)
            }
          }
        }
        return await group.reduce(into: []) { $0.append(($1.1, $1.0)) }
      }
    },
    Pattern("group: the second part in a variable, of which one return makes a pair") {
      await withTaskGroup(of: (Int, Outcome).self) { group in
        for number in numbers {
          group.addTask {
            let result: Outcome
            do throws(Refusal) { result = .success(try await answer(number)) } catch { result = .failure(error) }
            return (number, result)
          }
        }
        return await group.reduce(into: []) { $0.append($1) }
      }
    },
    Pattern("group: the answer in a variable, pairs in both branches") {
      await withTaskGroup(of: (Int, Outcome).self) { group in
        for number in numbers {
          group.addTask {
            do throws(Refusal) {
              let text = try await answer(number)
              return (number, .success(text))
            } catch {
              return (number, .failure(error))
            }
          }
        }
        return await group.reduce(into: []) { $0.append($1) }
      }
    },
    Pattern("group: a pair that awaits what throws nothing") {
      await withTaskGroup(of: (Int, Outcome).self) { group in
        for number in numbers { group.addTask { (number, await outcome(number)) } }
        return await group.reduce(into: []) { $0.append($1) }
      }
    },
    Pattern("group: a pair that awaits in a throwing child") {
      let answered = try? await withThrowingTaskGroup(of: (Int, String).self) { group in
        for number in numbers where isAnswered(number) { group.addTask { (number, try await answer(number)) } }
        return try await group.reduce(into: Pairs()) { $0.append(($1.0, .success($1.1))) }
      }
      return (answered ?? []) + refused
    },
    Pattern("group: a pair, or nil") {
      await withTaskGroup(of: (Int, String)?.self) { group in
        for number in numbers {
          group.addTask {
            do throws(Refusal) { return (number, try await answer(number)) } catch { return nil }
          }
        }
        return await group.reduce(into: refused) { pairs, pair in
          if let pair { pairs.append((pair.0, .success(pair.1))) }
        }
      }
    },
    Pattern("group: an optional answer beside its number") {
      await withTaskGroup(of: (Int, String?).self) { group in
        for number in numbers { group.addTask { (number, try? await answer(number)) } }
        return await group.reduce(into: []) { $0.append(($1.0, $1.1.map { .success($0) } ?? .failure(refusal))) }
      }
    },
    Pattern("group: a struct") {
      struct Pair: Sendable {
        let place: Int
        let outcome: Outcome
      }
      return await withTaskGroup(of: Pair.self) { group in
        for number in numbers {
          group.addTask {
            do throws(Refusal) { return Pair(place: number, outcome: .success(try await answer(number))) } catch {
              return Pair(place: number, outcome: .failure(error))
            }
          }
        }
        return await group.reduce(into: []) { $0.append(($1.place, $1.outcome)) }
      }
    },
    Pattern("group: an enum with two payloads") {
      enum Answer: Sendable {
        case answered(Int, String)
        case away(Int, Refusal)
      }
      return await withTaskGroup(of: Answer.self) { group in
        for number in numbers {
          group.addTask {
            do throws(Refusal) { return .answered(number, try await answer(number)) } catch {
              return .away(number, error)
            }
          }
        }
        return await group.reduce(into: []) { pairs, answer in
          switch answer {
          case .answered(let number, let text): pairs.append((number, .success(text)))
          case .away(let number, let error): pairs.append((number, .failure(error)))
          }
        }
      }
    },
  ]

  private static let refused: Pairs = numbers.filter { !isAnswered($0) }.map { ($0, .failure(refusal)) }
}
