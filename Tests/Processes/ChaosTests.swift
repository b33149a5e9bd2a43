// Short runs of the program that damages installations under load (Tests/Chaos); Tests/Processes/chaos makes long ones.

import Foundation
import PowerLoss
import Testing

@Suite(.serialized) struct ChaosTests {
  private struct Figures: Decodable {
    struct Row: Decodable {
      let what: String
      let times: Int
      let saves: Int
    }
    let isGood: Bool
    let saves: Int
    let takenBack: Int
    let faults: [String: Int]
    let `while`: [Row]

    /// The number of events of that kind.
    func times(_ kind: String) -> Int { `while`.filter { $0.what.hasPrefix(kind) }.reduce(0) { $0 + $1.times } }
  }

  /// - Returns: the figures that the run wrote, and its output.
  private static func run(_ words: String...) throws -> (figures: Figures, text: String) { try run(words) }

  private static func run(_ words: [String]) throws -> (figures: Figures, text: String) {
    let file = FileManager.default.temporaryDirectory.appending(path: "chaos-\(UUID().uuidString).json")
    defer { try? FileManager.default.removeItem(at: file) }
    let run = try CommandLineTool.run(
      words + ["--json", file.path], executable: Checkout.products.appending(path: "aquifer-chaos"))
    guard let data = try? Data(contentsOf: file) else {
      throw Unexpected("aquifer-chaos wrote nothing: \(run.code) \(run.output) \(run.problem)")
    }
    let figures = try JSONDecoder().decode(Figures.self, from: data)
    #expect((run.code == 0) == figures.isGood)
    return (figures, run.output)
  }

  @Test(.timeLimit(.minutes(3)))
  func `nothing acknowledged is lost, done twice or out of order while processes are killed, stopped and replaced`()
    throws
  {
    let (figures, text) = try Self.run("--seconds", "25")
    #expect(figures.isGood, "\(text)")
    #expect(figures.saves > 100)
    #expect(figures.times("kill") > 0 && figures.times("pause") + figures.times("restart") > 0, "\(text)")
  }

  @Test(.timeLimit(.minutes(2))) func `every save that was acknowledged survives worker after worker that is killed`()
    throws
  {
    let (figures, text) = try Self.run("--kills", "12")
    #expect(figures.isGood, "\(text)")
    #expect(figures.times("kill worker") == 12 && figures.saves > 50, "\(text)")
  }

  @Test(.timeLimit(.minutes(2)))
  func `T-X05 no call fails while workers become four and one again, and every process is replaced`() throws {
    let (figures, text) = try Self.run("--plan", "scale")
    #expect(figures.isGood, "\(text)")
    #expect(
      figures.times("join worker") == 3 && figures.times("leave worker") == 3 && figures.times("restart") == 8,
      "\(text)")
  }

  @Test(.timeLimit(.minutes(2))) func `a save that is not where it was acknowledged makes a run fail`() throws {
    let (figures, text) = try Self.run("--kills", "1", "--plant", "loss")
    #expect(!figures.isGood && figures.faults["lost"] == 1, "\(text)")
  }

  // MARK: Power cuts

  /// Runs with the library that notes unsynced writes.
  private static func cutPower(_ words: String...) throws -> (figures: Figures, text: String) {
    let library = FileManager.default.temporaryDirectory.appending(path: "powerloss-\(UUID().uuidString).so")
    defer { try? FileManager.default.removeItem(at: library) }
    let source = Checkout.root.appending(path: "Tests/PowerLoss/powerloss.c").path
    try PowerLoss.compile(source, to: library.path)
    return try run(["--plan", "power", "--shim", library.path] + words)
  }

  @Test(.timeLimit(.minutes(2))) func `nothing acknowledged is lost in a cut of the power: saves, uploads, users`()
    throws
  {
    // A power cut meets unsynced writes by chance, about two times in three.
    var takenBackCount = 0
    for _ in 0..<4 where takenBackCount == 0 {
      let (figures, text) = try Self.cutPower("--rounds", "5")
      #expect(figures.isGood && figures.times("cut power") == 5, "\(text)")
      takenBackCount += figures.takenBack
    }
    #expect(takenBackCount > 0)
  }

  // Such a database may fail to open again, and the run waits for it.
  @Test(.timeLimit(.minutes(4)))
  func `databases that do not sync each commit lose what was acknowledged, and the run says so`() throws {
    let (figures, text) = try Self.cutPower("--rounds", "2", "--control")
    #expect(!figures.isGood && figures.takenBack > 0, "\(text)")
  }
}
