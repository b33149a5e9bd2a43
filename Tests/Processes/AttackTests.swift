// A short run of the program that attacks installations (Tests/Attacks); `Tests/Attacks/run --long` makes long ones.
// deploy/test runs it alone, because other work on the machine affects its times.

import Foundation
import Testing

@Suite struct AttackTests {
  private struct Figures: Decodable {
    struct Row: Decodable {
      let name: String
      let problems: [String]
    }
    let attacks: [Row]
  }

  @Test(.timeLimit(.minutes(10)))
  func
    `others save and look up as fast as ever under all attacks, and no process exceeds its memory`()
    throws
  {
    let file = FileManager.default.temporaryDirectory.appending(path: "attacks-\(UUID().uuidString).json")
    defer { try? FileManager.default.removeItem(at: file) }
    let executable = Checkout.products.appending(path: "aquifer-attacks")
    let list = try CommandLineTool.run(["--list"], executable: executable).output.split(separator: "\n")
    let run = try CommandLineTool.run(["--seconds", "3", "--json", file.path], executable: executable)
    guard let data = try? Data(contentsOf: file) else {
      throw Unexpected("aquifer-attacks wrote nothing: \(run.code) \(run.output) \(run.problem)")
    }
    let attacks = try JSONDecoder().decode(Figures.self, from: data).attacks
    #expect(attacks.count == list.count && attacks.count > 20)
    for attack in attacks { #expect(attack.problems.isEmpty, "\(attack.name): \(attack.problems)") }
    #expect(run.code == 0, "\(run.output)")
  }
}
