// Models and schemas over HTTP (docs/protocol/mirror-api.md#models-and-schemas).

import JSON
import ObjectModel
import Records
import ServiceBus
import WebServices
import XCDataModel

extension OperatorAPI {
  /// `GET` lists the models of an environment; `PUT` as the mirror API's `model`.
  func models(_ request: Request, _ key: EnvironmentKey) async throws -> OperatorAnswer {
    guard request.method == "GET", request.rest.isEmpty else { return try await model(request, key) }
    let state = try await directory.environment(key)
    return OperatorAnswer(list: "models", try await directory.models(of: key)) { row, writer in
      writer.member("hash", row.hash)
      writer.member("pushed", row.pushed)
      writer.member("latest", row.hash == state.latestModelHash)
      writer.key("entities")
      writer.beginArray()
      for entity in state.models[row.hash]?.entities ?? [] { writer.string(entity.name) }
      writer.endArray()
    }
  }

  /// `PUT` with a model file; `configuration`, `dryRun`, `printSchema`, `changeTypes`.
  func model(_ request: Request, _ key: EnvironmentKey) async throws -> OperatorAnswer {
    guard request.method == "PUT", request.rest.isEmpty else { throw Self.noSuchCall(request) }
    let index: ModelIndex
    do throws(ModelReadingError) {
      index = ModelIndex(try ModelReader.read(request.body))
    } catch {
      // An error that names an entity means a model that can't be mirrored; any other error means that the body is no
      // model.
      guard error.entity != nil else { throw RecordError(.badRequest, "The body is not a model: \(error)") }
      let body = SchemaAnswer.unreadableModel(
        error.description, entity: error.entity, property: error.property, uuid: request.uuid)
      return OperatorAnswer(status: Self.unprocessable, body: body)
    }
    let configuration = request.query["configuration"].flatMap { $0.isEmpty ? nil : $0 }
    let problems = ModelValidator.problems(of: index, configuration: configuration)
    guard problems.isEmpty else {
      // An unknown container is reported before the problems, as it is for a valid model.
      _ = try await directory.environment(key)
      return OperatorAnswer(status: Self.unprocessable, body: ModelAnswer.refusal(problems, uuid: request.uuid))
    }
    let model = PushedModel(contents: request.body, index: index, configuration: configuration)
    let consequences = try await consequences(of: model, in: key)
    guard !consequences.hidesRecords || request.flag("changeTypes") || key.environment == .production else {
      return Self.refusal(consequences, request)
    }
    return await answer(try await directory.push(model, to: key, isDryRun: request.flag("dryRun")), request, key) {
      added, schema in
      ModelAnswer.json(index, configuration: configuration, added: added, schema: schema, consequences: consequences)
    }
  }

  private static func refusal(_ consequences: SchemaConsequences, _ request: Request) -> OperatorAnswer {
    OperatorAnswer(
      status: ServerErrorCode.badRequest.row.httpStatus, body: SchemaAnswer.refusal(consequences, uuid: request.uuid))
  }

  private static let unprocessable = 422

  /// `GET`, `PUT` with a schema text and `POST promote` (both with `dryRun`, `printSchema`, `changeTypes`), `POST
  /// reset`, `GET diff`.
  func schema(_ request: Request, _ key: EnvironmentKey) async throws -> OperatorAnswer {
    switch (request.method, request.rest) {
    case ("GET", []):
      return OperatorAnswer(text: SchemaPrinter.text(of: try await directory.environment(key).schema))
    case ("PUT", []):
      return try await replaceSchema(request, key)
    case ("GET", ["diff"]):
      return OperatorAnswer(text: SchemaAnswer.text(of: try await directory.difference(key.container)))
    case ("POST", ["promote"]):
      let target = EnvironmentKey(container: key.container, environment: .production)
      return await answer(try await directory.promote(key.container, isDryRun: request.flag("dryRun")), request, target)
      { added, schema in
        SchemaAnswer.added(added, schema: schema)
      }
    case ("POST", ["reset"]):
      guard key.environment == .development else {
        throw RecordError(.badRequest, "Only development can be reset: production keeps its schema and records")
      }
      return try await reset(key)
    default: throw Self.noSuchCall(request)
    }
  }

  private func replaceSchema(_ request: Request, _ key: EnvironmentKey) async throws -> OperatorAnswer {
    guard let text = String(validating: request.body, as: UTF8.self) else {
      throw RecordError(.badRequest, "The schema text is not UTF-8")
    }
    let schema: Schema
    do throws(SchemaSyntaxError) {
      schema = try SchemaParser.parse(text)
    } catch {
      throw RecordError(.badRequest, "The schema text can't be read. \(error)")
    }
    let diff = SchemaDiff(from: try await directory.environment(key).schema, to: schema.inEnvironment)
    let consequences = try await counted(SchemaConsequences(of: diff), in: key)
    guard !consequences.hidesRecords || request.flag("changeTypes") || key.environment == .production else {
      return Self.refusal(consequences, request)
    }
    let outcome = try await directory.replaceSchema(of: key, with: schema, isDryRun: request.flag("dryRun"))
    let state = try await directory.environment(key)
    let latest = state.latestModelHash.flatMap { state.models[$0] }.map { ModelIndex($0) }
    return await answer(outcome, request, key) { added, schema in
      ModelAnswer.json(latest, configuration: nil, added: added, schema: schema, consequences: consequences)
    }
  }

  /// Resets development. The answer has the usage before and after.
  private func reset(_ key: EnvironmentKey) async throws -> OperatorAnswer {
    let before = try await usage(of: key)
    try await directory.resetDevelopment(key.container)
    await publish(DirectoryChanged(credentials: false, schemas: [key.description]))
    let after = try await usage(of: key)
    return OperatorAnswer { writer in
      for (name, usage) in [("before", before), ("after", after)] {
        writer.key(name)
        writer.beginObject()
        usage.write(to: &writer)
        writer.endObject()
      }
    }
  }

  /// - Parameter body: makes the answer from the additions, and from the schema's text when the request asks for it.
  private func answer(
    _ outcome: SchemaOutcome, _ request: Request, _ changed: EnvironmentKey,
    _ body: ([SchemaFieldName], String?) -> [UInt8]
  ) async -> OperatorAnswer {
    switch outcome {
    case .refused(let refusals): return Self.refusal(refusals, request)
    case .changed(let added, let schema):
      if !request.flag("dryRun") { await publish(DirectoryChanged(credentials: false, schemas: [changed.description])) }
      return OperatorAnswer(body: body(added, request.flag("printSchema") ? SchemaPrinter.text(of: schema) : nil))
    }
  }

  private static func refusal(_ refusals: [SchemaRefusal], _ request: Request) -> OperatorAnswer {
    OperatorAnswer(
      status: ServerErrorCode.badRequest.row.httpStatus, body: SchemaAnswer.refusal(refusals, uuid: request.uuid))
  }
}
