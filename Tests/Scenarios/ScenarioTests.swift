import Foundation
import Testing

/// A file of scenarios: `# heading`, then blocks of commands, `----` and their output, separated by empty lines.
struct ScenarioFile: CustomTestStringConvertible {
  struct Block {
    let commands: [String]
    let expected: [String]
    /// The line of its first command, from 1.
    let line: Int
  }

  let url: URL
  let scenarios: [(heading: String, blocks: [Block])]

  var testDescription: String { url.lastPathComponent }

  static let all: [ScenarioFile] = {
    let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Texts")
    let files = (try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)) ?? []
    return files.filter { $0.pathExtension == "txt" }.sorted { $0.path < $1.path }.compactMap { try? ScenarioFile($0) }
  }()

  init(_ url: URL) throws {
    self.url = url
    var scenarios: [(heading: String, blocks: [Block])] = []
    var commands: [String] = []
    var expected: [String]?
    var first = 0
    func end() {
      if let known = expected {
        scenarios[scenarios.count - 1].blocks.append(Block(commands: commands, expected: known, line: first))
      }
      commands = []
      expected = nil
    }
    for (index, line) in try String(contentsOf: url, encoding: .utf8).split(
      separator: "\n", omittingEmptySubsequences: false
    ).map(String.init).enumerated() {
      if line.hasPrefix("# ") {
        end()
        scenarios.append((line, []))
      } else if line.isEmpty {
        end()
      } else if line == "----" {
        expected = []
      } else if expected != nil {
        expected?.append(line)
      } else {
        if commands.isEmpty { first = index + 1 }
        commands.append(line)
      }
    }
    end()
    self.scenarios = scenarios
  }
}

@Test(arguments: ScenarioFile.all) func `scenarios in text print what they say`(_ file: ScenarioFile) throws {
  var rewritten: [String] = []
  for (heading, blocks) in file.scenarios {
    let world = ScenarioWorld()
    rewritten += rewritten.isEmpty ? [heading, ""] : ["", heading, ""]
    for (index, block) in blocks.enumerated() {
      var printed: [String] = []
      do {
        for command in block.commands { printed += try world.run(command) }
      } catch {
        Issue.record("\(file.url.lastPathComponent):\(block.line): \(error)")
        return
      }
      #expect(printed == block.expected, "\(file.url.lastPathComponent):\(block.line), \(heading)")
      rewritten += (index == 0 ? [] : [""]) + block.commands + ["----"] + printed
    }
  }
  guard ProcessInfo.processInfo.environment["REWRITE"] == "1" else { return }
  try (rewritten.joined(separator: "\n") + "\n").write(to: file.url, atomically: true, encoding: .utf8)
}

@Test func `there are scenarios, and every block of them says something`() {
  #expect(ScenarioFile.all.count >= 2)
  for file in ScenarioFile.all {
    for (heading, blocks) in file.scenarios {
      #expect(!blocks.isEmpty, "\(heading)")
      #expect(blocks.contains { !$0.expected.isEmpty }, "\(heading)")
    }
  }
}
