// `zone export`, `zone import` and `zone restore`: each makes many requests and gives one answer.

import Crypto
import JSON

extension Console {
  private static let pageRecordLimit = 400
  private static let pageByteLimit = 4 << 20
  private static let transferLimit: Duration = .seconds(120)

  /// A call on the zone that the options name.
  private func zoneCall(
    _ method: String, _ verb: String, _ invocation: Invocation, query: [(String, String)] = [], body: [UInt8] = []
  ) -> AdminCall {
    AdminCall(
      method,
      [
        "admin", "1", "zone", invocation.value("container") ?? "", invocation.value("environment") ?? "development",
        invocation.value("owner") ?? "",
        invocation.value("zone") ?? "", verb,
      ], query: query, body: body)
  }

  /// The body of an answer, or the exit code of a refusal that was reported.
  private func ask(_ call: AdminCall, _ invocation: Invocation) async -> Result<[UInt8], Refused> {
    var body: [UInt8] = []
    let code = await send(call, invocation) { body = $0 }
    return code == ExitCode.done ? .success(body) : .failure(Refused(code: code))
  }

  private struct Refused: Error {
    let code: Int32
  }

  private func tell(_ invocation: Invocation, _ members: [(String, Int64)]) {
    var writer = JSONWriter()
    writer.beginObject()
    for (name, value) in members { writer.member(name, value) }
    writer.endObject()
    show(writer.bytes, invocation)
  }

  /// Runs a command of several requests, and reports the error that ends it.
  private func attempt(_ body: () async throws -> Void) async -> Int32 {
    do {
      try await body()
      return ExitCode.done
    } catch let refused as Refused {
      return refused.code
    } catch let problem as ZoneFolderProblem {
      terminal.problem("aquifer: \(problem.reason)")
    } catch let problem as SystemProblem {
      terminal.problem("aquifer: \(problem.reason)")
    } catch {
      terminal.problem("aquifer: \(error)")
    }
    return ExitCode.refused
  }

  // MARK: Export

  func exportZone(_ invocation: Invocation) async -> Int32 {
    await attempt {
      let folder = invocation.arguments[0]
      try ZoneFolder.make(folder)
      let file = try DurableFile(ZoneFolder.linesPath(folder))
      let sum = SHA256.Stream()
      var query = invocation.value("sequence").map { [("sequence", $0)] } ?? []
      var (records, byteCount, sequence) = (Int64(0), Int64(0), Int64(0))
      var assets: Set<String> = []
      func keep(_ line: ArraySlice<UInt8>) throws {
        let bytes = Array(line) + [UInt8(ascii: "\n")]
        sum.update(bytes)
        byteCount += Int64(bytes.count)
        try file.append(bytes)
      }
      var isDone = false
      while !isDone {
        let page = try await ask(zoneCall("GET", "export", invocation, query: query), invocation).get()
        var next: [(String, String)]?
        for line in page.split(separator: UInt8(ascii: "\n")) {
          guard let json = ZoneExport.json(line) else {
            throw ZoneFolderProblem("The server's answer is not an export")
          }
          if let asset = json["asset"] {
            if let hash = asset["sha256"]?.string, assets.insert(hash).inserted {
              byteCount += try await download(asset, hash, to: folder)
            }
          } else if json["more"] != nil {
            next = [("after", json["after"]?.string ?? ""), ("sequence", String(json["sequence"]?.int64 ?? 0))]
          } else if json["end"] != nil {
            isDone = true
          } else {
            if json["record"] != nil { records += 1 } else { sequence = json["sequence"]?.int64 ?? 0 }
            try keep(line)
          }
        }
        guard isDone || next != nil else { throw ZoneFolderProblem("The server's answer was cut short") }
        query = next ?? []
      }
      var end = JSONWriter()
      end.beginObject()
      end.member("end", true)
      end.member("records", records)
      end.member("assets", assets.count)
      end.member("sha256", Hex.encode(sum.finish()))
      end.endObject()
      try file.append(end.bytes + [UInt8(ascii: "\n")])
      try DurableFile.sync(folder: ZoneFolder.assetsPath(folder))
      try file.finish()
      try DurableFile.sync(folder: folder)
      tell(
        invocation,
        [("records", records), ("assets", Int64(assets.count)), ("bytes", byteCount), ("sequence", sequence)])
    }
  }

  /// - Returns: the content's length in bytes.
  private func download(_ asset: JSONValue, _ hash: String, to folder: String) async throws -> Int64 {
    guard let url = asset["downloadURL"]?.string else {
      throw ZoneFolderProblem("The server's answer is not an export")
    }
    var answer = try await http.exchange("GET", url, [], [], Self.transferLimit).get()
    if answer.status == 302, let bucket = answer.location {
      // The gateway leads to the bucket that has the content.
      answer = try await http.exchange("GET", bucket, [], [], Self.transferLimit).get()
    }
    guard answer.status == 200, Hex.encode(SHA256.hash(answer.body)) == hash else {
      throw ZoneFolderProblem("Content \(hash) can't be fetched: the server answered \(answer.status)")
    }
    let file = try DurableFile(ZoneFolder.assetPath(hash, in: folder))
    try file.append(answer.body)
    try file.finish()
    return Int64(answer.body.count)
  }

  // MARK: Import

  func importZone(_ invocation: Invocation) async -> Int32 {
    await attempt {
      let folder = invocation.arguments[0]
      // Checks the whole export before anything is sent, so that a damaged one is never imported in part.
      let export = try ZoneExport(folder: folder)
      for asset in export.assets { _ = try ZoneFolder.readAsset(asset.hash, byteCount: asset.byteCount, in: folder) }
      try await upload(export.assets, from: folder, invocation)
      var (imported, unchanged) = (Int64(0), Int64(0))
      // The records that the first page created are no reason to refuse the second.
      var query = invocation.flag("merge") ? [("merge", "true")] : []
      for page in export.pages(recordLimit: Self.pageRecordLimit, byteLimit: Self.pageByteLimit) {
        let body = try await ask(zoneCall("POST", "import", invocation, query: query, body: page), invocation).get()
        let answer = ZoneExport.json(body[...])
        imported += answer?["imported"]?.int64 ?? 0
        unchanged += answer?["unchanged"]?.int64 ?? 0
        query = [("merge", "true")]
      }
      tell(invocation, [("imported", imported), ("unchanged", unchanged), ("assets", Int64(export.assets.count))])
    }
  }

  private func upload(_ assets: [ZoneExport.Asset], from folder: String, _ invocation: Invocation) async throws {
    var rest = assets[...]
    while !rest.isEmpty {
      let batch = rest.prefix(Self.pageRecordLimit)
      rest = rest.dropFirst(batch.count)
      var writer = JSONWriter()
      writer.beginObject()
      writer.key("assets")
      writer.beginArray()
      for asset in batch {
        writer.beginObject()
        writer.member("sha256", asset.hash)
        writer.member("size", asset.byteCount)
        writer.endObject()
      }
      writer.endArray()
      writer.endObject()
      let body = try await ask(zoneCall("POST", "assets", invocation, body: writer.bytes), invocation).get()
      let answers = ZoneExport.json(body[...])?["assets"]?.elements ?? []
      for (asset, answer) in zip(batch, answers) where answer["present"]?.bool != true {
        let content = try ZoneFolder.readAsset(asset.hash, byteCount: asset.byteCount, in: folder)
        let sent = try await http.exchange("POST", answer["uploadURL"]?.string ?? "", [], content, Self.transferLimit)
          .get()
        guard sent.status == 200 else {
          throw ZoneFolderProblem("Content \(asset.hash) was refused: the server answered \(sent.status)")
        }
      }
    }
  }

  // MARK: Restore

  func restoreZone(_ invocation: Invocation) async throws(UsageError) -> Int32 {
    let (to, date) = (invocation.value("to"), invocation.value("date"))
    guard (to == nil) != (date == nil) else {
      throw UsageError("The time is missing: give --to SEQUENCE or --date DATE", path: invocation.command.path)
    }
    let number = to.flatMap(Int64.init)
    if to != nil, number == nil {
      throw UsageError("--to is a number, such as an export's sequence", path: invocation.command.path)
    }
    return await attempt {
      var target = number
      var place: (through: Int64, after: Int64)?
      var (restored, deleted) = (Int64(0), Int64(0))
      var moreComing = true
      while moreComing {
        var writer = JSONWriter()
        writer.beginObject()
        if let target { writer.member("sequence", target) } else { writer.member("date", date ?? "") }
        if let place {
          writer.member("through", place.through)
          writer.member("after", place.after)
        }
        writer.endObject()
        let body = try await ask(zoneCall("POST", "restore", invocation, body: writer.bytes), invocation).get()
        guard let answer = ZoneExport.json(body[...]), let sequence = answer["sequence"]?.int64,
          let through = answer["through"]?.int64,
          let after = answer["after"]?.int64
        else { throw ZoneFolderProblem("The server's answer is not understood") }
        target = sequence
        place = (through, after)
        restored += answer["restored"]?.int64 ?? 0
        deleted += answer["deleted"]?.int64 ?? 0
        moreComing = answer["moreComing"]?.bool == true
      }
      tell(invocation, [("restored", restored), ("deleted", deleted), ("sequence", target ?? 0)])
    }
  }
}
