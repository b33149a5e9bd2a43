// Alerts, dashboard and handbook: well formed, and consistent with each other.

import Foundation
import Testing

/// The files about metrics.
enum Monitoring {
  /// The path of promtool; nil where it is absent.
  static let promtool = ["/usr/bin/promtool", "/usr/local/bin/promtool"].first {
    FileManager.default.isExecutableFile(atPath: $0)
  }
  static let folder = Checkout.root.appending(path: "deploy")
  static let handbook = Checkout.root.appending(path: "docs/operating/OPERATING.md")

  static func files() throws -> [(name: String, text: String)] {
    try [folder.appending(path: "prometheus/alerts.yml"), folder.appending(path: "grafana/aquifer.json"), handbook].map
    {
      (name: $0.lastPathComponent, text: try String(contentsOf: $0, encoding: .utf8))
    }
  }

  static func metrics(in text: String) -> [String] {
    Set(text.matches(of: /\b(aquifer|process)_[a-z_]+[a-z]\b/).map { String($0.output.0) }).sorted()
  }

  /// The names of the alerts.
  static func alerts() throws -> [String] {
    try String(contentsOf: folder.appending(path: "prometheus/alerts.yml"), encoding: .utf8).matches(
      of: /- alert: (\w+)/
    ).map { String($0.output.1) }
  }
}

struct MonitoringTests {
  private func run(_ words: String...) throws {
    let run = try CommandLineTool.run(words, executable: URL(filePath: try #require(Monitoring.promtool)))
    #expect(run.code == 0, "promtool \(words.joined(separator: " ")):\n\(run.output)\(run.problem)")
  }

  @Test(.enabled(if: Monitoring.promtool != nil, "there is no promtool here: it is in Debian's package prometheus"))
  func `promtool accepts the scrape example, the alerts and their cases, and every query of the dashboard`() throws {
    let folder = Monitoring.folder.appending(path: "prometheus")
    try run("check", "config", folder.appending(path: "prometheus.yml").path)
    try run("check", "rules", folder.appending(path: "alerts.yml").path)
    try run("test", "rules", folder.appending(path: "alerts_test.yml").path)

    let dashboard = try Value(
      json: Array(try Data(contentsOf: Monitoring.folder.appending(path: "grafana/aquifer.json"))))
    let queries = dashboard["panels"].elements.flatMap { $0["targets"].elements }.compactMap { $0["expr"].string }
    #expect(queries.count > 50)
    let rules = queries.enumerated().map { number, query in
      let query = query.replacing("$__rate_interval", with: "1m").replacing("'", with: "''")
      return "      - {record: 'query:\(number)', expr: '\(query)'}\n"
    }
    let file = FileManager.default.temporaryDirectory.appending(path: "aquifer-queries-\(UUID().uuidString).yml")
    defer { try? FileManager.default.removeItem(at: file) }
    try ("groups:\n  - name: dashboard\n    rules:\n" + rules.joined()).write(
      to: file, atomically: true, encoding: .utf8)
    try run("check", "rules", file.path)
  }

  @Test func `OPERATING md has a section for each alert, and for nothing that is no alert`() throws {
    let text = try String(contentsOf: Monitoring.handbook, encoding: .utf8)
    let sections = text.matches(of: /(?m)^### (Aquifer\w+)$/).map { String($0.output.1) }
    #expect(sections == (try Monitoring.alerts()))
    for section in text.components(separatedBy: "\n### ").dropFirst() {
      for part in ["**Shows**", "**Reason**", "**Remedy**"] {
        #expect(section.contains(part), "\(section.prefix(40)) lacks \(part)")
      }
    }
  }

  @Test func `OPERATING md lists every exit code that help does`() throws {
    let text = try String(contentsOf: Monitoring.handbook, encoding: .utf8)
    let help = try CommandLineTool.run(["--help"], executable: Checkout.products.appending(path: "aquifer-worker"))
      .output
    let codes = try #require(help.firstMatch(of: /Exit codes: (.*)\./)).output.1.split(separator: ", ").compactMap {
      $0.split(separator: " ").first
    }
    #expect(codes.count == 6)
    for code in codes { #expect(text.contains("\n| \(code) | "), "\(code)") }
  }

  @Test func `links of OPERATING md lead somewhere`() throws {
    func headings(of file: URL) throws -> Set<String> {
      let text = try String(contentsOf: file, encoding: .utf8)
      return Set(text.matches(of: /(?m)^#+ (.+)$/).map { $0.output.1.lowercased().replacing(" ", with: "-") })
    }
    let file = Monitoring.handbook
    for match in try String(contentsOf: file, encoding: .utf8).matches(of: /\]\(([^)]+)\)/) {
      let parts = match.output.1.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
      let target = parts[0].isEmpty ? file : file.deletingLastPathComponent().appending(path: parts[0])
      #expect(FileManager.default.fileExists(atPath: target.path), "\(match.output.1)")
      if parts.count == 2 { #expect(try headings(of: target).contains(String(parts[1])), "\(match.output.1)") }
    }
  }
}
