// `compiler-probe`: reports the ways of bringing a value across an await that this compiler handles correctly.

@main
enum Main {
  static func main() async {
    var isOptimised = true
    assert(
      {
        isOptimised = false
        return true
      }())
    print(isOptimised ? "optimised" : "not optimised")
    for pattern in Pattern.groups + Pattern.others {
      print(
        await pattern.holds() ? "holds" : "broken", pattern.isRefused ? "refused" : "used", pattern.name,
        separator: "\t")
    }
  }
}
