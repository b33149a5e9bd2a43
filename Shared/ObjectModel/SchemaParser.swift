// Reads `.ckdb` text (M3).

import Records

/// Turns `.ckdb` text into a schema.
public struct SchemaParser {
  /// Record types in one text: the limit keeps a hostile text from making every later save slow.
  static let recordTypeLimit = 2_000
  static let builtInRoles: Set<String> = ["_creator", "_icloud", "_world"]

  private var lexer: SchemaLexer
  private var token: SchemaToken

  /// Reads a schema. Comments are dropped, and so are indexes on BYTES fields.
  /// - Throws: `SchemaSyntaxError` with line and column.
  public static func parse(_ text: String) throws(SchemaSyntaxError) -> Schema {
    var parser = try SchemaParser(text)
    return try parser.schema()
  }

  private init(_ text: String) throws(SchemaSyntaxError) {
    lexer = SchemaLexer(text)
    token = try lexer.next()
  }

  private mutating func schema() throws(SchemaSyntaxError) -> Schema {
    try keyword("DEFINE")
    try keyword("SCHEMA")
    var types: [String: Schema.RecordType] = [:]
    var roles: Set<String> = []
    var grantees: [SchemaToken] = []
    while token.kind != .end {
      if isKeyword("CREATE") {
        try advance()
        try keyword("ROLE")
        let name = try name(of: "role")
        guard !Self.builtInRoles.contains(name.text), roles.insert(name.text).inserted else {
          throw error("The role '\(name.text)' exists already.", at: name)
        }
      } else {
        try keyword("RECORD", or: "CREATE ROLE")
        try keyword("TYPE")
        let name = try name(of: "record type")
        guard types[name.text] == nil else { throw error("The record type '\(name.text)' is defined twice.", at: name) }
        guard types.count < Self.recordTypeLimit else {
          throw error("A schema has at most \(Self.recordTypeLimit) record types.", at: name)
        }
        types[name.text] = try recordType(named: name.text, grantees: &grantees)
      }
      try symbol(";")
    }
    for grantee in grantees where !roles.contains(grantee.text) && !Self.builtInRoles.contains(grantee.text) {
      throw error("The role '\(grantee.text)' is not defined.", at: grantee)
    }
    return Schema(recordTypes: Array(types.values), roles: roles.sorted())
  }

  private mutating func recordType(named name: String, grantees: inout [SchemaToken]) throws(SchemaSyntaxError)
    -> Schema.RecordType
  {
    var fields: [String: Schema.Field] = [:]
    var systemIndexes: [String: Schema.Indexes] = [:]
    var seenSystemFields: Set<String> = []
    var grants: [Schema.Grant] = []
    try symbol("(")
    while !isSymbol(")") {
      if isKeyword("GRANT") {
        grants.append(try grant(&grantees))
      } else {
        let place = token
        let field = try field()
        if field.name.hasPrefix("___") {
          try check(field, isSystemFieldAt: place)
          guard seenSystemFields.insert(field.name).inserted else {
            throw error("The field '\(field.name)' is defined twice.", at: place)
          }
          if !field.indexes.isEmpty { systemIndexes[field.name] = field.indexes }
        } else {
          guard fields.updateValue(field, forKey: field.name) == nil else {
            throw error("The field '\(field.name)' is defined twice.", at: place)
          }
          guard fields.count <= Limit.fieldsPerRecordType else {
            throw error("The record type '\(name)' has more than \(Limit.fieldsPerRecordType) fields.", at: place)
          }
        }
      }
      if isSymbol(")") { break }
      try symbol(",", or: "')'")
      if isSymbol(")") { throw error("A field or GRANT is expected after ','.", at: token) }
    }
    try symbol(")")
    return Schema.RecordType(name: name, fields: Array(fields.values), grants: grants, systemIndexes: systemIndexes)
  }

  private func check(_ field: Schema.Field, isSystemFieldAt place: SchemaToken) throws(SchemaSyntaxError) {
    guard let system = SystemField.all.first(where: { $0.name == field.name }) else {
      throw error("'\(field.name)' is not a system field, and no other field begins with three underscores.", at: place)
    }
    guard field.type == system.type, !field.isEncrypted else {
      throw error("The system field '\(field.name)' is \(system.type.schemaName).", at: place)
    }
  }

  private mutating func field() throws(SchemaSyntaxError) -> Schema.Field {
    let name = try name(of: "field")
    let isEncrypted = isKeyword("ENCRYPTED")
    if isEncrypted { try advance() }
    let place = token
    let type = try type()
    if isEncrypted, [.asset, .reference].contains(type.element ?? type) {
      throw error("A field can't be ENCRYPTED \(type.schemaName).", at: place)
    }
    var indexes: Schema.Indexes = []
    while let (index, keyword) = Schema.Indexes.keywords.first(where: { isKeyword($0.1) }) {
      if isEncrypted { throw error("An encrypted field has no index.", at: token) }
      if type == .asset { throw error("An ASSET field has no index.", at: token) }
      guard indexes.insert(index).inserted else { throw error("\(keyword) is given twice.", at: token) }
      try advance()
    }
    // CloudKit's exports show indexes on BYTES, which no query can use.
    return Schema.Field(name: name.text, type: type, isEncrypted: isEncrypted, indexes: type == .bytes ? [] : indexes)
  }

  private mutating func type() throws(SchemaSyntaxError) -> FieldType {
    guard isKeyword("LIST") else { return try scalarType() }
    try advance()
    try symbol("<")
    let element = try scalarType()
    try symbol(">")
    return .list(of: element)
  }

  private mutating func scalarType() throws(SchemaSyntaxError) -> FieldType {
    guard token.kind == .word, let type = FieldType.scalarsBySchemaName[token.text.uppercased()] else {
      throw error("\(shown) is not a field type.", at: token)
    }
    try advance()
    return type
  }

  private mutating func grant(_ grantees: inout [SchemaToken]) throws(SchemaSyntaxError) -> Schema.Grant {
    try keyword("GRANT")
    var permissions: [Schema.Grant.Permission] = []
    repeat {
      if isSymbol(",") { try advance() }
      guard token.kind == .word, let permission = Schema.Grant.Permission(rawValue: token.text.uppercased()) else {
        throw error("\(shown) is not a permission: READ, CREATE or WRITE.", at: token)
      }
      guard !permissions.contains(permission) else { throw error("\(permission.rawValue) is given twice.", at: token) }
      permissions.append(permission)
      try advance()
    } while isSymbol(",")
    try keyword("TO", or: "','")
    grantees.append(token)
    return Schema.Grant(permissions: permissions, role: try name(of: "role").text)
  }

  // MARK: tokens

  private mutating func advance() throws(SchemaSyntaxError) { token = try lexer.next() }

  private func isKeyword(_ word: String) -> Bool { token.kind == .word && token.text.uppercased() == word }

  private func isSymbol(_ symbol: UnicodeScalar) -> Bool { token.kind == .symbol(UInt8(ascii: symbol)) }

  private mutating func keyword(_ word: String, or alternative: String? = nil) throws(SchemaSyntaxError) {
    guard isKeyword(word) else {
      throw error("\(shown) stands where \(word)\(alternative.map { " or \($0)" } ?? "") is expected.", at: token)
    }
    try advance()
  }

  private mutating func symbol(_ symbol: UnicodeScalar, or alternative: String? = nil) throws(SchemaSyntaxError) {
    guard isSymbol(symbol) else {
      throw error("\(shown) stands where '\(symbol)'\(alternative.map { " or \($0)" } ?? "") is expected.", at: token)
    }
    try advance()
  }

  private mutating func name(of what: String) throws(SchemaSyntaxError) -> SchemaToken {
    let name = token
    guard name.kind == .word || name.kind == .quoted else {
      throw error("\(shown) stands where the name of a \(what) is expected.", at: name)
    }
    guard (1...Limit.nameByteCount).contains(name.text.utf8.count) else {
      throw error("The name of a \(what) has 1 to \(Limit.nameByteCount) characters.", at: name)
    }
    if name.kind == .word {
      guard !SchemaToken.reservedWords.contains(name.text.lowercased()) else {
        throw error("The name '\(name.text)' must be quoted.", at: name)
      }
      guard name.text.utf8.first != UInt8(ascii: "_") else {
        throw error("The name '\(name.text)' begins with an underscore and must be quoted.", at: name)
      }
    }
    try advance()
    return name
  }

  private var shown: String {
    switch token.kind {
    case .end: "The end of the text"
    case .quoted: "\"\(token.text)\""
    case .word, .symbol: "'\(token.text)'"
    }
  }

  private func error(_ reason: String, at place: SchemaToken) -> SchemaSyntaxError {
    SchemaSyntaxError(reason: reason, line: place.line, column: place.column)
  }
}
