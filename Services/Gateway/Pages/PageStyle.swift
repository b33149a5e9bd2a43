// The style sheet of all pages: light and dark, a card on large screens, the whole width on phones.

enum PageStyle {
  /// Constant, so that the content security policy can name it by its hash.
  static let text = """
    :root {
      color-scheme: light dark; --accent: #0b63d6; --accent-hover: #0950b0; --on-accent: #fff; --ground: #eef1f5;
      --card: #fff; --ink: #16202c; --soft: #55606e; --line: #c9d0da; --alarm: #b3261e; --alarm-ground: #fdecea;
    }
    @media (prefers-color-scheme: dark) {
      :root {
        --accent: #6cb0ff; --accent-hover: #92c5ff; --on-accent: #06203f; --ground: #10151c; --card: #1a212b;
        --ink: #e8edf3; --soft: #a5b0bd; --line: #3a4553; --alarm: #ffb4ab; --alarm-ground: #3b1f1d;
      }
    }
    * { box-sizing: border-box; }
    body {
      align-items: center; background: var(--ground); color: var(--ink); display: flex;
      font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; justify-content: center; margin: 0;
      min-height: 100vh; min-height: 100svh; padding: 1.5rem;
    }
    main {
      background: var(--card); border: 1px solid var(--line); border-radius: 1rem;
      box-shadow: 0 .5rem 2rem rgb(0 0 0 / .08); max-width: 26rem; overflow-wrap: anywhere; padding: 2.25rem;
      width: 100%;
    }
    h1 { font-size: 1.5rem; font-weight: 650; line-height: 1.25; margin: 0 0 .5rem; }
    p { margin: .5rem 0; }
    .soft { color: var(--soft); }
    .badge {
      background: var(--accent); border-radius: .75rem; color: var(--on-accent); font-size: 1.5rem; font-weight: 650;
      height: 3rem; line-height: 3rem; margin: 0 0 1.25rem; text-align: center; width: 3rem;
    }
    label { display: block; font-weight: 550; margin: 1.25rem 0 .375rem; }
    input[type=text], input[type=password] {
      background: transparent; border: 1px solid var(--line); border-radius: .625rem; color: inherit; font: inherit;
      padding: .7rem .8rem; width: 100%;
    }
    input[type=checkbox] { accent-color: var(--accent); flex: none; height: 1.15rem; margin: 0; width: 1.15rem; }
    .row { align-items: center; display: flex; gap: .625rem; margin: 1.25rem 0 0; }
    .row label { font-weight: inherit; margin: 0; }
    .actions { display: grid; gap: .75rem; margin: 1.5rem 0 0; }
    button, a.primary {
      background: transparent; border: 1px solid var(--line); border-radius: .625rem; color: inherit; cursor: pointer;
      display: block; font: inherit; font-weight: 600; padding: .75rem 1rem; text-align: center; text-decoration: none;
      width: 100%;
    }
    button:hover { border-color: var(--soft); }
    .primary, a.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
    .primary:hover { background: var(--accent-hover); border-color: var(--accent-hover); }
    .providers { display: grid; gap: .625rem; margin: 1.5rem 0 0; }
    a.provider {
      align-items: center; border: 1px solid var(--line); border-radius: .625rem; color: inherit; display: flex;
      font-weight: 600; gap: .75rem; padding: .7rem 1rem; text-decoration: none;
    }
    a.provider:hover { border-color: var(--soft); }
    .mark {
      background: var(--ground); border-radius: 50%; flex: none; height: 1.75rem; line-height: 1.75rem;
      text-align: center; width: 1.75rem;
    }
    .icon { border-radius: .375rem; flex: none; height: 1.75rem; object-fit: contain; width: 1.75rem; }
    .or { color: var(--soft); font-size: .9rem; margin: 1.25rem 0 0; text-align: center; }
    h2 { font-size: 1.1rem; font-weight: 650; margin: 1.75rem 0 0; }
    .rows { list-style: none; margin: 0; padding: 0; }
    .rows li { align-items: center; border-bottom: 1px solid var(--line); display: flex; gap: .75rem; \
    justify-content: space-between; padding: .75rem 0; }
    #passkey { margin: 1rem 0 0; }
    .rows button { padding: .4rem .8rem; width: auto; }
    [hidden] { display: none; }
    :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
    a { color: var(--accent); }
    footer a { display: inline-block; padding: .35rem 0; }
    #reason { background: var(--alarm-ground); border-radius: .625rem; color: var(--alarm); margin: 1rem 0 0; \
    padding: .7rem .9rem; }
    footer { border-top: 1px solid var(--line); color: var(--soft); font-size: .9rem; margin: 1.75rem 0 0; \
    padding: 1rem 0 0; }
    @media (max-width: 30rem) {
      body { align-items: stretch; background: var(--card); padding: 0; }
      main { border: 0; border-radius: 0; box-shadow: none; max-width: none; padding: 2rem 1.25rem; }
    }
    """
}
