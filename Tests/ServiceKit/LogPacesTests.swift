import Synchronization
import Testing

@testable import ServiceKit

struct LogPacesTests {
  @Test func `an event that comes again and again is twenty lines a second and a number, and others are told as ever`()
  {
    let now = Mutex<Int64>(1000)
    let lines = Mutex<[String]>([])
    let log = Log(paces: LogPaces { now.withLock { $0 } }) { _, event, facts in
      lines.withLock { $0.append((["\(event)"] + facts.map { "\($0.0)=\($0.1)" }).joined(separator: " ")) }
    }
    func tell() { log.with(["a": 1]).warning("often") }
    for _ in 0..<1000 { tell() }
    log.error("seldom")
    for _ in 0..<30 { log.debug("asked for") }
    #expect(lines.withLock(\.count) == 20 + 1 + 30)
    #expect(log.leftOutCount == 980)
    now.withLock { $0 = 2000 }
    lines.withLock { $0 = [] }
    tell()
    tell()
    #expect(lines.withLock { $0 } == ["often a=integer(1) leftOut=integer(980)", "often a=integer(1)"])
  }
}
