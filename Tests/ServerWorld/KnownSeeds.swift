// Earlier failures, repeated in every test run.

import Foundation

extension ServerRun {
  /// A line of seeds.txt: a seed, the number of steps, the model, and a note for people.
  package struct KnownSeed: Sendable, CustomStringConvertible {
    package let number: Int
    package let stepCount: Int
    package let model: String
    package var description: String { "\(number) over \(model)" }
  }

  package static let knownSeeds: [KnownSeed] = {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "seeds.txt")
    let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
    return text.split(separator: "\n").compactMap { line in
      let words = line.split(separator: " ").map(String.init)
      guard words.count > 2, let number = Int(words[0]), let steps = Int(words[1]) else { return nil }
      return KnownSeed(number: number, stepCount: steps, model: words[2])
    }
  }()

  /// Names of the flaws that can be planted.
  package static let flaws = Device.Flaw.allCases.map(\.rawValue)
}
