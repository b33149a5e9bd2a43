// Names the part of a Codable value in which coding failed.

/// The path from the whole value to a part: one link for each level. It becomes an array only for an error or on
/// request.
indirect enum CodingPath {
  case root
  case member(CodingPath, any CodingKey)
  case element(CodingPath, Int)

  var keys: [any CodingKey] {
    switch self {
    case .root: []
    case .member(let path, let key): path.keys + [key]
    case .element(let path, let index): path.keys + [IndexKey(index)]
    }
  }
}

/// An element of an array in a coding path.
struct IndexKey: CodingKey {
  let index: Int

  init(_ index: Int) { self.index = index }
  init?(stringValue: String) { nil }
  init?(intValue: Int) { index = intValue }

  var stringValue: String { "[\(index)]" }
  var intValue: Int? { index }
}

extension MessagePackError {
  init(_ error: EncodingError) {
    switch error {
    case .invalidValue(_, let context): self.init(context.debugDescription, at: context.codingPath)
    @unknown default: self.init("the value can't be encoded")
    }
  }

  init(_ error: DecodingError) {
    switch error {
    case .typeMismatch(_, let context), .dataCorrupted(let context):
      self.init(context.debugDescription, at: context.codingPath)
    case .valueNotFound(_, let context): self.init("is null", at: context.codingPath)
    case .keyNotFound(let key, let context): self.init("is missing", at: context.codingPath + [key])
    @unknown default: self.init("the value can't be decoded")
    }
  }

  private init(_ text: String, at path: [any CodingKey]) {
    let name = path.reduce(into: "") { name, key in
      if !name.isEmpty, !(key is IndexKey) { name += "." }
      name += key.stringValue
    }
    self.init("\(name.isEmpty ? "the value" : name): \(text)")
  }
}
