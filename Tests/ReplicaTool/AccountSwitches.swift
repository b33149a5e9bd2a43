// Accounts that follow one another at one store, as `OpenStore` changes them; the process that does it is killed.

import FoundationEssentials
import ReplicaStore

/// Each account has a file of its own. The account at place p saves the numbers p + 1, p + 4, p + 7, …; with reuploads
/// each file gets what the former one has, and the numbers follow one another.
struct AccountSwitches {
  private static let accounts = ["_a", "_b", "_c"]

  let store: String
  let ledger: String
  let hasReuploads: Bool

  /// - Parameter count: changes, each with a save after it; nil: until somebody ends the process.
  func run(count: Int?) async throws {
    let files = AccountFiles(store)
    let ledger = Ledger(ledger)
    let work = Endless(store: store, ledger: self.ledger)
    var replica = try await open(try files.current())
    var account = try await replica.position().account ?? Self.accounts[0]
    var done = 0
    while count.map({ done < $0 }) ?? true {
      let place = ((Self.accounts.firstIndex(of: account) ?? 0) + 1) % Self.accounts.count
      let next = Self.accounts[place]
      let opened = try await open(try files.reserve(next, former: account))
      try await opened.updatePosition { $0.account = next }
      if hasReuploads { try await opened.reupload(replica) }
      try files.select(next)
      await replica.close()
      (replica, account) = (opened, next)
      let largest = try await work.largest(in: replica)
      let number = hasReuploads ? largest + 1 : largest == 0 ? place + 1 : largest + Self.accounts.count
      try await work.save(replica, number, hasPicture: hasReuploads, 1)
      ledger.write("\(number)\n")
      done += 1
    }
    await replica.close()
  }

  private func open(_ path: String) async throws -> Replica {
    try await Replica.open(Endless.configuration(path), Endless.model(1))
  }
}
