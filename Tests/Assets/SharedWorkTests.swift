import Dispatch
import Synchronization
import Testing

@testable import Assets

/// A list that several threads go through.
struct SharedWorkTests {
  private final class Done: Sendable {
    let numbers = Mutex<[Int]>([])
  }

  private let done = Done()

  @Test func `each element is done once, with helpers and without`() throws {
    for helperCount in [0, 1, 5] {
      let work = SharedWork(Array(0..<500))
      let done = Done()
      for number in 0..<helperCount {
        DispatchQueue(label: "helper \(number)").async {
          work.help { number in done.numbers.withLock { $0.append(number) } }
        }
      }
      try work.complete { number in done.numbers.withLock { $0.append(number) } }
      #expect(done.numbers.withLock { $0.sorted() } == Array(0..<500))
    }
  }

  @Test func `the work ends when its helpers have, and waits for none that comes too late`() throws {
    let work = SharedWork([0, 1])
    let (hasBegun, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    DispatchQueue(label: "helper").async { [done] in
      work.help { number in
        hasBegun.signal()
        mayEnd.wait()
        done.numbers.withLock { $0.append(number) }
      }
    }
    hasBegun.wait()
    try work.complete { [done] number in
      done.numbers.withLock { $0.append(number) }
      mayEnd.signal()
    }
    #expect(done.numbers.withLock(\.self) == [1, 0])
    work.help { _ in Issue.record("nothing is left") }
  }

  @Test func `the first failure is told, and nothing is begun after it`() {
    let work = SharedWork(Array(0..<10))
    let error = #expect(throws: AssetError.self) {
      try work.complete { [done] number throws(AssetError) in
        done.numbers.withLock { $0.append(number) }
        if number == 2 { throw .full("third") }
      }
    }
    #expect(error == .full("third") && done.numbers.withLock(\.self) == [0, 1, 2])
  }
}
