// An app imports AquiferClient alone: accounts, shares and statuses of mirroring come with it.

@_exported public import ReplicaSync
