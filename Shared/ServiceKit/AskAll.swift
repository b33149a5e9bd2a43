// Several questions at once.

public import Records

/// Asks all at once, so that none waits for another and each has all of the time.
/// - Returns: of each element, in their order, what was answered.
public func askAll<Element: Sendable, Value: Sendable>(
  _ elements: [Element], _ question: @escaping @Sendable (Element) async throws(RecordError) -> Value
) async -> [(element: Element, result: Result<Value, RecordError>)] {
  await withTaskGroup(of: (place: Int, result: Result<Value, RecordError>).self) { group in
    for (place, element) in elements.enumerated() {
      group.addTask {
        // In a variable of its own: Swift 6.3, optimising, loses the place of a pair whose other half is awaited with a typed error.
        let result: Result<Value, RecordError>
        do throws(RecordError) {
          result = .success(try await question(element))
        } catch {
          result = .failure(error)
        }
        return (place, result)
      }
    }
    return await group.reduce(into: []) { $0.append($1) }.sorted { $0.place < $1.place }.map { (elements[$0.place], $0.result) }
  }
}
