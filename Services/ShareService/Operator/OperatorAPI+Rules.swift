// Rules over HTTP: `/mirror/1/{container}/{environment}/rules` and `/admin/1/rules/{container}/{environment}`.

import JSON
import ObjectModel
import ServiceBus
import WebServices

extension OperatorAPI {
  /// `GET`, and `PUT` with a document (`dryRun`). Both answer with the document.
  func rules(_ request: Request, _ key: EnvironmentKey) async throws -> OperatorAnswer {
    switch (request.method, request.rest) {
    case ("GET", []):
      return OperatorAnswer(body: RulesDocument.json(try await directory.rules(of: key)))
    case ("PUT", []):
      let rules = try RulesDocument.rules(try JSONValue.request(request.body))
      let isDryRun = request.flag("dryRun")
      try await directory.setRules(rules, of: key, isDryRun: isDryRun)
      if !isDryRun { await publish(DirectoryChanged(credentials: false, schemas: [key.description])) }
      return OperatorAnswer(body: RulesDocument.json(rules))
    default: throw Self.noSuchCall(request)
    }
  }
}
