// Saves of the benchmark's records to other systems that speak HTTP.

/// A system on which the benchmark can play w1a and w1b. `Tests/Load/peers.py` makes the databases and collections.
enum PeerService: String, CaseIterable {
  case couchdb, etcd, kinto

  /// - Parameters:
  ///   - count: the records of one request; several are saved by the system's bulk call.
  ///   - client: every client saves into a database, prefix or collection of its own.
  func maker(count: Int, client: Int, host: String, authorization: String?, random: FastRandom) -> RequestMaker {
    var body = RequestMaker.Template()
    switch self {
    case .couchdb: body.documents(count)
    case .etcd: body.puts(count)
    case .kinto: body.records(count, path: Self.records(client))
    }
    let path =
      switch self {
      case .couchdb: "/bench-\(client)" + (count > 1 ? "/_bulk_docs" : "")
      case .etcd: count > 1 ? "/v3/kv/txn" : "/v3/kv/put"
      case .kinto: count > 1 ? "/v1/batch" : Self.records(client)
      }
    return RequestMaker(
      body, path: path, host: host, headers: authorization.map { ["Authorization: \($0)"] } ?? [],
      isBase64: self == .etcd, random: random)
  }

  private static func records(_ client: Int) -> String { "/v1/buckets/bench/collections/zone-\(client)/records" }
}

extension RequestMaker.Template {
  /// A record's fields, as many bytes as those of w1.
  private mutating func fields(_ index: Int) {
    add(#""CD_entityName":"Note","CD_title":"Note \#(index)","CD_body":""#)
    addText()
    add(#"","CD_moveReceipt":"AAECAwQFBgcICQoLDA0ODw==","CD_createdAt":1790000000000,"CD_rating":4,"CD_folder":""#)
    addUUID()
    add(#"","recordType":"CD_Note""#)
  }

  fileprivate mutating func documents(_ count: Int) {
    add(count > 1 ? #"{"docs":["# : "")
    for index in 0..<count {
      add((index > 0 ? "," : "") + #"{"_id":""#)
      addUUID()
      add(#"","#)
      fields(index)
      add("}")
    }
    add(count > 1 ? "]}" : "")
  }

  fileprivate mutating func records(_ count: Int, path: String) {
    add(count > 1 ? #"{"defaults":{"method":"POST","path":"\#(path)"},"requests":["# : "")
    for index in 0..<count {
      add((index > 0 ? "," : "") + (count > 1 ? #"{"body":"# : "") + #"{"data":{"id":""#)
      addUUID()
      add(#"","#)
      fields(index)
      add("}}" + (count > 1 ? "}" : ""))
    }
    add(count > 1 ? "]}" : "")
  }

  /// Keys of 27 bytes and values of 1 200, as base64.
  fileprivate mutating func puts(_ count: Int) {
    add(count > 1 ? #"{"success":["# : "")
    for index in 0..<count {
      add((index > 0 ? "," : "") + (count > 1 ? #"{"requestPut":"# : "") + #"{"key":""#)
      addUUID()
      add(#"","value":""#)
      addText()
      addText()
      add(#""}"# + (count > 1 ? "}" : ""))
    }
    add(count > 1 ? "]}" : "")
  }
}
