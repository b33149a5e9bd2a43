// aquifer-photos: one telephone of the demonstration.

import FoundationEssentials
import HTTPServer

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

let options: Options
do throws(Problem) {
  options = try Options(Array(CommandLine.arguments.dropFirst()))
} catch {
  say("aquifer-photos: \(error.reason)\n\(Options.usage)")
  end(64)
}
do {
  let phone = try await Phone(options)
  let server = try PhoneServer.start(phone, options)
  say("\(options.device) is at http://127.0.0.1:\(server.port)")
  await phone.run()
  end(0)
} catch let problem as Problem {
  say("aquifer-photos: \(problem.reason)")
  end(1)
} catch {
  say("aquifer-photos: \(error)")
  end(1)
}

func say(_ text: String) {
  let bytes = Array((text + "\n").utf8)
  // The result is unused because there is nowhere left to say that standard error is closed.
  _ = write(STDERR_FILENO, bytes, bytes.count)
}

/// Ends the process without the destructors of libraries, beside which the client's threads still run.
func end(_ code: Int32) -> Never {
  fflush(nil)
  _exit(code)
}
