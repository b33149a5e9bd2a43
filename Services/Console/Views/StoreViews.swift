// `stores`, `events`, `explain` and `quarantine list` for people.

import JSON
import WebServices

enum StoreViews {
  /// Stores with the most transactions left to export come first.
  static func stores(_ answer: JSONValue, now: Int64) -> String {
    let stores = (answer["stores"]?.elements ?? []).map {
      (store: $0, waiting: ($0["transactions"]?.int64 ?? 0) - ($0["exported"]?.int64 ?? 0))
    }
    let rows = stores.sorted { $0.waiting > $1.waiting }.map { store, waiting in
      View.Row(
        isOdd: waiting > 0,
        cells: [
          View.text(store["user"]), View.text(store["device"]), View.text(store["store"]),
          View.text(store["container"]), View.text(store["environment"]),
          View.text(store["scope"]), View.text(store["transactions"]), String(waiting),
          store["createdAt"]?.int64.map { Units.age($0, now: now) } ?? "",
        ])
    }
    return View.table(
      ["user", "device", "store", "container", "environment", "scope", "saved", "to export", "set up"], rows)
      + View.silence(answer)
  }

  /// The latest event first; failed ones are marked.
  static func events(_ answer: JSONValue, now: Int64) -> String {
    let events = (answer["events"]?.elements ?? []).sorted { time(of: $0) > time(of: $1) }
    let rows = events.map { event in
      let (start, end) = (event["startedAt"]?.int64 ?? 0, event["endedAt"]?.int64)
      let hasFailed = event["succeeded"]?.bool == false
      return View.Row(
        isOdd: hasFailed,
        cells: [
          Units.age(end ?? start, now: now), View.text(event["type"]),
          end == nil ? "goes on" : hasFailed ? "FAILED" : "done",
          end.map { Units.duration($0 - start) } ?? "",
          View.text(event["savedCount"]), View.text(event["deletedCount"]), View.text(event["user"]),
          View.text(event["store"]), View.text(event["container"]),
          reason(event["error"]),
        ])
    }
    return View.table(
      ["when", "type", "outcome", "took", "saved", "deleted", "user", "store", "container", "error"], rows, sorts: false
    ) + View.silence(answer)
  }

  private static func time(of event: JSONValue) -> Int64 { event["endedAt"]?.int64 ?? event["startedAt"]?.int64 ?? 0 }

  /// An error's reason; of a partial failure the first part's, with the number of further parts.
  private static func reason(_ error: JSONValue?) -> String {
    guard let error else { return "" }
    let parts = error["partialErrors"]?.elements ?? []
    guard let first = parts.first else { return error["reason"]?.string ?? AnswerText.json(error) }
    let reason = first["reason"]?.string ?? AnswerText.json(first)
    return parts.count == 1 ? reason : "\(reason) (and \(parts.count - 1) more)"
  }

  static func quarantine(_ answer: JSONValue, now: Int64) -> String {
    let rows = (answer["quarantine"]?.elements ?? []).map { object in
      View.Row(
        isOdd: object["retryDate"]?.string == nil,
        cells: [
          View.text(object["entity"]), View.text(object["objectID"]), age(object["firstDate"], now),
          View.text(object["attempts"]),
          next(object["retryDate"], now), View.text(object["serverErrorCode"]), View.text(object["reason"]),
          View.text(object["user"]), View.text(object["store"]),
        ])
    }
    return View.table(["entity", "object", "since", "attempts", "next try", "code", "reason", "user", "store"], rows)
      + View.silence(answer)
  }

  /// The standing of an object in each store, and its way from store to store.
  static func explanation(_ answer: JSONValue) -> String {
    let stores = (answer["explain"]?.elements ?? []).map { store in
      let reasons = (store["reasons"]?.elements ?? []).map { View.text($0["text"]) }
      return View.Row(
        isOdd: store["lastError"]?.isNull == false,
        cells: [
          View.text(store["device"]), View.text(store["store"]), View.text(store["syncState"]),
          View.text(store["recordChangeTag"]), reasons.joined(separator: " "),
        ])
    }
    let way = (answer["way"]?.elements ?? []).map { step in
      View.Row(
        isOdd: ["failed", "awaited"].contains(step["step"]?.string),
        cells: [
          step["at"]?.int64.map(MirrorDate.text) ?? "not yet", View.text(step["step"]),
          View.text(step["device"] ?? step["store"]), View.text(step["recordChangeTag"]),
          (step["properties"]?.elements ?? []).map { View.text($0) }.joined(separator: " ") + View.text(step["reason"]),
        ])
    }
    return View.table(["device", "store", "state", "change tag", "reasons"], stores) + "\n\n"
      + View.table(["time", "step", "device", "change tag", ""], way, sorts: false) + View.silence(answer)
  }

  private static func age(_ date: JSONValue?, _ now: Int64) -> String {
    date?.string.flatMap(MirrorDate.milliseconds).map { Units.age($0, now: now) } ?? ""
  }

  private static func next(_ date: JSONValue?, _ now: Int64) -> String {
    guard let at = date?.string.flatMap(MirrorDate.milliseconds) else { return "by hand" }
    return at <= now ? "now" : "in \(Units.span((at - now) / 1000))"
  }
}
