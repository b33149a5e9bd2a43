// `GET status` as JSON.

import JSON
public import Mirroring
public import Records

/// A store's remaining work, its progress, and the reason why it is idle (V3).
public struct StoreStatus: Sendable {
  /// The work that is under way or held back.
  public struct Pending: Hashable, Sendable {
    /// Transactions that are not exported.
    public var uploads: Int64
    /// Objects that these transactions name, each counted once.
    public var objects: Int
    /// Records that others changed since the store's last import.
    public var downloads: Int
    /// Objects whose changes exports hold back.
    public var quarantined: Int
    /// Records that imports left out.
    public var notImported: Int
    /// Conflicts that wait for a decision.
    public var conflicts: Int
    /// Bytes of `uploads`, without large values that are kept in files.
    public var bytes: Int
    /// True if `objects`, `downloads` and `bytes` cover only a part, because there is too much.
    public var isPartial: Bool

    public init(
      uploads: Int64, objects: Int, downloads: Int, quarantined: Int, notImported: Int = 0, conflicts: Int = 0,
      bytes: Int, isPartial: Bool
    ) {
      self.uploads = uploads
      self.objects = objects
      self.downloads = downloads
      self.quarantined = quarantined
      self.notImported = notImported
      self.conflicts = conflicts
      self.bytes = bytes
      self.isPartial = isPartial
    }
  }

  /// A zone that ended and does not sync until the user decides.
  public struct HeldZone: Hashable, Sendable {
    public let zone: Zone.ID
    public let end: ZoneEnd
    /// Milliseconds since 1970.
    public let since: Int64

    public init(zone: Zone.ID, end: ZoneEnd, since: Int64) {
      self.zone = zone
      self.end = end
      self.since = since
    }
  }

  /// A move of objects to another zone, under way.
  public struct Move: Hashable, Sendable {
    /// `planning` or `writing`.
    public let phase: String
    /// The number of records that were looked up or written.
    public let done: Int
    /// nil while it is unknown.
    public let total: Int?

    public init(phase: String, done: Int, total: Int?) {
      self.phase = phase
      self.done = done
      self.total = total
    }
  }

  public var pending: Pending
  public var move: Move?
  /// Milliseconds since 1970: the time when the first import was complete.
  public var firstImportAt: Int64?
  /// The reason for the last reset, until the store is up to date again.
  public var openReset: ResetReason?
  public var heldZones: [HeldZone] = []
  public var activity: StoreFacts.Activity
  /// Milliseconds since 1970.
  public var throttledUntil: Int64?
  public var lastExport: MirrorEvent?
  public var lastImport: MirrorEvent?
  /// Everything saved is exported, and nothing waits to be imported. In an answer about a barrier: whether it is
  /// passed.
  public var caughtUp: Bool
  /// Owners whose part of a shared store's status is missing; nil for a store of one database.
  public var unreachedOwners: [String]?

  public init(
    pending: Pending, activity: StoreFacts.Activity, throttledUntil: Int64?, lastExport: MirrorEvent?,
    lastImport: MirrorEvent?, caughtUp: Bool
  ) {
    self.pending = pending
    self.activity = activity
    self.throttledUntil = throttledUntil
    self.lastExport = lastExport
    self.lastImport = lastImport
    self.caughtUp = caughtUp
  }

  // Clients hold links whose ends have not arrived; the server delivers links as they come.
  private static let pendingLinks = 0

  public var json: [UInt8] {
    StoreAnswer.object { writer in
      writer.member("pendingUploads", pending.uploads)
      writer.member("quarantined", pending.quarantined)
      writer.member("pendingLinks", Self.pendingLinks)
      writer.key("pending")
      writer.beginObject()
      writer.member("uploads", pending.uploads)
      writer.member("objects", pending.objects)
      writer.member("downloads", pending.downloads)
      writer.member("links", Self.pendingLinks)
      writer.member("quarantined", pending.quarantined)
      writer.member("notImported", pending.notImported)
      writer.member("conflicts", pending.conflicts)
      writer.member("bytes", pending.bytes)
      writer.member("isPartial", pending.isPartial)
      writer.endObject()
      writer.member("idle", activity.rawValue)
      writer.nullable("throttledUntil", throttledUntil.map(MirrorDate.text))
      for (name, event) in [("lastExport", lastExport), ("lastImport", lastImport)] {
        writer.key(name)
        if let event { event.write(to: &writer) } else { writer.null() }
      }
      writer.key("initialImport")
      writer.beginObject()
      writer.member("done", firstImportAt != nil)
      writer.nullable("date", firstImportAt.map(MirrorDate.text))
      writer.endObject()
      writer.nullable("reset", openReset?.name)
      writeHeldZones(to: &writer)
      if let move {
        writer.key("move")
        writer.beginObject()
        writer.member("phase", move.phase)
        writer.member("done", move.done)
        if let total = move.total { writer.member("total", total) }
        writer.endObject()
      }
      writer.member("caughtUp", caughtUp)
      guard let unreachedOwners else { return }
      writer.key("unreachedOwners")
      writer.beginArray()
      for owner in unreachedOwners { writer.string(owner) }
      writer.endArray()
    }
  }

  private func writeHeldZones(to writer: inout JSONWriter) {
    writer.key("heldZones")
    writer.beginArray()
    for held in heldZones {
      writer.beginObject()
      writer.key("zoneID")
      held.zone.write(to: &writer)
      writer.member("reason", held.end.name)
      writer.member("since", MirrorDate.text(held.since))
      writer.endObject()
    }
    writer.endArray()
  }
}
