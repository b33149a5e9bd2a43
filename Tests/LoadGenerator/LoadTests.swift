// The load generator's options, its parsers, and its computations.

import Testing

@testable import aquifer_load

struct OptionsTests {
  @Test func `options come from the command line, then from the environment`() throws {
    let options = try Options(
      [
        "--workload", "w1a:3,w2", "--seconds", "0.5", "--runs", "2", "--json", "-", "--url", "http://h:1", "--limits",
        "--seed", "7",
      ],
      environment: ["AQUIFER_SERVER": "http://other", "AQUIFER_OPERATOR_TOKEN": "t"])
    #expect(
      options.workloads == [.init(.w1a, 3), .init(.w2, 1)] && options.seconds == 0.5 && options.runCount == 2
        && options.jsonPath == "-")
    #expect(options.url == "http://h:1" && options.operatorToken == "t" && options.measuresLimits && options.seed == 7)
    #expect(try Options([], environment: ["AQUIFER_OPERATOR_TOKEN": "t"]).workloads == [.init(.w1a, 16)])
    #expect(
      try Options(["--scenario", "f", "--workload", "all"], environment: [:]).workloads == Workload.Sized.benchmark)
  }

  @Test(arguments: [
    [], ["--operator-token"], ["--operator-token", "t", "--workload", "w1a:0"],
    ["--operator-token", "t", "--seconds", "61"],
    ["--operator-token", "t", "--workload", "w9"], ["--operator-token", "t", "--workload", "w1a:2:3"],
    ["--operator-token", "t", "--workload", "w4:3"],
    ["--operator-token", "t", "--workload", ""], ["--operator-token", "t", "--changes", "250"],
    ["--operator-token", "t", "--json", "-", "--markdown", "-"],
    ["--operator-token", "t", "--nonsense", "1"], ["w1a"],
  ])
  func `a command line that makes no sense is refused`(arguments: [String]) {
    #expect(throws: Options.UsageError.self) { _ = try Options(arguments, environment: [:]) }
  }

  @Test func `the help names every option and workload`() {
    for word in [
      "--url", "--operator-token", "--scenario", "--workload", "--limits", "--seconds", "--runs", "--batch",
      "--changes", "--rounds", "--saves", "--records", "--threads",
      "--seed", "--scratch", "--facts", "--json", "--markdown",
    ] + Workload.allCases.map(\.rawValue) {
      #expect(Options.help.contains(word))
    }
  }
}

struct FiguresTests {
  @Test func `percentiles are the nearest rank`() {
    #expect(Figures.percentile([], 50) == 0)
    #expect(Figures.percentile([5000], 1) == 5)
    let thousand = (1...1000).map { UInt32($0 * 1000) }
    #expect(
      Figures.percentile(thousand, 50) == 500 && Figures.percentile(thousand, 99) == 990
        && Figures.percentile(thousand, 100) == 1000)
    #expect(Figures.percentile([1000, 2000, 3000], 50) == 2 && Figures.percentile([1000, 2000, 3000], 99) == 3)
  }

  @Test func `rates count records, medians are taken figure by figure, errors add up`() {
    let fast = Figures(Measurement(latencies: [1000, 3000], errorCount: 1, seconds: 2), recordCount: 400)
    #expect(fast.requestsPerSecond == 1 && fast.recordsPerSecond == 200 && fast.p50 == 1 && fast.longest == 3)
    let slow = Figures(Measurement(latencies: [9000], errorCount: 2, seconds: 2), recordCount: 200)
    let median = Figures(medianOf: [fast, slow, slow])
    #expect(median.p50 == 9 && median.recordsPerSecond == 100 && median.errorCount == 5)
    #expect(12345.678.text(2) == "12345.68" && 0.05.text(2) == "0.05" && 7.0.text(0) == "7")
    #expect(0.451.short == "0.45" && 12.34.short == "12.3" && 1163.0.short == "1163" && 21_096.4.short == "21 096")
  }
}

struct NoiseTests {
  private static let before = "cpu  100 10 50 800 40 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n"

  @Test func `the use by processes and the stolen time differ, and waiting for a disk is neither`() throws {
    let noise = try #require(
      Noise(
        loadAverage: "3.25 2.00 1.00 2/345 6789\n", before: Self.before,
        after: "cpu  110 20 60 840 50 5 5 10 0 0\ncpu0 …"))
    #expect(noise == Noise(loadAverage: "3.25 0 0", before: "cpu  0 0 0 0 0 0 0 0", after: "cpu  40 0 0 50 0 0 0 10"))
    #expect(noise.busyPercent == 40 && noise.stolenPercent == 10 && noise.summary == "3.3/50%")
    #expect(noise.isRestless)
  }

  @Test func `a machine that does little is at rest`() throws {
    let noise = try #require(Noise(loadAverage: "9 9 9", before: Self.before, after: "cpu  115 10 50 875 40 5 0 5"))
    #expect(noise.busyPercent + noise.stolenPercent == 25 && noise.isRestless)
    let quiet = try #require(Noise(loadAverage: "9 9 9", before: Self.before, after: "cpu  110 10 50 885 40 0 0 5"))
    #expect(!quiet.isRestless)
  }

  @Test(arguments: ["", "cpu", "cpu  1 2 3", "intr 1 2 3 4 5 6 7 8", before])
  func `nothing is made up where nothing is told`(after: String) {
    #expect(Noise(loadAverage: "1.00 1 1", before: Self.before, after: after) == nil)
    #expect(Noise(loadAverage: "", before: Self.before, after: "cpu  110 20 60 840 50 5 5 10") == nil)
  }
}

struct ResponseReaderTests {
  private static let answers = [
    (
      "HTTP/1.1 200 OK\r\nServer: x\r\nCONTENT-LENGTH: 5\r\n\r\nhello",
      ResponseReader.Outcome.complete(isSuccess: true, closes: false)
    ),
    ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", .complete(isSuccess: true, closes: true)),
    (
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x\r\n0123456789\r\n0\r\n\r\n",
      .complete(isSuccess: true, closes: false)
    ),
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

  @Test func `chunks are taken out of a body`() {
    var reader = ResponseReader()
    reader.append(Self.answers[2].0.utf8)
    #expect(reader.outcome() == .complete(isSuccess: true, closes: false))
    #expect(reader.body == Array("abc0123456789".utf8) && reader.contains("9") && !reader.contains("OK"))
  }

  @Test func `a stream has a beginning and no end, and a refused one has both`() {
    var reader = ResponseReader()
    reader.reset(isStream: true)
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    reader.append(head.utf8)
    #expect(reader.outcome() == .incomplete && reader.hasBegun)
    reader.append("0\r\n\r\ndata: x\n".utf8)
    #expect(reader.outcome() == .incomplete && reader.contains("data:"))
    reader.dropBody()
    #expect(!reader.contains("data:") && reader.bytes == Array(head.utf8))
    reader.reset(isStream: true)
    reader.append("HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n".utf8)
    #expect(reader.outcome() == .complete(isSuccess: false, closes: false))
  }

  @Test(arguments: [
    "SSH-2.0-x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nzz\r\n",
  ])
  func `a text that is not an answer is malformed`(text: String) {
    var reader = ResponseReader()
    reader.append(text.utf8)
    #expect(reader.outcome() == .malformed)
  }
}
