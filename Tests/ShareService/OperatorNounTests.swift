import Foundation
import JSON
import Testing

@testable import ShareService

@Test func `the description of the API has every noun of the operator API, and no other`() throws {
  let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: "Services/openapi.json")
  let document = try JSONValue(parsing: Array(Data(contentsOf: file)))
  let paths = try #require(document["paths"]).members.map { $0.key.split(separator: "/") }
  let nouns = Set(paths.filter { $0.starts(with: ["admin", "1"]) }.map { String($0[2]) })
  // A stream that the gateway itself answers.
  #expect(nouns == Set(OperatorNoun.allCases.map(\.rawValue)).union(["live"]))
}
