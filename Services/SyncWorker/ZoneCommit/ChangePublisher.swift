// The interface to which commits publish.

import Records
package import ServiceBus

/// Publishes the effects of a commit: zone changes conflated, notifications merged.
package protocol ChangePublisher: Sendable {
  func publish(_ change: ZoneChange)
  func publish(_ notification: SubscriptionNotification)
  func publish(_ change: StoreChange)
}
