// The executable of the operator's command line, which includes `aquifer dev`.

import Console
import Glibc

@main
enum Main {
  static func main() async {
    exit(await Console().run(Array(CommandLine.arguments.dropFirst())))
  }
}
