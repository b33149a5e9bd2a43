// Closed loops and their requests: every request is valid, and the counts match the answers.

import HTTPServer
import JSON
import Synchronization
import Testing

@testable import aquifer_load

/// Parses requests, and answers like the service or with a failure.
private final class Stub: HTTPHandler {
  let names = Mutex<Set<String>>([])
  let problems = Mutex<[String]>([])
  let answer: HTTPResponse

  init(_ answer: HTTPResponse) { self.answer = answer }

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    do throws(JSONError) {
      let json = try JSONValue(parsing: request.body)
      let records = json["operations"]?.elements.compactMap { $0["record"]?["recordName"]?.string } ?? []
      let objects =
        json["transactions"]?.elements.flatMap { $0["changes"]?.elements ?? [] }.compactMap { $0["objectID"]?.string }
        ?? []
      for name in records + objects where !names.withLock({ $0.insert(name).inserted }) { note("\(name) came twice") }
      if (records + objects).isEmpty { note("nothing to save") }
    } catch {
      note(error.reason)
    }
    return answer
  }

  private func note(_ problem: String) { problems.withLock { $0.append(problem) } }
  func refusal(status: Int, reason: String) -> HTTPResponse { HTTPResponse(status: status) }
}

struct ClosedLoopTests {
  private func run(_ stub: Stub, _ workload: Workload, clients: Int, threads: Int = 1) async throws -> Measurement {
    let server = try HTTPServer(handler: stub)
    let target = try #require(Target(url: "http://127.0.0.1:\(server.port)"))
    let count = workload.recordCount(batch: 50)
    let makers = (0..<clients).map {
      RequestMaker(workload, count: count, target: "/x?y=\($0)", host: target.host, bearer: "t", zoneName: "Z\($0)")
    }
    return await runClosedLoops(target, makers, threadCount: threads, length: RunLength(seconds: 60, answerLimit: 40))
  }

  @Test(arguments: [(Workload.w1a, 1), (.w1b, 50), (.w1c, 5)], [1, 7])
  func `every request is valid, with names of its own, and every answer is counted`(
    workload: (Workload, Int), clients: Int
  ) async throws {
    let stub = Stub(HTTPResponse(status: 200, body: .bytes(Array(#"{"records":[]}"#.utf8))))
    let measurement = try await run(stub, workload.0, clients: clients, threads: 2)
    #expect(stub.problems.withLock { $0 } == [])
    #expect(measurement.errorCount == 0 && measurement.firstError == nil)
    #expect(measurement.latencies.count > 0)
    #expect(stub.names.withLock { $0.count } >= measurement.latencies.count * workload.1)
  }

  @Test(arguments: [Workload.qe, .qs])
  func `a query asks for numbers that the zone has, and never twice the same for long`(workload: Workload) throws {
    let scenario = try Scenario(json: JSONValue(parsing: Array(#"{"container":"iCloud.c","apiToken":"a"}"#.utf8)))
    var maker = QueryPopulation(scenario, token: "t", zoneName: "Z", recordCount: 5000).maker(
      workload, host: "h", random: FastRandom())
    var numbers: Set<Int64> = []
    for _ in 0..<100 {
      let text = String(decoding: maker.request, as: UTF8.self)
      let body = try #require(text.firstRange(of: "\r\n\r\n").map { text[$0.upperBound...] })
      #expect(text.contains("Content-Length: \(body.utf8.count)\r\n"))
      let query = try #require(JSONValue(parsing: Array(body.utf8))["query"])
      #expect(query["recordType"]?.string == "CD_Note")
      numbers.insert(try #require(query["filterBy"]?.elements.first?["fieldValue"]?["value"]?.int64))
      maker.advance()
    }
    #expect(numbers.count > 80)
    let unit: Int64 = workload == .qe ? 1 : 1_000_000
    #expect(numbers.allSatisfy { (1_000_000..<1_005_000).contains($0 / unit) && $0 % unit == 0 })
  }

  @Test func `answers that are errors are counted as such and the first is kept`() async throws {
    let body = #"{"records":[{"serverErrorCode":"CONFLICT"}]}"#
    let measurement = try await run(Stub(HTTPResponse(status: 200, body: .bytes(Array(body.utf8)))), .w1a, clients: 2)
    #expect(measurement.latencies.isEmpty && measurement.errorCount > 0)
    #expect(measurement.firstError?.contains("CONFLICT") == true)
    let busy = try await run(Stub(HTTPResponse(status: 503)), .w1a, clients: 2)
    #expect(busy.latencies.isEmpty && busy.firstError?.hasPrefix("HTTP/1.1 503") == true)
  }

  /// Answers its first request after a pause, and the others at once.
  private final class SlowStart: HTTPHandler {
    static let pause = Duration.milliseconds(200)
    let requestCount = Atomic(0)

    func respond(to request: HTTPRequest) async -> HTTPResponse {
      // Dropped because only a request that nobody waits for ends the sleep early.
      if requestCount.add(1, ordering: .relaxed).oldValue == 0 { try? await Task.sleep(for: Self.pause) }
      return HTTPResponse(status: 200, body: .bytes(Array(#"{"records":[]}"#.utf8)))
    }

    func refusal(status: Int, reason: String) -> HTTPResponse { HTTPResponse(status: status) }
  }

  private func run(
    _ handler: some HTTPHandler, clients: Int, length: RunLength = RunLength(seconds: 60, answerLimit: 40), _ pace: Pace
  ) async throws -> Measurement {
    let server = try HTTPServer(handler: handler)
    let target = try #require(Target(url: "http://127.0.0.1:\(server.port)"))
    let makers = (0..<clients).map {
      RequestMaker(.w1a, count: 1, target: "/x?y=\($0)", host: target.host, bearer: "t", zoneName: "Z\($0)")
    }
    return await runClosedLoops(target, makers, threadCount: 1, length: length, pace: pace)
  }

  @Test func `a run in whose time nothing is answered goes on to the first answer, and ends with it`() async throws {
    let slow = SlowStart()
    let measurement = try await run(slow, clients: 1, length: RunLength(seconds: 0.01), .closed)
    #expect(measurement.latencies.count == 1 && measurement.errorCount == 0)
    #expect(measurement.seconds >= 0.01 && slow.requestCount.load(ordering: .relaxed) <= 2)
    #expect(try #require(measurement.latencies.first) >= 199_000)
  }

  @Test func `a run with an error in its time does not wait for an answer`() async throws {
    let measurement = try await run(
      Stub(HTTPResponse(status: 503)), clients: 1, length: RunLength(seconds: 0.2), .closed)
    #expect(measurement.latencies.isEmpty && measurement.errorCount > 0 && measurement.seconds < 30)
  }

  @Test func `at a rate no request is sent before its time`() async throws {
    let measurement = try await run(
      Stub(HTTPResponse(status: 200, body: .bytes(Array(#"{"records":[]}"#.utf8)))), clients: 4, .rate(400))
    // The last of forty requests is due 97.5 ms after the first.
    #expect(measurement.seconds >= 0.0975 && measurement.latencies.count >= 40 && measurement.errorCount == 0)
  }

  @Test func `at a rate a request that is held up by the one before has waited since it was due`() async throws {
    let measurement = try await run(SlowStart(), clients: 1, .rate(100))
    // Due 10, 20, 30 ms after the first, which is answered after 200 ms.
    for (place, latency) in measurement.latencies.prefix(4).enumerated() {
      #expect(latency >= 199_000 - 10_000 * UInt32(place))
    }
  }

  @Test func `closed loops take a rate behind their number, other workloads none`() throws {
    let sized = try #require(Workload.Sized("w1a:4@250"))
    #expect(sized.workload == .w1a && sized.clientCount == 4 && sized.pace == .rate(250) && sized.name == "w1a:4@250")
    #expect(Workload.Sized("qe@9") == Workload.Sized(.qe, 16, .rate(9)))
    for text in [
      "w1a:4@", "w1a:4@0", "w1a:4@1000001", "w1a:4@x", "w1a@1@1", "w1a@1:4", "w2:8@5", "w3:10@5", "w4:2@5", "w5:6@5",
    ] {
      #expect(Workload.Sized(text) == nil, "\(text)")
    }
    #expect(Pace.rate(2000).spacing(clientCount: 16) == 8_000_000 && Pace.closed.spacing(clientCount: 16) == 0)
  }

  @Test func `a server that is not there ends the run at once`() async throws {
    let port = try HTTPServer(handler: Stub(HTTPResponse(status: 200))).port
    let target = try #require(Target(url: "http://127.0.0.1:\(port)"))
    let maker = RequestMaker(.w1a, count: 1, target: "/", host: target.host)
    let measurement = await runClosedLoops(target, [maker], threadCount: 1, length: RunLength(seconds: 60))
    #expect(measurement.latencies.isEmpty && measurement.errorCount > 0)
  }

  @Test func `a seed gives the same requests, and a maker knows the names in them`() throws {
    for (workload, count) in [(Workload.w1b, 3), (.w1c, 5)] {
      let makers = [7, 7, 8].map {
        RequestMaker(workload, count: count, target: "/", host: "h", random: FastRandom(seed: $0))
      }
      #expect(makers[0].request == makers[1].request && makers[0].request != makers[2].request)
      let text = String(decoding: makers[0].request, as: UTF8.self)
      let body = try JSONValue(parsing: Array(text[try #require(text.firstRange(of: "\r\n\r\n")).upperBound...].utf8))
      let records = body["operations"]?.elements.compactMap { $0["record"]?["recordName"]?.string } ?? []
      let objects =
        body["transactions"]?.elements.flatMap { $0["changes"]?.elements ?? [] }.compactMap { $0["objectID"]?.string }
        ?? []
      #expect(makers[0].names == records + objects && makers[0].names.count == count)
    }
  }

  @Test(arguments: ["https://h", "127.0.0.1", "http://", "http://h:99999", "http://no.such.host.invalid"])
  func `an address that can't be used is no target`(url: String) {
    #expect(Target(url: url) == nil)
  }
}
