import Foundation
import HTTPServer
import JSON
import Records
import Testing
import WebServices

@testable import Gateway

/// Services/openapi.json must describe both planes and the operator API exactly.
/// CI sends its examples (Tests/Clients/openapi_examples.py)
/// and fuzzes an installation with it (Tests/Clients/fuzz.py).
struct OpenAPITests {
  private static let document = Result {
    let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "Services/openapi.json")
    return try JSONValue(parsing: Array(Data(contentsOf: file)))
  }

  private struct Operation {
    let path: String
    let method: HTTPMethod
    let value: JSONValue

    /// The path's segments, with values for its parameters.
    var segments: [String] {
      let values = ["{container}": "iCloud.a", "{environment}": "development", "{database}": "private"]
      return path.split(separator: "/").map { segment in
        segment.first == "{" ? values[String(segment)] ?? "x" : String(segment)
      }
    }
  }

  private static func operations() throws -> [Operation] {
    try #require(try document.get()["paths"]).members.flatMap { path, item in
      try item.members.map { method, value in
        Operation(path: path, method: try #require(HTTPMethod(rawValue: method.uppercased())), value: value)
      }
    }
  }

  /// Staff's calls on a user's data are those of a plane behind a prefix; the description does not describe its own
  /// address. A test of the share service has the calls behind `/admin/1/{…}`.
  private static func isDescribed(_ route: Route) -> Bool {
    switch route.target {
    case .operatorZone, .operatorUnshare, .operatorRecord, .operatorStore, .consoleSession, .welcome, .openAPI: false
    default: true
    }
  }

  /// The notifier's, which names its own server.
  private static let pings = "/mirror/1/{container}/{environment}/pings"

  @Test func `every route of both planes and of the operator API is described, and nothing else is`() throws {
    let table = RouteTable()
    var described: Set<String> = []
    for operation in try Self.operations() where operation.path != Self.pings {
      guard case .match(let match) = table.outcome(of: operation.method, operation.segments) else {
        Issue.record("\(operation.method.rawValue) \(operation.path) is described, but not routed")
        continue
      }
      #expect(Self.isDescribed(match.route), "\(operation.path)")
      described.insert("\(operation.method.rawValue) \(match.route.pattern)")
    }
    for route in RouteTable.routes where Self.isDescribed(route) {
      for method in route.methods {
        #expect(
          described.contains("\(method.rawValue) \(route.pattern)"),
          "Services/openapi.json lacks \(method.rawValue) \(route.pattern)")
      }
    }
    let pings = try #require(try Self.operations().first { $0.path == Self.pings })
    #expect(pings.method == .get && pings.value["servers"]?.elements.isEmpty == false)
  }

  @Test func `calls that can answer with a stream of events say so`() throws {
    let streams = try Self.operations().filter { operation in
      operation.value["responses"]?["200"]?["content"]?["text/event-stream"] != nil
    }
    let names = Set(streams.compactMap { $0.value["operationId"]?.string })
    #expect(names == ["fetchEvents", "streamPings", "followSamples", "followPings"])
  }

  @Test func `every operation has a name, its path's parameters, and the errors that every endpoint can answer`() throws
  {
    let statuses = Set(ServerErrorCode.allCases.map { String($0.row.httpStatus) })
    var names: Set<String> = []
    for operation in try Self.operations() {
      #expect(names.insert(try #require(operation.value["operationId"]?.string)).inserted)
      #expect(operation.value["summary"]?.string?.isEmpty == false)
      let parameters =
        operation.value["parameters"]?.elements.compactMap {
          $0["$ref"]?.string?.split(separator: "/").last.map(String.init) ?? $0["name"]?.string
        } ?? []
      let needed = operation.path.split(separator: "/").filter { $0.first == "{" }.map {
        String($0.dropFirst().dropLast())
      }
      #expect(Set(needed).isSubset(of: parameters), "\(operation.path): \(parameters)")
      let answers = Set(operation.value["responses"]?.members.map(\.key) ?? [])
      #expect(statuses.isSubset(of: answers), "\(operation.path)")
    }
  }

  @Test func `every reference leads somewhere, and everything shared is used`() throws {
    let document = try Self.document.get()
    var used: Set<String> = []
    func walk(_ value: JSONValue) {
      switch value.kind {
      case .object:
        for (key, member) in value.members {
          if key == "$ref", let reference = member.string { used.insert(reference) } else { walk(member) }
        }
      case .array: for element in value.elements { walk(element) }
      default: break
      }
    }
    walk(document)
    var shared: Set<String> = []
    for (kind, members) in try #require(document["components"]).members where kind != "securitySchemes" {
      for (name, _) in members.members { shared.insert("#/components/\(kind)/\(name)") }
    }
    #expect(used.subtracting(shared) == [])
    #expect(shared.subtracting(used) == [])
    let schemes = Set(try #require(document["components"]?["securitySchemes"]).members.map(\.key))
    let named = Set(
      try Self.operations().flatMap { $0.value["security"]?.elements.flatMap { $0.members.map(\.key) } ?? [] })
    #expect(named == schemes)
  }

  @Test func `every schema has a title of its own, and no constant is a truth value`() throws {
    let schemas = try #require(try Self.document.get()["components"]?["schemas"])
    var titles: Set<String> = []
    func walk(_ value: JSONValue, _ path: String) {
      switch value.kind {
      case .object:
        if value["type"]?.string == "object", value["properties"]?.kind == .object {
          if let title = value["title"]?.string {
            #expect(titles.insert(title).inserted, "\(path): \(title)")
          } else {
            Issue.record("\(path) has no title")
          }
        }
        // Client generators produce invalid code (`x != Trueand`) for a boolean const; an enum with one value works.
        #expect(value["const"]?.kind != .bool, "\(path)")
        for (key, member) in value.members { walk(member, path + "/" + key) }
      case .array: for (index, element) in value.elements.enumerated() { walk(element, "\(path)/\(index)") }
      default: break
      }
    }
    for (name, schema) in schemas.members {
      #expect(schema["title"]?.string == name)
      walk(schema, name)
    }
  }

  @Test func `its lists of words are the server's`() throws {
    let schemas = try #require(try Self.document.get()["components"]?["schemas"])
    func words(_ path: String...) throws -> Set<String> {
      var value = schemas
      for key in path { value = try #require(value[key], "\(path)") }
      return Set(try #require(value["enum"]).elements.compactMap(\.string))
    }
    #expect(try words("ServerErrorCode") == Set(ServerErrorCode.allCases.map(\.rawValue)))
    #expect(
      try words("RecordOperation", "properties", "operationType") == Set(RecordOperation.Kind.allCases.map(\.rawValue)))
    #expect(
      try words("Filter", "properties", "comparator").isSubset(of: RecordQuery.Comparator.allCases.map(\.rawValue)))
    #expect(try words("ReferenceValue", "properties", "action") == Set(Reference.Action.allCases.map(\.rawValue)))
    let types = FieldType.allCases.map(\.wireName)
    #expect(try Set(types).isSubset(of: words("FieldType")))
    let answered = Set(
      try #require(schemas["Field"]?["anyOf"]).elements.compactMap { $0["properties"]?["type"]?["const"]?.string })
    #expect(Set(types).isSubset(of: answered))
  }
}
