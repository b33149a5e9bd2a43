import Records
import ServiceBus
import Testing

@Suite struct DatabaseRouteTests {
  private static let all: [DatabaseRoute] =
    RecordRoute.allCases.map { .record($0) }
    + StoreRoute.allCases.map { .store($0, of: "S", item: $0.pattern.contains("{") ? "I" : "") }
    + GuestRoute.allCases.map { .guest($0, of: "S") } + ZoneRoute.allCases.map { .zone($0, of: "_defaultZone") }

  @Test(arguments: all) func `a call is read from its own spelling`(_ route: DatabaseRoute) {
    #expect(DatabaseRoute(route.plane, method: route.method, path: route.path) == route)
  }

  @Test func `no two calls are spelled alike`() {
    let spelled = Self.all.map { "\($0.plane) \($0.method) \($0.path)" }
    #expect(Set(spelled).count == spelled.count)
  }

  @Test(arguments: [
    (DatabaseRequest.Plane.object, "GET", ["stores", "S", "lunch"], 404), (.object, "GET", ["stores"], 404),
    (.object, "GET", ["lunch", "S"], 404),
    (.object, "GET", [], 404), (.object, "PUT", ["stores", "a b\u{7}"], 404),
    (.object, "GET", ["zones", "", "export"], 404),
    (.object, "POST", ["stores", "S", "changes"], 405), (.object, "GET", ["zones", "Z", "import"], 405),
    (.record, "GET", ["records", "modify"], 405),
    (.record, "POST", ["records", "modify", "twice"], 404), (.record, "POST", ["stores", "S", "transactions"], 404),
  ])
  func `a path that names no call is kept, and refused as unknown or as a wrong method`(
    plane: DatabaseRequest.Plane, method: String, path: [String], status: Int
  ) throws {
    let route = DatabaseRoute(plane, method: method, path: path)
    guard case .unknown(let unknown) = route else {
      Issue.record("\(path) is read as \(route)")
      return
    }
    #expect(unknown.error.status == status)
    #expect(route.path == path && route.method == method && route.plane == plane && route.label == "*")
  }

  @Test func `labels of metrics have no identifiers`() {
    #expect(DatabaseRoute.store(.restoreConflict, of: "S", item: "7").label == "stores/*/conflicts/*/restore")
    #expect(DatabaseRoute.store(.setUp, of: "S").label == "stores/*")
    #expect(DatabaseRoute.zone(.export, of: "Z").label == "zones/*/export")
    #expect(DatabaseRoute.record(.modifyRecords).label == "records/modify")
  }
}
