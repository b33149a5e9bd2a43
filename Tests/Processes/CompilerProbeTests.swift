// Checks that the compiler of the executables handles the patterns that the code uses.

import Foundation
import Testing

/// A line of `compiler-probe`'s output.
private struct Line {
  let holds: Bool
  /// True when Tests/Style forbids the pattern.
  let isRefused: Bool
  let name: Substring
}

@Test(.timeLimit(.minutes(1)))
func `every pattern that brings values across an await holds, but for those that Style refuses`() throws {
  let run = try CommandLineTool.run([], executable: Checkout.products.appending(path: "compiler-probe"))
  try #require(run.code == 0, "\(run.problem)")
  let output = run.output.split(separator: "\n")
  let lines = output.dropFirst().map { text in
    let columns = text.split(separator: "\t")
    return Line(holds: columns[0] == "holds", isRefused: columns[1] == "refused", name: columns[2])
  }
  #expect(lines.count > 20)
  for line in lines where !line.isRefused {
    #expect(line.holds, "\(line.name): Swift loses it; let Tests/Style/CompilerTests refuse it")
  }
  guard output.first == "optimised" else { return }
  for line in lines where line.isRefused {
    #expect(!line.holds, "\(line.name): Swift does not lose it any more; Tests/Style/CompilerTests may allow it")
  }
}
