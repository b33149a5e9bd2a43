// Why an object is in its state: what each store of a user knows, and the object's way from device to device.

import JSON
import Records
import ServiceBus

extension OperatorAPI {
  /// `GET` with `container`, `environment`, `user`, `object` and `scope`.
  func explain(_ request: Request) async throws -> OperatorAnswer {
    guard request.rest.isEmpty, request.method == "GET" else { throw Self.noSuchCall(request) }
    var query: [String: String] = [:]
    for name in ["container", "environment", "user", "object"] {
      guard let value = request.query[name], !value.isEmpty else {
        throw RecordError(.badRequest, "\(name) is missing")
      }
      query[name] = value
    }
    _ = try Self.environment(query["container"] ?? "", query["environment"] ?? "")
    let scope = request.query["scope"] ?? "private"
    guard ["private", "public"].contains(scope) else {
      throw RecordError(.badRequest, "scope must be private or public")
    }
    query["scope"] = scope
    let user = try await directory.recordName(ofUser: query["user"] ?? "")
    query["user"] = user
    guard let list = await list("explain", query) else {
      throw RecordError(.tryAgainLater, "The service is starting", retryAfter: 1)
    }
    var pings = PingList()
    if let zone = list.rows.lazy.compactMap({ $0["zoneID"]?["zoneName"]?.string }).first {
      var question = FetchPings(limit: 1000)
      question.container = query["container"]
      question.environment = query["environment"]
      question.owner = scope == "public" ? DatabaseID.publicOwner : user
      question.zone = zone
      pings = await sentPings(question)
    }
    return OperatorAnswer { writer in
      writer.key("explain")
      writer.beginArray()
      for row in list.rows {
        writer.beginObject()
        for (name, value) in row.members where name != "way" {
          writer.key(name)
          writer.value(value)
        }
        writer.endObject()
      }
      writer.endArray()
      writer.key("way")
      ObjectWay(list.rows, pings).write(to: &writer)
      writer.member("silent", list.silent + pings.silent)
    }
  }
}
