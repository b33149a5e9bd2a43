// Turns the edits of a save into history, outbox and pending properties, within the same commit.

import SQLite

struct SaveCommit {
  let save: SaveTransaction
  let header: TransactionHeader
  /// False for a local store: nobody is told.
  let isMirrored: Bool
  private var tables: ObjectTables { save.tables }
  private var connection: Connection { save.tables.connection }

  init(_ save: SaveTransaction, _ header: TransactionHeader, isMirrored: Bool) {
    self.save = save
    self.header = header
    self.isMirrored = isMirrored
  }

  /// - Parameter number: of the history transaction.
  /// - Returns: whether something is to be sent, and whether history tells of something. It does not tell what the
  ///   tables had already.
  func write(number: Int64) throws -> (hasExports: Bool, hasHistory: Bool) {
    try stamp()
    var pairs: [Int64: [PairEdit]] = [:]
    for (_, edit) in save.orderedPairs { pairs[edit.owner, default: []].append(edit) }
    let history = HistoryWriter(connection, number: number)
    var changes: [ChangeText] = []
    for edit in save.orderedEdits {
      let own = pairs[edit.key] ?? []
      let properties =
        edit.changed.map { edit.entity.columns[$0].key }
        + Set(own.filter { !$0.isRefused }.map(\.relationship.key)).sorted()
      if edit.kind != .update || !properties.isEmpty {
        try history.change(edit.key, kind(edit), edit.kind == .delete ? [] : properties, tombstone: edit.tombstone)
      }
      if isMirrored, let change = TransactionText.change(edit, own) { changes.append(change) }
    }
    if !history.isEmpty {
      try history.finish(
        timestamp: header.timestamp, author: header.author, contextName: header.contextName,
        bundleID: header.bundleID, processID: header.processID, tables)
    }
    guard !changes.isEmpty else { return (false, !history.isEmpty) }
    let told = history.isEmpty ? save.retriedNumber ?? number : number
    var last: Int64 = 0
    for part in TransactionText.parts(header, changes) { last = try Outbox.add(part, of: told, connection) }
    try markPending(last)
    try keepContents()
    return (true, !history.isEmpty)
  }

  private func kind(_ edit: Edit) -> HistoryChange.Kind {
    switch edit.kind {
    case .insert: .insert
    case .update: .update
    case .delete: .delete
    }
  }

  /// Sets derived attributes that tell when an object was saved.
  private func stamp() throws {
    for edit in save.orderedEdits where edit.kind != .delete {
      for (place, column) in edit.entity.columns.enumerated() where column.isStored && !column.isWritable {
        if edit.kind == .update, edit.changed.isEmpty { continue }
        try save.set(edit, place, .integer(header.timestamp))
      }
    }
  }

  private func markPending(_ number: Int64) throws {
    for edit in save.orderedEdits {
      switch edit.toldKind {
      case .insert: try mark(edit.key, Pending.wholeObject, 0, number)
      case .delete: try mark(edit.key, Pending.deletion, 0, number)
      case .update:
        for place in edit.toldPlaces where edit.entity.columns[place].isMirrored {
          try mark(edit.key, edit.entity.columns[place].key, 0, number)
        }
      }
    }
    for (pair, _) in save.orderedPairs { try mark(pair.a, pair.link.firstKey, pair.b, number) }
  }

  /// Contents here that the save names stay until it is sent: the server may have lost its own by then.
  private func keepContents() throws {
    for edit in save.orderedEdits where edit.toldKind != .delete {
      for place in edit.toldPlaces where edit.entity.columns[place].isExternal {
        guard case .text(let text) = edit.told(place), let name = ContentName(text) else { continue }
        try connection.statement(Self.keepContent).binding(name.checksum).run()
      }
    }
  }

  private func mark(_ object: Int64, _ property: Int64, _ target: Int64, _ number: Int64) throws {
    try connection.statement(Self.pend).binding(object, property, target, number).run()
  }

  private static let pend = SQL(
    "pend", "INSERT OR IGNORE INTO pending(object, property, target, number) VALUES (?, ?, ?, ?)")
  private static let keepContent = SQL(
    "keep named content", "UPDATE content SET isAtServer = 0 WHERE checksum = ? AND isHere = 1")
}

/// Numbers in place of a property.
enum Pending {
  /// The object is new: all its properties are the user's.
  static let wholeObject: Int64 = 0
  static let deletion: Int64 = -1
}
