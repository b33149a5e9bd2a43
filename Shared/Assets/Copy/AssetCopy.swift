// Copies all contents from one place to another while an installation goes on to use the first.

import Crypto
import Records
import Synchronization

/// One run of a copy. A run copies what the target lacks, so that the last one, made while nobody uses the source, is
/// short. It leaves contents in the target that the source has no longer: workers remove them.
package struct AssetCopy: Sendable {
  /// What a run has done so far.
  package struct Tally: Hashable, Sendable {
    package var copied = 0
    package var copiedByteCount: Int64 = 0
    /// Contents that the target had.
    package var present = 0
    /// Damaged contents, which stay out of the target.
    package var problems: [String] = []
  }

  private let source: any StoredContents
  private let target: any StoredContents
  /// Seconds since 1970.
  private let now: @Sendable () -> Int64
  private let tell: @Sendable (Tally) -> Void
  private let tally = Mutexed()

  private final class Mutexed: Sendable {
    let value = Mutex(Tally())
  }

  private static let folderCount = 16
  private static let pieceByteCount = 1 << 20

  /// - Parameter tell: called after each content, on any thread.
  package init(
    from source: any StoredContents, to target: any StoredContents, now: @escaping @Sendable () -> Int64,
    tell: @escaping @Sendable (Tally) -> Void = { _ in }
  ) {
    self.source = source
    self.target = target
    self.now = now
    self.tell = tell
  }

  /// Copies folder by folder, several at a time.
  /// - Throws: when a place does not answer, is full, or is another installation's. Another run goes on from there.
  package func run() async throws(AssetError) -> Tally {
    try await apart { () throws(AssetError) in
      guard let owner = try source.owner() else {
        throw .io("\(source.place) is no place of assets: its file '\(FolderMark.fileName)' is missing")
      }
      if let other = try target.owner(), other != owner {
        throw .corrupt("\(target.place) belongs to another installation than \(source.place)")
      }
    }
    let failure: AssetError? = await withTaskGroup(of: Result<[String], AssetError>.self) { group in
      var waiting = [""]
      var running = 0
      var failure: AssetError?
      while true {
        while failure == nil, running < Self.folderCount, let folder = waiting.popLast() {
          group.addTask {
            do throws(AssetError) { return .success(try await copyFolder(folder)) } catch { return .failure(error) }
          }
          running += 1
        }
        guard let result = await group.next() else { return failure }
        running -= 1
        switch result {
        case .success(let folders): waiting += folders
        case .failure(let error): failure = error
        }
      }
    }
    if let failure { throw failure }
    return tally.value.withLock(\.self)
  }

  private func apart(_ calls: @escaping @Sendable () throws(AssetError) -> Void) async throws(AssetError) {
    try await AssetCalls("a copy", calls).make()
  }

  /// Copies the contents of one folder.
  /// - Returns: the folders in it.
  private func copyFolder(_ folder: String) async throws(AssetError) -> [String] {
    let found = Mutex<[String]>([])
    try await apart { () throws(AssetError) in
      let entries = try source.entries(in: folder)
      found.withLock { $0 = entries.folders }
      let contents = entries.byteCounts.filter { StoredEntries.hash(in: $0.key) != nil }.sorted { $0.key < $1.key }
      if contents.isEmpty { return }
      let present = try target.entries(in: folder).byteCounts
      for (name, byteCount) in contents {
        if present[name] == byteCount {
          note { $0.present += 1 }
        } else {
          try copyContent(name)
        }
      }
    }
    return found.withLock(\.self)
  }

  /// Copies one content, and compares a plain one with its name on the way.
  private func copyContent(_ name: String) throws(AssetError) {
    // A worker or a sweep may have removed it meanwhile.
    guard let hash = StoredEntries.hash(in: name), let bytes = try source.bytes(of: name) else { return }
    let content = try target.begin(at: now())
    do throws(AssetError) {
      let found = try send(bytes, to: content)
      let isSound = if found == hash { true } else { try seemsSealed(bytes) }
      guard isSound else {
        content.discard()
        return note { $0.problems.append("\(bytes.name) does not match the hash in its name") }
      }
      try content.finish(as: name)
    } catch {
      content.discard()
      throw error
    }
    note { tally in
      tally.copied += 1
      tally.copiedByteCount += bytes.byteCount
    }
  }

  /// - Returns: the hash of the bytes.
  private func send(_ bytes: any AssetBytes, to content: any UnnamedContent) throws(AssetError) -> [UInt8] {
    let digest = SHA256.Stream()
    var offset: Int64 = 0
    while offset < bytes.byteCount {
      let piece = try bytes.read(at: offset, count: Int(min(Int64(Self.pieceByteCount), bytes.byteCount - offset)))
      piece.withUnsafeBytes { digest.update($0) }
      try content.add(piece)
      offset += Int64(piece.count)
    }
    return digest.finish()
  }

  /// True when a key may open the bytes. Only `scrub`, which has the key, tells whether they are undamaged.
  private func seemsSealed(_ bytes: any AssetBytes) throws(AssetError) -> Bool {
    guard SealedFile.contentByteCount(ofFile: bytes.byteCount) != nil else { return false }
    let head = try bytes.read(at: 0, count: SealedFile.headByteCount)
    do {
      return try SealedFile(head: head, keys: KeyRing()) != nil
    } catch {
      return true
    }
  }

  private func note(_ change: (inout Tally) -> Void) {
    tell(
      tally.value.withLock { tally in
        change(&tally)
        return tally
      })
  }
}
