// Asks several questions at once.

public import Records

/// Asks about all elements at once, so that each question has the whole time.
/// - Returns: each element with its answer, in the order of `elements`.
public func askAll<Element: Sendable, Value: Sendable>(
  _ elements: [Element], _ question: @escaping @Sendable (Element) async throws(RecordError) -> Value
) async -> [(element: Element, result: Result<Value, RecordError>)] {
  await withTaskGroup(of: (place: Int, result: Result<Value, RecordError>).self) { group in
    for (place, element) in elements.enumerated() {
      group.addTask {
        // A variable of its own, because optimized Swift 6.3 loses the first half of a pair when the second is awaited
        // with a typed error.
        let result: Result<Value, RecordError>
        do throws(RecordError) {
          result = .success(try await question(element))
        } catch {
          result = .failure(error)
        }
        return (place, result)
      }
    }
    return await group.reduce(into: []) { $0.append($1) }.sorted { $0.place < $1.place }.map {
      (elements[$0.place], $0.result)
    }
  }
}
