// Names of hosts that strangers have chosen: a slow one delays nobody else.

import Dispatch
import HTTPServer
import Synchronization
import Testing

@testable import HTTPClient

/// A name server that answers no name with `slow` in it until it is opened, and has this machine's address for all.
private final class NameServer: Sendable {
  let asked: AsyncStream<String>
  private let ask: AsyncStream<String>.Continuation
  private let gate = DispatchSemaphore(value: 0)

  init() { (asked, ask) = AsyncStream<String>.makeStream() }

  var lookup: NameResolver.Lookup {
    { name in
      self.ask.yield(name)
      if name.contains("slow") {
        self.gate.wait()
        self.gate.signal()
      }
      return [[127, 0, 0, 1]]
    }
  }

  func open() { gate.signal() }
}

@Suite(.timeLimit(.minutes(1))) struct NameResolverTests {
  @Test func `a name whose server does not answer delays no other transfer of the client`() async throws {
    let names = NameServer()
    let server = try HTTPServer(handler: Echo())
    let client = HTTPClient(resolver: NameResolver(reach: .everywhere, limit: .seconds(50), lookup: names.lookup))
    var asked = names.asked.makeAsyncIterator()
    async let slow = client.send("GET", "http://slow.example:\(server.port)/", timeout: .seconds(50))
    #expect(await asked.next() == "slow.example")
    for path in ["one", "two"] {
      let response = try await client.send("GET", "http://healthy.example:\(server.port)/\(path)")
      #expect(response.status == 200)
      #expect(String(decoding: response.body, as: UTF8.self).contains("host: healthy.example:\(server.port)\n"))
    }
    #expect(await asked.next() == "healthy.example")
    names.open()
    #expect(try await slow.status == 200)
    #expect(try await client.send("GET", "http://127.0.0.1:\(server.port)/").status == 200)
    #expect(try await client.send("GET", "http://last.example.:\(server.port)/").status == 200)
    #expect(await asked.next() == "last.example.", "the second request remembers its host, and an address needs none")
  }

  @Test func `a request fails when its name is not resolved in time, or when it is cancelled before`() async throws {
    let names = NameServer()
    defer { names.open() }
    let client = HTTPClient(resolver: NameResolver(reach: .everywhere, limit: .milliseconds(20), lookup: names.lookup))
    await #expect(throws: HTTPClientError.lateName) { try await client.send("GET", "http://slow.example/") }
    let patient = HTTPClient(resolver: NameResolver(reach: .everywhere, limit: .seconds(50), lookup: names.lookup))
    var asked = names.asked.makeAsyncIterator()
    _ = await asked.next()
    let request = Task { try await patient.send("GET", "http://slow.example/") }
    _ = await asked.next()
    request.cancel()
    await #expect(throws: HTTPClientError.cancelled) { try await request.value }
  }

  @Test func `a party with many slow names takes its share of the threads, and of the names that wait`() async throws {
    let names = NameServer()
    defer { names.open() }
    let resolver = NameResolver(reach: .everywhere, limit: .seconds(50), lookup: names.lookup)
    let refusedCount = Mutex(0)
    for number in 0..<(NameResolver.threadsPerParty + NameResolver.waitingPerParty + 3) {
      resolver.ask("\(number).slow.example", for: "eve") { answer in
        if case .failure = answer { refusedCount.withLock { $0 += 1 } }
      }
    }
    #expect(refusedCount.withLock(\.self) >= 1)
    func resolve(_ name: String, for party: String) async -> [String]? {
      await withCheckedContinuation { done in
        resolver.ask(name, for: party) { done.resume(returning: try? $0.get()) }
      }
    }
    #expect(await resolve("healthy.example", for: "alice") == ["127.0.0.1"])
    var asked = names.asked.makeAsyncIterator()
    var first: [String?] = []
    for _ in 0...NameResolver.threadsPerParty { first.append(await asked.next()) }
    #expect(first.count { $0?.contains("slow") == true } == NameResolver.threadsPerParty)
    #expect(first.contains("healthy.example"))
  }

  @Test func `a request fails as crowded when its party's threads are busy, and says nothing about its host`()
    async throws
  {
    let names = NameServer()
    defer { names.open() }
    let resolver = NameResolver(reach: .everywhere, limit: .seconds(50), lookup: names.lookup)
    let client = HTTPClient(resolver: resolver)
    var asked = names.asked.makeAsyncIterator()
    for number in 0..<NameResolver.threadsPerParty {
      resolver.ask("\(number).slow.example", for: "eve") { _ in }
      _ = await asked.next()
    }
    func failure(of host: String, for party: String) async -> HTTPClientError? {
      await #expect(throws: HTTPClientError.self) {
        try await client.send("GET", "http://\(host)/", timeout: .milliseconds(20), party: party)
      }
    }
    #expect(await failure(of: "healthy.example", for: "eve") == .tooManyNames)
    #expect(await failure(of: "0.slow.example", for: "eve") == .lateName, "a thread has it")
    #expect(await failure(of: "another.slow.example", for: "alice") == .lateName)
    for number in 0..<NameResolver.waitingPerParty { resolver.ask("\(number).waits.example", for: "eve") { _ in } }
    #expect(await failure(of: "refused.example", for: "eve") == .tooManyNames)
    #expect(HTTPClientError.tooManyNames.kind == .crowded)
  }

  @Test func `only public addresses of a name count where the client reaches no others`() async throws {
    let server = try HTTPServer(handler: Echo())
    let client = HTTPClient(
      reach: .publicAddresses,
      resolver: NameResolver(reach: .publicAddresses) { _ in [[127, 0, 0, 1], [10, 0, 0, 1]] })
    do throws(HTTPClientError) {
      _ = try await client.send("GET", "http://evil.example:\(server.port)/")
      Issue.record("this machine was reached")
    } catch {
      #expect(error.kind == .unreachable)
    }
    let lying = HTTPClient(
      reach: .publicAddresses, resolver: NameResolver(reach: .everywhere) { _ in [[127, 0, 0, 1]] })
    do throws(HTTPClientError) {
      _ = try await lying.send("GET", "http://evil.example:\(server.port)/")
      Issue.record("this machine was reached")
    } catch {
      #expect(error.kind == .unreachable, "the socket's address is judged, too")
    }
  }

  @Test func `the system's resolver knows this machine`() {
    #expect(NameResolver.systemLookup("localhost").contains { $0 == [127, 0, 0, 1] || $0.last == 1 })
  }
}
