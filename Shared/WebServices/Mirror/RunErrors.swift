// What events say of runs that came to no proper end.

import JSON
public import Records

extension MirrorErrors {
  /// Of a run that ended with its worker: the next one goes on where it stopped. Keeps what the run had left out until then.
  public static func interrupted(_ earlier: [UInt8]?) -> [UInt8] {
    let entries = entries(earlier)
    return StoreAnswer.object { writer in
      writer.member("ckErrorCode", ServerErrorCode.tryAgainLater.row.ckErrorCode)
      writer.member("cocoaErrorCode", CocoaErrorCode.interrupted.rawValue)
      writer.member("reason", "The server stopped while this was under way; the next run goes on where it ended")
      if entries.isEmpty { return }
      writer.key("partialErrors")
      writer.beginArray()
      for entry in entries { writer.value(entry) }
      writer.endArray()
    }
  }

  /// Of a run that stored nothing, and is tried again.
  public static func failure(_ error: RecordError) -> [UInt8] { StoreAnswer.object { error.writeMirrorMembers(to: &$0) } }
}
