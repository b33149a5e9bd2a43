// The executable of the operator's command line, which includes `aquifer dev`.

import Console
import Glibc

@main
enum Main {
  static func main() async {
    // Not `exit`, for the same reason as in `ServiceProcess.run`: the thread of the HTTP client still runs.
    _exit(await Console().run(Array(CommandLine.arguments.dropFirst())))
  }
}
