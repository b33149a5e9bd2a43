// From an `.xcdatamodeld` to Swift: the types of its entities and the model as a constant.

import ObjectModel
import XCDataModel

public enum ModelTypes {
  /// What is worth a look, though it becomes code.
  /// - Parameter path: of the `.xcdatamodeld`.
  /// - Throws: as `source(of:)` for a bundle that can't be read.
  public static func warnings(of path: String) throws(Refusals) -> [Warning] {
    ModelChecks.warnings(of: try ModelBundle(at: path).current)
  }

  /// The source file of a model.
  /// - Parameter path: of the `.xcdatamodeld`; refusals name files below it.
  /// - Throws: all that keeps the current version, or an earlier one that can't be read, from becoming code.
  public static func source(of path: String) throws(Refusals) -> String {
    let bundle = try ModelBundle(at: path)
    let refusals = ModelChecks.refusals(of: bundle.current, after: bundle.earlier)
    guard refusals.isEmpty else { throw Refusals(list: refusals) }
    let (source, index) = (bundle.current.source, ModelIndex(bundle.current.source.model))
    var text = SwiftText()
    text.line("// The types of \(bundle.name).xcdatamodeld, by aquifer-model-types: edit the model instead.")
    text.line()
    text.line("public import AquiferClient")
    let attributes = index.entities.flatMap(\.attributes).map(\.attribute)
    if attributes.contains(where: \.needsFoundation) {
      text.line()
      for line in [
        "#if canImport(FoundationEssentials)", "  public import FoundationEssentials", "#else",
        "  public import Foundation", "#endif",
      ] {
        text.line(line)
      }
    }
    for entity in index.entities {
      text.line()
      EntityType(entity, in: source, index).write(to: &text)
    }
    text.line()
    ModelConstant(bundle).write(to: &text)
    return text.text
  }
}
