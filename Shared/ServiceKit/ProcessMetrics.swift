// Reports the kernel's figures about this process, under the names that all Prometheus clients use.

internal import Glibc

public enum Release {
  public static let version = "0.1.0"
}

extension Metrics {
  /// Adds `process_…` and `aquifer_build_info`.
  func addProcess(role: String, startedAt milliseconds: Int64) {
    collect("build_info", "The version of this process.") {
      [Sample(1, labels: [("version", Release.version), ("role", role)])]
    }
    collect(fullName: "process_start_time_seconds", "Start of the process, in seconds since 1970.", kind: .gauge) {
      [Sample(Double(milliseconds) / 1000)]
    }
    collect(fullName: "process_resident_memory_bytes", "Resident memory.", kind: .gauge) {
      [Sample(Double(ProcessStatus.pages(1) * sysconf(Int32(_SC_PAGESIZE))))]
    }
    collect(fullName: "process_virtual_memory_bytes", "Virtual memory.", kind: .gauge) {
      [Sample(Double(ProcessStatus.pages(0) * sysconf(Int32(_SC_PAGESIZE))))]
    }
    collect(fullName: "process_open_fds", "Open file descriptors.", kind: .gauge) {
      [Sample(Double(ProcessStatus.openFileCount))]
    }
    collect(fullName: "process_max_fds", "Limit of open file descriptors.", kind: .gauge) {
      [Sample(Double(ProcessStatus.fileLimit))]
    }
    recent.add {
      [
        .value("memory_bytes", Double(ProcessStatus.pages(1) * sysconf(Int32(_SC_PAGESIZE)))),
        .total("processor_seconds", ProcessStatus.processorSeconds),
      ]
    }
    collect(fullName: "process_cpu_seconds_total", "Processor time in user and kernel mode.", kind: .counter) {
      [Sample(ProcessStatus.processorSeconds)]
    }
  }
}

public enum ProcessStatus {
  /// A field of /proc/self/statm, in pages; 0 when the file is unreadable.
  static func pages(_ field: Int) -> Int {
    guard let file = fopen("/proc/self/statm", "re") else { return 0 }
    defer { fclose(file) }
    var buffer = [UInt8](repeating: 0, count: 256)
    let count = fread(&buffer, 1, buffer.count, file)
    let fields = String(decoding: buffer[..<count], as: UTF8.self).split(separator: " ")
    return field < fields.count ? Int(fields[field]) ?? 0 : 0
  }

  static var openFileCount: Int {
    guard let directory = opendir("/proc/self/fd") else { return 0 }
    defer { closedir(directory) }
    var count = 0
    while readdir(directory) != nil { count += 1 }
    // Excludes `.`, `..` and the directory itself.
    return max(count - 3, 0)
  }

  /// The number of files that the process may have open.
  public static var fileLimit: UInt64 {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    return UInt64(limit.rlim_cur)
  }

  static var processorSeconds: Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
  }

  /// Raises the limit on open files to the highest that the system allows, because connections are files.
  static func raiseFileLimit() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < limit.rlim_max else {
      return
    }
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }
}
