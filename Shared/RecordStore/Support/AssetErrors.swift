// Translates errors of asset stores into the store's errors.

import Assets

extension StoreError {
  init(_ error: AssetError) {
    switch error {
    case .full(let reason): self = .full(reason)
    case .corrupt(let reason): self = .corrupt(reason)
    case .io(let reason): self = .io(reason)
    case .missingKey(let reason): self = .missingKey(reason)
    case .unavailable(let reason): self = .unavailable(reason)
    }
  }
}
