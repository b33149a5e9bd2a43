// The folder beside a store with the contents of external attributes, one file for each, by checksum.

import FoundationEssentials
import Synchronization

final class ContentFolder: ContentProvider {
  /// Fetches a content from the server into the folder.
  typealias Fetcher = @Sendable (_ checksum: String) async throws(StoreError) -> Void

  private let folder: String
  private let fetcher = Mutex<Fetcher?>(nil)
  /// Contents that were read since the table was told.
  private let used = Mutex<Set<String>>([])
  private let isMade = Mutex(false)

  init(_ folder: String) { self.folder = folder }

  func path(of checksum: String) -> String { "\(folder)/\(checksum)" }
  func partialPath(of checksum: String) -> String { "\(folder)/\(checksum).part" }

  /// Makes the folder so that it is there after a loss of power, too: what is in it is synced, but not its own name.
  func make() throws(StoreError) {
    if isMade.withLock({ $0 }) { return }
    do { try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true) } catch {
      throw ContentFile.failure(folder)
    }
    // Also for a folder that is there: another process may have ended before its sync.
    try ContentFile.syncFolder(of: folder)
    isMade.withLock { $0 = true }
  }

  /// A file of another length is none: contents from the server are not synced.
  func localPath(of content: ContentName) -> String? {
    let path = path(of: content.checksum)
    guard ContentFile.byteCount(path) == content.byteCount else { return nil }
    used.withLock { if $0.count < 10_000 { $0.insert(content.checksum) } }
    return path
  }

  func fetchContent(_ content: ContentName) async throws(StoreError) -> String {
    guard let fetch = fetcher.withLock({ $0 }) else { throw .offline }
    try await fetch(content.checksum)
    guard let path = localPath(of: content) else { throw .offline }
    return path
  }

  func setFetcher(_ fetch: @escaping Fetcher) { fetcher.withLock { $0 = fetch } }
  func takeUsed() -> Set<String> { used.withLock { exchange(&$0, with: []) } }
}

private func exchange<Value>(_ value: inout Value, with new: Value) -> Value {
  defer { value = new }
  return value
}
