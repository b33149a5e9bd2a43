"""Looks for what keeps people out: controls without a name, weak contrast, a lost focus, headings that skip."""

import pathlib

SCRIPT = pathlib.Path(__file__).with_suffix(".js").read_text()
TAB = "\ue004"


def problems(visitor):
    """Sentences about the page as it is now; none if it is well."""
    return visitor.run(SCRIPT + "return problemsOfPage()")


def focus_order(visitor, count=14):
    """Presses Tab, and returns the names of what gets the focus. Each of them shows that it has it."""
    visitor.run("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')")
    order = []
    for _ in range(count):
        visitor.press(TAB)
        at = visitor.run(SCRIPT + "return focusOfPage()")
        if at is None:
            break
        if not at["isVisible"]:
            raise AssertionError(f"the focus of {at['name']!r} is not seen")
        order.append(at["name"])
    return order
