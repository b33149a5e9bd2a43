// Lets several threads go through one list.

import Dispatch
import Synchronization

/// Elements that a thread and its helpers take one after the other. The first failure ends the work.
///
/// Helpers that find the work over do nothing, so nobody waits for a helper that has not come.
final class SharedWork<Element: Sendable>: Sendable {
  private struct State {
    var rest: ArraySlice<Element>
    var failure: AssetError?
    var helperCount = 0
    var isAwaited = false
  }

  private let state: Mutex<State>
  private let end = DispatchSemaphore(value: 0)

  init(_ elements: [Element]) { state = Mutex(State(rest: elements[...])) }

  /// Takes part until nothing is left.
  /// - Parameter step: called with each element.
  func help(_ step: (Element) throws(AssetError) -> Void) {
    let takesPart = state.withLock { state in
      if state.rest.isEmpty { return false }
      state.helperCount += 1
      return true
    }
    guard takesPart else { return }
    run(step)
    let isLast = state.withLock { state in
      state.helperCount -= 1
      return state.isAwaited && state.helperCount == 0
    }
    if isLast { end.signal() }
  }

  /// Takes part until nothing is left, and waits for those that help.
  /// - Throws: the first failure of anybody.
  func complete(_ step: (Element) throws(AssetError) -> Void) throws(AssetError) {
    run(step)
    let waits = state.withLock { state in
      state.isAwaited = true
      return state.helperCount > 0
    }
    if waits { end.wait() }
    if let failure = state.withLock(\.failure) { throw failure }
  }

  private func run(_ step: (Element) throws(AssetError) -> Void) {
    while let element = state.withLock({ $0.rest.popFirst() }) {
      do throws(AssetError) {
        try step(element)
      } catch {
        state.withLock { state in
          state.failure = state.failure ?? error
          state.rest = []
        }
      }
    }
  }
}
