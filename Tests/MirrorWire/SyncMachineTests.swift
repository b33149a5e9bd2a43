// The machine's decisions: every state with every input, and rules that hold on every way through them.

import MirrorWire
import Testing

@Suite struct SyncMachineTests {
  /// A line of the table for each state: inputs with what they lead to. Inputs that are not named do nothing.
  static func line(_ path: [SyncInput]) -> String {
    var machine = SyncMachine(seed: 1)
    for input in path { _ = machine.handle(input) }
    var cells: [(names: [String], result: String)] = []
    for (name, input) in namedInputs {
      var next = machine
      let outputs = next.handle(input).map(\.word)
      if outputs.isEmpty, next.idle == machine.idle { continue }
      let result = outputs.joined(separator: " ") + (next.idle == machine.idle ? "" : " → \(next.idle)")
      if let place = cells.firstIndex(where: { $0.result == result }) {
        cells[place].names.append(name)
      } else {
        cells.append(([name], result))
      }
    }
    return ([machine.idle.rawValue] + cells.map { "  \($0.names.joined(separator: ", ")): \($0.result)" }).joined(
      separator: "\n")
  }

  @Test(arguments: namedStates.indices) func `every state takes every input as the table says`(_ index: Int) throws {
    let (name, path) = namedStates[index]
    #expect(Self.line(path) == syncMachineTable[name], "\(name)")
  }

  @Test func `the table has no other states`() { #expect(Set(namedStates.map(\.name)) == Set(syncMachineTable.keys)) }

  @Test func `a pause that the server names is kept exactly, and a new one replaces it`() {
    var machine = SyncMachine(seed: 3)
    _ = machine.handle(.started(.known))
    #expect(machine.handle(.refusal(503, "TRY_AGAIN_LATER", retryAfter: 42)).contains(.wait(.seconds(42), 1)))
    #expect(machine.handle(.pinged).isEmpty)
    #expect(machine.handle(.saved).isEmpty)
    #expect(machine.handle(.online(true)).isEmpty)
    #expect(machine.handle(.timer(1)).contains(.importPage(waits: false)) || machine.handle(.timer(1)).isEmpty)
  }

  @Test(arguments: [302, 400, 401, 403, 404, 407, 409, 410, 413, 421, 431])
  func `an answer that the server did not write is an outage, whatever its status`(_ status: Int) {
    for (name, path) in namedStates {
      var (machine, twin) = (SyncMachine(seed: 1), SyncMachine(seed: 1))
      for input in path { (_, _) = (machine.handle(input), twin.handle(input)) }
      let outputs = machine.handle(.refusal(status, "")).map(\.word)
      #expect(outputs == twin.handle(.answered(.failed(.transport("lost")))).map(\.word), "\(name)")
      #expect(machine.idle == twin.idle, "\(name)")
    }
    var machine = SyncMachine(seed: 1)
    _ = machine.handle(.started(.pending))
    #expect(machine.handle(.refusal(status, "", retryAfter: 7)).contains(.wait(.seconds(7), 1)))
  }

  @Test func `a save that comes before an export's answer is sent, whether the answer counts it or not`() {
    var machine = SyncMachine(seed: 3)
    _ = machine.handle(.started(.known))
    _ = machine.handle(.answered(.imported(hasMore: false, isCaughtUp: true)))
    #expect(machine.handle(.saved).contains(.export))
    #expect(machine.handle(.saved).isEmpty)
    #expect(machine.handle(.answered(.exported(hasMore: false))).contains(.export))
    #expect(!machine.handle(.answered(.exported(hasMore: false))).contains(.export))
  }

  @Test func `pauses double from one second to five minutes, and jitter fills them`() {
    var longest = [Duration](repeating: .zero, count: 14)
    for seed in 0..<500 as Range<UInt64> {
      var backoff = Backoff(seed: seed)
      for attempt in longest.indices { longest[attempt] = max(longest[attempt], backoff.failed()) }
    }
    for (attempt, duration) in longest.enumerated() {
      let limit = min(300, Double(1 << attempt))
      #expect(duration <= .seconds(limit) && duration > .seconds(limit * 0.95), "attempt \(attempt): \(duration)")
    }
  }

  /// A naive account of what may happen, beside the machine.
  private struct Naive {
    var isStarted = false
    var isPaused = false
    var isOnline = true
    var isUnderWay = false
    var isExporting = false
    var isExportUnknown = false
    var waits: Set<Int> = []

    mutating func check(_ input: SyncInput, _ outputs: [SyncOutput]) {
      switch input {
      case .started(let facts):
        if !isStarted, facts.hasUnknownFate { isExportUnknown = true }
        isStarted = true
      case .stopped: isStarted = false
      case .paused(let flag): isPaused = flag
      case .online(let flag): isOnline = flag
      case .answered(let answer):
        if isUnderWay {
          switch answer {
          case .failed(.server(let error)) where error.status == 429: isExportUnknown = false
          case .failed: break
          default: if isExporting { isExportUnknown = false }
          }
        }
        isUnderWay = false
        isExporting = false
      default: break
      }
      var requests = 0
      for output in outputs {
        switch output {
        case .setUp, .reset, .restore: requests += 1
        case .export, .setAside:
          requests += 1
          isExporting = true
          isExportUnknown = true
        case .importPage:
          requests += 1
          #expect(!isExportUnknown, "imported while the fate of an export is unknown")
        default: break
        }
      }
      #expect(requests <= 1 && !(isUnderWay && requests > 0), "two requests at a time")
      if requests > 0 { isUnderWay = true }
      if outputs.contains(where: {
        [.setUp, .export, .importPage(waits: false), .importPage(waits: true)].contains($0)
      }) {
        #expect(isStarted && !isPaused && isOnline, "a request although nobody wants one")
      }
    }
  }

  @Test(arguments: 0..<200)
  func `on any way there is one request at a time, and no import before an export's fate is known`(_ seed: Int) {
    var chance = Backoff(seed: UInt64(seed))
    var machine = SyncMachine(seed: UInt64(seed))
    var naive = Naive()
    for _ in 0..<500 {
      let place = Int(chance.spread(.seconds(1)) / .milliseconds(1) * 1000) % namedInputs.count
      let input = namedInputs[place].input
      // An answer to nothing comes from nobody.
      if case .answered = input, !naive.isUnderWay { continue }
      naive.check(input, machine.handle(input))
    }
  }

  @Test func `a machine that is started, online and at rest has a wait under way`() {
    var machine = SyncMachine(seed: 1)
    _ = machine.handle(.started(.known))
    let outputs = machine.handle(.answered(.imported(hasMore: false, isCaughtUp: true)))
    guard case .wait(let duration, _)? = outputs.last else {
      Issue.record("\(outputs)")
      return
    }
    #expect(duration >= .seconds(12 * 60) && duration <= .seconds(18 * 60))
  }

  @Test(arguments: [SyncFailure.transport("lost"), .full, .cancelled])
  func `a reset that the app asked for is asked for again when no answer came`(failure: SyncFailure) {
    var machine = SyncMachine(seed: 1)
    _ = machine.handle(.started(.known))
    _ = machine.handle(.resetWanted)
    #expect(machine.handle(.answered(.imported(hasMore: false, isCaughtUp: true))).contains(.reset))
    var outputs = machine.handle(.answered(.failed(failure)))
    if case .wait(_, let number)? = outputs.last { outputs = machine.handle(.timer(number)) }
    #expect(outputs.contains(.reset))
    #expect(machine.handle(.answered(.reset)).contains(.importPage(waits: false)))
    // Once it is answered, nothing asks for it again.
    #expect(!machine.handle(.answered(.imported(hasMore: false, isCaughtUp: true))).contains(.reset))
  }

  @Test func `a restored server is sent everything that it may have lost before it is asked for anything`() {
    var machine = SyncMachine(seed: 1)
    var words = machine.handle(.started(.known)).map(\.word)
    words += machine.handle(.refusal(410, "BAD_REQUEST", recovery: 294)).map(\.word)
    words += machine.handle(.answered(.restored)).map(\.word)
    for hasMore in [true, true, false] {
      words += machine.handle(.answered(.exported(hasMore: hasMore))).map(\.word)
      words += machine.handle(.pinged).map(\.word)
    }
    words += machine.handle(.answered(.reset)).map(\.word)
    #expect(
      words.filter { !$0.hasPrefix("+") && !$0.hasPrefix("-") && !$0.hasPrefix("!") } == [
        "openPings", "import", "restore", "export", "export", "export", "reset", "import",
      ])
  }

  @Test(arguments: [false, true])
  func `a page follows the last acknowledgement while somebody waits for it, and otherwise none`(_ isWanted: Bool) {
    var machine = SyncMachine(seed: 1)
    let page = SyncInput.answered(.imported(hasMore: false, isCaughtUp: true))
    let inputs: [SyncInput] = [
      .started(.known), page, isWanted ? .syncWanted(true) : .pinged,
      // Saved while the server reads the page.
      .saved, page, .answered(.exported(hasMore: true)), .answered(.exported(hasMore: false)), page,
    ]
    let words = inputs.flatMap { machine.handle($0).map(\.word) }.filter { ["export", "import"].contains($0) }
    #expect(words == ["import", "import", "export", "export"] + (isWanted ? ["import"] : []))
    if isWanted { #expect(machine.handle(.syncWanted(false)).isEmpty) }
    #expect(machine.handle(.saved).map(\.word).contains("export"))
    #expect(!machine.handle(.answered(.exported(hasMore: false))).map(\.word).contains("import"))
  }

  @Test func `imports and exports take turns while both are wanted`() {
    var machine = SyncMachine(seed: 1)
    var words = machine.handle(.started(.pending)).map(\.word)
    for _ in 0..<3 {
      words += machine.handle(.answered(.exported(hasMore: true))).map(\.word)
      words += machine.handle(.answered(.imported(hasMore: true, isCaughtUp: false))).map(\.word)
    }
    #expect(
      words.filter { ["export", "import"].contains($0) } == [
        "export", "import", "export", "import", "export", "import", "export",
      ])
  }
}
