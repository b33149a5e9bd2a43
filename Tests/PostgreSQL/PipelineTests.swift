import Testing

@testable import PostgreSQL

/// What was sent, how many answers came before the loss, whether the last of them was a failure, and the meaning.
private struct Loss: CustomTestStringConvertible {
  let steps: [Pipeline.Step]
  var answeredCount = 0
  var hasFailed = false
  var isInTransaction = true
  var isReadOnly = false
  let meaning: PostgreSQLError.Kind
  var testDescription: String { "\(steps.map(\.name)), \(answeredCount) answered: \(meaning)" }

  static let insert = Pipeline.Step.command("insert")
  static let all = [
    Loss(steps: [], meaning: .connectionLost),
    Loss(steps: [insert, .end], meaning: .connectionLost),
    Loss(steps: [insert, .commit], meaning: .unknownOutcome),
    Loss(steps: [insert, .commit, .end], answeredCount: 1, meaning: .unknownOutcome),
    Loss(steps: [insert, .commit, .end], answeredCount: 1, hasFailed: true, meaning: .connectionLost),
    Loss(steps: [insert, .commit, .end], answeredCount: 2, meaning: .unknownOutcome),
    Loss(steps: [insert, .commit, .end], isReadOnly: true, meaning: .connectionLost),
    Loss(steps: [insert, .end, .commit, .end], answeredCount: 2, meaning: .unknownOutcome),
    // Outside of a transaction the end of the stretch commits.
    Loss(steps: [insert], isInTransaction: false, meaning: .connectionLost),
    Loss(steps: [insert, .end], isInTransaction: false, meaning: .unknownOutcome),
    Loss(steps: [insert, .end], answeredCount: 1, isInTransaction: false, meaning: .unknownOutcome),
    Loss(
      steps: [insert, .end], answeredCount: 1, hasFailed: true, isInTransaction: false, meaning: .connectionLost),
    Loss(steps: [.control("BEGIN"), .end], isInTransaction: false, meaning: .connectionLost),
  ]
}

@Suite struct PipelineTests {
  private static let failure = PostgreSQLError(.other, command: "insert", message: "fails")

  @Test(arguments: Loss.all) fileprivate func `the meaning of a loss depends on what is not answered`(_ loss: Loss) {
    var pipeline = Pipeline(isReadOnly: loss.isReadOnly)
    pipeline.isInTransaction = loss.isInTransaction
    for step in loss.steps { pipeline.append(step) }
    for index in 0..<loss.answeredCount {
      pipeline.answer(loss.hasFailed && index == loss.answeredCount - 1 ? Self.failure : nil)
    }
    #expect(pipeline.loss == loss.meaning)
  }

  @Test func `the first failure is thrown once, and a failure of an earlier stretch says nothing of a later one`()
    throws
  {
    var pipeline = Pipeline(isReadOnly: false)
    pipeline.isInTransaction = true
    for step in [Loss.insert, .end, .commit, .end] { pipeline.append(step) }
    pipeline.answer(Self.failure)
    pipeline.answer()
    #expect(pipeline.loss == .unknownOutcome)
    pipeline.answer(PostgreSQLError(.failedTransaction, command: "COMMIT", message: "later"))
    pipeline.answer()
    #expect(throws: Self.failure) { try pipeline.settle() }
    try pipeline.settle()
    #expect(pipeline.next == nil && pipeline.commandCount == 0)
  }

  @Test(
    arguments: [
      ("23505", .uniqueViolation), ("23514", .constraintViolation), ("40001", .serialization),
      ("40P01", .serialization),
      ("40003", .unknownOutcome), ("57014", .cancelled), ("57P01", .connectionLost), ("08006", .connectionLost),
      ("25006", .readOnly), ("25P02", .failedTransaction), ("53100", .full), ("53300", .unavailable),
      ("22021", .invalidValue), ("42601", .other), ("", .other),
    ] as [(String, PostgreSQLError.Kind)])
  func `conditions have the kind that callers act by`(state: String, kind: PostgreSQLError.Kind) {
    #expect(PostgreSQLError.Kind(state: state) == kind)
  }
}
