// Runs the pure functions behind saves, changes and pings, so that `check` can measure the cost of each call.

@main
enum Main {
  static let usage = """
    usage: aquifer-hot [NAME...]
           calls every hot path, or those of these names, under HotPathsLoop; prints of each the number of calls, how \
    often they asked
           for memory, and the name. Tests/HotPaths/check runs it and counts the instructions of those calls, too
    """

  static func main() throws {
    let names = Set(CommandLine.arguments.dropFirst())
    let paths = try HotPath.all()
    guard names.isSubset(of: paths.map(\.name)) else { return print(usage) }
    for path in paths where names.isEmpty || names.contains(path.name) {
      let allocationCount = path.run()
      print(path.callCount, allocationCount, path.name)
    }
  }
}
