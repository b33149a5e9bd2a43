// The load generator itself: what it sends is valid, what it counts is what was answered.

import HTTPServer
import JSON
import Synchronization
import Testing

@testable import aquifer_load

struct OptionsTests {
  @Test func `options come from the command line, then from the environment`() throws {
    let options = try Options(
      ["--workload", "w1a,w1b", "--clients", "3", "--seconds", "0.5", "--runs", "2", "--json", "--url", "http://h:1"],
      environment: ["AQUIFER_SERVER": "http://other", "AQUIFER_OPERATOR_TOKEN": "t"])
    #expect(options.workloads == [.w1a, .w1b] && options.clientCount == 3 && options.seconds == 0.5 && options.runCount == 2 && options.wantsJSON)
    #expect(options.url == "http://h:1" && options.operatorToken == "t")
    #expect(try Options([], environment: ["AQUIFER_OPERATOR_TOKEN": "t"]).workloads == [.w1a])
  }

  @Test(arguments: [
    [], ["--operator-token"], ["--operator-token", "t", "--clients", "0"], ["--operator-token", "t", "--seconds", "61"], ["--operator-token", "t", "--workload", "w9"],
    ["--operator-token", "t", "--nonsense", "1"], ["w1a"],
  ])
  func `a command line that makes no sense is refused`(arguments: [String]) {
    #expect(throws: Options.UsageError.self) { _ = try Options(arguments, environment: [:]) }
  }

  @Test func `the help names every option and workload`() {
    for word in ["--url", "--operator-token", "--scenario", "--clients", "--seconds", "--runs", "--batch", "--records", "--threads", "--json"]
      + Workload.allCases.map(\.rawValue)
    {
      #expect(Options.help.contains(word))
    }
  }
}

struct FiguresTests {
  @Test func `percentiles are the nearest rank`() {
    #expect(Figures.percentile([], 50) == 0)
    #expect(Figures.percentile([5000], 1) == 5)
    let thousand = (1...1000).map { UInt32($0 * 1000) }
    #expect(Figures.percentile(thousand, 50) == 500 && Figures.percentile(thousand, 99) == 990 && Figures.percentile(thousand, 100) == 1000)
    #expect(Figures.percentile([1000, 2000, 3000], 50) == 2 && Figures.percentile([1000, 2000, 3000], 99) == 3)
  }

  @Test func `rates count records, medians are taken figure by figure, errors add up`() {
    let fast = Figures(Measurement(latencies: [1000, 3000], errorCount: 1, firstError: nil, seconds: 2), recordsPerRequest: 200)
    #expect(fast.requestsPerSecond == 1 && fast.recordsPerSecond == 200 && fast.p50 == 1 && fast.longest == 3)
    let slow = Figures(Measurement(latencies: [9000], errorCount: 2, firstError: nil, seconds: 2), recordsPerRequest: 200)
    let median = Figures(medianOf: [fast, slow, slow])
    #expect(median.p50 == 9 && median.recordsPerSecond == 100 && median.errorCount == 5)
    #expect(12345.678.text(2) == "12345.68" && 0.05.text(2) == "0.05" && 7.0.text(0) == "7")
  }
}

struct NoiseTests {
  private static let before = "cpu  100 10 50 800 40 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n"

  @Test func `what processes used and what was stolen are told apart, and waiting for a disk is neither`() throws {
    let noise = try #require(Noise(loadAverage: "3.25 2.00 1.00 2/345 6789\n", before: Self.before, after: "cpu  110 20 60 840 50 5 5 10 0 0\ncpu0 …"))
    #expect(noise == Noise(loadAverage: "3.25 0 0", before: "cpu  0 0 0 0 0 0 0 0", after: "cpu  40 0 0 50 0 0 0 10"))
    #expect(noise.busyPercent == 40 && noise.stolenPercent == 10 && noise.summary == "3.3/50%")
  }

  @Test(arguments: ["", "cpu", "cpu  1 2 3", "intr 1 2 3 4 5 6 7 8", before])
  func `nothing is made up where nothing is told`(after: String) {
    #expect(Noise(loadAverage: "1.00 1 1", before: Self.before, after: after) == nil)
    #expect(Noise(loadAverage: "", before: Self.before, after: "cpu  110 20 60 840 50 5 5 10") == nil)
  }
}

struct ResponseReaderTests {
  private static let answers = [
    ("HTTP/1.1 200 OK\r\nServer: x\r\nCONTENT-LENGTH: 5\r\n\r\nhello", ResponseReader.Outcome.complete(isSuccess: true, closes: false)),
    ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", .complete(isSuccess: true, closes: true)),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x\r\n0123456789\r\n0\r\n\r\n", .complete(isSuccess: true, closes: false)),
    ("HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{}", .complete(isSuccess: false, closes: false)),
  ]

  @Test func `an answer is complete with its last byte and not before`() {
    for (text, outcome) in Self.answers {
      var reader = ResponseReader()
      let bytes = Array(text.utf8)
      for (index, byte) in bytes.enumerated() {
        #expect(reader.outcome() == .incomplete, "\(text) after \(index)")
        reader.append([byte])
      }
      #expect(reader.outcome() == outcome, "\(text)")
      reader.reset()
      reader.append(bytes)
      #expect(reader.outcome() == outcome)
    }
  }

  @Test func `an error item makes an answer a failure`() {
    var reader = ResponseReader()
    let body = #"{"records":[{"recordName":"a","reason":"x","serverErrorCode":"CONFLICT"}]}"#
    reader.append("HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8)
    #expect(reader.outcome() == .complete(isSuccess: false, closes: false))
  }

  @Test(arguments: ["SSH-2.0-x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nzz\r\n"])
  func `what is no answer is malformed`(text: String) {
    var reader = ResponseReader()
    reader.append(text.utf8)
    #expect(reader.outcome() == .malformed)
  }
}

/// Takes requests apart and answers like the service, or with a failure.
private final class Stub: HTTPHandler {
  let names = Mutex<Set<String>>([])
  let problems = Mutex<[String]>([])
  let answer: HTTPResponse

  init(_ answer: HTTPResponse) { self.answer = answer }

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    do throws(JSONError) {
      let json = try JSONValue(parsing: request.body)
      let records = json["operations"]?.elements.compactMap { $0["record"]?["recordName"]?.string } ?? []
      let objects = json["transactions"]?.elements.flatMap { $0["changes"]?.elements ?? [] }.compactMap { $0["objectID"]?.string } ?? []
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

struct GeneratorTests {
  private func run(_ stub: Stub, _ workload: Workload, clients: Int, threads: Int = 1) async throws -> Measurement {
    let server = try HTTPServer(handler: stub)
    let target = try #require(Target(url: "http://127.0.0.1:\(server.port)"))
    let makers = (0..<clients).map { RequestMaker(workload, batch: 50, target: "/x?y=\($0)", host: target.host, bearer: "t", zoneName: "Z\($0)") }
    return await measure(target, makers, threadCount: threads, length: RunLength(seconds: 60, answerLimit: 40))
  }

  @Test(arguments: [(Workload.w1a, 1), (.w1b, 50), (.w1c, 5)], [1, 7])
  func `every request is valid, with names of its own, and every answer is counted`(workload: (Workload, Int), clients: Int) async throws {
    let stub = Stub(HTTPResponse(status: 200, body: .bytes(Array(#"{"records":[]}"#.utf8))))
    let measurement = try await run(stub, workload.0, clients: clients, threads: 2)
    #expect(stub.problems.withLock { $0 } == [])
    #expect(measurement.errorCount == 0 && measurement.firstError == nil)
    #expect(measurement.latencies.count > 0)
    #expect(stub.names.withLock { $0.count } >= measurement.latencies.count * workload.1)
  }

  @Test(arguments: [Workload.qe, .qs]) func `a query asks for numbers that the zone has, and never twice the same for long`(workload: Workload) throws {
    let scenario = try Scenario(json: JSONValue(parsing: Array(#"{"container":"iCloud.c","apiToken":"a"}"#.utf8)))
    var maker = QueryPopulation(scenario, token: "t", recordCount: 5000).maker(workload, host: "h")
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

  @Test func `a server that is not there ends the run at once`() async throws {
    let port = try HTTPServer(handler: Stub(HTTPResponse(status: 200))).port
    let target = try #require(Target(url: "http://127.0.0.1:\(port)"))
    let maker = RequestMaker(.w1a, batch: 1, target: "/", host: target.host, bearer: nil, zoneName: "Z")
    let measurement = await measure(target, [maker], threadCount: 1, length: RunLength(seconds: 60))
    #expect(measurement.latencies.isEmpty && measurement.errorCount > 0)
  }

  @Test(arguments: ["https://h", "127.0.0.1", "http://", "http://h:99999", "http://no.such.host.invalid"])
  func `an address that can't be used is no target`(url: String) {
    #expect(Target(url: url) == nil)
  }
}
