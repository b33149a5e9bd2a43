// Reads requests from JSON: every accessor returns a value, or refuses with the key that it cannot use.

public import JSON
public import Records

extension JSONValue {
  /// Reads a request's body; an empty one stands for `{}`.
  /// - Throws: `BAD_REQUEST` for a body that is no JSON object.
  public static func request(_ body: [UInt8]) throws(RecordError) -> JSONValue {
    let value: JSONValue
    do {
      value = try JSONValue(parsing: body.isEmpty ? emptyObject : body, maximumDepth: Limit.jsonDepth)
    } catch {
      let place = error.offset.map { " at byte \($0)" } ?? ""
      throw RecordError(.badRequest, "The body is not JSON: \(error.reason)\(place)")
    }
    guard value.kind == .object else { throw RecordError(.badRequest, "The body must be a JSON object") }
    return value
  }

  private static var emptyObject: [UInt8] { [UInt8(ascii: "{"), UInt8(ascii: "}")] }

  /// The member's value; nil for an absent member and for null.
  func member(_ key: String) -> JSONValue? {
    guard let value = self[key], !value.isNull else { return nil }
    return value
  }

  func optionalString(_ key: String) throws(RecordError) -> String? {
    guard let value = member(key) else { return nil }
    guard let text = value.string else { throw RecordError(.badRequest, "\(key) must be a string") }
    return text
  }

  func requiredString(_ key: String) throws(RecordError) -> String {
    guard let text = try optionalString(key) else { throw RecordError(.badRequest, "\(key) is missing") }
    return text
  }

  func optionalBool(_ key: String) throws(RecordError) -> Bool? {
    guard let value = member(key) else { return nil }
    guard let flag = value.bool else { throw RecordError(.badRequest, "\(key) must be true or false") }
    return flag
  }

  func optionalInteger(_ key: String) throws(RecordError) -> Int64? {
    guard let value = member(key) else { return nil }
    guard let number = value.int64 else { throw RecordError(.badRequest, "\(key) must be an integer") }
    return number
  }

  func optionalObject(_ key: String) throws(RecordError) -> JSONValue? {
    guard let value = member(key) else { return nil }
    guard value.kind == .object else { throw RecordError(.badRequest, "\(key) must be an object") }
    return value
  }

  func requiredObject(_ key: String) throws(RecordError) -> JSONValue {
    guard let value = try optionalObject(key) else { throw RecordError(.badRequest, "\(key) is missing") }
    return value
  }

  func optionalArray(_ key: String) throws(RecordError) -> [JSONValue]? {
    guard let value = member(key) else { return nil }
    guard value.kind == .array else { throw RecordError(.badRequest, "\(key) must be an array") }
    return value.elements
  }

  /// A list of at most `limit` objects, each read by `read`; an error names the object's place.
  func requiredList<Element>(
    _ key: String, limit: Int, read: (JSONValue) throws(RecordError) -> Element
  ) throws(RecordError) -> [Element] {
    guard let items = try optionalArray(key) else { throw RecordError(.badRequest, "\(key) is missing") }
    guard items.count <= limit else {
      throw RecordError(.badRequest, "\(key) has \(items.count) items, the limit is \(limit)")
    }
    var elements: [Element] = []
    elements.reserveCapacity(items.count)
    for (index, item) in items.enumerated() {
      guard item.kind == .object else { throw RecordError(.badRequest, "\(key)[\(index)] must be an object") }
      do {
        elements.append(try read(item))
      } catch {
        throw error.within("\(key)[\(index)]")
      }
    }
    return elements
  }

  func optionalStrings(_ key: String) throws(RecordError) -> [String]? {
    guard let items = try optionalArray(key) else { return nil }
    var texts: [String] = []
    texts.reserveCapacity(items.count)
    for (index, item) in items.enumerated() {
      guard let text = item.string else { throw RecordError(.badRequest, "\(key)[\(index)] must be a string") }
      texts.append(text)
    }
    return texts
  }

  /// A list of the fields or record types that the caller asks for, each once.
  func optionalAskedNames(_ key: String) throws(RecordError) -> [String]? {
    guard let items = try optionalArray(key) else { return nil }
    var names: [String] = []
    var known: Set<String> = []
    var byteCount = 0
    for (index, item) in items.enumerated() {
      guard let name = item.string else { throw RecordError(.badRequest, "\(key)[\(index)] must be a string") }
      guard known.insert(name).inserted else { continue }
      names.append(name)
      byteCount += name.utf8.count
      guard names.count <= AskedNames.limit, byteCount <= AskedNames.byteLimit else {
        throw RecordError(
          .badRequest, "\(key) has more than \(AskedNames.limit) different names, or \(AskedNames.byteLimit) bytes")
      }
    }
    return names
  }

  /// Reads `numbersAsStrings`, also in the spelling of one page of Apple's reference.
  func numbersAsStrings() throws(RecordError) -> Bool? {
    if let flag = try optionalBool("numbersAsStrings") { return flag }
    return try optionalBool("numberAsStrings")
  }
}

extension RecordError {
  /// The error with the place in the request before its reason.
  func within(_ place: String) -> RecordError {
    RecordError(
      code, "\(place): \(reason)", retryAfter: retryAfter, cocoaErrorCode: cocoaErrorCode, httpStatus: httpStatus,
      specialCKErrorCode: specialCKErrorCode, redirectURL: redirectURL)
  }
}

/// The bounds of `desiredKeys` and of `desiredRecordTypes`, which the shared database sends to each owner.
enum AskedNames {
  /// Different names: more than a record has fields.
  static let limit = 500
  static let byteLimit = 65_536
}

/// The fields that an answer shall carry; nil means all.
public struct DesiredKeys: Hashable, Sendable {
  private let names: Set<String>?

  public static let all = DesiredKeys(nil)

  public init(_ names: [String]?) { self.names = names.map(Set.init) }

  public func contains(_ name: String) -> Bool { names?.contains(name) ?? true }

  /// True if every name is one of them.
  var isAll: Bool { names == nil }

  /// Reads an object's `desiredKeys`; an object without them gets `inherited`.
  init(of value: JSONValue, otherwise inherited: DesiredKeys = .all) throws(RecordError) {
    self = try value.optionalAskedNames("desiredKeys").map { DesiredKeys($0) } ?? inherited
  }
}

/// The form in which an answer shows its records.
public struct RecordPresentation: Hashable, Sendable {
  public var desiredKeys: DesiredKeys
  public var numbersAsStrings: Bool

  public static let complete = RecordPresentation(desiredKeys: .all, numbersAsStrings: false)

  public init(desiredKeys: DesiredKeys, numbersAsStrings: Bool) {
    self.desiredKeys = desiredKeys
    self.numbersAsStrings = numbersAsStrings
  }

  /// Reads an object's options; options that it lacks come from the level above.
  init(of value: JSONValue, otherwise inherited: RecordPresentation = .complete) throws(RecordError) {
    desiredKeys = try DesiredKeys(of: value, otherwise: inherited.desiredKeys)
    numbersAsStrings = try value.numbersAsStrings() ?? inherited.numbersAsStrings
  }
}
