// Orders names in lists by their UTF-8 bytes.

extension String {
  /// Compares UTF-8 bytes; `<` on String compares by Unicode.
  package func precedes(_ other: String) -> Bool { utf8.lexicographicallyPrecedes(other.utf8) }
}
