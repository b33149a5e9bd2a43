// Names of a model as Swift's names: reserved words, names that the generated types need themselves, literals.

/// Spells names and texts of a model in Swift.
enum SwiftNames {
  /// An identifier, in backticks where Swift has reserved it.
  static func identifier(_ name: String) -> String { reserved.contains(name) ? "`\(name)`" : name }

  /// The name of a composite attribute's type, which lies in its entity's: `home` → `Home`.
  /// - Parameter typeNames: names that it must not hide.
  static func composite(_ name: String, besides typeNames: Set<String>) -> String {
    let type = name.prefix(1).uppercased() + name.dropFirst()
    return typeNames.contains(type) || used.contains(type) ? type + "Value" : identifier(type)
  }

  /// Whether the generated code means something else by a type of that name.
  static func isUsed(_ type: String) -> Bool { used.contains(type) }

  /// The identifier of an object's property. `id` is the object's own name, so the model's is called `idValue`.
  static func property(_ name: String) -> String { name == "id" ? "idValue" : identifier(name) }

  /// Whether no property can have the name: it means something else behind a dot, even in backticks.
  static func isUnusable(_ name: String) -> Bool { unusable.contains(name) }

  /// The name of the model's constant: `Photos` → `photos`, `URLList` → `urlList`, `My-Model 2` → `myModel2`.
  static func constant(_ name: String) -> String {
    let words = name.split { !$0.isASCII || !($0.isLetter || $0.isNumber) }.map(String.init)
    let joined = (words.first ?? "") + words.dropFirst().map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
    let capitals = joined.prefix { $0.isUppercase }.count
    let lowered = capitals > 1 && capitals < joined.count ? capitals - 1 : capitals
    let constant = joined.prefix(lowered).lowercased() + joined.dropFirst(lowered)
    return constant.first?.isLetter == true ? identifier(constant) : "model" + constant
  }

  /// A string literal with its escapes.
  static func literal(_ text: String) -> String {
    var escaped = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\\": escaped += "\\\\"
      case "\"": escaped += "\\\""
      case "\n": escaped += "\\n"
      case "\r": escaped += "\\r"
      case "\t": escaped += "\\t"
      case _ where scalar.value < 32 || scalar.value == 127: escaped += "\\u{\(String(scalar.value, radix: 16))}"
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return "\"\(escaped)\""
  }

  private static let unusable: Set<String> = ["self", "Self", "Type", "Protocol", "init"]
  private static let used: Set<String> = [
    "AnyObjectID", "Attribute", "AttributeDescription", "Bool", "Columns", "Composite", "Data", "Date", "Decimal",
    "Decoder", "Double",
    "EntityDescription", "ExternalData", "FetchRequest", "Float", "ID", "Int16", "Int32", "Int64", "ManagedObject",
    "ManagedObjectModel",
    "ObjectID", "Protocol", "RelationshipDescription", "Row", "RowWriter", "Self", "Sendable", "String", "ToMany",
    "ToOne", "Type", "URL", "UUID",
  ]

  private static let reserved: Set<String> = [
    "Any", "Self", "as", "associatedtype", "await", "break", "case", "catch", "class", "continue", "default", "defer",
    "deinit", "do", "else",
    "enum", "extension", "fallthrough", "false", "fileprivate", "for", "func", "guard", "if", "import", "in", "init",
    "inout", "internal", "is",
    "let", "nil", "operator", "precedencegroup", "private", "protocol", "public", "repeat", "rethrows", "return",
    "self", "static", "struct",
    "subscript", "super", "switch", "throw", "throws", "true", "try", "typealias", "var", "where", "while",
  ]
}
