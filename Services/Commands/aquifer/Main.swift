// The operator's command line, and `aquifer dev`: everything on one machine.

import Console
import Glibc

@main
enum Main {
  static func main() async {
    exit(await Console().run(Array(CommandLine.arguments.dropFirst())))
  }
}
