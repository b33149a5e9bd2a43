// Lets tests with a time limit and many steps finish however many others run.

import Testing

/// Runs a test on the threads of a higher priority. Behind hundreds of other tests, each of its steps would wait for a
/// step of all of theirs.
struct AheadOfOtherTests: TestTrait, SuiteTrait, TestScoping {
  var isRecursive: Bool { true }

  @concurrent func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
  ) async throws {
    try await withoutActuallyEscaping(function) { function in
      try await Task(priority: .high) { try await function() }.value
    }
  }
}

extension Trait where Self == AheadOfOtherTests {
  static var aheadOfOtherTests: Self { Self() }
}
