// Finds the console's pages: installed beside the executables, or in the checkout that they were built in.

import Glibc

enum ConsoleFolder {
  /// - Parameter binDirectory: the folder of the executables.
  /// - Returns: nil when there are no pages.
  static func find(beside binDirectory: String) -> String? {
    ["../share/aquifer/console", "../../../Services/ConsolePages"].map { "\(binDirectory)/\($0)" }.first {
      access("\($0)/index.html", R_OK) == 0
    }
  }
}
