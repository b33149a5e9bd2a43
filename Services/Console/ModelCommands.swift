// `model validate` without a server, `model push` with one.

import JSON
import ObjectModel
import WebServices
import XCDataModel

extension Console {
  func validateModel(_ invocation: Invocation) -> Int32 {
    guard let contents = contents(of: invocation) else { return ExitCode.refused }
    let model: ManagedObjectModel
    do throws(ModelReadingError) {
      model = try ModelReader.read(contents)
    } catch {
      terminal.problem("aquifer: \(invocation.arguments[0]): \(error)")
      return ExitCode.refused
    }
    let index = ModelIndex(model)
    let configuration = invocation.value("configuration")
    if let configuration, index.entities(inConfiguration: configuration) == nil {
      terminal.problem("aquifer: The model has no configuration '\(configuration)'")
      return ExitCode.refused
    }
    let problems = ModelValidator.problems(of: index, configuration: configuration)
    guard problems.isEmpty else {
      let answer = ModelAnswer.refusal(problems, uuid: nil)
      if invocation.globals.isJSON { terminal.output(Self.line(answer)) }
      terminal.problem("aquifer: \(Refusal.text(status: 422, body: answer, server: ""))")
      return ExitCode.refused
    }
    let schema = SchemaGenerator.schema(for: index, configuration: configuration)
    let added = SchemaDiff(from: Schema.initial, to: schema.withSystemTypes).added
    showModel(ModelAnswer.json(index, configuration: configuration, added: added, schema: nil), invocation)
    return ExitCode.done
  }

  func pushModel(_ invocation: Invocation) async -> Int32 {
    guard let contents = contents(of: invocation) else { return ExitCode.refused }
    let isMeant =
      invocation.value("environment") != "production" || invocation.flag("yes") || invocation.flag("dry-run")
    let code = await send(AdminCall.pushModel(invocation, contents: contents, isTrial: !isMeant), invocation) {
      showModel($0, invocation)
    }
    guard !isMeant, code == ExitCode.done else { return code }
    terminal.problem(
      """
      aquifer: Nothing changed. Production takes a model at once, for every device, and never removes a field. Try it \
      in development and `aquifer schema promote --container \(invocation.value("container") ?? "")`, or say --yes
      """
    )
    return ExitCode.refused
  }

  private func contents(of invocation: Invocation) -> [UInt8]? {
    do throws(ModelFile.Problem) {
      return try ModelFile.contents(at: invocation.arguments[0])
    } catch {
      terminal.problem("aquifer: \(error.reason)")
      return nil
    }
  }

  /// Shows the entities as a table with their record types and the number of new fields.
  private func showModel(_ body: [UInt8], _ invocation: Invocation) {
    // Dropped because an answer that is no JSON is shown unchanged.
    guard !invocation.globals.isJSON, let answer = try? JSONValue(parsing: body) else {
      return terminal.output(Self.line(body))
    }
    let rows = (answer["entities"]?.elements ?? []).map { entity in
      [
        entity["name"]?.string ?? "", entity["recordType"]?.string ?? "", String(entity["attributes"]?.count ?? 0),
        String(entity["relationships"]?.count ?? 0),
      ]
    }
    var text = TextTable.text(columns: ["entity", "record type", "attributes", "relationships"], rows: rows)
    text +=
      "\n\n"
      + TextTable.text(pairs: [
        ("model hash", answer["modelHash"]?.string ?? ""), ("fields added", String(answer["added"]?.count ?? 0)),
      ])
    for field in answer["retyped"]?.elements ?? [] {
      text += "\n~ " + TextTable.printable(field["reason"]?.string ?? "")
    }
    if let notes = Self.notes(answer) { text += "\n\n" + notes }
    if let schema = answer["schema"]?.string { text += "\n\n" + schema }
    terminal.output(text)
  }
}
