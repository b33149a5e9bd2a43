// The order of names in lists.

extension String {
  /// Order of UTF-8 bytes; `<` on String is Unicode's.
  func precedes(_ other: String) -> Bool { utf8.lexicographicallyPrecedes(other.utf8) }
}
