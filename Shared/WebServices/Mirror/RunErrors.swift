// The errors in events of runs that did not end properly.

import JSON
public import Records

extension MirrorErrors {
  /// For a run that ended with its worker: the next run continues from there. Keeps the entries of the records that the
  /// run had left out.
  public static func interrupted(_ earlier: [UInt8]?) -> [UInt8] {
    let entries = entries(earlier)
    return StoreAnswer.object { writer in
      writer.member("ckErrorCode", ServerErrorCode.tryAgainLater.row.ckErrorCode)
      writer.member("cocoaErrorCode", CocoaErrorCode.interrupted.rawValue)
      writer.member("reason", "The server stopped during this run; the next run continues where it ended")
      if entries.isEmpty { return }
      writer.key("partialErrors")
      writer.beginArray()
      for entry in entries { writer.value(entry) }
      writer.endArray()
    }
  }

  /// For a run that stored nothing and is repeated.
  public static func failure(_ error: RecordError) -> [UInt8] {
    StoreAnswer.object { error.writeMirrorMembers(to: &$0) }
  }
}
