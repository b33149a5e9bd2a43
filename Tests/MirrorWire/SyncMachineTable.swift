// What the machine does in each state with each input. Inputs that a line does not name do nothing there.

/// By state: its idle reason, and the inputs with their outputs. `+` begins an event, `-` ends it, `!` ends it with a
/// failure.
let syncMachineTable: [String: String] = [
  "new": """
  paused
    started: openPings +import import → working
  """,
  "setting up": """
  working
    stopped, paused:  → paused
    offline:  → offline
    isSetUp: -setUp openPings +import import
    exported, exported, more, set aside, imported, imported, more, reset, restored, nothing: -setUp +setUp setUp
    lost, proxy: !setUp wait → offline
    full: !setUp wait → diskFull
    damaged, 400, 404, 410, 410 restored: !setUp wait → failed
    cancelled: !setUp +setUp setUp
    421, account: !setUp → signedOut
    429: !setUp wait 7 → throttled
    503: !setUp wait → throttled
    gap: !setUp wait → modelUnknown
    lease: !setUp wait 9 → leaseLost
  """,
  "importing": """
  working
    stopped, paused:  → paused
    offline:  → offline
    isSetUp, exported, exported, more, set aside, imported, reset, restored, nothing: -import wait → nothingPending
    imported, more: import
    lost, proxy: !import wait → offline
    full: !import wait → diskFull
    damaged, 400: !import wait → failed
    cancelled: !import +import import
    404: !import +setUp setUp
    410: !import reset
    410 restored: !import restore
    421, account: !import → signedOut
    429: !import wait 7 → throttled
    503: !import wait → throttled
    gap: !import wait → modelUnknown
    lease: !import wait 9 → leaseLost
  """,
  "at rest": """
  nothingPending
    stopped, paused:  → paused
    saved: +export export → working
    pinged, sync wanted, timer: +import import → working
    offline:  → offline
    reset wanted: reset → working
  """,
  "exporting": """
  working
    stopped, paused:  → paused
    offline:  → offline
    isSetUp, exported, exported, more, set aside, imported, imported, more, reset, restored, nothing: -export +import \
  import
    lost, proxy: !export wait → offline
    full: !export wait → diskFull
    damaged, 410: !export wait → failed
    cancelled: !export +export export
    400: !export setAside
    404: !export +setUp setUp
    410 restored: !export restore
    421, account: !export → signedOut
    429: !export wait 7 → throttled
    503: !export wait → throttled
    gap: !export wait → modelUnknown
    lease: !export wait 9 → leaseLost
  """,
  "waiting at the server": """
  nothingPending
    stopped, paused: endWait → paused
    saved, pinged, sync wanted, reset wanted: endWait → working
    offline: endWait → offline
    isSetUp, exported, exported, more, set aside, imported, reset, restored, nothing, cancelled: wait at server
    imported, more: +import import → working
    lost, proxy: wait → offline
    full: wait → diskFull
    damaged, 400: wait → failed
    404: +setUp setUp → working
    410: reset → working
    410 restored: restore → working
    421, account:  → signedOut
    429: wait 7 → throttled
    503: wait → throttled
    gap: wait → modelUnknown
    lease: wait 9 → leaseLost
  """,
  "setting aside": """
  working
    stopped, paused:  → paused
    offline:  → offline
    isSetUp, exported, exported, more, set aside, imported, imported, more, reset, restored, nothing: +import import
    lost, proxy: wait → offline
    full: wait → diskFull
    damaged, 400, 410, 410 restored: wait → failed
    cancelled: +export export
    404: +setUp setUp
    421, account:  → signedOut
    429: wait 7 → throttled
    503: wait → throttled
    gap: wait → modelUnknown
    lease: wait 9 → leaseLost
  """,
  "resetting": """
  working
    stopped, paused:  → paused
    offline:  → offline
    isSetUp, exported, exported, more, set aside, imported, imported, more, reset, restored, nothing: +import import
    lost, proxy: wait → offline
    full: wait → diskFull
    damaged, 400, 410, 410 restored: wait → failed
    cancelled: reset
    404: +setUp setUp
    421, account:  → signedOut
    429: wait 7 → throttled
    503: wait → throttled
    gap: wait → modelUnknown
    lease: abandonReset → failed
  """,
  "restoring": """
  working
    stopped, paused:  → paused
    offline:  → offline
    isSetUp, exported, set aside, imported, imported, more, reset, restored, nothing: -export reset
    exported, more: -export +export export
    lost, proxy: !export wait → offline
    full: !export wait → diskFull
    damaged, 410, 410 restored: !export wait → failed
    cancelled: !export +export export
    400: !export setAside
    404: !export +setUp setUp
    421, account: !export → signedOut
    429: !export wait 7 → throttled
    503: !export wait → throttled
    gap: !export wait → modelUnknown
    lease: !export wait 9 → leaseLost
  """,
  "throttled": """
  throttled
    stopped, paused:  → paused
    timer: +import import → working
  """,
  "unreachable": """
  offline
    stopped, paused:  → paused
    pinged, sync wanted, online, timer: +export export → working
  """,
  "told to be offline": """
  offline
    stopped, paused:  → paused
    online: +import import → working
  """,
  "paused": """
  paused
    unpaused: +import import → working
  """,
  "signed out": """
  signedOut
    stopped, paused:  → paused
    signedIn: +setUp setUp → working
  """,
  "unknown model": """
  modelUnknown
    stopped, paused:  → paused
    pinged, sync wanted, timer: +setUp setUp → working
  """,
  "without the lease": """
  leaseLost
    stopped, paused:  → paused
    timer: +setUp setUp → working
  """,
  "full": """
  diskFull
    stopped, paused:  → paused
    timer: +import import → working
  """,
  "given up": """
  failed
    stopped, paused:  → paused
    reset wanted: reset → working
  """,
]
