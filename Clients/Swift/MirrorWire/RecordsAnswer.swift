// The records of objects, as the record plane writes them.

/// What `POST records` answers.
public struct RecordsAnswer: Sendable {
  /// Each as JSON, in the order of the question; nil: the server gives none.
  public let records: [[UInt8]?]

  /// - Throws: `WireError` with the place.
  public init(json: [UInt8]) throws(WireError) {
    records = try JSONReader.read(json) { reader throws(WireError) in
      var records: [[UInt8]?] = []
      try reader.object { key, reader throws(WireError) in
        guard key == "records" else { return try reader.skip() }
        try reader.array { reader throws(WireError) in records.append(try reader.record()) }
      }
      return records
    }
  }
}

extension JSONReader {
  fileprivate mutating func record() throws(WireError) -> [UInt8]? {
    var isError = false
    let source = try source { reader throws(WireError) in
      try reader.object { key, reader throws(WireError) in
        if key == "serverErrorCode" { isError = true }
        try reader.skip()
      }
    }
    return isError ? nil : source
  }
}
