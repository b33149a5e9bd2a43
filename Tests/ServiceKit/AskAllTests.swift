import Records
import ServiceKit
import Synchronization
import Testing

struct AskAllTests {
  @Test func `all are asked at once, and whoever answers when, the answers come in the order of the questions`()
    async throws
  {
    let waiting = Mutex<[CheckedContinuation<Void, Never>]>([])
    let answers = await askAll(Array(0..<20)) { number throws(RecordError) in
      // No call is answered before all are asked.
      await withCheckedContinuation { continuation in
        let all = waiting.withLock { waiting in
          waiting.append(continuation)
          return waiting.count == 20 ? waiting : []
        }
        for waiter in all { waiter.resume() }
      }
      if number % 3 == 0 { throw RecordError(.notFound, "\(number)") }
      return number * number
    }
    #expect(answers.map(\.element) == Array(0..<20))
    for (number, result) in answers {
      switch result {
      case .success(let square): #expect(number % 3 != 0 && square == number * number)
      case .failure(let error): #expect(number % 3 == 0 && error.reason == "\(number)")
      }
    }
    #expect(await askAll([String]()) { $0 }.isEmpty)
  }

  @Test func `a memo makes the value of a key once, whoever asks`() async {
    let memo = Memo<Int, [Int]>()
    let made = Mutex<[Int]>([])
    let values = await askAll(Array(0..<200)) { number in
      memo.value(of: number % 7) {
        made.withLock { $0.append(number % 7) }
        return [number % 7]
      }
    }
    for (number, value) in values { #expect((try? value.get()) == [number % 7]) }
    #expect(made.withLock { $0.sorted() } == Array(0..<7))
  }
}
