import ServiceBus
import Testing

@testable import ServiceKit

struct MemoryLimitTests {
  private func limit(_ arguments: String...) throws -> Int {
    MemoryLimit(try Options([MemoryLimit.option], arguments: arguments, environment: { _ in nil }), role: .gateway)
      .byteCount
  }

  @Test func `an operator's word counts, within what is possible`() throws {
    #expect(try limit("--memory", "64") == 64 << 20)
    #expect(try limit("--memory", "1048576") == 1 << 40)
    #expect(throws: (any Error).self) { try limit("--memory", "63") }
    #expect(throws: (any Error).self) { try limit("--memory", "1048577") }
  }

  @Test(arguments: [
    ("/", ["": "536870912\n"], 536_870_912), ("/", ["": "max\n"], nil), ("/", [:], nil),
    ("/a/b", ["/a/b": "max\n", "/a": "1000\n", "": "2000\n"], 1000),
    ("/a/b", ["/a/b": "500\n", "/a": "1000\n"], 500), ("/a/b", ["/a/b": "3000\n", "": "2000\n"], 2000),
  ])
  func `a control group's limit is the smallest of those it is in`(
    path: String, groups: [String: String], expected: Int?
  ) {
    #expect(MemoryLimit.limit(ofGroup: path) { groups[$0] } == expected)
  }

  @Test func `each role has memory enough to serve`() {
    #expect(MemoryLimit.standard(.gateway) == 512 << 20 && MemoryLimit.standard(.worker) == 1 << 30)
    #expect(MemoryLimit.standard(.share) == 256 << 20 && MemoryLimit.standard(.notifier) == 256 << 20)
  }
}
