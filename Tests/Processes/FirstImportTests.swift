// The first import of a large database, page by page: the worker's memory must not grow with it.

import Foundation
import Testing

@Suite(.serialized) struct FirstImportTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private static let objectCount = 100_000
  /// Changes in a transaction.
  private static let saveCount = 1_000
  /// The allowed growth of a worker while it answers pages of 1000 objects, for any number of pages. A copy of all
  /// objects would exceed it.
  private static let growthLimit: Int64 = 64 << 20

  /// The resident memory of a process in bytes.
  private static func residentByteCount(of pid: Int32) throws -> Int64 {
    let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") })
    return (Int64(line.split(whereSeparator: { $0 == " " || $0 == "\t" })[1]) ?? 0) * 1024
  }

  @Test(.timeLimit(.minutes(5)))
  func `a first import of 100 000 objects streams with flat memory, and says how far it is`() async throws {
    try await Installation.run { installation in
      let user = try await App(installation, model: Self.model).user("alice")
      let (writer, reader) = (try await user.device("writer"), try await user.device("reader"))
      let padding = String(repeating: "x", count: 200)
      for start in stride(from: 0, to: Self.objectCount, by: Self.saveCount) {
        let changes = (start..<start + Self.saveCount).map {
          MainJob.insert("Tag", "T\($0)", ["name": .string("\($0) \(padding)")])
        }
        try await writer.save(changes, waitsForExport: start + Self.saveCount == Self.objectCount)
      }
      while try await writer.call("GET", "/status")["pendingUploads"].integer != 0 {
        try await Task.sleep(for: .milliseconds(100))
      }

      let worker = try #require(try installation.now().pids["worker"]?.first)
      var seen: Set<String> = []
      var token = Value.null
      var (pages, base, peak, done) = (0, Int64(0), Int64(0), Int64(-1))
      let clock = ContinuousClock()
      let begin = clock.now
      while true {
        let after = token.string?.addingPercentEncoding(withAllowedCharacters: .alphanumerics)
        let page = try await reader.call("GET", "/changes?limit=1000" + (after.map { "&after=" + $0 } ?? ""))
        for change in page["changes"].elements { seen.insert(change["objectID"].string ?? "") }
        token = page["importToken"]
        pages += 1
        let resident = try Self.residentByteCount(of: worker)
        // The first pages fill caches, which have limits of their own.
        if pages == 10 { base = resident }
        peak = max(peak, resident)
        let progress = page["progress"]
        #expect(
          (progress["done"].integer ?? -1) > done && (progress["done"].integer ?? 0) <= (progress["total"].integer ?? 0)
        )
        done = progress["done"].integer ?? 0
        guard page["moreComing"].bool == true else {
          #expect(progress["done"] == progress["total"] && page["initialImport"]["done"].bool == true)
          break
        }
        #expect(page["initialImport"]["done"].bool == false)
      }
      let took = begin.duration(to: clock.now)
      print(
        """
        first import: \(seen.count) objects, \(pages) pages, \(took), worker \(base >> 20) MiB after 10 pages, \
        \(peak >> 20) MiB at most
        """
      )
      #expect(seen.count == Self.objectCount && pages >= 100)
      #expect(peak - base < Self.growthLimit, "the worker grew from \(base >> 20) to \(peak >> 20) MiB")
      let events = try await reader.call("GET", "/events?type=import")["events"].elements
      #expect(events.map { $0["counts"]["saved"].integer } == [Int64(Self.objectCount)])
    }
  }
}
