// Sends requests whose speed does not matter, for the preparation of workloads.

/// Sends requests, a few at a time, each once.
/// - Returns: the answers' bodies in the order of the requests.
/// - Throws: the first failure.
func exchange(_ requests: [[UInt8]], with target: Target, over width: Int = 8) async throws(LoadError) -> [[UInt8]] {
  let result: Result<[[UInt8]], LoadError> = await onOwnThread {
    var connections = Connections()
    var bodies = [[UInt8]](repeating: [], count: requests.count)
    var numbers: [Int] = []
    var next = 0
    for index in 0..<min(width, requests.count) {
      _ = connections.add(target)
      connections.send(index, requests[index])
      numbers.append(index)
      next += 1
    }
    var answerCount = 0
    let deadline = Connections.now() + answerLimit * UInt64(requests.count / max(width, 1) + 1)
    while answerCount < requests.count {
      guard Connections.now() < deadline else { return .failure(LoadError(description: "the server does not answer")) }
      for (index, event) in connections.events(until: deadline) {
        switch event {
        case .received: continue
        case .failed(let reason): return .failure(LoadError(description: reason))
        case .answered(isSuccess: false):
          return .failure(LoadError(description: "a request was refused: \(connections.reader(of: index).beginning)"))
        case .answered: bodies[numbers[index]] = connections.reader(of: index).body
        }
        answerCount += 1
        if next < requests.count {
          numbers[index] = next
          connections.send(index, requests[next])
          next += 1
        }
      }
    }
    return .success(bodies)
  }
  return try result.get()
}

/// Time for an answer before a workload gives up. Unit: nanoseconds.
let answerLimit: UInt64 = 30_000_000_000
